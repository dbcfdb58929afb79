//! What Muster answers, by the functions that its webhook calls.

use anyhow::{Context, Result};
use base64::Engine as _;
use serde_json::{Value, json};

use crate::common::{Phase, admission, cluster};

/// An error: where, and what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    pub field: String,
    pub message: String,
}

impl Error {
    pub fn text(&self) -> String {
        format!("{}: {}", self.field, self.message)
    }

    /// The scheduler that Muster has chosen is gone. Muster puts it back, and the policies let it go.
    fn is_lost_choice(&self) -> bool {
        self.field == "metadata.annotations[muster.dev/scheduler]"
            && self.message.starts_with("Invalid value: null: ")
    }
}

/// What Muster says of an object.
pub struct Answer {
    pub errors: Vec<Error>,
    /// As Muster leaves it, where it accepts it.
    pub after: Option<Value>,
}

/// Of a new object.
pub fn created(object: &Value) -> Result<Answer> {
    let mutated = ask(Phase::Mutate, "alice", None, object)?;
    if mutated["allowed"] != true {
        return Ok(Answer {
            errors: errors(&mutated)?,
            after: None,
        });
    }
    let after = patched(object, &mutated)?;
    let errors = errors(&ask(Phase::Validate, "alice", None, &after)?)?;
    let after = errors.is_empty().then_some(after);
    Ok(Answer { errors, after })
}

/// Of an update. The errors are those of the second phase, which can put nothing back either.
pub fn updated(user: &str, old: &Value, new: &Value) -> Result<Answer> {
    let mut errors = errors(&ask(Phase::Validate, user, Some(old), new)?)?;
    errors.retain(|error| !error.is_lost_choice());
    let mutated = ask(Phase::Mutate, user, Some(old), new)?;
    let mut after = None;
    if mutated["allowed"] == true {
        let mended = patched(new, &mutated)?;
        let accepted = ask(Phase::Validate, user, Some(old), &mended)?["allowed"] == true;
        after = accepted.then_some(mended);
    }
    Ok(Answer { errors, after })
}

fn ask(phase: Phase, user: &str, old: Option<&Value>, new: &Value) -> Result<Value> {
    let api = new["apiVersion"].as_str().unwrap_or_default();
    let (group, version) = api.split_once('/').unwrap_or(("", api));
    let namespace = new["metadata"]["namespace"].as_str().unwrap_or("default");
    let operation = if old.is_some() { "UPDATE" } else { "CREATE" };
    let review = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "kind": {"group": group, "version": version, "kind": new["kind"]},
            "name": new["metadata"]["name"],
            "namespace": namespace,
            "operation": operation,
            "userInfo": {"username": user, "groups": ["system:authenticated"]},
            "object": new,
            "oldObject": old,
        },
    });
    let answer = admission::answer(phase, review.to_string().as_bytes(), &cluster());
    let answer: Value = serde_json::from_slice(&answer.context("no answer")?.body)?;
    Ok(answer["response"].clone())
}

fn errors(response: &Value) -> Result<Vec<Error>> {
    let causes = response["status"]["details"]["causes"].as_array();
    let causes = causes.into_iter().flatten().map(|cause| {
        let text = |key: &str| cause[key].as_str().map(str::to_owned);
        Ok(Error {
            field: text("field").context("no field")?,
            message: text("message").context("no message")?,
        })
    });
    causes.collect()
}

fn patched(object: &Value, response: &Value) -> Result<Value> {
    let mut after = object.clone();
    if let Some(patch) = response["patch"].as_str() {
        let patch = base64::engine::general_purpose::STANDARD.decode(patch)?;
        let patch: json_patch::Patch = serde_json::from_slice(&patch)?;
        json_patch::patch(&mut after, &patch)?;
    }
    Ok(after)
}
