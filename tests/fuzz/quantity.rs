//! Quantities in a container's requests: any text is read or refused, and what a gang is said to need
//! is, asked for by a container, said again in the same words.

use muster::cli::{admit, render};
use muster::workload::jobset;
use serde_json::{Value, json};

use crate::backends;
use crate::bounds;
use crate::choices::Choices;
use crate::engine::Target;
use crate::text;

pub struct Quantities {
    seeds: Vec<String>,
}

const TOKENS: &[&str] = &[
    "0",
    "1",
    "9",
    "12345678901234567890",
    "99999999999999999999999999999",
    ".",
    "-",
    "+",
    "e",
    "E",
    "e3",
    "E-9",
    "e99999999999",
    "n",
    "u",
    "m",
    "k",
    "M",
    "G",
    "T",
    "P",
    "E",
    "Ki",
    "Mi",
    "Gi",
    "Ti",
    "Pi",
    "Ei",
    "i",
    " ",
    "0.000000001",
    "\u{660}",
];

impl Quantities {
    pub fn new() -> Self {
        let table = include_str!("../../fixtures/quantity/parse.tsv").lines();
        let inputs = table.filter_map(|row| row.split('\t').next());
        let seeds = inputs.filter(|text| !text.starts_with('#'));
        Self {
            seeds: seeds.map(str::to_owned).collect(),
        }
    }
}

impl Target for Quantities {
    type Case = String;
    const NAME: &'static str = "quantity";
    const EXECUTIONS: usize = 1_500;

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
        let Some(needed) = needed(case, 1) else {
            return;
        };
        canonical(&needed);
        // More of it may be too much, but is never a number that wrapped around.
        if let Some(more) = self::needed(case, 3) {
            canonical(&more);
            let negative = |text: &str| text.starts_with('-');
            assert_eq!(negative(&more), negative(&needed), "{more} and {needed}");
        }
    }
}

/// Holds a quantity that was printed to being read, and printed in the same words after that. The
/// first time may change them: 1000 that was 0.9765625Ki has no suffix, and is 1k when it is read.
fn canonical(printed: &str) {
    let again = needed(printed, 1).expect("what was printed is read");
    assert_eq!(needed(&again, 1).as_ref(), Some(&again), "{printed}");
}

/// What a gang of so many pods needs, where each asks for a quantity; nothing where it is refused.
fn needed(quantity: &str, pods: u32) -> Option<String> {
    let container = json!({"name": "main", "resources": {"requests": {"cpu": quantity}}});
    let pod = json!({"spec": {"containers": [container]}});
    let job = json!({"parallelism": pods, "completions": pods, "template": pod});
    let object = json!({
        "metadata": {"name": "train", "annotations": {"muster.dev/gang-mode": "Gang"}},
        "spec": {"replicatedJobs": [{"name": "w", "template": {"spec": job}}]},
    });
    let backend = backends::all()
        .iter()
        .find(|b| b.name == "volcano")
        .unwrap();
    let cluster = &backend.cluster;
    let documents = bounds::hold(bounds::of(0), || {
        let admitted = admit::create(&jobset::KIND, &object, cluster).unwrap();
        let accepted = admitted.errors.is_empty();
        accepted.then(|| render::documents(&admitted, cluster).unwrap().0)
    })?;
    let group = documents.iter().find(|made| made["kind"] == "PodGroup");
    let needed = &group.expect("a gang has a PodGroup")["spec"]["minResources"]["cpu"];
    match needed {
        Value::Null => None,
        needed => Some(needed.as_str().expect("a text").to_owned()),
    }
}
