//! Admission without a cluster: the two phases in the apiserver's order, over the same bytes.
//!
//! What `check` and `render` say is what a webhook would answer, because they build the same
//! AdmissionReview and call the same function.

use serde_json::{Value, json};

use crate::admission::{self, Decision, Patch, Phase, Review};
use crate::gang::{FieldError, Standing};
use crate::scheduler::Snapshot;
use crate::workload::{Kind, SeenPod, object};

/// Stands for the uid that only a cluster can give. Names made from it are examples.
pub(crate) const STAND_IN_UID: &str = "00000000-0000-0000-0000-000000000000";

/// An object after admission.
#[derive(Debug)]
pub struct Admitted {
    pub(crate) kind: &'static Kind,
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// The object as it would be stored; as it was sent when it is refused.
    pub object: Value,
    /// Why it is refused; empty when it is admitted.
    pub errors: Vec<FieldError>,
    pub(crate) warnings: Vec<String>,
}

/// Admission went wrong in itself, not the object.
#[derive(Debug, thiserror::Error)]
pub enum AdmitError {
    /// The review could not be answered.
    #[error(transparent)]
    Review(#[from] admission::Unanswerable),
    /// The patch is not one for this object.
    #[error("the patch does not apply: {0}")]
    Patch(#[from] json_patch::PatchError),
    /// The object cannot be turned into text.
    #[error("the object cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// The kind of an object, when Muster handles it.
pub fn kind_of(object: &Value) -> Option<&'static Kind> {
    let api_version = object["apiVersion"].as_str()?;
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    object::kind_of(group, object["kind"].as_str()?)
}

/// Creates an object, as far as admission goes.
pub fn create(
    kind: &'static Kind,
    object: &Value,
    cluster: &Snapshot,
) -> Result<Admitted, AdmitError> {
    let namespace = object["metadata"]["namespace"].as_str();
    let mut admitted = Admitted {
        kind,
        namespace: namespace.unwrap_or("default").to_owned(),
        name: String::new(),
        object: object.clone(),
        errors: Vec::new(),
        warnings: Vec::new(),
    };
    for phase in [Phase::Mutate, Phase::Validate] {
        let body = serde_json::to_vec(&request(&admitted))?;
        let review = Review::parse(&body)?;
        review.name().clone_into(&mut admitted.name);
        match admission::decide(phase, &review, cluster)?.decision {
            Decision::Deny { errors, warnings } => {
                admitted.warnings.extend(warnings);
                admitted.errors = errors;
                break;
            }
            Decision::Allow { patch, warnings } => {
                admitted.warnings.extend(warnings);
                apply(&mut admitted.object, &patch)?;
            }
        }
    }
    Ok(admitted)
}

/// The cluster of one run of the command line: pods that it admits are there for the next.
pub(crate) fn remembering(cluster: &Snapshot) -> Snapshot {
    Snapshot {
        standing: Standing::told(),
        ..cluster.clone()
    }
}

/// Notes a pod that declares its gang, where it is admitted.
pub(crate) fn remember(admitted: &Admitted, cluster: &Snapshot) {
    let pod = SeenPod::declaring(&admitted.object.to_string(), &admitted.namespace);
    if let Some(pod) = pod.as_ref().and_then(SeenPod::declared) {
        cluster.standing.tell(pod);
    }
}

fn apply(object: &mut Value, patch: &Patch) -> Result<(), json_patch::PatchError> {
    json_patch::patch(object, patch)
}

/// The AdmissionReview that an apiserver would send.
fn request(admitted: &Admitted) -> Value {
    let kind = admitted.kind;
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": STAND_IN_UID,
            "kind": {"group": kind.group, "version": "", "kind": kind.name},
            "name": admitted.object["metadata"]["name"].as_str().unwrap_or_default(),
            "namespace": admitted.namespace,
            "operation": "CREATE",
            "object": admitted.object,
        },
    })
}
