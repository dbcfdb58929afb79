//! What Muster may do in a cluster, and what not.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::{base, documents, list, words};

/// The rules of all roles of a kind.
fn rules(kind: &str) -> Vec<Value> {
    let roles = base().into_iter().filter(|object| object["kind"] == kind);
    roles.flat_map(|role| list(&role["rules"])).collect()
}

/// With cert-manager Muster needs neither its Secret nor the right to write its configurations, by
/// which whoever holds its pod could have every pod of the cluster sent to it.
#[test]
fn the_cert_manager_overlay_takes_away_what_only_its_own_ca_needs() {
    let manifests = Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests");
    let given = documents(&manifests.join("base/own-ca.yaml"));
    let overlay = documents(&manifests.join("cert-manager/component/kustomization.yaml"));
    let patches = list(&overlay[0]["patches"]).into_iter();
    let deletes = |patch: &Value| {
        patch["patch"]
            .as_str()
            .is_some_and(|p| p.contains("$patch: delete"))
    };
    let taken = patches.filter(deletes).map(|patch| {
        let target = &patch["target"];
        (target["kind"].clone(), target["name"].clone())
    });
    let taken: Vec<(Value, Value)> = taken.collect();
    for object in &given {
        let named = (object["kind"].clone(), object["metadata"]["name"].clone());
        assert!(taken.contains(&named), "{named:?}");
    }
    let own_ca = given.iter().flat_map(|role| list(&role["rules"]));
    let own_ca: Vec<String> = own_ca.map(|rule| rule.to_string()).collect();
    for rule in [rules("ClusterRole"), rules("Role")].concat() {
        let of_ca = [
            "mutatingwebhookconfigurations",
            "validatingwebhookconfigurations",
        ];
        let of_ca = words(&rule["resources"])
            .iter()
            .any(|r| of_ca.contains(&r.as_str()))
            || words(&rule["resourceNames"]).contains(&"muster-ca".to_owned());
        assert!(!of_ca || own_ca.contains(&rule.to_string()), "{rule}");
    }
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
    let mut named = Vec::new();
    for rule in rules("Role") {
        let secrets = words(&rule["resources"]).contains(&"secrets".to_owned());
        let create_only = words(&rule["verbs"]) == ["create"];
        if secrets && !create_only {
            named.extend(words(&rule["resourceNames"]));
            assert_eq!(words(&rule["verbs"]), ["get", "update"]);
        }
    }
    named.sort();
    assert_eq!(named, ["muster-ca", "muster-seal"]);
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
type Used = (&'static str, &'static str, &'static [&'static str]);

const OBJECT: &[&str] = &["get", "list", "watch", "create", "patch", "delete"];

/// In every namespace, or in none.
const EVERYWHERE: &[Used] = &[
    (
        "jobset.x-k8s.io",
        "jobsets",
        &["get", "list", "watch", "patch"],
    ),
    ("jobset.x-k8s.io", "jobsets/status", &["patch"]),
    ("jobset.x-k8s.io", "jobsets/finalizers", &["update"]),
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
    (
        "leaderworkerset.x-k8s.io",
        "leaderworkersets/finalizers",
        &["update"],
    ),
    ("batch", "jobs", &["get", "list", "watch", "patch"]),
    ("batch", "jobs/status", &["patch"]),
    ("batch", "jobs/finalizers", &["update"]),
    ("batch", "cronjobs", &["get"]),
    ("apps", "deployments", &["get"]),
    ("apps", "replicasets", &["get"]),
    ("apps", "statefulsets", &["get"]),
    ("apps", "daemonsets", &["get"]),
    ("apps", "controllerrevisions", &["list"]),
    ("", "replicationcontrollers", &["get"]),
    ("", "pods", &["list", "watch", "patch"]),
    ("", "namespaces", &["list", "watch"]),
    ("", "nodes", &["list", "watch"]),
    ("", "configmaps", OBJECT),
    ("", "events", &["list", "watch"]),
    ("", "persistentvolumeclaims", &["get"]),
    ("events.k8s.io", "events", &["create"]),
    ("kueue.x-k8s.io", "workloads", &["list", "watch"]),
    ("scheduling.k8s.io", "workloads", OBJECT),
    ("scheduling.k8s.io", "podgroups", OBJECT),
    ("scheduling.k8s.io", "compositepodgroups", OBJECT),
    ("scheduling.volcano.sh", "podgroups", OBJECT),
    ("scheduling.x-k8s.io", "podgroups", OBJECT),
    ("scheduling.sigs.k8s.io", "podgroups", OBJECT),
    ("scheduling.run.ai", "podgroups", OBJECT),
    ("scheduling.volcano.sh", "queues", &["list", "watch"]),
    ("scheduling.run.ai", "queues", &["list", "watch"]),
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
];

/// In Muster's own namespace.
const AT_HOME: &[Used] = &[
    (
        "coordination.k8s.io",
        "leases",
        &["get", "create", "update"],
    ),
    ("", "secrets", &["get", "create", "update"]),
    ("", "pods", &["get"]),
];

/// A verb on a resource of a group.
type Right = (String, String, String);

fn given(kind: &str) -> BTreeSet<Right> {
    let mut rights = BTreeSet::new();
    for rule in rules(kind) {
        for group in words(&rule["apiGroups"]) {
            for resource in words(&rule["resources"]) {
                for verb in words(&rule["verbs"]) {
                    rights.insert((group.clone(), resource.clone(), verb));
                }
            }
        }
    }
    rights
}

/// A right that nothing uses is as wrong as one that is missing: whoever steals the account has it too.
#[test]
fn what_the_code_touches_is_allowed_and_nothing_else() {
    for (kind, used) in [("ClusterRole", EVERYWHERE), ("Role", AT_HOME)] {
        let used = used.iter().flat_map(|(group, resource, verbs)| {
            let right = |verb: &&str| (group.to_string(), resource.to_string(), verb.to_string());
            verbs.iter().map(right)
        });
        let used: BTreeSet<Right> = used.collect();
        let given = given(kind);
        let missing: Vec<&Right> = used.difference(&given).collect();
        let unused: Vec<&Right> = given.difference(&used).collect();
        assert!(
            missing.is_empty() && unused.is_empty(),
            "{kind}: missing {missing:?}, unused {unused:?}"
        );
    }
}
