//! Fixtures as an apiserver takes them: they leave out what no rule of Muster's reads.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::common::{documents, files};

/// An object of a fixture, and on an update the stored one before it.
pub struct Case {
    /// The fixture, and which of its objects.
    pub name: String,
    pub user: String,
    pub old: Option<Value>,
    pub new: Value,
}

impl Case {
    /// A namespace for the stored object of an update: all are called the same.
    pub fn namespace(&self) -> String {
        match &self.old {
            Some(_) => self.name.clone(),
            None => self.new["metadata"]["namespace"]
                .as_str()
                .unwrap_or("default")
                .to_owned(),
        }
    }
}

/// The kinds that policies look at. A gang that pods declare is no object.
const KINDS: [&str; 9] = [
    "JobSet",
    "LeaderWorkerSet",
    "Job",
    "Deployment",
    "StatefulSet",
    "ReplicaSet",
    "DaemonSet",
    "ReplicationController",
    "CronJob",
];

fn is_looked_at(object: &Value) -> bool {
    object["kind"]
        .as_str()
        .is_some_and(|kind| KINDS.contains(&kind))
}

/// Every object that is created, and every update.
pub fn cases() -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for folder in ["rules", "seeds"] {
        for (name, text) in files(folder) {
            for (i, new) in documents(&text).into_iter().enumerate() {
                cases.push(Case {
                    name: format!("{name}-{i}"),
                    user: "alice".to_owned(),
                    old: None,
                    new,
                });
            }
        }
    }
    for (name, text) in files("updates") {
        let user = text.lines().find_map(|line| line.strip_prefix("# user: "));
        let [old, new]: [Value; 2] = documents(&text)
            .try_into()
            .map_err(|_| anyhow::anyhow!("{name} is no update"))?;
        cases.push(Case {
            name,
            user: user.context("nobody sends it")?.to_owned(),
            old: Some(old),
            new,
        });
    }
    cases.retain(|case| is_looked_at(&case.new));
    Ok(cases)
}

/// The same object with what Kubernetes itself requires.
pub fn complete(object: &Value, namespace: &str) -> Value {
    let mut object = object.clone();
    object["metadata"]["namespace"] = json!(namespace);
    for given in ["uid", "resourceVersion", "creationTimestamp"] {
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove(given);
        }
    }
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    match kind.as_str() {
        "JobSet" => {
            let groups = object["spec"]["replicatedJobs"].as_array_mut();
            for group in groups.into_iter().flatten() {
                run_once(group.pointer_mut("/template/spec/template"));
            }
        }
        "LeaderWorkerSet" => {
            for template in ["leaderTemplate", "workerTemplate"] {
                let at = format!("/spec/leaderWorkerTemplate/{template}");
                run(object.pointer_mut(&at));
            }
        }
        "Job" => {
            run_once(object.pointer_mut("/spec/template"));
            // Only the completions of such a Job may change.
            let spec = &mut object["spec"];
            if spec["completions"].is_number() && spec["completionMode"].is_null() {
                spec["completionMode"] = json!("Indexed");
            }
        }
        "CronJob" => {
            run_once(object.pointer_mut("/spec/jobTemplate/spec/template"));
            let schedule = &mut object["spec"]["schedule"];
            if schedule.is_null() {
                *schedule = json!("0 3 1 1 *");
            }
        }
        _ => {
            run(object.pointer_mut("/spec/template"));
            select(&mut object["spec"]);
        }
    }
    object
}

/// The pods of a template have a container.
fn run(template: Option<&mut Value>) {
    let Some(template) = template.filter(|template| template.is_object()) else {
        return;
    };
    let spec = &mut template["spec"];
    if spec.is_null() {
        *spec = json!({});
    }
    if spec["containers"].as_array().is_none_or(Vec::is_empty) {
        spec["containers"] = json!([{}]);
    }
    for list in ["containers", "initContainers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for (i, container) in containers.into_iter().flatten().enumerate() {
            for (field, value) in [("name", format!("c{i}")), ("image", "any".to_owned())] {
                if container[field].is_null() {
                    container[field] = json!(value);
                }
            }
        }
    }
}

/// And end, where they are of a Job.
fn run_once(template: Option<&mut Value>) {
    let Some(template) = template.filter(|template| template.is_object()) else {
        return;
    };
    run(Some(template));
    if template["spec"]["restartPolicy"].is_null() {
        template["spec"]["restartPolicy"] = json!("Never");
    }
}

/// A controller finds its pods.
fn select(spec: &mut Value) {
    if !spec["selector"].is_null() {
        return;
    }
    let labels = &mut spec["template"]["metadata"]["labels"];
    if labels["app"].is_null() {
        labels["app"] = json!("any");
    }
    spec["selector"] = json!({"matchLabels": {"app": labels["app"]}});
}

/// What a client sends that changes a stored object as a fixture changes it: what the apiserver has
/// filled in stays.
pub fn change(stored: &Value, old: &Value, new: &Value) -> Value {
    if old == new {
        return stored.clone();
    }
    match (stored, old, new) {
        (Value::Object(stored), Value::Object(old), Value::Object(new)) => {
            let mut changed = stored.clone();
            changed.retain(|key, _| new.contains_key(key) || !old.contains_key(key));
            for (key, value) in new {
                let was = |map: &serde_json::Map<String, Value>| map.get(key).cloned();
                let (stored, old) = (was(stored), was(old).unwrap_or_default());
                changed.insert(
                    key.clone(),
                    change(&stored.unwrap_or_default(), &old, value),
                );
            }
            Value::Object(changed)
        }
        (Value::Array(stored), Value::Array(old), Value::Array(new))
            if stored.len() == old.len() && old.len() == new.len() =>
        {
            let all = stored.iter().zip(old).zip(new);
            all.map(|((stored, old), new)| change(stored, old, new))
                .collect()
        }
        _ => new.clone(),
    }
}
