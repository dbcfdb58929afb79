//! What the manifests promise to a cluster, read from the files themselves.

use std::collections::BTreeSet;
use std::path::Path;

use muster::cli::yaml;
use muster::server::Config;
use serde_json::{Value, json};

/// Every object under `manifests/base`.
fn base() -> Vec<Value> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests/base");
    let mut objects = Vec::new();
    for name in documents(&dir.join("kustomization.yaml"))[0]["resources"]
        .as_array()
        .unwrap()
    {
        objects.extend(documents(&dir.join(name.as_str().unwrap())));
    }
    objects
}

fn documents(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    let documents = yaml::documents(&text).into_iter();
    documents.map(|document| document.unwrap().value).collect()
}

fn object(kind: &str) -> Value {
    let found = base().into_iter().find(|object| object["kind"] == kind);
    found.unwrap_or_else(|| panic!("no {kind}"))
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

fn words(value: &Value) -> Vec<String> {
    let text = |word: &Value| word.as_str().unwrap().to_owned();
    list(value).iter().map(text).collect()
}

const CONFIGURATIONS: [&str; 2] = [
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
];

fn entries() -> Vec<Value> {
    let configurations = CONFIGURATIONS.map(object);
    let entries = configurations.iter().flat_map(|c| list(&c["webhooks"]));
    entries.collect()
}

#[test]
fn every_file_of_the_base_is_installed() {
    let listed = documents(Path::new("manifests/base/kustomization.yaml"));
    let listed: BTreeSet<String> = words(&listed[0]["resources"]).into_iter().collect();
    let found: BTreeSet<String> = std::fs::read_dir("manifests/base")
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "kustomization.yaml")
        .collect();
    assert_eq!(listed, found);
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
fn only_jobsets_jobs_and_pods_are_intercepted_and_never_a_deletion() {
    let allowed = [
        json!(["jobset.x-k8s.io", "v1alpha2", "jobsets"]),
        json!(["batch", "v1", "jobs"]),
        json!(["", "v1", "pods"]),
    ];
    for entry in entries() {
        for rule in list(&entry["rules"]) {
            let one = |field: &str| match rule[field].as_array().unwrap().as_slice() {
                [one] => one.clone(),
                _ => panic!("one of {field} per rule: {rule}"),
            };
            let kind = json!([one("apiGroups"), one("apiVersions"), one("resources")]);
            assert!(allowed.contains(&kind), "{kind}");
            for operation in words(&rule["operations"]) {
                let update = operation == "UPDATE" && kind[2] != "pods";
                assert!(operation == "CREATE" || update, "{operation} of {kind}");
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
        assert_eq!(entry["matchPolicy"], "Equivalent", "{name}");
        let client = &entry["clientConfig"];
        assert_eq!(client["service"]["port"], 443, "{name}");
        assert!(client.get("caBundle").is_none(), "{name}");
    }
}

#[test]
fn both_configurations_choose_the_same_objects() {
    let [mut mutating, validating] = CONFIGURATIONS.map(|kind| list(&object(kind)["webhooks"]));
    for entry in &mut mutating {
        let entry = entry.as_object_mut().unwrap();
        assert_eq!(entry.remove("reinvocationPolicy"), Some(json!("IfNeeded")));
        entry["clientConfig"]["service"]["path"] = json!("/validate");
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
fn only_its_own_webhooks_and_the_jobset_crd_are_open_to_it() {
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
        "jobsets.jobset.x-k8s.io",
        "muster-mutating",
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
    ("batch", "jobs", &["get", "list", "watch"]),
    ("", "pods", &["get", "list", "watch"]),
    ("", "namespaces", &["get", "list", "watch"]),
    ("events.k8s.io", "events", &["create", "patch"]),
    ("scheduling.k8s.io", "workloads", OBJECT),
    ("scheduling.k8s.io", "podgroups", OBJECT),
    ("scheduling.volcano.sh", "podgroups", OBJECT),
    ("scheduling.x-k8s.io", "podgroups", OBJECT),
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

#[test]
fn pods_are_restricted() {
    let labels = &object("Namespace")["metadata"]["labels"];
    assert_eq!(labels["pod-security.kubernetes.io/enforce"], "restricted");
    let pod = object("Deployment")["spec"]["template"]["spec"].clone();
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    let seccomp = &pod["securityContext"]["seccompProfile"]["type"];
    assert_eq!(seccomp, "RuntimeDefault");
    let container = &pod["containers"][0]["securityContext"];
    assert_eq!(container["allowPrivilegeEscalation"], false);
    assert_eq!(container["readOnlyRootFilesystem"], true);
    assert_eq!(container["capabilities"], json!({"drop": ["ALL"]}));
}

#[test]
fn a_rollout_and_a_drain_leave_a_replica_that_serves() {
    let deployment = object("Deployment");
    let spec = &deployment["spec"];
    assert_eq!(spec["replicas"], 2);
    assert_eq!(spec["strategy"]["rollingUpdate"]["maxUnavailable"], 0);
    assert_eq!(object("PodDisruptionBudget")["spec"]["minAvailable"], 1);
    let config = Config::default();
    let grace = &spec["template"]["spec"]["terminationGracePeriodSeconds"];
    let drain = (config.lame_duck + config.grace).as_secs();
    assert!(grace.as_u64().unwrap() > drain + 5, "{grace}");
}

#[test]
fn the_largest_reviews_fit_the_memory_limit() {
    let deployment = object("Deployment");
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let limit = container["resources"]["limits"]["memory"].as_str().unwrap();
    let limit: usize = limit.strip_suffix("Mi").unwrap().parse().unwrap();
    let env = list(&container["env"]);
    let reviews = env.iter().find(|e| e["name"] == "MUSTER_MAX_IN_FLIGHT");
    let reviews: usize = reviews.unwrap()["value"].as_str().unwrap().parse().unwrap();
    let room = 64;
    assert!(reviews * Config::default().max_body / (1 << 20) + room <= limit);
}

#[test]
fn the_service_leads_to_the_webhook() {
    let (service, deployment) = (object("Service"), object("Deployment"));
    let pod = &deployment["spec"]["template"];
    assert_eq!(service["spec"]["selector"], pod["metadata"]["labels"]);
    let port = &service["spec"]["ports"][0];
    assert_eq!(port["port"], 443);
    let ports = list(&pod["spec"]["containers"][0]["ports"]);
    let target = ports.iter().find(|p| p["name"] == port["targetPort"]);
    assert_eq!(target.unwrap()["containerPort"], 8443);
}
