//! Durations of `muster.dev/timeout`: any text is read as Go would read it, or refused where Go
//! would refuse it. The reading here is another one, term by term from the left.

use muster::cli::{admit, render};
use muster::workload::jobset;
use serde_json::json;

use crate::backends;
use crate::bounds;
use crate::choices::Choices;
use crate::engine::{Target, corpus, files};
use crate::text;

pub struct Durations {
    seeds: Vec<String>,
}

const TOKENS: &[&str] = &[
    "0",
    "1",
    "9",
    "9223372036854775807",
    "99999999999999999999",
    "000000000000000000000001",
    ".",
    "-",
    "+",
    "ns",
    "us",
    "\u{b5}s",
    "\u{3bc}s",
    "ms",
    "s",
    "m",
    "h",
    "d",
    " ",
    "1.5h",
    "\u{663}",
    "0.0000000000000000000000001",
];

const UNITS: [(&str, u128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

impl Durations {
    pub fn new() -> Self {
        let files = files(&corpus(Self::NAME)).into_iter();
        let texts = files.map(|(_, bytes)| String::from_utf8_lossy(&bytes).into_owned());
        Self {
            seeds: texts.collect(),
        }
    }
}

impl Target for Durations {
    type Case = String;
    const NAME: &'static str = "duration";
    const EXECUTIONS: usize = 3_000;

    fn read(&self, file: &[u8]) -> String {
        String::from_utf8_lossy(file).into_owned()
    }

    fn make(&self, choices: &mut Choices<'_>) -> String {
        text::make(choices, &self.seeds, TOKENS)
    }

    fn write(&self, case: &String) -> Vec<u8> {
        case.clone().into_bytes()
    }

    fn check(&self, case: &String) {
        let expected = nanoseconds(case).map(|nanoseconds| {
            let seconds = (nanoseconds / 1_000_000_000).max(1);
            u64::try_from(seconds).unwrap().min(i32::MAX as u64)
        });
        assert_eq!(seconds(case), expected);
    }
}

/// What the scheduler is told of a timeout; nothing where it is refused.
fn seconds(timeout: &str) -> Option<u64> {
    let annotations = json!({"muster.dev/gang-mode": "Gang", "muster.dev/timeout": timeout});
    let pod = json!({"spec": {"containers": [{"name": "main"}]}});
    let object = json!({
        "metadata": {"name": "train", "annotations": annotations},
        "spec": {"replicatedJobs": [{"name": "w", "template": {"spec": {"template": pod}}}]},
    });
    let backend = backends::all().iter().find(|b| b.name == "koordinator");
    let cluster = &backend.unwrap().cluster;
    let documents = bounds::hold(bounds::of(0), || {
        let admitted = admit::create(&jobset::KIND, &object, cluster).unwrap();
        let accepted = admitted.errors.is_empty();
        accepted.then(|| render::documents(&admitted, cluster).unwrap().0)
    })?;
    let group = documents.iter().find(|made| made["kind"] == "PodGroup");
    let told = &group.expect("a gang has a PodGroup")["spec"]["scheduleTimeoutSeconds"];
    Some(told.as_u64().expect("a number"))
}

/// What `time.ParseDuration` says, where it is above zero.
fn nanoseconds(text: &str) -> Option<u128> {
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    let mut sum: u128 = 0;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (whole, after) = rest.split_at(digits);
        let fraction = after.strip_prefix('.').unwrap_or_default();
        let decimals = fraction.bytes().take_while(u8::is_ascii_digit).count();
        let after = match after.strip_prefix('.') {
            Some(fraction) => &fraction[decimals..],
            None => after,
        };
        if digits + decimals == 0 {
            return None;
        }
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.');
        let (unit, after) = after.split_at(end.unwrap_or(after.len()));
        let unit = UNITS.iter().find(|(name, _)| *name == unit)?.1;
        let whole = whole.trim_start_matches('0');
        let whole: u64 = if whole.is_empty() {
            0
        } else {
            whole.parse().ok()?
        };
        let decimals = &fraction[..decimals.min(18)];
        let part =
            decimals.parse::<u128>().unwrap_or(0) * unit / 10_u128.pow(decimals.len() as u32);
        sum += u128::from(whole) * unit + part;
        if sum > i64::MAX as u128 {
            return None;
        }
        rest = after;
    }
    (sum > 0).then_some(sum)
}
