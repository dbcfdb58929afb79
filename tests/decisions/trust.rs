//! Stamps are believed by their seal, or because the stored workload carries them too. What anybody
//! can write on a pod makes no gang and joins none.

use crate::common;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use common::{Phase, Review, Snapshot, admission, admit, job, jobset, pods};
use muster::admission::{Decision, Unanswerable};
use muster::gang::{Asked, Carrier, SchedulerKind, Seals, StampHash, Vouched, WorkloadRef};
use muster::scheduler::Dialect;
use muster::workload::Kind;
use muster::workload::jobset::{self as jobsets, ChildRef};
use serde_json::{Value, json};

const STAMP: &str = "muster.dev/stamp";

/// A cluster whose keys nobody else has, and whose workloads can be asked.
fn cluster(key: u8) -> Snapshot {
    Snapshot {
        seals: Arc::new(Seals::new(&[key; 32], &[])),
        vouched: Vouched::Asked(Arc::default()),
        ..Snapshot::assumed(SchedulerKind::VOLCANO, Dialect::V1_37)
    }
}

fn stored(name: &str, cluster: &Snapshot) -> Value {
    let text = std::fs::read_to_string(common::fixtures("rules/accepted-job-replicas.yaml"));
    let mut jobset = common::documents(&text.unwrap()).remove(0);
    jobset["metadata"]["name"] = json!(name);
    jobset["metadata"]["namespace"] = json!("ml");
    let admitted = admit::create(&jobset::KIND, &jobset, cluster).unwrap();
    assert!(admitted.errors.is_empty(), "{:?}", admitted.errors);
    admitted.object
}

fn child(jobset: &Value, name: &str) -> Value {
    let child = ChildRef {
        namespace: "ml",
        jobset: name,
        uid: "9d3f",
        replicated_job: "workers",
        index: 0,
        attempt: 0,
    };
    jobsets::job(jobset, child).unwrap()
}

fn decide(
    phase: Phase,
    kind: &Kind,
    (old, object): (Option<&Value>, &Value),
    namespace: &str,
    cluster: &Snapshot,
) -> Result<Decision, Unanswerable> {
    let body = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "u",
            "kind": {"group": kind.group, "kind": kind.name},
            "namespace": namespace,
            "operation": if old.is_some() { "UPDATE" } else { "CREATE" },
            "object": object,
            "oldObject": old,
        },
    })
    .to_string();
    let review = Review::parse(body.as_bytes()).unwrap();
    Ok(admission::decide(phase, &review, cluster)?.decision)
}

fn create(job: &Value, namespace: &str, cluster: &Snapshot) -> Result<Decision, Unanswerable> {
    decide(Phase::Mutate, &job::KIND, (None, job), namespace, cluster)
}

fn is_patched(decision: &Decision) -> bool {
    matches!(decision, Decision::Allow { patch, .. } if !patch.0.is_empty())
}

/// What a refusal says.
fn refusal(decision: Decision) -> String {
    let Decision::Deny { errors, .. } = decision else {
        panic!("allowed: {decision:?}");
    };
    errors.iter().map(ToString::to_string).collect()
}

/// The cluster after it was asked about a workload, which carries the stamps of these templates.
fn asked(cluster: Snapshot, name: &str, carried: &[&Value]) -> Snapshot {
    let carrier = Carrier {
        kind: "JobSet",
        workload: WorkloadRef::new("ml", name),
    };
    let hash = |meta: &&Value| {
        let gang = meta["labels"]["muster.dev/gang"].as_str().unwrap();
        StampHash::of(gang, meta["annotations"][STAMP].as_str().unwrap())
    };
    let carried: HashSet<StampHash> = carried.iter().map(hash).collect();
    Snapshot {
        vouched: Vouched::Asked(Arc::new(Asked {
            carried: HashMap::from([(carrier.clone(), Arc::new(carried))]),
            lately: HashSet::from([carrier]),
        })),
        ..cluster
    }
}

#[test]
fn a_child_with_its_workloads_sealed_stamp_is_linked_without_a_question() {
    let cluster = cluster(1);
    let job = child(&stored("train", &cluster), "train");
    assert!(is_patched(&create(&job, "ml", &cluster).unwrap()));
}

#[test]
fn a_sealed_stamp_is_good_for_no_other_workload_namespace_or_text() {
    let cluster = cluster(1);
    let good = child(&stored("train", &cluster), "train");
    let mut larger = good.clone();
    let stamp = &mut larger["metadata"]["annotations"][STAMP];
    *stamp = json!(
        stamp
            .as_str()
            .unwrap()
            .replace("\"size\":4", "\"size\":400")
    );
    let mut moved = good.clone();
    moved["metadata"]["labels"]["jobset.sigs.k8s.io/jobset-name"] = json!("other");
    let mut part = good.clone();
    part["metadata"]["labels"]["muster.dev/gang"] = json!("driver");
    for (job, namespace) in [
        (&larger, "ml"),
        (&moved, "ml"),
        (&part, "ml"),
        (&good, "web"),
    ] {
        let answer = create(job, namespace, &cluster);
        let Err(Unanswerable::StampNotKnown(carrier)) = answer else {
            panic!("{answer:?}");
        };
        // Whoever made it up is refused once its workload was asked.
        let asked = Asked {
            lately: HashSet::from([carrier]),
            ..Asked::default()
        };
        let cluster = Snapshot {
            vouched: Vouched::Asked(Arc::new(asked)),
            ..cluster.clone()
        };
        let refused = refusal(create(job, namespace, &cluster).unwrap());
        assert!(refused.contains("only Muster writes stamps"), "{refused}");
    }
}

#[test]
fn a_bare_pod_dressed_as_a_leader_gets_no_queue_and_no_priority() {
    let stamp = json!({
        "scheduler": "volcano", "level": "Replica", "size": 1, "quorum": 1,
        "revision": {"order": "Together", "queue": "gold", "roles": [
            {"name": "leader", "pods": 1, "priorityClass": "system-node-critical"},
        ]},
    });
    let pod = json!({
        "metadata": {
            "name": "serve-7",
            "namespace": "ml",
            "labels": {
                "muster.dev/gang": "replica",
                "leaderworkerset.sigs.k8s.io/name": "serve",
                "leaderworkerset.sigs.k8s.io/group-index": "7",
                "leaderworkerset.sigs.k8s.io/worker-index": "0",
                "leaderworkerset.sigs.k8s.io/template-revision-hash": "7f9c",
                "leaderworkerset.sigs.k8s.io/group-key": "0123456789abcdef0123456789abcdef01234567",
            },
            "annotations": {STAMP: stamp.to_string()},
        },
        "spec": {"containers": [{"name": "main"}]},
    });
    let cluster = Snapshot {
        vouched: Vouched::Nobody,
        ..cluster(1)
    };
    for phase in [Phase::Mutate, Phase::Validate] {
        let decision = decide(phase, &pods::KIND, (None, &pod), "ml", &cluster);
        insta::allow_duplicates! {
            insta::assert_snapshot!(refusal(decision.unwrap()), @"metadata.annotations[muster.dev/stamp]: Forbidden: Muster has not sealed this stamp for a child of the LeaderWorkerSet ml/serve, and no template of that LeaderWorkerSet carries it; only Muster writes stamps: remove it together with the label muster.dev/gang, or ask for a gang on the workload");
        }
    }
}

#[test]
fn a_lost_key_strands_no_gang_whose_workload_carries_the_stamp() {
    let before = cluster(1);
    let jobset = stored("train", &before);
    let job = child(&jobset, "train");
    let after = cluster(2);
    let answer = create(&job, "ml", &after).unwrap_err();
    assert_eq!(
        (answer.status(), answer.is_momentary()),
        (500, true),
        "asked again"
    );
    insta::assert_snapshot!(answer, @"Muster does not know the key that sealed the stamp, and asks the JobSet ml/train: try again");
    let template = &jobset["spec"]["replicatedJobs"][0]["template"];
    let vouched = asked(after, "train", &[&template["metadata"]]);
    assert!(is_patched(&create(&job, "ml", &vouched).unwrap()));
    let pod = jobsets::pod(&job);
    let linked = decide(Phase::Mutate, &pods::KIND, (None, &pod), "ml", &vouched);
    assert!(is_patched(&linked.unwrap()));
}

#[test]
fn a_stamp_from_before_seals_is_good_where_its_workload_carries_it() {
    let cluster = cluster(1);
    let mut job = child(&stored("train", &cluster), "train");
    job["metadata"]["annotations"][STAMP] =
        json!(r#"{"scheduler":"volcano","level":"Replica","size":4,"quorum":4}"#);
    let vouched = asked(cluster, "train", &[&job["metadata"]]);
    assert!(is_patched(&create(&job, "ml", &vouched).unwrap()));
}

#[test]
fn a_forged_child_that_is_stored_can_still_be_changed_and_is_not_linked() {
    let job = child(&stored("train", &cluster(1)), "train");
    let cluster = asked(cluster(2), "train", &[]);
    let (mut old, mut new) = (job.clone(), job);
    old["spec"]["suspend"] = json!(true);
    new["spec"]["suspend"] = json!(false);
    let decision = decide(
        Phase::Mutate,
        &job::KIND,
        (Some(&old), &new),
        "ml",
        &cluster,
    )
    .unwrap();
    assert!(matches!(&decision, Decision::Allow { patch, .. } if patch.0.is_empty()));
}

#[test]
fn a_workload_that_another_replica_has_stamped_with_a_newer_key_is_asked_for_again() {
    let (mine, its) = ([1; 32], [2; 32]);
    let newer = Snapshot {
        seals: Arc::new(Seals::new(&its, &[mine])),
        ..cluster(1)
    };
    let jobset = stored("train", &newer);
    let validate = |cluster: &Snapshot| {
        let object = (None, &jobset);
        decide(Phase::Validate, &jobset::KIND, object, "ml", cluster)
    };
    let answer = validate(&cluster(1)).unwrap_err();
    assert!(answer.is_momentary() && matches!(answer, Unanswerable::KeyNotKnown));
    let learned = Snapshot {
        seals: Arc::new(Seals::new(&mine, &[its])),
        ..cluster(1)
    };
    assert!(matches!(validate(&learned), Ok(Decision::Allow { .. })));
}

#[test]
fn a_workload_with_a_generated_name_keeps_its_seal() {
    let cluster = cluster(1);
    let mut jobset = stored("train", &cluster);
    let meta = jobset["metadata"].as_object_mut().unwrap();
    meta.remove("name");
    meta.insert("generateName".to_owned(), json!("train-"));
    let mut stored = admit::create(&jobset::KIND, &jobset, &cluster)
        .unwrap()
        .object;
    let job = child(&stored, "train-x7k2p");
    assert!(is_patched(&create(&job, "ml", &cluster).unwrap()));
    // The second phase sees the name that was made.
    stored["metadata"]["name"] = json!("train-x7k2p");
    let object = (None, &stored);
    let decision = decide(Phase::Validate, &jobset::KIND, object, "ml", &cluster);
    assert!(matches!(decision, Ok(Decision::Allow { .. })));
}

/// A gang that pods declare has no stamp of a workload's, and there is nobody to ask.
#[test]
fn a_pod_that_says_both_that_it_is_stamped_and_that_it_declares_a_gang_is_refused_at_once() {
    let pod = json!({
        "metadata": {
            "name": "ring-0",
            "labels": {"muster.dev/gang": "all", "muster.dev/gang-name": "ring"},
            "annotations": {
                "muster.dev/gang-name": "ring",
                "muster.dev/min-count": "2",
                STAMP: r#"{"scheduler":"native","level":"Whole","size":2,"quorum":2}"#,
            },
        },
        "spec": {"containers": []},
    });
    let cluster = cluster(1);
    for phase in [Phase::Mutate, Phase::Validate] {
        let answer = decide(phase, &pods::KIND, (None, &pod), "ml", &cluster);
        let said = refusal(answer.unwrap());
        assert!(said.contains("Muster has not sealed this stamp"), "{said}");
    }
}
