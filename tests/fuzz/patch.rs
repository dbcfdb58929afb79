//! Patches: one applies to what was sent; with it the object passes the second phase, unless it
//! breaks a rule of its own; and a second call has nothing to add.

use muster::admission::{self, Decision, Phase};
use muster::scheduler::Snapshot;
use muster::workload::Object;
use serde_json::Value;

use crate::choices::Choices;
use crate::engine::Target;
use crate::review::{body, patched};
use crate::script::{Of, Script, Sent};

pub struct Patches;

impl Target for Patches {
    type Case = Script;
    const NAME: &'static str = "patch";
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
            if let Some(sent) = case.sent(backend) {
                check(sent, &backend.cluster);
            }
        }
    }
}

fn check(sent: Sent, cluster: &Snapshot) {
    // The first phase leaves it to the apiserver to say what cannot be read.
    let readable = |object: &Value| {
        let text = object.to_string();
        !matches!(Object::read(sent.kind, &text), Object::Unreadable(_))
    };
    if !readable(&sent.object) || !sent.old.as_ref().is_none_or(readable) {
        return;
    }
    let Some(Decision::Allow { patch, .. }) = decide(Phase::Mutate, &sent, cluster) else {
        return;
    };
    let Some(object) = patched(&sent.object, &patch) else {
        return;
    };
    let after = Sent { object, ..sent };
    match decide(Phase::Validate, &after, cluster) {
        Some(Decision::Allow { .. }) => {}
        Some(Decision::Deny { errors, .. }) => {
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            let excused = errors.iter().all(|error| is_its_own(error));
            assert!(excused, "allowed, patched and then refused: {errors:?}");
            return;
        }
        None => panic!("the patched object cannot be reviewed"),
    }
    match decide(Phase::Mutate, &after, cluster) {
        Some(Decision::Allow { patch, .. }) => {
            let patch = serde_json::to_value(&patch).unwrap();
            assert_eq!(patch, Value::Array(Vec::new()), "patched a second time");
        }
        other => panic!("refused the second time: {other:?}"),
    }
}

/// Whether a patched object is refused for what others wrote, and not for what Muster should have
/// written: a stamp on a workload's template, a link on a child. (A child may lack labels in the first
/// phase that another webhook writes after it, and is refused by the second if none did.)
fn is_its_own(error: &str) -> bool {
    !error.contains("lacks the stamp of its gang") && !error.contains("pod's link to its gang")
}

fn decide(phase: Phase, sent: &Sent, cluster: &Snapshot) -> Option<Decision> {
    let body = body(sent, "ada");
    let review = admission::Review::parse(body.as_bytes()).ok()?;
    Some(admission::decide(phase, &review, cluster).ok()?.decision)
}
