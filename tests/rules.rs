//! Every rule has its fixture: `fixtures/rules/*.yaml`, and what Muster says of it.

mod common;

use common::{cluster, expect, files, no_orphans};
use muster::cli::check::check_source;
use muster::cli::files::Source;

#[test]
fn every_rule_says_what_its_fixture_expects() {
    let mut names = Vec::new();
    for (name, text) in files("rules") {
        let source = Source {
            name: format!("{name}.yaml"),
            text,
        };
        let shown: String = check_source(&source, &cluster())
            .iter()
            .map(|report| report.to_text(&source.text))
            .collect();
        expect("rules", &name, &shown);
        names.push(name);
    }
    no_orphans("rules", &names);
}
