//! The README keeps its word: short, with the words and versions that Muster itself uses. What holds
//! for every page is in `docs.rs`.

use std::path::Path;
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn readme() -> String {
    std::fs::read_to_string(root().join("README.md")).unwrap()
}

/// The text of the first fenced block of that language.
fn first_block(text: &str, language: &str) -> String {
    let start = format!("\n```{language}\n");
    let (_, rest) = text.split_once(&start).unwrap();
    rest.split("```").next().unwrap().to_owned()
}

#[test]
fn it_has_at_most_150_lines() {
    let lines = readme().lines().count();
    assert!(lines <= 150, "{lines} lines: move something to docs/");
}

/// `.ci/run` takes the command from here.
#[test]
fn its_first_test_command_is_the_one_for_newcomers() {
    let readme = readme();
    let command = readme.lines().find(|line| line.starts_with("cargo test"));
    assert_eq!(command, Some("cargo test"));
}

#[test]
fn six_lines_make_a_gang() {
    let yaml = first_block(&readme(), "yaml");
    assert_eq!(yaml.lines().count(), 6, "{yaml}");
    let spec = "spec: {replicatedJobs: [{name: workers, template: {spec: {template: {spec: \
                {containers: [{name: main, image: train}]}}}}}]}";
    let file = tempfile::NamedTempFile::with_suffix(".yaml").unwrap();
    std::fs::write(file.path(), format!("{yaml}{spec}\n")).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_muster"))
        .args(["check".as_ref(), file.path()])
        .output()
        .unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.contains("gang train-all-0-"), "{printed}");
}

#[test]
fn its_table_has_every_version_that_a_scheduler_is_made_for() {
    let output = Command::new(env!("CARGO_BIN_EXE_muster"))
        .arg("schedulers")
        .output()
        .unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let readme = readme();
    let mut checked = 0;
    for row in printed.lines().skip(2) {
        let made_for = row.trim_end_matches(" |").rsplit("| ").next().unwrap();
        assert!(readme.contains(made_for.trim()), "{made_for}");
        checked += 1;
    }
    assert!(checked >= 6, "{printed}");
}

/// What `kubectl describe` shows there is what the reconciler writes.
#[test]
fn what_kubectl_describe_shows_are_musters_words() {
    let readme = readme();
    let source = source(&root().join("src"));
    for words in [
        " pods fit",
        " needed",
        " (held by ",
        "InsufficientResources",
        " gang(s) ready for their pods: ",
        " pods placed, ",
        " needed: ",
        "muster.dev/GangScheduled",
    ] {
        assert!(readme.contains(words), "the README does not say {words:?}");
        assert!(source.contains(words), "Muster does not say {words:?}");
    }
}

fn source(dir: &Path) -> String {
    let mut all = String::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.push_str(&source(&path));
        } else {
            all.push_str(&std::fs::read_to_string(path).unwrap());
        }
    }
    all
}
