//! What the reconciler sees of the members of gangs.
//!
//! Plain data, read from watched pods: only what a decision needs is kept. No client here.

use k8s_openapi::jiff::Timestamp;
use kube::core::{Object, ObjectMeta};
use serde::{Deserialize, Serialize};

use crate::gang::{Attempt, Round, Stamp, link};
use crate::workload::lws::replica;
use crate::workload::{child, keys};

/// A member, as far as its gang asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenPod {
    pub uid: String,
    pub part: String,
    /// The gang's index in its part; zero for gangs that have none.
    pub index: u32,
    pub attempt: Attempt,
    /// The round that it was made in.
    pub round: Round,
    /// The replica's, for a pod of a LeaderWorkerSet. Boxed, because most pods have none.
    pub life: Option<Box<ReplicaLife>>,
    pub phase: PodPhase,
    pub created: Option<Timestamp>,
    /// It is being deleted.
    pub going: bool,
    /// Why the scheduler has not placed it, in its own words.
    pub unscheduled: Option<String>,
}

/// One life of a replica, as its pods carry it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaLife {
    pub key: String,
    pub index: String,
    pub revision: String,
    /// The pod is the leader; its stamp then.
    pub leader: Option<Stamp>,
    pub linked: LinkedBy,
}

/// Who has linked a pod to its gang.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkedBy {
    Muster,
    /// Its workload's own controller, which makes the gang itself.
    Workload,
    /// It was created while Muster's webhooks were not installed.
    Nobody,
}

/// A pod's phase, as far as a gang cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodPhase {
    Pending,
    /// On a node, and not finished.
    Bound,
    Succeeded,
    Failed,
}

impl PodPhase {
    /// Whether the pod still counts for its gang's objects.
    pub fn is_live(self) -> bool {
        matches!(self, Self::Pending | Self::Bound)
    }
}

/// A pod as the watch reads it, until a [`SeenPod`] is made of it. Typed, and so never larger than its
/// metadata and what it names.
pub type WatchedPod = Object<PodSpec, PodStatus>;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSpec {
    pub node_name: Option<String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct PodStatus {
    pub phase: Option<String>,
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Condition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
    pub message: Option<String>,
}

impl SeenPod {
    /// Reads a member; `None` for a pod without Muster's label.
    pub fn read(pod: &WatchedPod) -> Option<Self> {
        let labels = pod.metadata.labels.as_ref()?;
        let number = |key: &str| labels.get(key).and_then(|n| n.parse().ok()).unwrap_or(0);
        let annotations = pod.metadata.annotations.as_ref();
        let round = annotations.and_then(|a| a.get(keys::ROUND));
        let status = pod.status.as_ref();
        let phase = match status.and_then(|status| status.phase.as_deref()) {
            Some("Succeeded") => PodPhase::Succeeded,
            Some("Failed") => PodPhase::Failed,
            _ if pod.spec.node_name.is_some() => PodPhase::Bound,
            _ => PodPhase::Pending,
        };
        Some(Self {
            uid: pod.metadata.uid.clone().unwrap_or_default(),
            part: labels.get(keys::GANG)?.clone(),
            index: number(keys::INDEX),
            attempt: Attempt {
                whole: number(child::ATTEMPT),
                own: number(child::OWN_ATTEMPT),
            },
            round: Round(round.and_then(|r| r.parse().ok()).unwrap_or(0)),
            life: ReplicaLife::read(&pod.metadata).map(Box::new),
            phase,
            created: pod.metadata.creation_timestamp.as_ref().map(|time| time.0),
            going: pod.metadata.deletion_timestamp.is_some(),
            unscheduled: status.and_then(unscheduled),
        })
    }
}

#[cfg(test)]
impl SeenPod {
    /// A member of the only gang of a workload.
    pub fn example(phase: PodPhase) -> Self {
        Self {
            uid: String::new(),
            part: "all".to_owned(),
            index: 0,
            attempt: Attempt::default(),
            round: Round::default(),
            life: None,
            phase,
            created: None,
            going: false,
            unscheduled: None,
        }
    }
}

impl ReplicaLife {
    fn read(meta: &ObjectMeta) -> Option<Self> {
        let labels = meta.labels.as_ref()?;
        let label = |key: &str| labels.get(key).cloned().unwrap_or_default();
        labels.get(replica::NAME)?;
        let annotations = meta.annotations.as_ref();
        let stamp = annotations.and_then(|a| a.get(keys::STAMP));
        let leads = label(replica::WORKER_INDEX) == "0";
        let theirs = [link::VOLCANO.key, replica::OWN_GANG];
        let theirs = annotations.is_some_and(|a| theirs.iter().any(|key| a.contains_key(*key)));
        let linked = match labels.contains_key(keys::INDEX) {
            true => LinkedBy::Muster,
            false if theirs => LinkedBy::Workload,
            false => LinkedBy::Nobody,
        };
        Some(Self {
            key: label(replica::GROUP_KEY),
            index: label(replica::GROUP_INDEX),
            revision: label(replica::REVISION),
            leader: stamp.filter(|_| leads).and_then(|s| Stamp::parse(s).ok()),
            linked,
        })
    }
}

fn unscheduled(status: &PodStatus) -> Option<String> {
    let mut conditions = status.conditions.iter();
    let condition = conditions.find(|c| c.kind == "PodScheduled")?;
    let waits = condition.status == "False";
    condition.message.clone().filter(|_| waits)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_stamp_is_kept_of_a_replicas_leader_only() {
        let leader = |index: &str| {
            let stamp = r#"{"scheduler":"volcano","level":"Replica","size":4,"quorum":4}"#;
            let pod: WatchedPod = serde_json::from_value(json!({
                "metadata": {"labels": {"muster.dev/gang": "replica", "muster.dev/index": "0",
                        "leaderworkerset.sigs.k8s.io/name": "serve",
                        "leaderworkerset.sigs.k8s.io/worker-index": index},
                    "annotations": {"muster.dev/stamp": stamp}},
                "spec": {}, "status": {"phase": "Pending"},
            }))
            .unwrap();
            SeenPod::read(&pod).unwrap().life.unwrap().leader
        };
        assert!(leader("0").is_some());
        assert_eq!(leader("1"), None);
    }

    #[test]
    fn a_pod_that_waits_says_why_and_one_on_a_node_does_not() {
        let read = |status: &str, node: Option<&str>| {
            let pod: WatchedPod = serde_json::from_value(json!({
                "metadata": {"name": "a", "uid": "4d1c", "labels": {"muster.dev/gang": "all"},
                    "creationTimestamp": "2026-01-01T00:00:00Z"},
                "spec": {"nodeName": node},
                "status": {"phase": "Pending", "conditions": [
                    {"type": "Ready", "status": "False", "message": "not this"},
                    {"type": "PodScheduled", "status": status, "message": "no room"},
                ]},
            }))
            .unwrap();
            SeenPod::read(&pod).unwrap()
        };
        let waits = read("False", None);
        assert_eq!(waits.unscheduled.as_deref(), Some("no room"));
        assert!(waits.phase == PodPhase::Pending && waits.created.is_some());
        let placed = read("True", Some("node"));
        assert_eq!((placed.phase, placed.unscheduled), (PodPhase::Bound, None));
    }
}
