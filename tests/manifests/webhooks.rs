//! Who calls Muster, and who is spared.

use serde_json::{Value, json};

use crate::{base, list, object, words};
use muster::certs::keeper::GROUP_KEYS;
use muster::workload::keys;
use muster::workload::lws::{GROUP_KEY, WORKER_INDEX};

const CONFIGURATIONS: [&str; 2] = [
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
];

fn entries() -> Vec<Value> {
    let mut configurations = base();
    configurations.retain(|object| CONFIGURATIONS.iter().any(|kind| object["kind"] == *kind));
    assert_eq!(configurations.len(), 3);
    let entries = configurations.iter().flat_map(|c| list(&c["webhooks"]));
    entries.collect()
}

/// LeaderWorkerSet's own webhook keeps a group key that is there already.
#[test]
fn leaders_get_their_key_before_the_webhook_of_lws_and_nobody_else_is_asked() {
    let mut configurations = base();
    configurations.retain(|object| object["metadata"]["name"] == GROUP_KEYS);
    let [keys] = &configurations[..] else {
        panic!("{configurations:?}");
    };
    assert!(GROUP_KEYS < "lws-mutating-webhook-configuration");
    let [entry] = &list(&keys["webhooks"])[..] else {
        panic!("one entry");
    };
    let selector = list(&entry["objectSelector"]["matchExpressions"]);
    for (key, operator) in [
        (keys::GANG, "Exists"),
        (WORKER_INDEX, "In"),
        (GROUP_KEY, "DoesNotExist"),
    ] {
        let found = selector.iter().find(|rule| rule["key"] == key);
        assert_eq!(found.unwrap()["operator"], operator, "{key}");
    }
}

#[test]
fn webhooks_are_called_after_those_of_jobset_kueue_and_lws() {
    for kind in CONFIGURATIONS {
        let configuration = object(kind);
        let name = configuration["metadata"]["name"].as_str().unwrap();
        for other in ["jobset-", "kueue-", "lws-"] {
            assert!(name > format!("{other}~").as_str(), "{name} and {other}");
        }
    }
}

#[test]
fn only_workloads_makers_and_pods_are_intercepted_and_never_a_deletion() {
    let allowed = [
        json!(["jobset.x-k8s.io", "v1alpha2", "jobsets"]),
        json!(["leaderworkerset.x-k8s.io", "v1", "leaderworkersets"]),
        json!(["batch", "v1", "jobs"]),
        json!(["batch", "v1", "cronjobs"]),
        json!(["apps", "v1", "deployments"]),
        json!(["apps", "v1", "statefulsets"]),
        json!(["apps", "v1", "replicasets"]),
        json!(["apps", "v1", "daemonsets"]),
        json!(["", "v1", "replicationcontrollers"]),
        json!(["", "v1", "pods"]),
    ];
    for entry in entries() {
        for rule in list(&entry["rules"]) {
            let one = |field: &str| match rule[field].as_array().unwrap().as_slice() {
                [one] => one.clone(),
                _ => panic!("one of {field} per rule: {rule}"),
            };
            for resource in words(&rule["resources"]) {
                let kind = json!([one("apiGroups"), one("apiVersions"), resource]);
                assert!(allowed.contains(&kind), "{kind}");
                for operation in words(&rule["operations"]) {
                    let update = operation == "UPDATE" && kind[2] != "pods";
                    assert!(operation == "CREATE" || update, "{operation} of {kind}");
                }
            }
        }
    }
}

#[test]
fn every_entry_is_for_gangs_only() {
    for entry in entries() {
        let name = &entry["name"];
        let stamped = json!({"key": "muster.dev/gang", "operator": "Exists"});
        let by_label = list(&entry["objectSelector"]["matchExpressions"]).contains(&stamped);
        let by_condition = list(&entry["matchConditions"])
            .iter()
            .any(|condition| condition["expression"].to_string().contains("muster.dev/"));
        assert!(by_label || by_condition, "{name} sees all objects");
    }
}

#[test]
fn an_update_of_what_is_being_deleted_is_not_intercepted() {
    for entry in entries() {
        let updates = words(&entry["rules"][0]["operations"]).contains(&"UPDATE".to_owned());
        let guarded = list(&entry["matchConditions"])
            .iter()
            .any(|condition| condition["expression"] == "!has(object.metadata.deletionTimestamp)");
        assert_eq!(updates, guarded, "{}", entry["name"]);
    }
}

#[test]
fn an_outage_refuses_gangs_and_spares_the_system() {
    let spared = json!({"matchExpressions": [{
        "key": "kubernetes.io/metadata.name",
        "operator": "NotIn",
        "values": ["kube-system", "muster-system"],
    }]});
    for entry in entries() {
        let name = &entry["name"];
        assert_eq!(entry["namespaceSelector"], spared, "{name}");
        assert_eq!(entry["failurePolicy"], "Fail", "{name}");
        assert_eq!(entry["sideEffects"], "None", "{name}");
        assert_eq!(entry["timeoutSeconds"], 5, "{name}");
        // Muster's own word comes before the apiserver gives up.
        let deadline = muster::server::Config::default().review_deadline;
        assert!(deadline < std::time::Duration::from_secs(5));
        assert_eq!(entry["matchPolicy"], "Equivalent", "{name}");
        let client = &entry["clientConfig"];
        assert_eq!(client["service"]["port"], 443, "{name}");
        assert!(client.get("caBundle").is_none(), "{name}");
    }
}

#[test]
fn both_configurations_choose_the_same_objects() {
    let [mut mutating, mut validating] = CONFIGURATIONS.map(|kind| list(&object(kind)["webhooks"]));
    // What makes others is checked, and nothing is written on it.
    let makers = validating.pop().unwrap();
    assert_eq!(makers["name"], "makers.muster.dev");
    // But for how the revisions of a Deployment are gangs, which is checked with the makers.
    let deployments = mutating.pop().unwrap();
    assert_eq!(deployments["name"], "deployments.muster.dev");
    for (at, entry) in mutating.iter_mut().enumerate() {
        let entry = entry.as_object_mut().unwrap();
        assert_eq!(entry.remove("reinvocationPolicy"), Some(json!("IfNeeded")));
        entry["clientConfig"]["service"]["path"] = json!("/validate");
        if entry["name"] == "waiting-pods.muster.dev" {
            // Those that `stamped-pods` does not choose, which are others in each.
            let (is, other) = (entry.remove("matchConditions"), &mut validating[at]);
            let other = other.as_object_mut().unwrap().remove("matchConditions");
            for conditions in [is, other] {
                assert_eq!(conditions.unwrap()[0]["name"], "once");
            }
        }
        if entry["name"] == "stamped-pods.muster.dev" {
            // A linked pod needs no link; that its link is intact is checked for all.
            let selector = entry["objectSelector"]["matchExpressions"].as_array_mut();
            let linked = selector.unwrap().pop().unwrap();
            assert_eq!(
                linked,
                json!({"key": "muster.dev/index", "operator": "DoesNotExist"})
            );
        }
    }
    assert_eq!(mutating, validating);
}

/// The podgrouper of KAI rewrites the link of pods that have an owner.
#[test]
fn the_policy_keeps_the_link_that_kai_reads_and_looks_at_members_only() {
    let policy = object("ValidatingAdmissionPolicy");
    let matched = &policy["spec"]["matchConstraints"];
    assert_eq!(
        matched["objectSelector"]["matchExpressions"],
        json!([{"key": keys::GANG, "operator": "Exists"}])
    );
    assert_eq!(
        words(&matched["resourceRules"][0]["operations"]),
        ["UPDATE"]
    );
    let kept = policy["spec"]["validations"][0]["expression"].as_str();
    let mut links = muster::scheduler::links();
    let link = links.find(|link| link.scheduler == muster::gang::SchedulerKind::KAI);
    let key = link.unwrap().key;
    let kept = kept.unwrap().matches(&format!("'{key}'")).count();
    assert_eq!(kept, 3, "{key}");
    let binding = object("ValidatingAdmissionPolicyBinding");
    assert_eq!(binding["spec"]["policyName"], policy["metadata"]["name"]);
    assert_eq!(words(&binding["spec"]["validationActions"]), ["Deny"]);
}
