//! Where the gangs of several workloads share one object.

use std::collections::BTreeMap;

use kube::core::DynamicObject;
use muster::controller::decide::Actions;
use muster::gang::SchedulerKind;
use muster::scheduler::Snapshot;
use muster::workload::seen::PodPhase;
use serde_json::{Value, json};

use crate::side::{self, Side, waits_for};

fn volcano() -> Snapshot {
    side::cluster(SchedulerKind::VOLCANO)
}

fn side(name: &str, with: &str) -> Side {
    Side::new(SchedulerKind::VOLCANO, "ml", name, with)
}

fn two() -> [Side; 2] {
    [side("a", "b"), side("b", "a")]
}

fn decide(at: usize, all: &[Side]) -> Actions {
    side::decide(&volcano(), at, all)
}

fn settle(all: &mut [Side]) {
    side::settle(&volcano(), all);
}

/// Two that run together.
fn running() -> [Side; 2] {
    let mut all = two();
    settle(&mut all);
    all.iter_mut().for_each(|s| s.members(PodPhase::Bound, 4));
    settle(&mut all);
    all
}

fn the_one(side: &Side) -> &DynamicObject {
    let [object] = &side.made[..] else {
        panic!("{:?}", side.made);
    };
    object
}

/// What the PodGroup counts, by the part of the gangs' names that people chose.
fn counted(side: &Side) -> String {
    let spec = &the_one(side).data["spec"];
    let roles: BTreeMap<String, u64> =
        serde_json::from_value(spec["minTaskMember"].clone()).unwrap();
    assert_eq!(spec["minMember"], roles.values().sum::<u64>());
    let short = |(name, count): (&String, &u64)| {
        let (name, _) = name.rsplit_once('-').unwrap();
        format!("{name}:{count}")
    };
    roles.iter().map(short).collect::<Vec<_>>().join(" ")
}

fn owners(side: &Side) -> Vec<String> {
    let owners = the_one(side).metadata.owner_references.iter().flatten();
    owners.map(|owner| owner.name.clone()).collect()
}

#[test]
fn the_first_writes_one_object_for_all_and_then_nothing() {
    let mut all = two();
    all.iter_mut().for_each(|s| s.members(PodPhase::Pending, 4));
    assert!(decide(1, &all).apply.is_empty(), "the other writes it");
    settle(&mut all);
    assert_eq!(counted(&all[0]), "a-all-0:4 b-all-0:4");
    assert_eq!(owners(&all[0]), ["a", "b"]);
    assert_eq!(the_one(&all[0]).data["spec"]["minResources"]["cpu"], "8");
    for at in [0, 1] {
        let actions = decide(at, &all);
        assert!(actions.apply.is_empty() && actions.delete.is_empty());
    }
    // Who does not write it has the other look: only that one's own changes bring a look by themselves.
    let keepers = decide(1, &all).keepers;
    let keepers: Vec<String> = keepers.iter().map(ToString::to_string).collect();
    assert_eq!(keepers, ["JobSet ml/a"]);
    assert!(decide(0, &all).keepers.is_empty());
}

#[test]
fn pods_say_which_gang_of_the_shared_object_they_count_for() {
    let mut all = two();
    settle(&mut all);
    let name = the_one(&all[0]).metadata.name.clone().unwrap();
    let stamp = |side: &Side| {
        let group = &side.jobset["spec"]["replicatedJobs"][0]["template"];
        let stamp = group["metadata"]["annotations"]["muster.dev/stamp"].as_str();
        stamp.unwrap().to_owned()
    };
    for side in &all {
        assert!(stamp(side).contains(&format!(r#""shared":"{name}""#)));
    }
}

#[test]
fn a_side_that_is_missing_holds_the_others() {
    let [mut a, _] = two();
    a.members(PodPhase::Pending, 4);
    let actions = decide(0, &[a]);
    assert!(actions.apply.is_empty());
    let why = waits_for(&actions);
    assert!(
        why.contains("waits for JobSet ml/b: it does not exist"),
        "{why}"
    );
}

#[test]
fn before_the_start_what_was_made_stays_until_all_are_there_again() {
    let mut all = two();
    all.iter_mut().for_each(|s| s.members(PodPhase::Pending, 4));
    settle(&mut all);
    let mut without = [all[0].clone()];
    settle(&mut without);
    // It counts pods that nobody makes: nothing starts.
    assert_eq!(counted(&without[0]), "a-all-0:4 b-all-0:4");
    let before = the_one(&all[0]).clone();
    all[1].recreate();
    settle(&mut all);
    assert_eq!(counted(&all[0]), "a-all-0:4 b-all-0:4");
    let after = the_one(&all[0]);
    assert_eq!(after.metadata.name, before.metadata.name);
    assert_ne!(after.data, before.data, "its pods count under another name");
}

#[test]
fn a_side_that_is_gone_drops_out_and_pods_of_its_successor_are_held() {
    let [a, b] = running();
    let mut left = [a, b.clone()];
    left[1].finish();
    settle(&mut left);
    // Nobody waits: what the object does not count must not be placed.
    assert_eq!(counted(&left[0]), "a-all-0:4 ring-nobody-0:1");
    assert_eq!(owners(&left[0]), ["a"]);
    // A pod is replaced.
    left[0].pods[0].phase = PodPhase::Pending;
    settle(&mut left);
    assert_eq!(counted(&left[0]), "a-all-0:4");
    left[0].members(PodPhase::Bound, 4);
    settle(&mut left);
    assert_eq!(counted(&left[0]), "a-all-0:4 ring-nobody-0:1");
    // The successor is counted beside it.
    let mut again = [left[0].clone(), b];
    again[1].recreate();
    settle(&mut again);
    assert_eq!(counted(&again[0]), "a-all-0:4 b-all-0:4");
}

#[test]
fn the_next_writes_the_object_when_the_first_is_gone() {
    let mut all = running();
    all[0].finish();
    settle(&mut all);
    assert!(all[0].made.is_empty() && owners(&all[1]) == ["b"]);
    assert_eq!(counted(&all[1]), "b-all-0:4 ring-nobody-0:1");
    all[1].finish();
    settle(&mut all);
    assert!(all[1].made.is_empty(), "it goes with the last");
}

#[test]
fn an_object_that_others_need_is_not_deleted() {
    let mut all = running();
    all[0].finish();
    // Before the other side has been looked at.
    assert!(decide(0, &all).delete.is_empty());
    all[1].finish();
    assert_eq!(decide(0, &all).delete.len(), 1);
}

#[test]
fn a_side_that_restarts_is_counted_beside_the_one_that_runs() {
    let mut all = running();
    all[1].restart();
    settle(&mut all);
    assert_eq!(counted(&all[0]), "a-all-0:4 b-all-1:4");
    all[0].restart();
    settle(&mut all);
    assert_eq!(counted(&all[0]), "a-all-1:4 b-all-1:4");
}

#[test]
fn all_pods_of_a_side_whose_partner_is_gone_may_come_back() {
    let mut all = running();
    all[1].finish();
    settle(&mut all);
    all[0].members(PodPhase::Pending, 4);
    settle(&mut all);
    assert_eq!(counted(&all[0]), "a-all-0:4");
}

#[test]
fn what_cannot_share_an_object_is_told() {
    type Change = fn(&mut Value);
    let changes: [(&str, Change); 3] = [
        (
            "it waits in the queue \"fast\", and this one in \"default\"",
            |b| {
                b["metadata"]["annotations"]["muster.dev/queue"] = json!("fast");
            },
        ),
        ("it goes to koordinator, and this one to volcano", |b| {
            let text = b.to_string().replace("volcano", "koordinator");
            *b = serde_json::from_str(&text).unwrap();
        }),
        (
            "3000000000 pods in all its workloads, more than the scheduler",
            |b| {
                let job = &mut b["spec"]["replicatedJobs"][0]["template"]["spec"];
                job["parallelism"] = json!(1_500_000_000);
                job["completions"] = json!(1_500_000_000);
            },
        ),
    ];
    for (reason, change) in changes {
        let mut all = two();
        all[0].members(PodPhase::Pending, 4);
        change(&mut all[1].jobset);
        if reason.starts_with('3') {
            change(&mut all[0].jobset);
        }
        let actions = decide(0, &all);
        let why = waits_for(&actions);
        assert!(why.contains(reason), "{why} should say: {reason}");
        assert!(actions.apply.is_empty(), "{reason}");
    }
}
