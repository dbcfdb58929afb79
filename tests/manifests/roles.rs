//! What Muster may do in a cluster, and what not.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{list, object, words};

fn rules(kind: &str) -> Vec<Value> {
    list(&object(kind)["rules"])
}

#[test]
fn no_permission_is_given_by_wildcard() {
    for rule in [rules("ClusterRole"), rules("Role")].concat() {
        for field in ["apiGroups", "resources", "verbs"] {
            assert!(!words(&rule[field]).is_empty(), "{rule}");
            let wild = words(&rule[field]).iter().any(|word| word.contains('*'));
            assert!(!wild, "{rule}");
        }
    }
}

#[test]
fn no_secret_but_its_own_can_be_read_or_changed() {
    for rule in rules("ClusterRole") {
        assert!(!words(&rule["resources"]).contains(&"secrets".to_owned()));
    }
    for rule in rules("Role") {
        let secrets = words(&rule["resources"]).contains(&"secrets".to_owned());
        let create_only = words(&rule["verbs"]) == ["create"];
        if secrets && !create_only {
            assert_eq!(words(&rule["resourceNames"]), ["muster-ca"]);
        }
    }
}

#[test]
fn only_its_own_webhooks_and_two_crds_are_open_to_it() {
    let named = [
        "mutatingwebhookconfigurations",
        "validatingwebhookconfigurations",
        "customresourcedefinitions",
    ];
    let mut seen = BTreeSet::new();
    for rule in rules("ClusterRole") {
        for resource in words(&rule["resources"]) {
            if named.contains(&resource.as_str()) {
                seen.insert(words(&rule["resourceNames"]).join(","));
            }
        }
    }
    let names = [
        "jobsets.jobset.x-k8s.io,podgroups.scheduling.volcano.sh",
        "muster-mutating,group-keys.muster.dev",
        "muster-validating",
    ];
    assert_eq!(seen, names.map(String::from).into());
}

/// Group, resource, and what the code does with it.
const TOUCHED: &[(&str, &str, &[&str])] = &[
    (
        "jobset.x-k8s.io",
        "jobsets",
        &["get", "list", "watch", "patch"],
    ),
    (
        "leaderworkerset.x-k8s.io",
        "leaderworkersets",
        &["get", "list", "watch"],
    ),
    (
        "leaderworkerset.x-k8s.io",
        "leaderworkersets/status",
        &["patch"],
    ),
    ("batch", "jobs", &["get", "list", "watch"]),
    ("", "pods", &["get", "list", "watch"]),
    ("", "namespaces", &["get", "list", "watch"]),
    ("", "nodes", &["list", "watch"]),
    ("events.k8s.io", "events", &["create", "patch"]),
    ("scheduling.k8s.io", "workloads", OBJECT),
    ("scheduling.k8s.io", "podgroups", OBJECT),
    ("scheduling.k8s.io", "compositepodgroups", OBJECT),
    ("scheduling.volcano.sh", "podgroups", OBJECT),
    ("scheduling.x-k8s.io", "podgroups", OBJECT),
    ("scheduling.sigs.k8s.io", "podgroups", OBJECT),
    ("scheduling.run.ai", "podgroups", OBJECT),
    ("scheduling.volcano.sh", "queues", &["get"]),
    ("scheduling.run.ai", "queues", &["get"]),
    (
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        &["get"],
    ),
    (
        "admissionregistration.k8s.io",
        "mutatingwebhookconfigurations",
        &["get", "list", "watch", "patch"],
    ),
    (
        "admissionregistration.k8s.io",
        "validatingwebhookconfigurations",
        &["get", "list", "watch", "patch"],
    ),
    (
        "coordination.k8s.io",
        "leases",
        &["get", "create", "update"],
    ),
    ("", "secrets", &["get", "create", "update"]),
];

const OBJECT: &[&str] = &["get", "list", "watch", "create", "patch", "delete"];

#[test]
fn everything_that_the_code_touches_is_allowed() {
    let rules = [rules("ClusterRole"), rules("Role")].concat();
    for (group, resource, verbs) in TOUCHED {
        for verb in *verbs {
            let allowed = rules.iter().any(|rule| {
                let has = |field: &str, word: &str| words(&rule[field]).contains(&word.to_owned());
                has("apiGroups", group) && has("resources", resource) && has("verbs", verb)
            });
            assert!(allowed, "{verb} {resource}.{group}");
        }
    }
}
