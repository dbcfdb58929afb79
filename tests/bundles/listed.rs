//! Where each gang has an object that lists all gangs of the bundle.

use std::sync::Arc;

use muster::cli::admit;
use muster::controller::decide::Actions;
use muster::gang::{PartName, SchedulerKind};
use muster::scheduler::{Dialect, Snapshot};
use muster::workload::jobset;
use muster::workload::seen::PodPhase;
use serde_json::{Value, json};

use crate::common;
use crate::side::{self, Side, WITH, pod, waits_for};

const GROUPS: &str = "gang.scheduling.koordinator.sh/groups";

fn koordinator() -> Snapshot {
    side::cluster(SchedulerKind::KOORDINATOR)
}

fn side(namespace: &str, name: &str, with: &str) -> Side {
    Side::new(SchedulerKind::KOORDINATOR, namespace, name, with)
}

/// `ml/a` and `web/b`, which name each other.
fn two() -> [Side; 2] {
    [side("ml", "a", "web/b"), side("web", "b", "ml/a")]
}

fn decide(at: usize, all: &[Side]) -> Actions {
    side::decide(&koordinator(), at, all)
}

fn settle(all: &mut [Side]) {
    side::settle(&koordinator(), all);
}

/// The gangs that each of a side's PodGroups lists, by the part of their names that people chose.
fn listed(side: &Side) -> Vec<String> {
    let groups = side.made.iter().map(|object| {
        let annotations = object.metadata.annotations.as_ref().unwrap();
        let ids: Vec<String> = serde_json::from_str(&annotations[GROUPS]).unwrap();
        let short = |id: &String| id.rsplit_once('-').unwrap().0.to_owned();
        ids.iter().map(short).collect::<Vec<_>>().join(" ")
    });
    groups.collect()
}

#[test]
fn a_side_whose_partner_is_missing_makes_nothing_and_says_whom_it_waits_for() {
    let [mut a, _] = two();
    a.members(PodPhase::Pending, 4);
    let actions = decide(0, &[a]);
    assert!(actions.apply.is_empty() && actions.delete.is_empty());
    let why = "the bundle \"ring\" waits for JobSet web/b: it does not exist, or does not name ml/a \
               in muster.dev/bundle-with";
    assert_eq!(waits_for(&actions), why);
}

#[test]
fn when_all_are_there_each_side_lists_the_same_gangs() {
    let mut all = two();
    settle(&mut all);
    assert_eq!(listed(&all[0]), ["ml/a-all-0 web/b-all-0"]);
    let text = |side: &Side| side.made[0].metadata.annotations.as_ref().unwrap()[GROUPS].clone();
    assert_eq!(text(&all[0]), text(&all[1]));
    assert!(
        decide(0, &all).apply.is_empty(),
        "a settled side writes nothing"
    );
}

#[test]
fn a_partner_that_cannot_start_is_named_with_the_reason() {
    type Change = fn(&mut Value);
    let changes: [(&str, Change); 8] = [
        ("does not name ml/a in", |b| {
            b["metadata"]["annotations"][WITH] = json!("ml/other");
        }),
        ("does not name ml/a in", |b| {
            b["metadata"]["annotations"][WITH] = Value::Null;
        }),
        ("this JobSet does not name ml/c in", |b| {
            b["metadata"]["annotations"][WITH] = json!("ml/a, ml/c");
        }),
        ("it is suspended", |b| b["spec"]["suspend"] = json!(true)),
        ("it has ended", |b| {
            b["status"]["terminalState"] = json!("Completed");
        }),
        ("it is being deleted", |b| {
            b["metadata"]["deletionTimestamp"] = json!("2026-11-16T00:00:00Z");
        }),
        ("it goes to volcano", |b| {
            let text = b.to_string().replace("koordinator", "volcano");
            *b = serde_json::from_str(&text).unwrap();
        }),
        ("none of its gangs is in the bundle \"ring\"", |b| {
            b["metadata"]["annotations"]["muster.dev/bundle"] = json!("chain");
        }),
    ];
    for (reason, change) in changes {
        let mut all = two();
        all[0].members(PodPhase::Pending, 4);
        change(&mut all[1].jobset);
        let actions = decide(0, &all);
        let why = waits_for(&actions);
        assert!(why.contains(reason), "{why} should say: {reason}");
        assert!(actions.apply.is_empty(), "{reason}");
    }
}

/// Whoever may create a JobSet in one namespace learns nothing of the others.
#[test]
fn what_is_said_of_a_partner_that_does_not_name_back_is_what_is_said_of_none() {
    let [mut a, mut b] = two();
    a.members(PodPhase::Pending, 4);
    let alone = decide(0, &[a.clone()]);
    for with in [json!("ml/other"), Value::Null] {
        b.jobset["metadata"]["annotations"][WITH] = with;
        let both = decide(0, &[a.clone(), b.clone()]);
        assert_eq!(waits_for(&both), waits_for(&alone));
    }
}

#[test]
fn three_start_together_only_when_each_names_both_others() {
    let mut all = [
        side("ml", "a", "b, c"),
        side("ml", "b", "a, c"),
        side("ml", "c", "a"),
    ];
    all.iter_mut().for_each(|s| s.members(PodPhase::Pending, 4));
    settle(&mut all);
    assert!(all.iter().all(|side| side.made.is_empty()));
    let why = decide(0, &all);
    assert!(waits_for(&why).contains("JobSet ml/c: it does not name ml/b"));
    all[2] = side("ml", "c", "a, b");
    settle(&mut all);
    for side in &all {
        assert_eq!(listed(side), ["ml/a-all-0 ml/b-all-0 ml/c-all-0"]);
    }
}

#[test]
fn a_side_that_runs_depends_on_no_other_any_more() {
    let mut all = two();
    settle(&mut all);
    all.iter_mut().for_each(|s| s.members(PodPhase::Bound, 4));
    settle(&mut all);
    assert_eq!(listed(&all[0]), ["ml/a-all-0"]);
    assert_eq!(listed(&all[1]), ["web/b-all-0"]);
    // The other ends; a member is replaced, or all of them are.
    all[1].jobset["status"] = json!({"terminalState": "Completed"});
    for phases in [PodPhase::Bound, PodPhase::Pending] {
        all[0].members(phases, 3);
        let actions = decide(0, &all);
        assert!(actions.apply.is_empty() && actions.delete.is_empty());
    }
    all[0].pods.clear();
    assert!(decide(0, &all).delete.is_empty());
}

#[test]
fn a_side_that_restarts_starts_by_itself_while_the_other_runs() {
    let mut all = two();
    settle(&mut all);
    all.iter_mut().for_each(|s| s.members(PodPhase::Bound, 4));
    settle(&mut all);
    all[1].restart();
    let other = decide(0, &all);
    assert!(other.apply.is_empty() && other.delete.is_empty());
    settle(&mut all);
    assert_eq!(listed(&all[1]), ["web/b-all-1"]);
    // It waits for room when the other restarts too: then both start together again.
    all[0].restart();
    settle(&mut all);
    settle(&mut all);
    assert_eq!(listed(&all[0]), ["ml/a-all-1 web/b-all-1"]);
    assert_eq!(listed(&all[1]), ["ml/a-all-1 web/b-all-1"]);
}

#[test]
fn a_side_that_waits_follows_a_recreated_partner() {
    let mut all = two();
    all.iter_mut().for_each(|s| s.members(PodPhase::Pending, 4));
    settle(&mut all);
    let before = all[0].made.clone();
    // Gone: what was made stays, and the pods with it wait.
    let mut without = [all[0].clone()];
    settle(&mut without);
    assert_eq!(without[0].made, before);
    assert!(waits_for(&decide(0, &without)).contains("web/b: it does not exist"));
    all[1].jobset["metadata"]["uid"] = json!("another");
    all[1].made.clear();
    settle(&mut all);
    let name = all[1].made[0].metadata.name.clone().unwrap();
    let text = &all[0].made[0].metadata.annotations.as_ref().unwrap()[GROUPS];
    assert!(text.contains(&format!("web/{name}")), "{text}");
}

#[test]
fn a_side_that_restarts_beside_one_that_runs_waits_for_nobody_who_is_gone() {
    let mut all = [
        side("ml", "a", "b, c"),
        side("ml", "b", "a, c"),
        side("ml", "c", "a, b"),
    ];
    settle(&mut all);
    all.iter_mut().for_each(|s| s.members(PodPhase::Bound, 4));
    settle(&mut all);
    all[1].finish();
    all[2].restart();
    settle(&mut all);
    assert_eq!(listed(&all[2]), ["ml/c-all-1"]);
}

#[test]
fn a_pod_that_still_dies_is_no_sign_of_a_start() {
    let mut all = two();
    for side in &mut all {
        side.members(PodPhase::Bound, 4);
        side.pods.iter_mut().for_each(|pod| pod.going = true);
    }
    settle(&mut all);
    assert_eq!(listed(&all[0]), ["ml/a-all-0 web/b-all-0"]);
}

#[test]
fn a_side_whose_partner_lacks_pods_says_so() {
    let mut all = two();
    all[0].members(PodPhase::Pending, 4);
    all[1].members(PodPhase::Pending, 3);
    let actions = decide(0, &all);
    let why = waits_for(&actions);
    assert!(
        why.starts_with("the bundle \"ring\" waits: web/b-all-0-"),
        "{why}"
    );
    assert!(why.ends_with("has only 3 of 4 pods"), "{why}");
    // Of its own pods it is said elsewhere.
    assert_eq!(decide(1, &all).gangs[0].evidence.partner, None);
    all[1].members(PodPhase::Pending, 4);
    assert_eq!(decide(0, &all).gangs[0].evidence.partner, None);
}

#[test]
fn a_bundle_that_is_too_large_in_all_is_told() {
    let mut all = two();
    for side in &mut all {
        let annotations = &mut side.jobset["metadata"]["annotations"];
        annotations["muster.dev/gang-mode"] = Value::Null;
        let group = &mut side.jobset["spec"]["replicatedJobs"][0];
        group["replicas"] = json!(501);
        group["gangConfig"] = json!({"gangMode": "ReplicatedGang"});
        let uid = side.text("uid").to_owned();
        let mut pod = pod(&uid, 0, 0, PodPhase::Pending);
        let gang = Arc::get_mut(&mut pod.gang).unwrap();
        (gang.part, gang.index) = (PartName::new("workers"), Some(0));
        side.pods = vec![pod];
    }
    let actions = decide(0, &all);
    let why = waits_for(&actions);
    assert!(why.contains("1002 gangs in all its workloads"), "{why}");
    assert!(actions.apply.is_empty());
}

#[test]
fn what_cannot_name_gangs_of_others_refuses_partners() {
    let text = std::fs::read_to_string(common::fixtures("rules/bundle-with-others.yaml"));
    let jobset = common::documents(&text.unwrap())[0].clone();
    let annotations = koordinator().with_variant(SchedulerKind::KOORDINATOR, "annotations");
    let mut native = jobset.clone();
    native["metadata"]["annotations"]["muster.dev/scheduler"] = json!("native");
    let composites = Snapshot::assumed(SchedulerKind::NATIVE, Dialect::V1_37Composites);
    for (jobset, cluster, way_out) in [
        (
            jobset,
            annotations,
            "start Muster with --koordinator podgroup",
        ),
        (native, composites, "remove it, or use koordinator"),
    ] {
        let errors = admit::create(&jobset::KIND, &jobset, &cluster)
            .unwrap()
            .errors;
        let said = errors.iter().map(ToString::to_string).collect::<String>();
        let refused = "metadata.annotations[muster.dev/bundle-with]: Forbidden";
        assert!(said.contains(refused) && said.contains(way_out), "{said}");
    }
}
