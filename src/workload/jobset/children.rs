//! The Jobs and pods that JobSet's controller would make, as far as Muster looks at them.
//!
//! For `render` and for tests: `jobset_controller.go` (v0.12) writes every key below as a label and
//! as an annotation, on the Job and on its pod template.

use serde_json::{Map, Value, json};

use super::KIND;
use crate::gang::{Attempt, Plan};
use crate::workload::{Admit, Origin, job, keys, pods};

/// One child of each gang: its Job, or a pod of that where the link is written on pods.
pub(crate) fn linked(
    stored: &Value,
    of: &Origin<'_>,
    plan: &Plan,
    most: usize,
    admit: &mut Admit<'_>,
) -> Vec<Value> {
    let gangs = plan.identities(of.namespace, of.name, of.uid, Attempt::default());
    let mut linked = Vec::new();
    for (part, identity) in gangs.into_iter().take(most) {
        let Some(role) = plan.parts[part].roles().first() else {
            continue;
        };
        let child = ChildRef {
            namespace: of.namespace,
            jobset: of.name,
            uid: of.uid,
            replicated_job: &role.name,
            index: identity.index.unwrap_or(0),
            attempt: identity.attempt.whole,
        };
        let made = self::job(stored, child).and_then(|made| admit(&job::KIND, made));
        let Some(made) = made else {
            continue;
        };
        let index = &made["spec"]["template"]["metadata"]["labels"][keys::INDEX];
        let made = match index.is_null() {
            true => admit(&pods::KIND, pod(&made)),
            false => Some(made),
        };
        linked.extend(made);
    }
    linked
}

/// Which child.
#[derive(Debug, Clone, Copy)]
pub struct ChildRef<'a> {
    /// The JobSet's namespace.
    pub namespace: &'a str,
    /// The JobSet's name.
    pub jobset: &'a str,
    /// The JobSet's uid.
    pub uid: &'a str,
    /// The name of the ReplicatedJob.
    pub replicated_job: &'a str,
    /// The replica of the ReplicatedJob.
    pub index: u32,
    /// How often the JobSet was restarted.
    pub attempt: u32,
}

/// The Job of one replica, from the stored JobSet.
pub fn job(jobset: &Value, child: ChildRef<'_>) -> Option<Value> {
    let groups = jobset["spec"]["replicatedJobs"].as_array()?;
    let group = groups
        .iter()
        .find(|group| group["name"] == child.replicated_job)?;
    let name = format!("{}-{}-{}", child.jobset, child.replicated_job, child.index);
    let keys = [
        ("jobset-name", child.jobset.to_owned()),
        ("jobset-uid", child.uid.to_owned()),
        ("replicatedjob-name", child.replicated_job.to_owned()),
        ("job-index", child.index.to_string()),
        ("restart-attempt", child.attempt.to_string()),
    ];
    let template = &group["template"];
    let mut spec = template["spec"].clone();
    let pods = &mut spec["template"];
    pods["metadata"] = metadata(&pods["metadata"], &keys);
    if jobset["spec"]["suspend"] == true {
        spec["suspend"] = json!(true);
    }
    let mut metadata = metadata(&template["metadata"], &keys);
    metadata["name"] = json!(name);
    metadata["namespace"] = json!(child.namespace);
    metadata["ownerReferences"] = json!([{
        "apiVersion": KIND.api_version(),
        "kind": KIND.name,
        "name": child.jobset,
        "uid": child.uid,
        "controller": true,
        "blockOwnerDeletion": true,
    }]);
    Some(json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}))
}

/// A pod of a Job, as the Job controller makes it.
pub fn pod(job: &Value) -> Value {
    let template = &job["spec"]["template"];
    let mut metadata = template["metadata"].clone();
    let name = job["metadata"]["name"].as_str().unwrap_or_default();
    metadata["generateName"] = json!(format!("{name}-0-"));
    metadata["namespace"] = job["metadata"]["namespace"].clone();
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})
}

fn metadata(template: &Value, keys: &[(&str, String)]) -> Value {
    let with_keys = |map: &Value| {
        let mut map: Map<String, Value> = map.as_object().cloned().unwrap_or_default();
        for (key, value) in keys {
            map.insert(format!("jobset.sigs.k8s.io/{key}"), json!(value));
        }
        map
    };
    json!({
        "labels": with_keys(&template["labels"]),
        "annotations": with_keys(&template["annotations"]),
    })
}
