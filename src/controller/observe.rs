//! What the reconciler sees of the members of gangs: a watched pod, read as far as a decision needs it.
//! No client here.

use std::sync::Arc;

use kube::core::Object;
use serde::{Deserialize, Serialize};

use crate::gang::ask::AskingSpec;
use crate::gang::{Seals, Unscheduled};
use crate::workload::SeenPod;
use crate::workload::seen::PodPhase;

/// A pod as the watch reads it, until a [`SeenPod`] is made of it. Typed, and so never larger than its
/// metadata and what it names.
pub type WatchedPod = Object<AskingSpec, PodStatus>;

/// What is read of a pod's status.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct PodStatus {
    /// Its phase, as the API says it.
    pub phase: Option<String>,
    /// Its conditions.
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

/// A condition of a pod.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Condition {
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// In one word.
    pub reason: Option<String>,
    /// In its writer's words.
    pub message: Option<String>,
}

/// Reads a member; `None` for a pod that does not tell its gang.
pub fn read(pod: &WatchedPod, seals: &Seals) -> Option<SeenPod> {
    let status = pod.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref());
    let phase = PodPhase::of(phase, pod.spec.node_name.as_deref());
    let unscheduled = status.and_then(unscheduled);
    // What a pod asks matters while it waits.
    let ask = match phase {
        PodPhase::Pending => pod.spec.ask().map(Arc::new),
        _ => None,
    };
    SeenPod::read(&pod.metadata, phase, unscheduled, ask, seals)
}

fn unscheduled(status: &PodStatus) -> Option<Unscheduled> {
    let mut conditions = status.conditions.iter();
    let condition = conditions.find(|c| c.kind == "PodScheduled")?;
    let waits = condition.status == "False";
    waits.then(|| Unscheduled::new(condition.reason.clone(), condition.message.clone()))
}
