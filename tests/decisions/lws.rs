//! LeaderWorkerSets: stamped when they are created and with a change of the user's own, never
//! otherwise; their pods linked by the life of their replica.

use crate::common;

use common::{applied, cluster, decide, decide_request, mutated};
use muster::admission::{Decision, Phase};
use muster::controller::decide::{Actions, State};
use muster::controller::observe::{self, WatchedPod};
use muster::gang::{SchedulerKind, Seals};
use muster::scheduler::{self, Dialect, DynamicObject, Snapshot};
use muster::workload::lws::children::{self, ReplicaRef};
use muster::workload::{Kind, SeenPod, lws, pods};
use serde_json::{Value, json};

const LWS: &Kind = &lws::KIND;
const KEY: &str = "leaderworkerset.sigs.k8s.io/group-key";

fn manifest() -> Value {
    let text = std::fs::read_to_string(common::fixtures("rules/lws.yaml")).unwrap();
    common::documents(&text).remove(0)
}

fn stored(cluster: &Snapshot) -> Value {
    mutated(LWS, None, &manifest(), cluster)
}

fn refusal(old: &Value, new: &Value, cluster: &Snapshot) -> String {
    match decide(Phase::Validate, LWS, Some(old), new, cluster) {
        Decision::Deny { errors, .. } => {
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            errors.join("\n")
        }
        Decision::Allow { .. } => panic!("allowed"),
    }
}

fn warnings(old: &Value, new: &Value, cluster: &Snapshot) -> Vec<String> {
    match decide(Phase::Validate, LWS, Some(old), new, cluster) {
        Decision::Allow { warnings, .. } => warnings,
        other => panic!("{other:?}"),
    }
}

fn templates(lws: &Value) -> &Value {
    &lws["spec"]["leaderWorkerTemplate"]
}

fn stamp(lws: &Value) -> Value {
    let annotations = &templates(lws)["workerTemplate"]["metadata"]["annotations"];
    serde_json::from_str(annotations["muster.dev/stamp"].as_str().unwrap()).unwrap()
}

#[test]
fn a_stamped_set_is_left_as_it_is() {
    for kind in scheduler::TABLE.iter().map(|entry| entry.kind) {
        let cluster = Snapshot::assumed(kind, Dialect::V1_37);
        let mut manifest = manifest();
        // YuniKorn wants requests of the leader too, and has them.
        manifest["metadata"]["name"] = json!("serve");
        let stored = mutated(LWS, None, &manifest, &cluster);
        assert_ne!(stored, manifest);
        assert_eq!(mutated(LWS, None, &stored, &cluster), stored);
        assert_eq!(mutated(LWS, Some(&stored), &stored, &cluster), stored);
        assert!(warnings(&stored, &stored, &cluster).len() < 2);
    }
}

/// Any change of the templates replaces every replica.
#[test]
fn what_an_update_drops_is_put_back_as_it_was() {
    for kind in scheduler::TABLE.iter().map(|entry| entry.kind) {
        let cluster = Snapshot::assumed(kind, Dialect::V1_37);
        let mut old = stored(&cluster);
        // An earlier version has stamped it, in other words.
        for template in ["leaderTemplate", "workerTemplate"] {
            let pods = &mut old["spec"]["leaderWorkerTemplate"][template];
            let stamp = &mut pods["metadata"]["annotations"]["muster.dev/stamp"];
            *stamp = json!(stamp.as_str().unwrap().replace("{\"sch", "{ \"sch"));
        }
        let mut new = manifest();
        new["metadata"]["labels"] = json!({"team": "serving"});
        new["spec"]["replicas"] = json!(7);
        let after = mutated(LWS, Some(&old), &new, &cluster);
        assert_eq!(templates(&after), templates(&old));
        let scheduler = &after["metadata"]["annotations"]["muster.dev/scheduler"];
        assert_eq!(*scheduler, kind.as_str());
        warnings(&old, &after, &cluster);
    }
}

#[test]
fn a_changed_template_is_stamped_again() {
    let cluster = cluster();
    let old = stored(&cluster);
    let mut new = old.clone();
    new["spec"]["leaderWorkerTemplate"]["size"] = json!(6);
    let after = mutated(LWS, Some(&old), &new, &cluster);
    assert_eq!(stamp(&after)["size"], 6);
    warnings(&old, &after, &cluster);
    // Without its new stamp it would run as a gang of another size.
    assert!(refusal(&old, &new, &cluster).contains("lacks the stamp"));
}

/// `kubectl replace` with another image drops what Muster has written.
#[test]
fn a_new_template_goes_to_the_scheduler_that_the_old_one_went_to() {
    let volcano = Snapshot::assumed(SchedulerKind::VOLCANO, Dialect::V1_37);
    let old = stored(&volcano);
    let mut new = manifest();
    new["spec"]["leaderWorkerTemplate"]["size"] = json!(6);
    let after = mutated(LWS, Some(&old), &new, &cluster());
    let chosen = &after["metadata"]["annotations"]["muster.dev/scheduler"];
    assert_eq!(
        (chosen, &stamp(&after)["scheduler"]),
        (&json!("volcano"), &json!("volcano"))
    );
    warnings(&old, &after, &cluster());
}

#[test]
fn one_that_predates_muster_is_stamped_with_its_next_template() {
    let cluster = cluster();
    let old = manifest();
    let mut new = old.clone();
    new["spec"]["replicas"] = json!(3);
    assert_eq!(mutated(LWS, Some(&old), &new, &cluster), new);
    let told = warnings(&old, &new, &cluster).join("\n");
    assert!(told.contains("do not run as gangs until"), "{told}");
    new["spec"]["leaderWorkerTemplate"]["size"] = json!(3);
    let after = mutated(LWS, Some(&old), &new, &cluster);
    assert_eq!(stamp(&after)["size"], 3);
    // Its knobs bind nobody yet.
    let mut off = old.clone();
    off["metadata"]["annotations"]["muster.dev/gang-mode"] = json!("Off");
    warnings(&old, &off, &cluster);
}

#[test]
fn a_knob_changes_only_with_the_template() {
    let cluster = cluster();
    let old = stored(&cluster);
    let change = |change: fn(&mut Value)| {
        let mut new = old.clone();
        change(&mut new);
        new
    };
    let off = change(|lws| lws["metadata"]["annotations"]["muster.dev/gang-mode"] = json!("Off"));
    insta::assert_snapshot!(refusal(&old, &off, &cluster), @r#"metadata.annotations[muster.dev/gang-mode]: Invalid value: "Off": it was "ReplicatedGang", and the replicas keep their gangs; change leaderWorkerTemplate in the same update, which replaces every replica anyway, or recreate the LeaderWorkerSet"#);
    let ready = change(|lws| lws["spec"]["startupPolicy"] = json!("LeaderReady"));
    insta::assert_snapshot!(refusal(&old, &ready, &cluster), @r#"spec.startupPolicy: Invalid value: "LeaderReady": replicas that are recreated before the rollout reaches them would wait for workers that are not made; recreate the LeaderWorkerSet"#);
    let both = change(|lws| {
        lws["spec"]["startupPolicy"] = json!("LeaderReady");
        lws["spec"]["leaderWorkerTemplate"]["size"] = json!(3);
    });
    // Replicas of the old revision that are recreated would wait for workers that are not made.
    insta::assert_snapshot!(refusal(&old, &both, &cluster), @r#"spec.startupPolicy: Invalid value: "LeaderReady": replicas that are recreated before the rollout reaches them would wait for workers that are not made; recreate the LeaderWorkerSet"#);
    let mut back = manifest();
    back["spec"]["startupPolicy"] = json!("LeaderReady");
    let ordered = mutated(LWS, None, &back, &cluster);
    back["spec"]["startupPolicy"] = json!("LeaderCreated");
    back["spec"]["leaderWorkerTemplate"]["size"] = json!(3);
    let after = mutated(LWS, Some(&ordered), &back, &cluster);
    assert_eq!(stamp(&after)["revision"]["order"], "Together");
    let told = warnings(&ordered, &after, &cluster).join("\n");
    assert!(told.contains("waits for 4 pods"), "{told}");
    let off = change(|lws| {
        lws["metadata"]["annotations"]["muster.dev/gang-mode"] = json!("Off");
        lws["spec"]["leaderWorkerTemplate"]["size"] = json!(3);
    });
    let after = mutated(LWS, Some(&old), &off, &cluster);
    let meta = &templates(&after)["workerTemplate"]["metadata"];
    assert!(meta["labels"]["muster.dev/gang"].is_null(), "{meta}");
    let told = warnings(&old, &after, &cluster).join("\n");
    assert!(!told.contains("without a gang"), "{told}");
    // With the gangs gone, the choice of their scheduler can go too.
    let mut bare = after.clone();
    let annotations = bare["metadata"]["annotations"].as_object_mut().unwrap();
    annotations.remove("muster.dev/scheduler");
    assert_eq!(mutated(LWS, Some(&after), &bare, &cluster), bare);
    let typo = change(|lws| lws["metadata"]["annotations"]["muster.dev/timeoutt"] = json!("3s"));
    assert_eq!(refusal(&old, &typo, &cluster).lines().count(), 1);
    let timeout = change(|lws| {
        lws["metadata"]["annotations"]["muster.dev/timeout"] = json!("5m");
    });
    warnings(&old, &timeout, &cluster);
}

#[test]
fn what_an_earlier_stamp_told_the_scheduler_is_taken_back() {
    let cluster = Snapshot::assumed(SchedulerKind::YUNIKORN, Dialect::V1_37);
    let mut first = manifest();
    first["metadata"]["annotations"]["muster.dev/queue"] = json!("root.research");
    let old = mutated(LWS, None, &first, &cluster);
    let mut new = old.clone();
    let annotations = new["metadata"]["annotations"].as_object_mut().unwrap();
    annotations.remove("muster.dev/queue");
    new["spec"]["leaderWorkerTemplate"]["size"] = json!(6);
    let queue = |lws: &Value| {
        let labels = &templates(lws)["workerTemplate"]["metadata"]["labels"];
        labels["yunikorn.apache.org/queue"].clone()
    };
    assert_eq!(queue(&new), "root.research");
    let after = mutated(LWS, Some(&old), &new, &cluster);
    assert_eq!(queue(&after), Value::Null);
    // KAI's own mark is wanted now as it was before.
    let cluster = Snapshot::assumed(SchedulerKind::KAI, Dialect::V1_37);
    let old = stored(&cluster);
    let mut new = old.clone();
    new["spec"]["leaderWorkerTemplate"]["size"] = json!(6);
    let after = mutated(LWS, Some(&old), &new, &cluster);
    let kept = &templates(&after)["workerTemplate"]["metadata"]["annotations"];
    assert_eq!(kept["kai.scheduler/skip-podgrouper"], "true");
    warnings(&old, &after, &cluster);
}

#[test]
fn a_scheduler_name_that_muster_wrote_does_not_bind_the_next_template() {
    let name = |lws: &Value| templates(lws)["workerTemplate"]["spec"]["schedulerName"].clone();
    let volcano = Snapshot::assumed(SchedulerKind::VOLCANO, Dialect::V1_37);
    // As `kubectl apply` leaves it: the manifest names no scheduler, and the stored object does.
    let moved = |old: &Value, key: &str, value: &str| {
        let mut new = old.clone();
        new["metadata"]["annotations"][key] = json!(value);
        new["spec"]["leaderWorkerTemplate"]["size"] = json!(6);
        new
    };
    let old = stored(&volcano);
    assert_eq!(name(&old), "volcano");
    for (scheduler, expected) in [
        (
            SchedulerKind::COSCHEDULING,
            json!("scheduler-plugins-scheduler"),
        ),
        (SchedulerKind::NATIVE, Value::Null),
    ] {
        let cluster = Snapshot::assumed(scheduler, Dialect::V1_37);
        let new = moved(&old, "muster.dev/scheduler", scheduler.as_str());
        let after = mutated(LWS, Some(&old), &new, &cluster);
        assert_eq!(name(&after), expected);
        assert_eq!(stamp(&after)["scheduler"], scheduler.as_str());
        warnings(&old, &after, &cluster);
    }
    let off = moved(&old, "muster.dev/gang-mode", "Off");
    let after = mutated(LWS, Some(&old), &off, &volcano);
    assert_eq!(name(&after), Value::Null);
    let told = warnings(&old, &after, &volcano).join("\n");
    assert!(told.contains("\"volcano\" was written by Muster"), "{told}");
    // The user's own word does.
    let mut own = manifest();
    for template in ["leaderTemplate", "workerTemplate"] {
        let template = &mut own["spec"]["leaderWorkerTemplate"][template];
        if !template.is_null() {
            template["spec"]["schedulerName"] = json!("volcano");
        }
    }
    let old = mutated(LWS, None, &own, &volcano);
    let after = mutated(
        LWS,
        Some(&old),
        &moved(&old, "muster.dev/gang-mode", "Off"),
        &volcano,
    );
    assert_eq!(name(&after), "volcano");
}

#[test]
fn by_configuration_all_are_ganged_but_those_that_say_off() {
    let cluster = Snapshot {
        ganged_unasked: vec!["LeaderWorkerSet"],
        ..cluster()
    };
    let mut plain = manifest();
    plain["metadata"]["annotations"] = json!({});
    let stored = mutated(LWS, None, &plain, &cluster);
    let asked = &stored["metadata"]["annotations"]["muster.dev/gang-mode"];
    assert_eq!(
        (asked, &stamp(&stored)["size"]),
        (&json!("ReplicatedGang"), &json!(4))
    );
    let mut off = manifest();
    off["metadata"]["annotations"] = json!({"muster.dev/gang-mode": "Off"});
    assert_eq!(mutated(LWS, None, &off, &cluster), off);
    // LeaderWorkerSet's own gangs, and one that was there before the configuration.
    let mut own = plain.clone();
    own["spec"]["scheduling"] = json!({});
    assert_eq!(mutated(LWS, None, &own, &cluster), own);
    let told = match decide(Phase::Validate, LWS, None, &own, &cluster) {
        Decision::Allow { warnings, .. } => warnings.join("\n"),
        other => panic!("{other:?}"),
    };
    assert!(told.contains("leaves it alone"), "{told}");
    let mut scaled = plain.clone();
    scaled["spec"]["replicas"] = json!(9);
    assert_eq!(mutated(LWS, Some(&plain), &scaled, &cluster), scaled);
    // The user's manifest says nothing of gangs, and replaces what Muster has written.
    let after = mutated(LWS, Some(&stored), &scaled, &cluster);
    assert_eq!(templates(&after), templates(&stored));
    assert_eq!(
        after["metadata"]["annotations"],
        stored["metadata"]["annotations"]
    );
    warnings(&stored, &after, &cluster);
}

fn replica(index: u64) -> ReplicaRef<'static> {
    ReplicaRef {
        namespace: "ml",
        name: "serve",
        index,
        revision: "7f9c",
    }
}

/// A leader as two webhook calls leave it, with LeaderWorkerSet's webhook between them.
fn leader(lws: &Value, index: u64, request: &str, cluster: &Snapshot) -> Value {
    let mut raw = children::leader(lws, replica(index));
    let labels = raw["metadata"]["labels"].as_object_mut().unwrap();
    let group = labels
        .remove("leaderworkerset.sigs.k8s.io/group-index")
        .unwrap();
    let call = |pod: &Value| {
        let decision = decide_request(request, Phase::Mutate, &pods::KIND, None, pod, cluster);
        applied(decision, pod)
    };
    let mut keyed = call(&raw);
    assert!(keyed["metadata"]["labels"]["muster.dev/index"].is_null());
    keyed["metadata"]["labels"]["leaderworkerset.sigs.k8s.io/group-index"] = group;
    let linked = call(&keyed);
    assert_eq!(
        linked["metadata"]["labels"][KEY],
        keyed["metadata"]["labels"][KEY]
    );
    assert_eq!(call(&linked), linked);
    let decision = decide(Phase::Validate, &pods::KIND, None, &linked, cluster);
    assert!(matches!(decision, Decision::Allow { .. }), "{decision:?}");
    linked
}

fn link(pod: &Value) -> &Value {
    &pod["spec"]["schedulingGroup"]["podGroupName"]
}

#[test]
fn each_life_of_a_replica_is_a_gang_of_its_own() {
    let cluster = cluster();
    let lws = stored(&cluster);
    let first = leader(&lws, 0, "a", &cluster);
    let again = leader(&lws, 0, "b", &cluster);
    let other = leader(&lws, 1, "a", &cluster);
    assert_ne!(link(&first), link(&again));
    assert_ne!(link(&first), link(&other));
    let worker = children::worker(&lws, replica(0), &first, 2);
    let worker = mutated(&pods::KIND, None, &worker, &cluster);
    assert_eq!(link(&worker), link(&first));
}

#[test]
fn a_key_that_is_there_is_kept_and_a_drawn_one_is_left_to_lws() {
    let cluster = cluster();
    let lws = stored(&cluster);
    let mut pod = children::leader(&lws, replica(0));
    pod["metadata"]["labels"][KEY] = json!("theirs");
    let kept = mutated(&pods::KIND, None, &pod, &cluster);
    assert_eq!(kept["metadata"]["labels"][KEY], "theirs");
    // Groups that have keys in the place of numbers (KEP-898).
    let mut hashed = children::leader(&lws, replica(0));
    hashed["metadata"]["annotations"]["leaderworkerset.sigs.k8s.io/group-identity"] = json!("Hash");
    assert_eq!(mutated(&pods::KIND, None, &hashed, &cluster), hashed);
    let key = "c0ffee".repeat(6);
    hashed["metadata"]["labels"][KEY] = json!(key);
    hashed["metadata"]["labels"]["leaderworkerset.sigs.k8s.io/group-index"] = json!(key);
    let linked = mutated(&pods::KIND, None, &hashed, &cluster);
    assert!(
        link(&linked)
            .as_str()
            .unwrap()
            .starts_with("serve-replica-7f9c-")
    );
}

#[test]
fn muster_leaves_a_pod_alone_where_lws_makes_the_gang() {
    let cluster = Snapshot::assumed(SchedulerKind::VOLCANO, Dialect::V1_37);
    let lws = stored(&cluster);
    let mut pod = children::leader(&lws, replica(0));
    pod["metadata"]["labels"][KEY] = json!("theirs");
    pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = json!("serve-0-7f9c");
    for phase in [Phase::Mutate, Phase::Validate] {
        let decision = decide(phase, &pods::KIND, None, &pod, &cluster);
        let Decision::Allow { patch, warnings } = decision else {
            panic!("{decision:?}");
        };
        assert!(patch.0.is_empty());
        assert!(warnings[0].contains("leaves it alone"), "{warnings:?}");
    }
    let mut other = pod.clone();
    other["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = json!("mine");
    let refused = decide(Phase::Mutate, &pods::KIND, None, &other, &cluster);
    assert!(matches!(refused, Decision::Deny { .. }), "{refused:?}");
    // On another scheduler its link means nothing, and the pod would start alone.
    let stamp = &mut pod["metadata"]["annotations"]["muster.dev/stamp"];
    *stamp = json!(stamp.as_str().unwrap().replace("volcano", "koordinator"));
    let refused = decide(Phase::Mutate, &pods::KIND, None, &pod, &cluster);
    assert!(matches!(refused, Decision::Deny { .. }), "{refused:?}");
}

#[test]
fn a_pod_that_lws_has_not_seen_does_not_get_past_the_second_phase() {
    let cluster = cluster();
    let mut pod = children::leader(&stored(&cluster), replica(0));
    let labels = pod["metadata"]["labels"].as_object_mut().unwrap();
    labels.remove("leaderworkerset.sigs.k8s.io/group-index");
    let Decision::Deny { errors, .. } = decide(Phase::Validate, &pods::KIND, None, &pod, &cluster)
    else {
        panic!("allowed");
    };
    assert_eq!(errors.len(), 2, "{errors:?}");
}

fn seen(pod: &Value, phase: &str) -> SeenPod {
    let mut pod = pod.clone();
    pod["metadata"]["uid"] = pod["metadata"]["name"].clone();
    pod["status"] = json!({"phase": phase});
    let pod: WatchedPod = serde_json::from_value(pod).unwrap();
    observe::read(&pod, &Seals::fixed()).unwrap()
}

fn reconcile(lws: &Value, pods: &[SeenPod], made: &[DynamicObject], cluster: &Snapshot) -> Actions {
    common::seen::decide(LWS, lws, pods, made, cluster)
}

#[test]
fn objects_follow_the_leaders_that_live_each_by_its_own_stamp() {
    let cluster = Snapshot::assumed(SchedulerKind::VOLCANO, Dialect::V1_37);
    let mut old = stored(&cluster);
    old["metadata"]["uid"] = json!("4d1c");
    let first = leader(&old, 0, "a", &cluster);
    let actions = reconcile(&old, &[seen(&first, "Pending")], &[], &cluster);
    let [group] = &actions.apply[..] else {
        panic!("{actions:?}");
    };
    assert_eq!(group.data["spec"]["minMember"], 4);
    let owner = &group.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!(
        (owner.kind.as_str(), owner.uid.as_str()),
        ("LeaderWorkerSet", "4d1c")
    );
    assert_eq!(actions.gangs[0].state, State::Waiting);

    // A new revision of another size, and the old replica beside it.
    let mut new = old.clone();
    new["spec"]["leaderWorkerTemplate"]["size"] = json!(6);
    let new = mutated(LWS, Some(&old), &new, &cluster);
    let second = leader(&new, 1, "b", &cluster);
    let pods = [seen(&first, "Pending"), seen(&second, "Pending")];
    let made = actions.apply;
    let actions = reconcile(&new, &pods, &made, &cluster);
    let sizes: Vec<&Value> = actions
        .apply
        .iter()
        .map(|o| &o.data["spec"]["minMember"])
        .collect();
    assert_eq!(sizes, [6], "the first is settled");
    assert!(actions.delete.is_empty());

    // The first replica's leader is gone, a worker of it is not; then that is gone too.
    let worker = children::worker(&old, replica(0), &first, 1);
    let worker = mutated(&pods::KIND, None, &worker, &cluster);
    let left = [seen(&worker, "Pending"), seen(&second, "Pending")];
    assert!(reconcile(&new, &left, &made, &cluster).delete.is_empty());
    let actions = reconcile(&new, &left[1..], &made, &cluster);
    assert_eq!(actions.delete.len(), 1);
}

#[test]
fn workers_that_come_later_are_a_gang_beside_their_leader() {
    let cluster = Snapshot::assumed(SchedulerKind::VOLCANO, Dialect::V1_37);
    let mut lws = manifest();
    lws["spec"]["startupPolicy"] = json!("LeaderReady");
    let lws = mutated(LWS, None, &lws, &cluster);
    let first = leader(&lws, 0, "a", &cluster);
    let actions = reconcile(&lws, &[seen(&first, "Pending")], &[], &cluster);
    let specs: Vec<&Value> = actions.apply.iter().map(|o| &o.data["spec"]).collect();
    // The leader only where the whole replica fits.
    let whole = json!({"cpu": "2", "nvidia.com/gpu": "24"});
    assert_eq!(*specs[0], json!({"minMember": 1, "minResources": whole}));
    let workers = json!({"nvidia.com/gpu": "24"});
    assert_eq!(*specs[1], json!({"minMember": 3, "minResources": workers}));
    let link = |pod: &Value| pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"].clone();
    let worker = children::worker(&lws, replica(0), &first, 1);
    let worker = mutated(&pods::KIND, None, &worker, &cluster);
    let names: Vec<Value> = actions
        .apply
        .iter()
        .map(|o| json!(o.metadata.name))
        .collect();
    assert_eq!([link(&first), link(&worker)], names[..]);
    // Once the leader is on a node, the room is its workers' own to ask for.
    let mut placed = first.clone();
    placed["spec"]["nodeName"] = json!("node");
    let actions = reconcile(&lws, &[seen(&placed, "Running")], &actions.apply, &cluster);
    let [leader] = &actions.apply[..] else {
        panic!("{actions:?}");
    };
    let own = json!({"minMember": 1, "minResources": {"cpu": "2"}});
    assert_eq!(leader.data["spec"], own);
}
