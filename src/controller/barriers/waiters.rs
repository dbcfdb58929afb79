//! What is seen of the pods at start barriers: whether their container waits, has gone on, or why it has
//! not started. Plain data, stripped to what a decision needs.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use kube::core::Object;
use serde::{Deserialize, Serialize};

use crate::gang::barrier::CONTAINER;
use crate::gang::{BarrierStart, Seals, StampHash, keys};
use crate::workload::child::{self, Proof};
use crate::workload::seen::Sealed;

/// The label that Kubernetes writes on the pods of a Job.
const JOB: &str = "batch.kubernetes.io/job-name";

/// Kubelet's word for a container that has failed and is started again later.
const CRASHED: &str = "CrashLoopBackOff";

/// A pod as the watch reads it, until a [`Waiter`] is made of it.
pub type WaitingPod = Object<PodSpec, PodStatus>;

/// What is read of a pod's spec.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSpec {
    node_name: Option<String>,
}

/// What is read of a pod's status.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    phase: Option<String>,
    conditions: Vec<super::super::observe::Condition>,
    init_container_statuses: Vec<ContainerStatus>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContainerStatus {
    name: String,
    state: ContainerState,
    last_state: ContainerState,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContainerState {
    waiting: Option<Waiting>,
    running: Option<Running>,
    terminated: Option<Terminated>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct Waiting {
    reason: Option<String>,
    message: Option<String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Running {
    started_at: Option<Time>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Terminated {
    exit_code: i32,
    started_at: Option<Time>,
}

/// A pod at a barrier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiter {
    pub(crate) pod: String,
    pub(crate) start: BarrierStart,
    /// Which of the targets it is of.
    pub(crate) role: String,
    /// Its Job.
    pub(crate) job: String,
    pub(crate) stamped: StampHash,
    pub(crate) sealed: Sealed,
    pub(crate) step: Step,
    /// Since when it is seen so, by the clock of who sees it: nodes may have others.
    pub(crate) seen: Timestamp,
    /// Its kubelet was told to look for this barrier.
    pub(crate) touched: bool,
}

/// How far a pod is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Not on a node; why, in the scheduler's words.
    Unplaced(Option<String>),
    /// On a node, and its container has not started; why.
    Starting(Option<String>),
    /// Its container waits, since then.
    Waits(Option<Timestamp>),
    /// Its container has failed, most likely because its time was over.
    GaveUp(Option<Timestamp>),
    /// Its container was told to go on.
    Passed,
    /// It has ended well.
    Done,
    /// It is being deleted, or has failed: no member.
    Gone,
}

impl Step {
    /// What is seen has begun. The clock of its node may be ahead, and its time would never be over.
    fn not_after(self, now: Timestamp) -> Self {
        match self {
            Self::Waits(since) => Self::Waits(since.map(|since| since.min(now))),
            Self::GaveUp(since) => Self::GaveUp(since.map(|since| since.min(now))),
            other => other,
        }
    }
}

/// Reads a pod that is seen now; `None` where it does not tell its barrier.
pub(crate) fn read(pod: &WaitingPod, seals: &Seals, now: Timestamp) -> Option<Waiter> {
    let namespace = pod.namespace()?;
    let start = child::barrier_start(&pod.metadata, &namespace)?;
    let (stamped, sealed) = match child::barrier_proof(&pod.metadata, &namespace, seals)? {
        Proof::Sealed => (StampHash::default(), Sealed::Yes),
        Proof::Unsealed(_, stamped) => (stamped, Sealed::No),
        Proof::None => return None,
    };
    let touched = pod.annotations().get(keys::BARRIER_OPENED);
    Some(Waiter {
        pod: pod.name_any(),
        touched: touched.is_some_and(|name| *name == start.name()),
        start,
        role: pod.labels().get(keys::BARRIER)?.clone(),
        job: pod.labels().get(JOB).cloned().unwrap_or_default(),
        stamped,
        sealed,
        step: step(pod).not_after(now),
        seen: now,
    })
}

fn step(pod: &WaitingPod) -> Step {
    let default = PodStatus::default();
    let status = pod.status.as_ref().unwrap_or(&default);
    match status.phase.as_deref() {
        _ if pod.metadata.deletion_timestamp.is_some() => return Step::Gone,
        Some("Failed") => return Step::Gone,
        Some("Succeeded") => return Step::Done,
        _ => {}
    }
    if pod.spec.node_name.is_none() {
        let mut conditions = status.conditions.iter();
        let placed = conditions.find(|c| c.kind == "PodScheduled" && c.status == "False");
        return Step::Unplaced(placed.and_then(|placed| placed.message.clone()));
    }
    let mut containers = status.init_container_statuses.iter();
    let own = containers.find(|container| container.name == CONTAINER);
    let since = |time: &Option<Time>| time.as_ref().map(|time| time.0);
    match own.map(|own| &own.state) {
        Some(ContainerState {
            running: Some(running),
            ..
        }) => Step::Waits(since(&running.started_at)),
        Some(ContainerState {
            terminated: Some(ended),
            ..
        }) => match ended.exit_code {
            0 => Step::Passed,
            _ => Step::GaveUp(since(&ended.started_at)),
        },
        _ => match own.and_then(failed_before) {
            Some(ended) => Step::GaveUp(since(&ended.started_at)),
            None => Step::Starting(held_up(&status.init_container_statuses)),
        },
    }
}

/// How it ended, of a container that kubelet starts again after a while.
fn failed_before(own: &ContainerStatus) -> Option<&Terminated> {
    let waiting = own.state.waiting.as_ref()?;
    let again = matches!(waiting.reason.as_deref(), Some(CRASHED) | None);
    let ended = own.last_state.terminated.as_ref();
    ended.filter(|ended| again && ended.exit_code != 0)
}

/// The first init container that cannot start, and why: what comes after it waits for it.
fn held_up(containers: &[ContainerStatus]) -> Option<String> {
    containers.iter().find_map(|container| {
        let waiting = container.state.waiting.as_ref()?;
        let reason = waiting.reason.as_deref()?;
        // Kubernetes' words for what has its turn later.
        if reason == "PodInitializing" {
            return None;
        }
        Some(match waiting.message.as_deref() {
            Some(message) => format!("{}: {reason}: {message}", container.name),
            None => format!("{}: {reason}", container.name),
        })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn step_of(spec: serde_json::Value, status: serde_json::Value) -> Step {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
            "spec": spec, "status": status});
        step(&serde_json::from_value(pod).unwrap())
    }

    fn container(state: serde_json::Value) -> Step {
        restarted(state, json!({}))
    }

    fn restarted(state: serde_json::Value, before: serde_json::Value) -> Step {
        let statuses = json!([
            {"name": "load", "state": {"terminated": {"exitCode": 0}}},
            {"name": CONTAINER, "state": state, "lastState": before},
        ]);
        step_of(
            json!({"nodeName": "n"}),
            json!({"phase": "Pending", "initContainerStatuses": statuses}),
        )
    }

    #[test]
    fn a_pod_counts_by_what_its_container_does() {
        let time = "2026-11-17T12:00:00Z";
        let since = Some(time.parse().unwrap());
        assert_eq!(
            container(json!({"running": {"startedAt": time}})),
            Step::Waits(since)
        );
        assert_eq!(
            container(json!({"terminated": {"exitCode": 0}})),
            Step::Passed
        );
        assert_eq!(
            container(json!({"terminated": {"exitCode": 1, "startedAt": time}})),
            Step::GaveUp(since)
        );
        assert_eq!(
            container(json!({"waiting": {"reason": "PodInitializing"}})),
            Step::Starting(None)
        );
        assert_eq!(
            container(json!({"waiting": {"reason": "ErrImagePull", "message": "no such image"}})),
            Step::Starting(Some(format!("{CONTAINER}: ErrImagePull: no such image")))
        );
    }

    #[test]
    fn nobody_has_waited_since_later_than_it_is_seen() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let waits = |second| Step::Waits(Some(at(second)));
        assert_eq!(waits(500).not_after(at(100)), waits(100));
        assert_eq!(waits(50).not_after(at(100)), waits(50));
    }

    #[test]
    fn a_container_that_kubelet_starts_again_later_has_given_up() {
        let time = "2026-11-17T12:00:00Z";
        let before = json!({"terminated": {"exitCode": 1, "startedAt": time}});
        let waiting = |reason: &str| json!({"waiting": {"reason": reason}});
        assert_eq!(
            restarted(waiting("CrashLoopBackOff"), before.clone()),
            Step::GaveUp(Some(time.parse().unwrap()))
        );
        // What keeps it from coming now is another thing.
        assert_eq!(
            restarted(waiting("ErrImagePull"), before.clone()),
            Step::Starting(Some(format!("{CONTAINER}: ErrImagePull")))
        );
        assert_eq!(
            restarted(json!({"running": {"startedAt": time}}), before),
            Step::Waits(Some(time.parse().unwrap()))
        );
    }

    #[test]
    fn a_pod_without_a_node_says_what_the_scheduler_says() {
        let waits = json!({"conditions": [
            {"type": "PodScheduled", "status": "False", "message": "0/4 nodes are available"}]});
        assert_eq!(
            step_of(json!({}), waits),
            Step::Unplaced(Some("0/4 nodes are available".to_owned()))
        );
        assert_eq!(step_of(json!({}), json!({})), Step::Unplaced(None));
        assert_eq!(step_of(json!({}), json!({"phase": "Failed"})), Step::Gone);
    }
}
