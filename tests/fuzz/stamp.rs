//! Stamps: texts that a member of a gang carries, which anyone who may create pods can write. One
//! that is read is written back the same, and a child with any of them is answered within the bounds.

use muster::admission::Phase;
use muster::gang::Stamp;
use serde_json::Value;

use crate::backends;
use crate::choices::Choices;
use crate::edit;
use crate::engine::Target;
use crate::review::{answer, body};
use crate::seeds;
use crate::text;

pub struct Stamps {
    seeds: Vec<String>,
}

const TOKENS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "null",
    "0",
    "-1",
    "4294967295",
    "4294967296",
    "1e3",
    "\"x\"",
    "\"\"",
    "\"scheduler\":",
    "\"level\":\"Whole\"",
    "\"level\":\"Group\"",
    "\"level\":\"Replica\"",
    "\"size\":",
    "\"quorum\":",
    "\"ordinal\":",
    "\"bundle\":",
    "\"way\":\"annotations\"",
    "\"siblings\":",
    "{\"part\":\"a\",\"replicas\":4294967295}",
    "\"roles\":",
    "{\"name\":\"a\",\"members\":18446744073709551615,\"shape\":0}",
    "\"shapes\":",
    "\"revision\":",
    "\"schedulerName\":",
    "\"seal\":",
];

impl Stamps {
    pub fn new() -> Self {
        Self {
            seeds: seeds::stamps(),
        }
    }
}

impl Target for Stamps {
    type Case = String;
    const NAME: &'static str = "stamp";
    const EXECUTIONS: usize = 2_000;

    fn read(&self, file: &[u8]) -> String {
        String::from_utf8_lossy(file).into_owned()
    }

    fn make(&self, choices: &mut Choices<'_>) -> String {
        if choices.once_in(2) {
            return text::make(choices, &self.seeds, TOKENS);
        }
        let (seed, donor) = (choices.pick(&self.seeds), choices.pick(&self.seeds));
        let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        let (mut stamp, donor) = (read(seed), read(donor));
        for _ in 0..=choices.below(4) {
            edit::make(choices, &mut stamp, &[&donor]);
        }
        stamp.to_string()
    }

    fn write(&self, case: &String) -> Vec<u8> {
        case.clone().into_bytes()
    }

    fn check(&self, case: &String) {
        if let Ok(stamp) = Stamp::parse(case) {
            let written = serde_json::to_string(&stamp).unwrap();
            let again = Stamp::parse(&written).expect("what was written is read");
            assert_eq!(again, stamp, "{written}");
        }
        let backend = backends::by(case.as_bytes());
        for sent in seeds::stamped(backend, case) {
            let body = body(&sent, "ada");
            for phase in [Phase::Mutate, Phase::Validate] {
                let answered = answer(phase, body.as_bytes(), &backend.cluster);
                assert!(answered.is_ok(), "{answered:?}");
            }
        }
    }
}
