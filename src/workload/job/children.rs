//! The pods that Kubernetes would make of a Job, as far as Muster looks at them: for `render` and for
//! tests.

use serde_json::{Value, json};

use super::facts::{JOB_NAME, JOB_UID};
use crate::workload::{Admit, Origin, pods};

/// One pod of the gang, as it would be stored.
pub(super) fn linked(stored: &Value, of: &Origin<'_>, admit: &mut Admit<'_>) -> Vec<Value> {
    let linked = admit(&pods::KIND, pod(stored, of.namespace, of.name, of.uid));
    linked.into_iter().collect()
}

/// A pod of a stored Job.
pub fn pod(job: &Value, namespace: &str, name: &str, uid: &str) -> Value {
    let template = &job["spec"]["template"];
    let mut metadata = template["metadata"].clone();
    metadata["generateName"] = json!(format!("{name}-"));
    metadata["namespace"] = json!(namespace);
    for (key, value) in [(JOB_NAME, name), (JOB_UID, uid)] {
        metadata["labels"][key] = json!(value);
    }
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})
}
