//! Updates: `fixtures/updates/*.yaml`, the stored object, the new one, and what Muster answers.

mod common;

use std::fmt::Write as _;

use base64::Engine as _;
use common::{cluster, documents, expect, files, no_orphans};
use muster::admission::{self, Phase};
use serde_json::{Value, json};

fn review(user: &str, old: &Value, new: &Value) -> Vec<u8> {
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "kind": {"group": "jobset.x-k8s.io", "version": "v1alpha2", "kind": "JobSet"},
            "name": "train",
            "namespace": "ml",
            "operation": "UPDATE",
            "userInfo": {"username": user, "groups": ["system:authenticated"]},
            "object": new,
            "oldObject": old,
        },
    })
    .to_string()
    .into_bytes()
}

fn answer(phase: Phase, body: &[u8]) -> Value {
    let answer = admission::answer(phase, body, &cluster()).unwrap();
    serde_json::from_slice::<Value>(&answer.body).unwrap()["response"].take()
}

/// The answer of one phase, for people to read.
fn show(out: &mut String, name: &str, response: &Value) {
    let verdict = if response["allowed"] == true {
        "allowed"
    } else {
        "refused"
    };
    writeln!(out, "{name}: {verdict}").unwrap();
    for cause in response["status"]["details"]["causes"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let (field, message) = (&cause["field"], &cause["message"]);
        writeln!(
            out,
            "  error: {}: {}",
            field.as_str().unwrap(),
            message.as_str().unwrap()
        )
        .unwrap();
    }
    for warning in response["warnings"].as_array().into_iter().flatten() {
        writeln!(out, "  warning: {}", warning.as_str().unwrap()).unwrap();
    }
    for operation in patch(response).as_array().unwrap() {
        writeln!(out, "  patch: {operation}").unwrap();
    }
}

fn patch(response: &Value) -> Value {
    let Some(patch) = response["patch"].as_str() else {
        return json!([]);
    };
    let bytes = base64::engine::general_purpose::STANDARD.decode(patch);
    serde_json::from_slice(&bytes.unwrap()).unwrap()
}

#[test]
fn every_update_is_answered_as_its_fixture_expects() {
    let mut names = Vec::new();
    for (name, text) in files("updates") {
        let user = text.lines().find_map(|line| line.strip_prefix("# user: "));
        let [old, new] = &documents(&text)[..] else {
            panic!("{name}: an update needs the stored object and the new one");
        };
        let user = user.unwrap();
        let mutated = answer(Phase::Mutate, &review(user, old, new));
        let mut shown = String::new();
        show(&mut shown, "mutate", &mutated);
        if mutated["allowed"] == true {
            let mut after = new.clone();
            let operations: json_patch::Patch = serde_json::from_value(patch(&mutated)).unwrap();
            json_patch::patch(&mut after, &operations).unwrap();
            let again = answer(Phase::Mutate, &review(user, old, &after));
            assert_eq!(
                patch(&again),
                json!([]),
                "{name}: a second run patches again"
            );
            let body = review(user, old, &after);
            show(&mut shown, "validate", &answer(Phase::Validate, &body));
        }
        expect("updates", &name, &shown);
        names.push(name);
    }
    no_orphans("updates", &names);
}
