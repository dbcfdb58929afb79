//! What the reconciler sees of a workload, and what it decides from that.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use kube::core::DynamicObject;
use muster::controller::decide::{self, Actions, Seen};
use muster::gang::{Identity, StampHash};
use muster::scheduler::Snapshot;
use muster::workload::seen::{LinkState, PodPhase, Sealed};
use muster::workload::{Kind, Object, SeenPod};
use serde_json::Value;

/// What is decided for a workload by itself.
pub fn decide(
    kind: &'static Kind,
    workload: &Value,
    pods: &[SeenPod],
    made: &[DynamicObject],
    cluster: &Snapshot,
) -> Actions {
    let json = workload.to_string();
    let object = Object::read(kind, &json);
    let seen = Seen {
        workload: object.workload().unwrap(),
        namespace: "ml",
        pods,
        strangers: &[],
        made,
        partners: &[],
        owner: None,
        waiters: &[],
        now: Timestamp::now(),
    };
    decide::decide(&seen, cluster)
}

/// A member of a gang, linked to it by a stamp of Muster's.
pub fn linked(gang: Identity, uid: String, phase: PodPhase) -> SeenPod {
    SeenPod {
        uid,
        gang: Arc::new(gang),
        role: None,
        stamp: None,
        stamped: StampHash::default(),
        sealed: Sealed::Yes,
        link: LinkState::Linked,
        phase,
        created: None,
        going: false,
        unscheduled: None,
        ask: None,
        ailment: None,
        own: None,
    }
}
