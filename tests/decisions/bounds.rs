//! Work and memory follow the size of the request: what a user writes is answered or refused at
//! once. The times are generous, for a debug build on a busy machine; `benches/bounds.rs` holds the
//! limits themselves.

use crate::common;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use common::{Kind, Phase, Snapshot, admission, jobset, pods};
use muster::gang::{Asked, Carrier, SchedulerKind, StampHash, Vouched, WorkloadRef};
use muster::scheduler::Dialect;
use serde_json::{Value, json};

const AT_ONCE: Duration = Duration::from_secs(5);

fn on(scheduler: SchedulerKind) -> Snapshot {
    Snapshot::assumed(scheduler, Dialect::V1_37)
}

/// The time that this thread was on a CPU: others use the machine too.
fn cpu() -> Duration {
    let times = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    let nanoseconds = times.split(' ').next().unwrap();
    Duration::from_nanos(nanoseconds.parse().unwrap())
}

/// The response to the creation of an object, and its length.
fn answer(phase: Phase, kind: &Kind, object: &Value, cluster: &Snapshot) -> (Value, usize) {
    let review = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "u",
            "kind": {"group": kind.group, "version": "", "kind": kind.name},
            "namespace": "ml",
            "operation": "CREATE",
            "object": object,
        },
    });
    let body = review.to_string();
    let start = cpu();
    let answer = admission::answer(phase, body.as_bytes(), cluster).unwrap();
    let took = cpu() - start;
    assert!(took < AT_ONCE, "{} bytes took {took:?}", body.len());
    let read: Value = serde_json::from_slice(&answer.body).unwrap();
    (read["response"].clone(), answer.body.len())
}

fn message(response: &Value) -> &str {
    response["status"]["message"].as_str().unwrap_or_default()
}

fn group(name: &str) -> Value {
    let container = json!({"name": "main", "resources": {"requests": {"cpu": "1"}}});
    json!({
        "name": name,
        "template": {"spec": {"template": {"spec": {"containers": [container]}}}},
    })
}

fn jobset(groups: Vec<Value>) -> Value {
    json!({
        "metadata": {"name": "train", "annotations": {"muster.dev/gang-mode": "Gang"}},
        "spec": {"replicatedJobs": groups},
    })
}

fn groups(count: usize) -> Vec<Value> {
    (0..count).map(|i| group(&format!("g{i}"))).collect()
}

#[test]
fn more_replicated_jobs_than_any_jobset_has_are_refused_by_their_number() {
    for sent in [1001, 8000] {
        let jobset = jobset(groups(sent));
        let (response, _) = answer(
            Phase::Validate,
            &jobset::KIND,
            &jobset,
            &on(SchedulerKind::VOLCANO),
        );
        let expected = format!(
            "spec.replicatedJobs: Too many: {sent}: must have at most 1000 items; use replicas of a \
             ReplicatedJob, or several JobSets"
        );
        assert!(message(&response).ends_with(&expected), "{response}");
    }
}

/// 1,000 ReplicatedJobs in a chain, half of them in bundles.
fn chain() -> Vec<Value> {
    let mut groups = groups(1000);
    for (i, group) in groups.iter_mut().enumerate() {
        if i > 0 {
            group["dependsOn"] = json!([{"name": format!("g{}", i - 1), "status": "Ready"}]);
        }
        let mut annotations = json!({"muster.dev/gang-mode": "Gang"});
        if i % 2 == 0 {
            annotations["muster.dev/bundle"] = json!("ring");
        }
        group["template"]["metadata"] = json!({"annotations": annotations});
    }
    groups
}

#[test]
fn a_long_chain_of_dependencies_is_walked_once() {
    let mut jobset = jobset(chain());
    jobset["metadata"]["annotations"] = json!({
        "muster.dev/start-barrier": "5m",
        "muster.dev/start-barrier-targets": (0..1000).map(|i| format!("g{i}")).collect::<Vec<_>>().join(","),
    });
    let cluster = on(SchedulerKind::VOLCANO);
    let (response, _) = answer(Phase::Validate, &jobset::KIND, &jobset, &cluster);
    assert_eq!(response["allowed"], false);
    assert!(message(&response).contains("waits for itself"));
}

#[test]
fn a_list_of_dependencies_that_no_jobset_has_is_refused() {
    let mut jobset = jobset(groups(40));
    let all: Vec<Value> = (0..39).map(|i| json!({"name": format!("g{i}")})).collect();
    jobset["spec"]["replicatedJobs"][39]["dependsOn"] = json!(all);
    let (response, _) = answer(
        Phase::Validate,
        &jobset::KIND,
        &jobset,
        &on(SchedulerKind::VOLCANO),
    );
    let expected = "spec.replicatedJobs[39].dependsOn: Too many: 39: must have at most 32 items";
    assert!(message(&response).contains(expected), "{response}");
}

#[test]
fn the_gangs_of_a_workload_are_counted_together() {
    let gangs = |replicas: [u32; 3]| {
        let mut jobset = jobset(groups(3));
        jobset["metadata"]["annotations"] = json!({});
        for (i, replicas) in replicas.into_iter().enumerate() {
            let group = &mut jobset["spec"]["replicatedJobs"][i];
            group["replicas"] = json!(replicas);
            group["gangConfig"] = json!({"gangMode": "ReplicatedGang"});
        }
        let cluster = on(SchedulerKind::NATIVE);
        answer(Phase::Mutate, &jobset::KIND, &jobset, &cluster).0
    };
    assert_eq!(gangs([2000, 2000, 1000])["allowed"], true);
    let refused = gangs([2000, 2000, 1001]);
    let expected = "spec.replicatedJobs[2].gangConfig.gangMode: Forbidden: one gang per replica \
                    would make 5001 gangs, and more than 5000 objects are too many";
    assert!(message(&refused).contains(expected), "{refused}");
}

#[test]
fn a_koordinator_bundle_is_as_large_as_its_objects_can_say_together() {
    let bundles = |count: usize, gangs: usize| {
        let mut groups = groups(count);
        for (i, group) in groups.iter_mut().enumerate() {
            group["replicas"] = json!(gangs);
            group["gangConfig"] = json!({"gangMode": "ReplicatedGang"});
            let bundle = json!({"muster.dev/bundle": format!("b{i}")});
            group["template"]["metadata"] = json!({"annotations": bundle});
        }
        let mut jobset = jobset(groups);
        jobset["metadata"]["annotations"] = json!({});
        let cluster = on(SchedulerKind::KOORDINATOR);
        answer(Phase::Mutate, &jobset::KIND, &jobset, &cluster).0
    };
    assert_eq!(bundles(1, 400)["allowed"], true);
    assert!(message(&bundles(1, 401)).contains("the bundle has 401 gangs"));
    assert_eq!(bundles(4, 200)["allowed"], true);
    assert!(message(&bundles(5, 200)).contains("need 200000 names by now"));
}

#[test]
fn a_refusal_names_a_few_errors_and_counts_the_rest() {
    let mut jobset = jobset(groups(1000));
    for group in jobset["spec"]["replicatedJobs"].as_array_mut().unwrap() {
        group["gangConfig"] = json!({"gangMode": "Gnag"});
    }
    let (response, bytes) = answer(
        Phase::Validate,
        &jobset::KIND,
        &jobset,
        &on(SchedulerKind::VOLCANO),
    );
    assert!(message(&response).ends_with("and 950 more]"), "{response}");
    let causes = response["status"]["details"]["causes"].as_array().unwrap();
    assert_eq!(causes.len(), 50);
    assert!(bytes < 32 * 1024, "{bytes} bytes");
}

#[test]
fn a_long_value_is_cut_where_it_is_repeated() {
    let mut jobset = jobset(groups(1));
    jobset["metadata"]["annotations"]["muster.dev/timeout"] = json!("x".repeat(200 * 1024));
    jobset["metadata"]["annotations"]["muster.dev/bundle-with"] = json!("a,".repeat(20_000));
    let key = format!("muster.dev/{}", "y".repeat(20_000));
    jobset["metadata"]["annotations"][key] = json!("");
    let (response, bytes) = answer(
        Phase::Validate,
        &jobset::KIND,
        &jobset,
        &on(SchedulerKind::VOLCANO),
    );
    assert!(message(&response).contains("names 20001 workloads; at most 16"));
    assert!(bytes < 16 * 1024, "{bytes} bytes");
}

/// A cluster whose JobSet carries the stamp of a pod too.
fn carrying(pod: &Value, cluster: Snapshot) -> Snapshot {
    let carrier = Carrier {
        kind: jobset::KIND.name,
        workload: WorkloadRef::new("ml", "train"),
    };
    let stamp = pod["metadata"]["annotations"]["muster.dev/stamp"].as_str();
    let carried = HashSet::from([StampHash::of("workers", stamp.unwrap())]);
    let asked = Asked {
        carried: HashMap::from([(carrier, Arc::new(carried))]),
        ..Asked::default()
    };
    Snapshot {
        vouched: Vouched::Asked(Arc::new(asked)),
        ..cluster
    }
}

/// A pod of a JobSet with a stamp that somebody wrote by hand.
fn forged(stamp: &Value) -> Value {
    json!({
        "metadata": {
            "name": "p",
            "labels": {
                "muster.dev/gang": "workers",
                "jobset.sigs.k8s.io/jobset-name": "train",
                "jobset.sigs.k8s.io/jobset-uid": "9d3f",
                "jobset.sigs.k8s.io/replicatedjob-name": "workers",
                "jobset.sigs.k8s.io/job-index": "0",
                "jobset.sigs.k8s.io/restart-attempt": "0",
            },
            "annotations": {"muster.dev/stamp": stamp.to_string()},
        },
        "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]},
    })
}

#[test]
fn a_stamp_that_names_four_billion_gangs_is_refused() {
    for (replicas, allowed) in [(1000, true), (u32::MAX, false)] {
        let pod = forged(&json!({
            "scheduler": "koordinator", "way": "annotations", "level": "Group",
            "size": 1, "quorum": 1, "bundle": "a",
            "siblings": [{"part": "a", "replicas": replicas}],
        }));
        let cluster = carrying(&pod, on(SchedulerKind::KOORDINATOR));
        let (response, bytes) = answer(Phase::Mutate, &pods::KIND, &pod, &cluster);
        assert_eq!(response["allowed"], allowed, "{response}");
        assert!(bytes < 256 * 1024, "{bytes} bytes");
        if !allowed {
            assert!(message(&response).contains("names 4294967295 gangs"));
        }
    }
}

#[test]
fn a_stamp_of_many_roles_repeats_no_large_affinity() {
    let affinity = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "x".repeat(1000), "labelSelector": {}},
    ]}});
    let named: Vec<Value> = (0..500)
        .map(|i| json!({"name": format!("r{i}"), "members": 1}))
        .collect();
    let alike: Vec<Value> = (0..500)
        .map(|i| json!({"name": format!("r{i}"), "members": 1, "shape": 0}))
        .collect();
    for roles in [named, alike] {
        let mut pod = forged(&json!({
            "scheduler": "yunikorn", "level": "Whole", "size": 1, "quorum": 1,
            "roles": roles, "shapes": [{"affinity": affinity}],
        }));
        pod["spec"]["affinity"] = affinity.clone();
        let cluster = carrying(&pod, on(SchedulerKind::YUNIKORN));
        let (response, bytes) = answer(Phase::Mutate, &pods::KIND, &pod, &cluster);
        assert_eq!(response["allowed"], false, "{response}");
        assert!(bytes < 4096, "{bytes} bytes");
    }
}

#[test]
fn a_stamp_longer_than_any_of_musters_is_refused() {
    let pod = forged(&json!({"scheduler": "x".repeat(100 * 1024)}));
    let cluster = carrying(&pod, on(SchedulerKind::YUNIKORN));
    let (response, bytes) = answer(Phase::Mutate, &pods::KIND, &pod, &cluster);
    assert!(
        message(&response).contains("Muster writes at most 65536"),
        "{response}"
    );
    assert!(bytes < 4096, "{bytes} bytes");
}

#[test]
fn a_gang_of_many_replicated_jobs_on_yunikorn_is_stamped_or_refused_in_few_bytes() {
    let cluster = on(SchedulerKind::YUNIKORN);
    for (count, allowed) in [(40, true), (100, false), (200, false), (1000, false)] {
        let jobset = jobset(groups(count));
        let (response, bytes) = answer(Phase::Mutate, &jobset::KIND, &jobset, &cluster);
        assert_eq!(response["allowed"], allowed, "{count}: {response}");
        assert!(bytes < 3 << 20, "{count}: {bytes} bytes");
        if !allowed {
            assert!(bytes < 4096, "{count}: {response}");
        }
    }
}

#[test]
fn of_many_empty_objects_only_their_number_is_kept() {
    let empty = vec![json!({}); 200_000];
    let cluster = on(SchedulerKind::VOLCANO);
    let (response, bytes) = answer(
        Phase::Validate,
        &jobset::KIND,
        &jobset(empty.clone()),
        &cluster,
    );
    assert!(message(&response).contains("Too many: 200000"), "{bytes}");
    let mut jobset = jobset(groups(1));
    jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"] =
        json!(empty);
    let (response, bytes) = answer(Phase::Validate, &jobset::KIND, &jobset, &cluster);
    assert!(message(&response).contains("more than 1000 containers"));
    assert!(bytes < 4096, "{bytes} bytes");
}
