//! The README keeps its word: its messages are those of the fixtures, its commands print what it
//! shows.

mod common;

use std::process::Command;

fn readme() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn every_message_in_the_readme_is_one_that_muster_says() {
    let mut said = String::new();
    for dir in ["rules", "updates"] {
        for entry in std::fs::read_dir(common::fixtures(dir).join("expected")).unwrap() {
            said.push_str(&std::fs::read_to_string(entry.unwrap().path()).unwrap());
        }
    }
    let mut checked = 0;
    for line in readme().lines().filter(|line| line.starts_with("| ")) {
        let Some((_, rest)) = line.split_once("| `") else {
            continue;
        };
        let message = rest.trim_end_matches(" |").trim_end_matches('`');
        let is_message = ["Unsupported", "Forbidden", "Invalid", "Not found"]
            .iter()
            .any(|word| message.contains(&format!(": {word}")));
        if is_message {
            assert!(said.contains(message), "no fixture says: {message}");
            checked += 1;
        }
    }
    assert!(checked >= 15, "only {checked} messages found");
}

#[test]
fn the_readmes_check_prints_what_it_shows() {
    let output = Command::new(env!("CARGO_BIN_EXE_muster"))
        .args(["check", "manifests/samples"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let readme = readme();
    let shown = readme
        .split("$ muster check manifests/samples\n")
        .nth(1)
        .and_then(|rest| rest.split("…\n```").next())
        .unwrap();
    assert!(printed.starts_with(shown), "{printed}");
}

#[test]
fn the_readmes_table_of_schedulers_is_what_the_command_prints() {
    let output = Command::new(env!("CARGO_BIN_EXE_muster"))
        .arg("schedulers")
        .output()
        .unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.lines().count() > 6, "{printed}");
    let shown = format!("`muster schedulers` prints:\n\n{printed}\n");
    assert!(
        readme().contains(&shown),
        "the README should have:\n{shown}"
    );
}

#[test]
fn every_key_is_in_the_readme() {
    let readme = readme();
    for key in [
        "gang-mode",
        "min-count",
        "bundle",
        "bundle-with",
        "scheduler",
        "queue",
        "timeout",
        "timeout-action",
        "strictness",
        "start-barrier",
        "start-barrier-targets",
        "gang",
        "index",
        "stamp",
        "round",
    ] {
        assert!(readme.contains(&format!("`muster.dev/{key}`")), "{key}");
    }
}

/// The table of what Muster adds names tests that exist.
#[test]
fn every_test_that_the_readme_names_exists() {
    let readme = readme();
    let table = readme
        .split("## What Muster adds to your scheduler")
        .nth(1)
        .and_then(|rest| rest.split("\n## ").next())
        .unwrap();
    let list = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cluster/tests/mod.rs");
    let list = std::fs::read_to_string(list).unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| "));
    let mut checked = 0;
    for row in rows {
        let cell = row.trim_end_matches(" |").rsplit("| ").next().unwrap();
        for name in cell.split('`').skip(1).step_by(2) {
            let listed = list.contains(&format!("::{name}")) || name.starts_with("matrix::");
            assert!(listed, "no test {name}");
            checked += 1;
        }
    }
    assert!(checked >= 8, "only {checked} tests are named");
}
