//! Bodies of requests as bytes: reviews with bytes changed, cut and repeated, and any bytes at all.
//! A body that cannot be read is refused; within the bounds, whatever it is.

use muster::admission::Phase;
use serde_json::{Value, json};

use crate::backends::{self, Backend};
use crate::bounds::LONGEST;
use crate::choices::Choices;
use crate::edit;
use crate::engine::{Target, corpus, files};
use crate::review::{self, answer};
use crate::script::{Of, Script};
use crate::text;

pub struct Body {
    corpus: Vec<Vec<u8>>,
    /// Those that are JSON.
    reviews: Vec<Value>,
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
        let corpus: Vec<Vec<u8>> = files.map(|(_, bytes)| bytes).collect();
        let reviews = corpus.iter().map(|bytes| serde_json::from_slice(bytes));
        Self {
            reviews: reviews.flatten().collect(),
            corpus,
        }
    }

    /// The review of an object that may have been edited, as what is around it may have been.
    fn review(&self, choices: &mut Choices<'_>) -> Option<Vec<u8>> {
        let script = Script::make(choices, Of::Any);
        let sent = script.sent(script.backends().next()?)?;
        let mut review = review::review(&sent, "ada");
        let objects = ["object", "oldObject"].map(|key| (key, review["request"][key].take()));
        if choices.once_in(3) {
            let operations = ["CREATE", "UPDATE", "DELETE", "CONNECT", ""];
            review["request"]["operation"] = json!(choices.pick(&operations));
        }
        if choices.once_in(4) {
            review["request"]["subResource"] = json!(choices.pick(&["status", "scale", ""]));
        }
        let donors: Vec<&Value> = self.reviews.iter().collect();
        for _ in 0..choices.below(4) {
            edit::make(choices, &mut review, &donors);
        }
        for (key, object) in objects {
            let place = review
                .pointer_mut("/request")
                .and_then(|at| at.get_mut(key));
            if let Some(place @ Value::Null) = place {
                *place = object;
            }
        }
        Some(review.to_string().into_bytes())
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
            false => self.review(choices).unwrap_or_default(),
        };
        if choices.once_in(2) {
            text::change(choices, &mut bytes, TOKENS);
        }
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
