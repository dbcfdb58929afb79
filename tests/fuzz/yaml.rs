//! Manifests as `muster check` reads them: any text is read or refused within the bounds, and what
//! was read is written and read again as the same.

use muster::cli::check::check_source;
use muster::cli::files::Source;
use muster::cli::yaml;

use crate::backends;
use crate::bounds;
use crate::choices::Choices;
use crate::engine::{Target, corpus, files};
use crate::render::same;
use crate::seeds;
use crate::text;

pub struct Yaml {
    seeds: Vec<String>,
}

const TOKENS: &[&str] = &[
    "\n",
    "\n  ",
    "\n- ",
    ": ",
    "- ",
    "? ",
    "---\n",
    "...\n",
    "# c\n",
    "&a ",
    "*a",
    "*a, *a, *a",
    "<<: *a\n",
    "!!str ",
    "!!binary ",
    "!!int ",
    "!x ",
    "|\n ",
    ">-\n ",
    "'",
    "\"",
    "\\x",
    "\\u12",
    "{",
    "}",
    "[",
    "]",
    ",",
    "~",
    "null",
    "Off",
    "yes",
    "0x1F",
    "0o7",
    "1_000",
    "1e3",
    ".inf",
    ".nan",
    "-0.0",
    "12:30:45",
    "2026-01-01",
    "%YAML 1.1\n",
    "\t",
    "\r\n",
    "\u{feff}",
    "\u{85}",
    "\u{2028}",
    "\u{0}",
    "kind: List\nitems:\n- ",
    "{\"kind\":\"JobSetList\",\"items\":[",
];

impl Yaml {
    pub fn new() -> Self {
        let files = files(&corpus(Self::NAME)).into_iter();
        let texts = files.map(|(_, bytes)| String::from_utf8_lossy(&bytes).into_owned());
        Self {
            seeds: texts.chain(seeds::texts()).collect(),
        }
    }
}

impl Target for Yaml {
    type Case = String;
    const NAME: &'static str = "yaml";
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
        for document in bounds::hold(bounds::LARGE, || yaml::documents(case)) {
            let Ok(document) = document else {
                continue;
            };
            let written = yaml::to_string(&document.value);
            let read = yaml::documents(&written);
            let [Ok(read)] = &read[..] else {
                panic!("not one document: {written}");
            };
            assert!(
                same(&read.value, &document.value),
                "another value: {written}"
            );
        }
        let source = Source {
            name: "-".to_owned(),
            text: case.clone(),
        };
        let cluster = &backends::by(case.as_bytes()).cluster;
        for report in bounds::hold(bounds::LARGE, || check_source(&source, cluster)) {
            report.to_text(case);
        }
    }
}
