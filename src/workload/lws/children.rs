//! The pods that LeaderWorkerSet's controller would make, as far as Muster looks at them.
//!
//! For `render` and for tests: the labels that v0.9 writes on StatefulSets' templates, and those of
//! its webhook.

use serde_json::{Map, Value, json};

use super::view::LeaderWorkerSet;
use crate::workload::{Admit, Origin, pods};

/// The leader and the first worker of each replica, as they would be stored.
pub(crate) fn linked(
    lws: &LeaderWorkerSet<'_>,
    stored: &Value,
    of: &Origin<'_>,
    most: usize,
    admit: &mut Admit<'_>,
) -> Vec<Value> {
    let mut linked = Vec::new();
    for index in 0..lws.replicas().min(most as u64) {
        let replica = ReplicaRef {
            namespace: of.namespace,
            name: of.name,
            index,
            revision: STAND_IN_REVISION,
        };
        let Some(leader) = admit(&pods::KIND, self::leader(stored, replica)) else {
            continue;
        };
        let worker = worker(stored, replica, &leader, 1);
        linked.push(leader);
        if lws.size() > 1 {
            linked.extend(admit(&pods::KIND, worker));
        }
    }
    linked
}

use super::replica::{GROUP_INDEX, GROUP_KEY, NAME, REVISION, WORKER_INDEX};

/// Stands for the revision, a hash that LeaderWorkerSet takes of its templates.
const STAND_IN_REVISION: &str = "0000000000";

/// Which replica.
#[derive(Debug, Clone, Copy)]
pub struct ReplicaRef<'a> {
    /// The set's namespace.
    pub namespace: &'a str,
    /// The set's name.
    pub name: &'a str,
    /// The replica's number.
    pub index: u64,
    /// The hash of the templates that it is made from.
    pub revision: &'a str,
}

/// The leader of a replica, without a group key: LeaderWorkerSet keeps one that is there.
pub fn leader(lws: &Value, replica: ReplicaRef<'_>) -> Value {
    let templates = &lws["spec"]["leaderWorkerTemplate"];
    let template = match &templates["leaderTemplate"] {
        Value::Null => &templates["workerTemplate"],
        leader => leader,
    };
    let name = format!("{}-{}", replica.name, replica.index);
    pod(template, &name, replica, &[(WORKER_INDEX, "0")])
}

/// A worker of a replica whose leader is there.
pub fn worker(lws: &Value, replica: ReplicaRef<'_>, leader: &Value, number: u64) -> Value {
    let template = &lws["spec"]["leaderWorkerTemplate"]["workerTemplate"];
    let name = format!("{}-{}-{number}", replica.name, replica.index);
    let key = leader["metadata"]["labels"][GROUP_KEY].as_str();
    let index = number.to_string();
    let labels = [
        (WORKER_INDEX, index.as_str()),
        (GROUP_KEY, key.unwrap_or_default()),
    ];
    pod(template, &name, replica, &labels)
}

fn pod(template: &Value, name: &str, replica: ReplicaRef<'_>, more: &[(&str, &str)]) -> Value {
    let index = replica.index.to_string();
    let theirs = [
        (NAME, replica.name),
        (GROUP_INDEX, &index),
        (REVISION, replica.revision),
    ];
    let labels = template["metadata"]["labels"].as_object().cloned();
    let mut labels: Map<String, Value> = labels.unwrap_or_default();
    for (key, value) in theirs.iter().chain(more) {
        labels.insert((*key).to_owned(), json!(value));
    }
    let mut metadata = json!({
        "name": name,
        "namespace": replica.namespace,
        "labels": labels,
    });
    let annotations = &template["metadata"]["annotations"];
    if !annotations.is_null() {
        metadata["annotations"] = annotations.clone();
    }
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})
}
