//! Reviews of objects that were edited: workloads of each kind and their children, created and
//! updated, in both phases, on each backend. Whatever is in them, there is an answer within the
//! bounds, and it is one that the apiserver can read.

use base64::Engine as _;
use muster::admission::{self, Answer, Patch, Phase, Unanswerable};
use muster::scheduler::Snapshot;
use muster::workload::Kind;
use serde_json::{Value, json};

use crate::bounds;
use crate::choices::Choices;
use crate::edit::escaped;
use crate::engine::Target;
use crate::script::{Of, Script, Sent};

pub struct Review;

impl Target for Review {
    type Case = Script;
    const NAME: &'static str = "review";
    const EXECUTIONS: usize = 2_000;

    fn read(&self, file: &[u8]) -> Script {
        Script::read(file)
    }

    fn make(&self, choices: &mut Choices<'_>) -> Script {
        Script::make(choices, Of::Any)
    }

    fn write(&self, case: &Script) -> Vec<u8> {
        case.write()
    }

    fn check(&self, case: &Script) {
        for backend in case.backends() {
            let Some(sent) = case.sent(backend) else {
                continue;
            };
            for user in ["ada", "system:serviceaccount:jobset-system:jobset"] {
                let body = body(&sent, user);
                for phase in [Phase::Mutate, Phase::Validate] {
                    if let Ok(answer) = answer(phase, body.as_bytes(), &backend.cluster) {
                        readable(&answer, &sent.object);
                    }
                }
            }
        }
    }
}

/// The AdmissionReview of an object, as the apiserver sends it.
pub fn body(sent: &Sent, user: &str) -> String {
    review(sent, user).to_string()
}

/// The AdmissionReview of an object.
pub fn review(sent: &Sent, user: &str) -> Value {
    let Sent { kind, object, old } = sent;
    let Kind { group, name, .. } = kind;
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5",
            "kind": {"group": group, "version": "v1", "kind": name},
            "namespace": "ml",
            "operation": if old.is_some() { "UPDATE" } else { "CREATE" },
            "userInfo": {"username": user},
            "object": object,
            "oldObject": old,
        },
    })
}

/// The answer to a body, within the bounds of its length.
pub fn answer(phase: Phase, body: &[u8], cluster: &Snapshot) -> Result<Answer, Unanswerable> {
    let bounds = bounds::of(body.len());
    let answer = bounds::hold(bounds, || admission::answer(phase, body, cluster));
    match &answer {
        Ok(answer) => {
            let (bytes, most) = (answer.body.len(), bounds.response);
            assert!(bytes < most, "a response of {bytes} bytes, at most {most}");
        }
        // A seal of a key that nobody has is asked for again.
        Err(error) if error.is_momentary() => {}
        Err(error) => assert_eq!(error.status(), 400, "{error}"),
    }
    answer
}

/// Holds a response to what the apiserver expects of one: a patch that applies among it.
fn readable(answer: &Answer, object: &Value) {
    let read: Value = serde_json::from_slice(&answer.body).expect("JSON");
    let response = &read["response"];
    assert_eq!(response["uid"], "705ab4f5");
    let allowed = response["allowed"].as_bool().expect("allowed");
    match response["patch"].as_str() {
        Some(patch) => {
            assert!(allowed, "a patch of what is refused");
            assert_eq!(response["patchType"], "JSONPatch");
            let patch = base64::engine::general_purpose::STANDARD.decode(patch);
            let patch: Patch = serde_json::from_slice(&patch.unwrap()).unwrap();
            patched(object, &patch);
        }
        None if !allowed => {
            let message = response["status"]["message"].as_str();
            assert!(
                message.is_some_and(|message| !message.is_empty()),
                "no reason"
            );
        }
        None => {}
    }
}

/// The object with a patch applied; nothing where it has a list in the place of an object.
///
/// Muster reads such a list as the object's fields in order, as serde does. The apiserver refuses it
/// whatever the patch is, since the schema has no list there.
pub fn patched(object: &Value, patch: &Patch) -> Option<Value> {
    let mut after = object.clone();
    match json_patch::patch(&mut after, patch) {
        Ok(()) => Some(after),
        Err(error) => {
            let mut steps = error.path.tokens().scan(object, |here, token| {
                let token = token.decoded();
                let listed = here.is_array() && token.parse::<usize>().is_err();
                *here = here
                    .pointer(&format!("/{}", escaped(&token)))
                    .unwrap_or(&Value::Null);
                Some(listed)
            });
            assert!(
                steps.any(|listed| listed),
                "the patch does not apply: {error}"
            );
            None
        }
    }
}
