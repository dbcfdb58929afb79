//! Bodies of requests as bytes: reviews with bytes changed, cut and repeated, and any bytes at all.
//! A body that cannot be read is refused; within the bounds, whatever it is.

use muster::admission::Phase;

use crate::backends::{self, Backend};
use crate::bounds::LONGEST;
use crate::choices::Choices;
use crate::engine::{Target, corpus, files};
use crate::review::{answer, body};
use crate::script::{Of, Script};
use crate::text;

pub struct Body {
    corpus: Vec<Vec<u8>>,
}

/// What stands in a review, and what breaks JSON.
const TOKENS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "\"",
    ",",
    ":",
    "null",
    "true",
    "-",
    "1e999",
    "0.0",
    "\\u0000",
    "\\ud800",
    "\\",
    "\u{0}",
    "\u{feff}",
    "\"object\":",
    "\"oldObject\":",
    "\"kind\":",
    "\"request\":{",
    "\"uid\":\"\",",
    "\"operation\":\"DELETE\",",
    "\"subResource\":\"status\",",
    "\"metadata\":{",
    "\"name\":\"a\",",
    "\"spec\":{",
    "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
    "{\"a\":{\"a\":{\"a\":",
];

impl Body {
    pub fn new() -> Self {
        let files = files(&corpus(Self::NAME)).into_iter();
        Self {
            corpus: files.map(|(_, bytes)| bytes).collect(),
        }
    }
}

impl Target for Body {
    type Case = Vec<u8>;
    const NAME: &'static str = "body";
    const EXECUTIONS: usize = 4_000;

    fn read(&self, file: &[u8]) -> Vec<u8> {
        file.to_vec()
    }

    fn make(&self, choices: &mut Choices<'_>) -> Vec<u8> {
        if choices.once_in(8) {
            return choices.rest().to_vec();
        }
        let mut bytes = match choices.once_in(2) {
            true => choices.pick(&self.corpus).clone(),
            false => review(choices).unwrap_or_default(),
        };
        text::change(choices, &mut bytes, TOKENS);
        bytes.truncate(LONGEST);
        bytes
    }

    fn write(&self, case: &Vec<u8>) -> Vec<u8> {
        case.clone()
    }

    fn check(&self, case: &Vec<u8>) {
        let stored = self.corpus.contains(case);
        let one = std::slice::from_ref(backends::by(case));
        for Backend { cluster, .. } in if stored { backends::all() } else { one } {
            for phase in [Phase::Mutate, Phase::Validate] {
                drop(answer(phase, case, cluster));
            }
        }
    }
}

/// The review of an object that may have been edited.
fn review(choices: &mut Choices<'_>) -> Option<Vec<u8>> {
    let script = Script::make(choices, Of::Any);
    let sent = script.sent(script.backends().next()?)?;
    Some(body(&sent, "ada").into_bytes())
}
