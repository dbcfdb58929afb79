//! What an apiserver refuses although no schema says so: only its Go code does.
//!
//! Few rules, for what people get wrong, in the words of Kubernetes 1.37. The others are left to the
//! cluster. What is accepted there must never be refused here.

use std::collections::{BTreeMap, HashSet};

use serde::Deserialize;
use serde_json::{Map, Value};

use super::resources;
use crate::gang::name::{
    MAX_LABEL, is_dns_label, is_label_value, is_object_name, is_qualified_name,
};
use crate::gang::selector::Selector;
use crate::gang::{FieldError, FieldPath};

const LABEL: &str = "a lowercase RFC 1123 label must consist of at most 63 lower case alphanumeric \
                     characters or '-', and must start and end with an alphanumeric character";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of at most 253 lower case \
                         alphanumeric characters, '-' or '.', and must start and end with an \
                         alphanumeric character";
const KEY: &str = "name part must consist of at most 63 alphanumeric characters, '-', '_' or '.', and \
                   must start and end with an alphanumeric character, with an optional DNS subdomain \
                   prefix and '/' (e.g. 'example.com/MyName')";
const VALUE: &str = "a valid label must be an empty string or consist of at most 63 alphanumeric \
                     characters, '-', '_' or '.', and must start and end with an alphanumeric character";

/// How many letters Kubernetes adds to a generated name, and how many it leaves before them.
const GENERATED: (&str, usize) = ("xxxxx", 58);

/// Whose object is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// The one that is sent.
    Sent,
    /// One that a controller makes of a template, after it has filled in defaults of its own.
    Made,
}

/// The types that have rules.
#[cfg(test)]
pub(super) const TYPES: [&str; 9] = [
    "ObjectMeta",
    "LabelSelector",
    "PodSpec",
    "JobSpec",
    "DeploymentSpec",
    "ReplicaSetSpec",
    "DaemonSetSpec",
    "StatefulSetSpec",
    "ReplicationControllerSpec",
];

/// What is wrong with a value of a type.
pub(super) fn of_type(
    of: &str,
    map: &Map<String, Value>,
    at: &FieldPath,
    origin: Origin,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    match of {
        "ObjectMeta" => metadata(map, at, &mut errors),
        "LabelSelector" => labels(map, "matchLabels", at, &mut errors),
        "PodSpec" => pod(map, at, &mut errors),
        "JobSpec" => job(map, at, origin, &mut errors),
        "DeploymentSpec" | "ReplicaSetSpec" | "DaemonSetSpec" | "StatefulSetSpec" => {
            selected(map, at, &mut errors);
            always(map, at, &mut errors);
        }
        "ReplicationControllerSpec" => always(map, at, &mut errors),
        _ => {}
    }
    errors
}

/// What is wrong with the name of an object.
pub(super) fn of_object(kind: &str, object: &Value) -> Vec<FieldError> {
    let at = FieldPath::new("metadata");
    let meta = &object["metadata"];
    let text = |key: &str| match &meta[key] {
        Value::String(text) => Some(text.as_str()).filter(|text| !text.is_empty()),
        _ => None,
    };
    let mut errors = Vec::new();
    let typed = |key: &str| meta[key].is_null() || meta[key].is_string();
    let (name, prefix) = (text("name"), text("generateName"));
    if name.is_none() && prefix.is_none() && typed("name") && typed("generateName") {
        let why = "name or generateName is required";
        errors.push(FieldError::required(at.child("name"), why));
    }
    let malformed = |name: &str| match kind {
        // Those of a StatefulSet are the hostnames of its pods.
        "StatefulSet" if !is_dns_label(name) => Some(LABEL),
        _ if !is_object_name(name) => Some(SUBDOMAIN),
        _ => None,
    };
    // A Job's is the value of a label of its pods, unless it has a selector of its own.
    let labelled = kind == "Job" && object["spec"]["manualSelector"] != true;
    let too_long = |name: &str| match kind {
        // The beginning of its Jobs' names.
        "CronJob" if name.len() > 52 => Some("must be no more than 52 characters"),
        _ if labelled && name.len() > MAX_LABEL => Some("must be no more than 63 characters"),
        _ => None,
    };
    let problem = |name: &str| malformed(name).or_else(|| too_long(name));
    if let Some((name, why)) = name.and_then(|name| Some((name, problem(name)?))) {
        errors.push(FieldError::invalid(at.child("name"), name, why));
    }
    if let Some(prefix) = prefix {
        let kept: String = prefix.chars().take(GENERATED.1).collect();
        let generated = name.is_none().then(|| kept + GENERATED.0);
        // Of this kind only the name that is made of it is looked at.
        let own = (kind != "ReplicationController").then(|| masked(prefix));
        let wrong = generated.and_then(|name| problem(&name));
        if let Some(why) = wrong.or_else(|| own.and_then(|own| malformed(&own))) {
            errors.push(FieldError::invalid(at.child("generateName"), prefix, why));
        }
    }
    if let Some(namespace) = text("namespace").filter(|name| !is_dns_label(name)) {
        errors.push(FieldError::invalid(at.child("namespace"), namespace, LABEL));
    }
    errors
}

/// The beginning of a name as it is held to the rules of a whole one: a dash may end it. Kubernetes puts an
/// `a` in the place of the dash and of the letter before it.
fn masked(prefix: &str) -> String {
    let mut kept = prefix.to_owned();
    if kept.len() > 1 && kept.ends_with('-') {
        kept.truncate(kept.len() - 1);
        kept.pop();
        kept.push('a');
    }
    kept
}

fn metadata(map: &Map<String, Value>, at: &FieldPath, errors: &mut Vec<FieldError>) {
    labels(map, "labels", at, errors);
    let annotations = map.get("annotations").and_then(Value::as_object);
    for key in annotations.into_iter().flat_map(Map::keys) {
        if !is_qualified_name(&key.to_lowercase()) {
            let at = at.child("annotations").key(key);
            errors.push(FieldError::invalid(at, key.as_str(), KEY));
        }
    }
}

/// The labels of a field.
fn labels(map: &Map<String, Value>, field: &str, at: &FieldPath, errors: &mut Vec<FieldError>) {
    let labels = map.get(field).and_then(Value::as_object);
    for (key, value) in labels.into_iter().flatten() {
        let at = at.child(field).key(key);
        if !is_qualified_name(key) {
            errors.push(FieldError::invalid(at, key.as_str(), KEY));
        } else if let Some(value) = value.as_str().filter(|value| !is_label_value(value)) {
            errors.push(FieldError::invalid(at, value, VALUE));
        }
    }
}

fn pod(map: &Map<String, Value>, at: &FieldPath, errors: &mut Vec<FieldError>) {
    labels(map, "nodeSelector", at, errors);
    let mut names = HashSet::new();
    for field in ["containers", "initContainers"] {
        let containers = map.get(field).and_then(Value::as_array);
        for (index, container) in containers.into_iter().flatten().enumerate() {
            let at = at.child(field).index(index);
            if let Some(name) = container["name"].as_str().filter(|name| !name.is_empty()) {
                if !is_dns_label(name) {
                    errors.push(FieldError::invalid(at.child("name"), name, LABEL));
                } else if !names.insert(name) {
                    errors.push(FieldError::duplicate(at.child("name"), name));
                }
            }
            resources::of_container(&container["resources"], &at.child("resources"), errors);
        }
    }
}

fn job(map: &Map<String, Value>, at: &FieldPath, origin: Origin, errors: &mut Vec<FieldError>) {
    let spec = map.get("template").map(|template| &template["spec"]);
    let Some(spec) = spec.and_then(Value::as_object) else {
        return;
    };
    let path = at.child("template").child("spec").child("restartPolicy");
    let valid = ["OnFailure", "Never"];
    match spec.get("restartPolicy").unwrap_or(&Value::Null) {
        Value::Null if origin == Origin::Made => {}
        Value::Null => errors.push(unset(path)),
        Value::String(text) if text.is_empty() && origin == Origin::Sent => {
            errors.push(unset(path));
        }
        Value::String(text) if text == "Always" => {
            errors.push(FieldError::not_supported(path, text.as_str(), &valid));
        }
        _ => {}
    }
    let set = |field: &str| map.get(field).is_some_and(|value| !value.is_null());
    let indexed = match set("completionMode") {
        true => map["completionMode"] == "Indexed",
        // JobSet makes Indexed Jobs.
        false => origin == Origin::Made,
    };
    // Without either both are one.
    if indexed && set("parallelism") && !set("completions") {
        let why = "when completion mode is Indexed";
        errors.push(FieldError::required(at.child("completions"), why));
    }
}

fn unset(path: FieldPath) -> FieldError {
    FieldError::required(path, "valid values: \"OnFailure\", \"Never\"")
}

/// The pods of what keeps them running always restart.
fn always(map: &Map<String, Value>, at: &FieldPath, errors: &mut Vec<FieldError>) {
    let policy = map.get("template").map(|of| &of["spec"]["restartPolicy"]);
    if let Some(policy @ ("OnFailure" | "Never")) = policy.and_then(Value::as_str) {
        let path = at.child("template").child("spec").child("restartPolicy");
        errors.push(FieldError::not_supported(path, policy, &["Always"]));
    }
}

/// A selector that is there selects the pods of the template.
fn selected(map: &Map<String, Value>, at: &FieldPath, errors: &mut Vec<FieldError>) {
    let Some(selector @ Value::Object(_)) = map.get("selector") else {
        return;
    };
    let Ok(read) = Selector::deserialize(selector) else {
        return;
    };
    if read.is_empty() {
        let why = "empty selector is invalid";
        errors.push(FieldError::invalid(
            at.child("selector"),
            selector.clone(),
            why,
        ));
        return;
    }
    let Some(template) = map.get("template").filter(|template| template.is_object()) else {
        return;
    };
    let labels = &template["metadata"]["labels"];
    let Ok(labels) = Option::<BTreeMap<String, String>>::deserialize(labels) else {
        return;
    };
    if !read.matches(labels.as_ref()) {
        let path = at.child("template").child("metadata").child("labels");
        let value = serde_json::json!(labels.unwrap_or_default());
        let why = "`selector` does not match template `labels`";
        errors.push(FieldError::invalid(path, value, why));
    }
}
