//! What the reconciler decides, without a cluster: from a JobSet, its members and what exists.

use crate::common;
use crate::common::seen::linked;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::core::DynamicObject;
use muster::cli::admit;
use muster::controller::decide::{Actions, State};
use muster::gang::{Attempt, Identity, PartName, Round, SchedulerKind, Unscheduled};
use muster::scheduler::{Dialect, Snapshot};
use muster::workload::seen::PodPhase;
use muster::workload::{SeenPod, jobset};
use serde_json::{Value, json};

fn native(dialect: Dialect) -> Snapshot {
    Snapshot::assumed(SchedulerKind::NATIVE, dialect)
}

/// A JobSet with three gangs of four, as stored.
fn stored(cluster: &Snapshot) -> Value {
    let text = std::fs::read_to_string(common::fixtures("rules/accepted-job-replicas.yaml"));
    let jobset = &common::documents(&text.unwrap())[0];
    let mut stored = admit::create(&jobset::KIND, jobset, cluster)
        .unwrap()
        .object;
    stored["metadata"]["uid"] = json!("4d1c");
    stored
}

fn decide(jobset: &Value, pods: &[SeenPod], made: &[DynamicObject], cluster: &Snapshot) -> Actions {
    common::seen::decide(&jobset::KIND, jobset, pods, made, cluster)
}

fn pod(index: u32, attempt: u32, phase: PodPhase) -> SeenPod {
    let gang = Identity {
        namespace: "ml".into(),
        workload: "train".into(),
        uid: "4d1c".into(),
        part: PartName::new("workers"),
        index: Some(index),
        attempt: Attempt {
            whole: attempt,
            own: 0,
        },
        ..Identity::default()
    };
    SeenPod {
        unscheduled: (phase == PodPhase::Pending).then(|| Unscheduled {
            reason: "Unschedulable".into(),
            message: "no room".into(),
        }),
        ..linked(gang, format!("{index}-{attempt}-{phase:?}"), phase)
    }
}

fn of_round(round: u32, pod: SeenPod) -> SeenPod {
    let mut gang = Identity::clone(&pod.gang);
    gang.round = Round(round);
    SeenPod {
        uid: format!("{}-{round}", pod.uid),
        gang: Arc::new(gang),
        ..pod
    }
}

fn dying(pod: SeenPod) -> SeenPod {
    SeenPod { going: true, ..pod }
}

fn kinds(objects: &[DynamicObject]) -> Vec<&str> {
    objects
        .iter()
        .map(|object| object.types.as_ref().unwrap().kind.as_str())
        .collect()
}

#[test]
fn a_new_jobset_gets_its_objects_and_a_settled_one_no_write() {
    for dialect in Dialect::ALL {
        let cluster = native(dialect);
        let jobset = stored(&cluster);
        let first = decide(&jobset, &[], &[], &cluster);
        assert!(!first.apply.is_empty() && first.delete.is_empty());
        let second = decide(&jobset, &[], &first.apply, &cluster);
        assert!(second.apply.is_empty() && second.delete.is_empty());
    }
}

#[test]
fn a_restart_makes_a_new_gang_and_removes_the_old_one_after_its_pods() {
    let cluster = native(Dialect::V1_37);
    let mut jobset = stored(&cluster);
    let made = decide(&jobset, &[], &[], &cluster).apply;
    jobset["status"] = json!({"restarts": 1});
    let old = [pod(0, 0, PodPhase::Bound)];
    let during = decide(&jobset, &old, &made, &cluster);
    assert_eq!(
        kinds(&during.apply),
        ["Workload", "PodGroup", "PodGroup", "PodGroup"]
    );
    // The gang of replica 0 and the Workload are in use; those of the others are not.
    assert_eq!(kinds(&during.delete), ["PodGroup", "PodGroup"]);
    let after = decide(&jobset, &[pod(0, 1, PodPhase::Pending)], &made, &cluster);
    assert_eq!(after.delete.len(), 4);
}

#[test]
fn a_replica_that_restarts_alone_gets_a_new_gang() {
    let cluster = native(Dialect::V1_37);
    let mut jobset = stored(&cluster);
    let made = decide(&jobset, &[], &[], &cluster).apply;
    jobset["status"] =
        json!({"replicatedJobsStatus": [{"name": "workers", "jobRestarts": [0, 1, 0]}]});
    let actions = decide(&jobset, &[], &made, &cluster);
    assert_eq!(kinds(&actions.apply), ["PodGroup"]);
    assert_eq!(kinds(&actions.delete), ["PodGroup"]);
}

#[test]
fn a_suspended_or_finished_jobset_keeps_nothing_once_its_pods_are_gone() {
    let cluster = native(Dialect::V1_37);
    let mut jobset = stored(&cluster);
    let made = decide(&jobset, &[], &[], &cluster).apply;
    jobset["spec"]["suspend"] = json!(true);
    let pods: Vec<SeenPod> = (0..3).map(|i| pod(i, 0, PodPhase::Bound)).collect();
    assert!(decide(&jobset, &pods, &made, &cluster).delete.is_empty());
    assert_eq!(decide(&jobset, &[], &made, &cluster).delete.len(), 4);
    jobset["spec"]["suspend"] = json!(false);
    jobset["status"] = json!({"terminalState": "Completed"});
    let done = [pod(0, 0, PodPhase::Succeeded)];
    assert_eq!(decide(&jobset, &done, &made, &cluster).delete.len(), 4);
}

#[test]
fn a_deleted_jobset_is_left_to_the_garbage_collector() {
    let cluster = native(Dialect::V1_37);
    let mut jobset = stored(&cluster);
    let made = decide(&jobset, &[], &[], &cluster).apply;
    jobset["metadata"]["deletionTimestamp"] = json!("2026-11-16T00:00:00Z");
    let actions = decide(&jobset, &[], &made, &cluster);
    assert!(actions.apply.is_empty() && actions.delete.is_empty());
}

#[test]
fn the_quorum_follows_members_that_are_done_where_the_scheduler_lets_it() {
    let mut pods: Vec<SeenPod> = (0..3).map(|_| pod(0, 0, PodPhase::Bound)).collect();
    pods.push(pod(0, 0, PodPhase::Succeeded));
    for (dialect, writes) in [(Dialect::V1_37, 1), (Dialect::V1_36, 0)] {
        let cluster = native(dialect);
        let jobset = stored(&cluster);
        let made = decide(&jobset, &[], &[], &cluster).apply;
        let actions = decide(&jobset, &pods, &made, &cluster);
        assert_eq!(actions.apply.len(), writes, "{dialect}");
        if let [group] = &actions.apply[..] {
            let policy = &group.data["spec"]["schedulingPolicy"];
            assert_eq!(policy["gang"]["minCount"], 3);
        }
    }
}

#[test]
fn on_kai_members_that_are_done_no_longer_count() {
    let cluster = Snapshot::assumed(SchedulerKind::KAI, Dialect::V1_37);
    let jobset = stored(&cluster);
    let made = decide(&jobset, &[], &[], &cluster).apply;
    let done = [pod(0, 0, PodPhase::Succeeded), pod(0, 0, PodPhase::Bound)];
    let actions = decide(&jobset, &done, &made, &cluster);
    let [group] = &actions.apply[..] else {
        panic!("{:?}", actions.apply);
    };
    assert_eq!(group.data["spec"]["minMember"], 3);
}

#[test]
fn a_replacement_that_waits_for_finished_members_is_told_where_the_quorum_is_fixed() {
    let pods =
        |phases: &[PodPhase]| -> Vec<SeenPod> { phases.iter().map(|p| pod(0, 0, *p)).collect() };
    let (bound, done, waits) = (PodPhase::Bound, PodPhase::Succeeded, PodPhase::Pending);
    for (dialect, phases, told) in [
        (Dialect::V1_36, [bound, bound, done, waits], true),
        (Dialect::V1_35, [bound, bound, done, waits], true),
        (Dialect::V1_37, [bound, bound, done, waits], false),
        // Nobody waits; or the gang can still be whole.
        (Dialect::V1_36, [bound, bound, bound, done], false),
        (Dialect::V1_36, [bound, bound, bound, waits], false),
    ] {
        let cluster = native(dialect);
        let actions = decide(&stored(&cluster), &pods(&phases), &[], &cluster);
        let stranded = actions.gangs[0].evidence.stranded.as_deref();
        assert_eq!(stranded.is_some(), told, "{dialect} {phases:?}");
        if let Some(why) = stranded {
            assert!(
                why.contains("1 member(s) have finished, and the quorum of 4"),
                "{why}"
            );
        }
    }
}

#[test]
fn a_gang_is_scheduled_when_its_quorum_is_on_nodes_and_says_why_it_waits() {
    let cluster = native(Dialect::V1_37);
    let jobset = stored(&cluster);
    let mut pods: Vec<SeenPod> = (0..4).map(|_| pod(1, 0, PodPhase::Bound)).collect();
    pods.push(pod(2, 0, PodPhase::Pending));
    let actions = decide(&jobset, &pods, &[], &cluster);
    let states: Vec<&State> = actions.gangs.iter().map(|gang| &gang.state).collect();
    assert_eq!(states, [&State::Empty, &State::Scheduled, &State::Waiting]);
    assert_eq!(actions.gangs[2].evidence.quotation(), Some("no room"));
}

#[test]
fn a_native_bundle_gets_its_composite_and_then_no_write() {
    let cluster = native(Dialect::V1_37Composites);
    let text = std::fs::read_to_string(common::fixtures("rules/bundle-on-native.yaml"));
    let jobset = &common::documents(&text.unwrap())[0];
    let jobset = admit::create(&jobset::KIND, jobset, &cluster)
        .unwrap()
        .object;
    let first = decide(&jobset, &[], &[], &cluster);
    let expected = ["Workload", "CompositePodGroup", "PodGroup", "PodGroup"];
    assert_eq!(kinds(&first.apply), expected);
    let second = decide(&jobset, &[], &first.apply, &cluster);
    assert!(second.apply.is_empty() && second.delete.is_empty());
}

#[test]
fn a_gang_without_an_object_is_as_old_as_its_oldest_pod() {
    let cluster = Snapshot::assumed(SchedulerKind::KOORDINATOR, Dialect::V1_37)
        .with_variant(SchedulerKind::KOORDINATOR, "annotations");
    let jobset = stored(&cluster);
    let mut pods = [pod(0, 0, PodPhase::Pending), pod(0, 0, PodPhase::Pending)];
    let ago = |seconds| Some(Timestamp::now() - Duration::from_secs(seconds));
    (pods[0].created, pods[1].created) = (ago(20), ago(90));
    let actions = decide(&jobset, &pods, &[], &cluster);
    assert!(actions.apply.is_empty());
    let age = actions.gangs[0].age.unwrap();
    assert!((90..120).contains(&age.as_secs()), "{age:?}");
    assert_eq!(actions.gangs[0].state, State::Waiting);
    assert_eq!(actions.gangs[1].age, None);
}

#[test]
fn a_gang_keeps_its_way_when_the_configuration_changes() {
    let by_object = Snapshot::assumed(SchedulerKind::KOORDINATOR, Dialect::V1_37);
    let by_annotations = by_object
        .clone()
        .with_variant(SchedulerKind::KOORDINATOR, "annotations");
    let jobset = stored(&by_annotations);
    assert!(decide(&jobset, &[], &[], &by_object).apply.is_empty());
    let jobset = stored(&by_object);
    assert_eq!(decide(&jobset, &[], &[], &by_annotations).apply.len(), 3);
}

#[test]
fn a_jobset_that_muster_never_stamped_gets_no_objects_and_is_told() {
    let cluster = native(Dialect::V1_37);
    let text = std::fs::read_to_string(common::fixtures("rules/accepted-job-replicas.yaml"));
    let jobset = &common::documents(&text.unwrap())[0];
    let actions = decide(jobset, &[], &[], &cluster);
    assert!(actions.apply.is_empty());
    assert!(actions.refused.unwrap().contains("created without Muster"));
}

#[test]
fn a_resumed_gang_is_not_scheduled_by_the_dying_pods_of_its_last_round() {
    for scheduler in [SchedulerKind::NATIVE, SchedulerKind::VOLCANO] {
        let cluster = Snapshot::assumed(scheduler, Dialect::V1_37);
        let mut jobset = stored(&cluster);
        jobset["metadata"]["annotations"]["muster.dev/round"] = json!("1");
        let state = |pods: &[SeenPod]| decide(&jobset, pods, &[], &cluster).gangs[0].state.clone();
        let four = |round, phase| (0..4).map(move |_| of_round(round, pod(0, 0, phase)));
        let mut pods: Vec<SeenPod> = four(0, PodPhase::Bound).map(dying).collect();
        assert_eq!(state(&pods), State::Empty, "{scheduler}");
        pods.extend(four(1, PodPhase::Pending));
        assert_eq!(state(&pods), State::Waiting, "{scheduler}");
        pods.truncate(4);
        pods.extend(four(1, PodPhase::Bound));
        assert_eq!(state(&pods), State::Scheduled, "{scheduler}");
        pods[7].going = true;
        assert_eq!(state(&pods), State::Waiting, "{scheduler}");
    }
}

/// The JobSet controller may not have seen the suspension: then it touches no Job, and all pods stay.
#[test]
fn pods_that_outlive_a_short_suspension_are_still_their_gang() {
    for scheduler in [SchedulerKind::NATIVE, SchedulerKind::VOLCANO] {
        let cluster = Snapshot::assumed(scheduler, Dialect::V1_37);
        let mut jobset = stored(&cluster);
        let four = |round| (0..4).map(move |_| of_round(round, pod(0, 0, PodPhase::Bound)));
        let before: Vec<SeenPod> = four(0).collect();
        let name = decide(&jobset, &before, &[], &cluster).gangs[0]
            .name
            .clone();
        jobset["metadata"]["annotations"]["muster.dev/round"] = json!("1");
        let now = |pods: &[SeenPod]| decide(&jobset, pods, &[], &cluster).gangs.remove(0);
        let gang = now(&before);
        assert_eq!(
            (gang.state, &gang.name),
            (State::Scheduled, &name),
            "{scheduler}"
        );
        // A round that the JobSet has not begun is nobody's.
        assert_eq!(
            now(&four(7).collect::<Vec<_>>()).state,
            State::Empty,
            "{scheduler}"
        );
        let mut both = before.clone();
        both.extend(four(1).take(1));
        assert_eq!(now(&both).state, State::Waiting, "{scheduler}");
    }
}

#[test]
fn members_that_finished_before_a_suspension_neither_place_the_others_nor_hold_them_back() {
    let cluster = native(Dialect::V1_37);
    let mut jobset = stored(&cluster);
    jobset["metadata"]["annotations"]["muster.dev/round"] = json!("1");
    let done = (0..2).map(|_| of_round(0, pod(0, 0, PodPhase::Succeeded)));
    for (phase, scheduled) in [(PodPhase::Pending, false), (PodPhase::Bound, true)] {
        let now = (0..2).map(|_| of_round(1, pod(0, 0, phase)));
        let pods: Vec<SeenPod> = done.clone().chain(now).collect();
        let gang = &decide(&jobset, &pods, &[], &cluster).gangs[0];
        assert_eq!(gang.state == State::Scheduled, scheduled, "{gang:?}");
        assert_eq!(gang.quorum, 2);
    }
}

/// Kubernetes keeps a PodGroup until no pod refers to it (1.36), a new one of its name is refused
/// until then, and the pods of the next round refer to it too: deleted early, it would be deleted as
/// soon as all of them are replaced.
#[test]
fn a_native_gang_that_is_resumed_before_its_pods_are_gone_keeps_its_object() {
    let cluster = native(Dialect::V1_37);
    let mut jobset = stored(&cluster);
    let made = decide(&jobset, &[], &[], &cluster).apply;
    let pods: Vec<SeenPod> = (0..3).map(|i| dying(pod(i, 0, PodPhase::Bound))).collect();
    jobset["spec"]["suspend"] = json!(true);
    assert!(decide(&jobset, &pods, &made, &cluster).delete.is_empty());
    jobset["spec"]["suspend"] = json!(false);
    jobset["metadata"]["annotations"]["muster.dev/round"] = json!("1");
    let resumed = decide(&jobset, &pods, &made, &cluster);
    assert!(resumed.apply.is_empty() && resumed.delete.is_empty());
}

/// Only such a JobSet is ever suspended or resumed by Muster.
#[test]
fn a_gang_is_revived_only_on_a_jobset_of_musters_own_and_where_the_scheduler_forgets() {
    let yunikorn = Snapshot::assumed(SchedulerKind::YUNIKORN, Dialect::V1_37);
    let orphans = |jobset: &Value| decide(jobset, &[], &[], &yunikorn).orphans.is_some();
    let mut jobset = stored(&yunikorn);
    assert!(orphans(&jobset));
    jobset["spec"]["suspend"] = json!(true);
    assert!(orphans(&jobset), "it waits for its resume");
    let change = |change: fn(&mut Value)| {
        let mut jobset = jobset.clone();
        change(&mut jobset);
        jobset
    };
    let foreign = change(|jobset| jobset["spec"]["managedBy"] = json!("example.com/other"));
    let deleting = change(|jobset| {
        jobset["metadata"]["deletionTimestamp"] = json!("2026-11-16T00:00:00Z");
    });
    let over = change(|jobset| jobset["status"] = json!({"terminalState": "Completed"}));
    let unstamped = change(|jobset| {
        let groups = jobset["spec"]["replicatedJobs"].as_array_mut().unwrap();
        for group in groups {
            group["template"]["metadata"] = json!({});
            group["template"]["spec"]["template"]["metadata"] = json!({});
        }
    });
    let no_gang = change(|jobset| {
        jobset["metadata"]["annotations"] = json!({});
        jobset["spec"]["gangConfig"] = Value::Null;
        for group in jobset["spec"]["replicatedJobs"].as_array_mut().unwrap() {
            group["gangConfig"] = Value::Null;
        }
    });
    let elsewhere = stored(&native(Dialect::V1_37));
    for other in [foreign, deleting, over, unstamped, no_gang, elsewhere] {
        assert!(!orphans(&other), "{other}");
    }
}
