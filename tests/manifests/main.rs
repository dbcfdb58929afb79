//! What the manifests promise to a cluster, read from the files themselves.

mod monitoring;
mod policies;
mod roles;
#[path = "../support/mod.rs"]
mod support;
mod webhooks;

use std::collections::BTreeSet;
use std::path::Path;

use muster::barrier::port::MAX_WAITING;
use muster::cli::yaml;
use muster::server::{Config, LARGE_AT_ONCE};
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
fn the_replicas_of_one_version_are_spread_over_nodes() {
    let deployment = object("Deployment");
    let spread = list(&deployment["spec"]["template"]["spec"]["topologySpreadConstraints"]);
    let [spread] = &spread[..] else {
        panic!("{spread:?}");
    };
    assert_eq!(spread["topologyKey"], "kubernetes.io/hostname");
    assert_eq!(spread["matchLabelKeys"], json!(["pod-template-hash"]));
}

/// One late answer takes no replica out of the Service; a replica that stops for a fault is out of it
/// while it still serves.
#[test]
fn a_replica_is_unready_after_several_answers_and_before_it_ends() {
    let deployment = object("Deployment");
    let probe = &deployment["spec"]["template"]["spec"]["containers"][0]["readinessProbe"];
    let number = |field: &str| probe[field].as_u64().unwrap();
    assert!(number("failureThreshold") > 1);
    // The first one may have passed just before.
    let unready = number("periodSeconds") * (number("failureThreshold") + 1);
    assert!(unready < Config::default().lame_duck.as_secs(), "{unready}");
}

/// OpenShift's `restricted-v2` refuses a pod that names its user. The image has one, and kubelet sees that
/// it is not root only if that is a number.
#[test]
fn pods_of_muster_run_as_whichever_user_the_cluster_gives_them() {
    fn look_at(dir: &Path, seen: &mut usize) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                look_at(&path, seen);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            for field in ["runAsUser", "runAsGroup", "fsGroup"] {
                assert!(!text.contains(field), "{}: {field}", path.display());
            }
            *seen += 1;
        }
    }
    let mut seen = 0;
    look_at(Path::new("manifests"), &mut seen);
    assert!(seen > 40, "only {seen} files");
    let dockerfile = std::fs::read_to_string("Dockerfile").unwrap();
    let user = dockerfile
        .lines()
        .find_map(|line| line.strip_prefix("USER "));
    let (user, group) = user.unwrap().split_once(':').unwrap();
    for id in [user, group] {
        assert!(id.parse::<u32>().unwrap() > 0, "{id}");
    }
}

#[test]
fn a_rollout_and_a_drain_leave_a_replica_that_serves() {
    let deployment = object("Deployment");
    let spec = &deployment["spec"];
    assert_eq!(spec["replicas"], 2);
    assert_eq!(spec["strategy"]["rollingUpdate"]["maxUnavailable"], 0);
    let budget = &object("PodDisruptionBudget")["spec"];
    assert_eq!(budget["minAvailable"], 1);
    // Replicas that are not ready serve nobody, and their nodes can be drained.
    assert_eq!(budget["unhealthyPodEvictionPolicy"], "AlwaysAllow");
    let config = Config::default();
    let grace = &spec["template"]["spec"]["terminationGracePeriodSeconds"];
    let drain = (config.lame_duck + config.grace).as_secs();
    assert!(grace.as_u64().unwrap() > drain + 5, "{grace}");
}

#[test]
fn the_largest_reviews_and_a_crowd_at_start_barriers_fit_the_memory_limit() {
    let deployment = object("Deployment");
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let limit = container["resources"]["limits"]["memory"].as_str().unwrap();
    let limit: usize = limit.strip_suffix("Mi").unwrap().parse().unwrap();
    let env = list(&container["env"]);
    assert!(env.iter().all(|e| e["name"] != "MUSTER_MAX_IN_FLIGHT"));
    let config = Config::default();
    // What one of the largest may cost while it is decided.
    let decided = 200;
    let room = 64;
    let bodies = config.body_budget / (1 << 20);
    // In KiB: by `just bench-barrier`; what one that means harm needs more, and what it sends and
    // nobody reads. Several peers may share all places.
    let (waiting, harmful, unread) = (6, 4, 8);
    let barriers = MAX_WAITING * (waiting + harmful + unread) / 1024;
    let worst = bodies + LARGE_AT_ONCE * decided + barriers + room;
    assert!(worst <= limit, "{worst} MiB");
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
