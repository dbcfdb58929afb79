//! What the reconciler sees of the members of gangs: a watched pod, read as far as a decision needs it.
//! No client here.

use std::sync::Arc;

use kube::ResourceExt as _;
use kube::core::Object;
use serde::{Deserialize, Serialize};

use crate::gang::apart::Labelled;
use crate::gang::ask::AskingSpec;
use crate::gang::link::LinkPlace;
use crate::gang::{Seals, Unscheduled};
use crate::scheduler;
use crate::workload::SeenPod;
use crate::workload::seen::{Ailment, LinkState, PodPhase};

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
    /// How its containers are.
    #[serde(default, rename = "containerStatuses")]
    containers: Vec<Container>,
    /// The same of those that run first.
    #[serde(default, rename = "initContainerStatuses")]
    init_containers: Vec<Container>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct Container {
    state: ContainerState,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct ContainerState {
    waiting: Option<Waits>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct Waits {
    reason: String,
}

/// The kubelet's words for an image that it cannot have (1.37: `pkg/kubelet/images/types.go`). It goes
/// from one to the other and back.
const NO_IMAGE: [&str; 5] = [
    "ImagePullBackOff",
    "ErrImagePull",
    "ErrImageNeverPull",
    "InvalidImageName",
    "RegistryUnavailable",
];

impl PodStatus {
    fn ailment(&self) -> Option<Ailment> {
        let mut all = self.init_containers.iter().chain(&self.containers);
        let lacks_image = |container: &Container| {
            let waits = container.state.waiting.as_ref();
            waits.is_some_and(|waits| NO_IMAGE.contains(&waits.reason.as_str()))
        };
        all.any(lacks_image).then_some(Ailment::NoImage)
    }
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
        PodPhase::Pending => pod.spec.ask(labelled(pod)).map(Arc::new),
        _ => None,
    };
    let mut seen = SeenPod::read(&pod.metadata, phase, unscheduled, ask, seals)?;
    if phase == PodPhase::Bound {
        seen.ailment = status.and_then(PodStatus::ailment);
    }
    // On a node the link no longer matters.
    if phase == PodPhase::Pending && seen.link == LinkState::Linked && !is_linked(pod) {
        seen.link = LinkState::Missing;
    }
    Some(seen)
}

fn labelled(pod: &WatchedPod) -> Labelled<'_> {
    Labelled {
        namespace: pod.metadata.namespace.as_deref().unwrap_or_default(),
        labels: pod.metadata.labels.as_ref(),
    }
}

/// Whether a pod carries the link of some scheduler. Muster admits none without; but webhooks can be
/// taken away, and labels too.
fn is_linked(pod: &WatchedPod) -> bool {
    scheduler::links().any(|link| match link.place {
        LinkPlace::Label => pod.labels().contains_key(link.key),
        LinkPlace::Annotation => pod.annotations().contains_key(link.key),
        LinkPlace::Field => pod.spec.has_field(link.key),
    })
}

fn unscheduled(status: &PodStatus) -> Option<Unscheduled> {
    let mut conditions = status.conditions.iter();
    let condition = conditions.find(|c| c.kind == "PodScheduled")?;
    let waits = condition.status == "False";
    waits.then(|| Unscheduled::new(condition.reason.clone(), condition.message.clone()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(metadata: Value, spec: Value) -> WatchedPod {
        serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
    }

    #[test]
    fn a_pod_is_linked_by_whatever_ties_it_to_a_gang() {
        for link in scheduler::links() {
            let (metadata, spec) = match link.place {
                LinkPlace::Label => (json!({"labels": {link.key: "x"}}), json!({})),
                LinkPlace::Annotation => (json!({"annotations": {link.key: "x"}}), json!({})),
                LinkPlace::Field => (json!({}), json!({link.key: {"name": "x"}})),
            };
            assert!(is_linked(&pod(metadata, spec)), "{}", link.key);
        }
        let stripped = json!({"labels": {"muster.dev/gang": "workers"}});
        assert!(!is_linked(&pod(stripped, json!({"schedulingGroup": null}))));
    }

    #[test]
    fn an_image_that_cannot_be_pulled_is_seen_in_any_container() {
        let ailment = |status: Value| {
            let status: PodStatus = serde_json::from_value(status).unwrap();
            status.ailment()
        };
        let waits = |reason: &str| {
            json!([{"name": "a", "state": {"running": {}}},
            {"name": "b", "state": {"waiting": {"reason": reason}}}])
        };
        let failed = Some(Ailment::NoImage);
        assert_eq!(
            ailment(json!({"containerStatuses": waits("ErrImagePull")})),
            failed
        );
        assert_eq!(
            ailment(json!({"initContainerStatuses": waits("ImagePullBackOff")})),
            failed
        );
        assert_eq!(
            ailment(json!({"containerStatuses": waits("ContainerCreating")})),
            None
        );
        assert_eq!(ailment(json!({"phase": "Pending"})), None);
    }
}
