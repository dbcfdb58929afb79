//! Fixtures for the tests that need no cluster: files that a user could apply, and next to them
//! (`expected/`) what Muster says; see `fixtures/README.md`.

// Every test target compiles this file and uses a part of it.
#![allow(dead_code, unused_imports)]

pub mod seen;

use std::path::{Path, PathBuf};

pub use muster::admission::{self, Decision, Phase, Review};
pub use muster::cli::check::check_source;
pub use muster::cli::files::{self as sources, Source};
pub use muster::cli::render::Output;
pub use muster::cli::{admit, render};
pub use muster::gang::SchedulerKind;
pub use muster::scheduler::{Dialect, Snapshot};
pub use muster::workload::{Kind, Object, job, jobset, lws, pods};
use serde_json::{Value, json};

pub fn fixtures(dir: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures")
        .join(dir)
}

/// The YAML files of a fixture directory, by name.
pub fn files(dir: &str) -> Vec<(String, String)> {
    let mut files: Vec<(String, String)> = std::fs::read_dir(fixtures(dir))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "yaml"))
        .map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, std::fs::read_to_string(&path).unwrap())
        })
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no fixtures in {dir}");
    files
}

/// Hands an answer to insta, which compares it with `fixtures/<dir>/expected/<name>.snap` and does
/// with it what `INSTA_UPDATE` says.
pub fn store(dir: &str, name: &str, shown: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(fixtures(dir).join("expected"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, shown));
}

pub fn cluster() -> Snapshot {
    Snapshot {
        own_user: Some("system:serviceaccount:muster-system:muster".to_owned()),
        ..Snapshot::assumed(SchedulerKind::NATIVE, Dialect::V1_37)
    }
}

/// The documents of a YAML text.
pub fn documents(text: &str) -> Vec<Value> {
    muster::cli::yaml::documents(text)
        .into_iter()
        .map(|document| document.unwrap().value)
        .collect()
}

/// What is decided about an object in the namespace `ml`.
pub fn decide(
    phase: Phase,
    kind: &'static Kind,
    old: Option<&Value>,
    object: &Value,
    cluster: &Snapshot,
) -> Decision {
    decide_request("u", phase, kind, old, object, cluster)
}

/// The same, in a request of that uid.
pub fn decide_request(
    uid: &str,
    phase: Phase,
    kind: &'static Kind,
    old: Option<&Value>,
    object: &Value,
    cluster: &Snapshot,
) -> Decision {
    let body = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": uid,
            "kind": {"group": kind.group, "kind": kind.name},
            "namespace": "ml",
            "operation": if old.is_some() { "UPDATE" } else { "CREATE" },
            "object": object,
            "oldObject": old,
        },
    })
    .to_string();
    let review = Review::parse(body.as_bytes()).unwrap();
    admission::decide(phase, &review, cluster).unwrap().decision
}

/// The object as the first phase leaves it.
pub fn mutated(
    kind: &'static Kind,
    old: Option<&Value>,
    object: &Value,
    cluster: &Snapshot,
) -> Value {
    applied(decide(Phase::Mutate, kind, old, object, cluster), object)
}

pub fn applied(decision: Decision, object: &Value) -> Value {
    let Decision::Allow { patch, .. } = decision else {
        panic!("refused: {decision:?}");
    };
    let mut after = object.clone();
    json_patch::patch(&mut after, &patch).unwrap();
    after
}
