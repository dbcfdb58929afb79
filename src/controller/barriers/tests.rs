use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::cli::admit;
use crate::controller::decide::{self, Actions};
use crate::gang::PartName;
use crate::scheduler::{Dialect, Snapshot, TABLE};
use crate::workload::seen::PodPhase;
use crate::workload::{Object, SeenPod, job};

fn cluster() -> Snapshot {
    Snapshot::assumed(TABLE[0].kind, Dialect::V1_35)
}

/// A Job of two pods that are a gang and wait for each other, as stored.
fn stored() -> Value {
    let job = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "ml", "annotations": {
            "muster.dev/gang-mode": "Gang",
            "muster.dev/start-barrier": "60s",
        }},
        "spec": {"parallelism": 2, "completions": 2, "template": {"spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "train"}],
        }}},
    });
    let mut job = admit::create(&job::KIND, &job, &cluster()).unwrap().object;
    job["metadata"]["uid"] = json!("7f6c");
    job
}

fn decide(job: &Value, pods: &[SeenPod], made: &[DynamicObject]) -> Actions {
    let json = job.to_string();
    let object = Object::read(&job::KIND, &json);
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
    decide::decide(&seen, &cluster())
}

/// Up to Kubernetes 1.35 the next pods are of the same round, and would find the barrier open.
#[test]
fn a_suspension_closes_the_barrier_while_pods_end() {
    let mut job = stored();
    let start = BarrierStart::example();
    let owner = Owner {
        namespace: "ml".to_owned(),
        kind: "Job",
        references: Vec::new(),
        gang_name: None,
    };
    let mut made = decide(&job, &[], &[]).apply;
    let gangs = made.len();
    assert!(gangs > 0);
    made.push(config_map(&start, &owner, &Says::Open));
    let gang = Identity {
        namespace: "ml".to_owned(),
        workload: "train".to_owned(),
        uid: "7f6c".to_owned(),
        part: PartName::whole(),
        ..Identity::default()
    };
    let ending = SeenPod {
        gang: Arc::new(gang),
        phase: PodPhase::Bound,
        going: true,
        ..SeenPod::example()
    };
    let pods = std::slice::from_ref(&ending);
    assert_eq!(decide(&job, pods, &made).delete, []);
    job["spec"]["suspend"] = json!(true);
    let gone = decide(&job, pods, &made).delete;
    let gone: Vec<String> = gone.iter().map(DynamicObject::name_any).collect();
    assert_eq!(gone, [start.name()]);
}
