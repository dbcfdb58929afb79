//! What the reconciler keeps of a pod that declares its gang itself, and the object that stands for all
//! pods of such a gang.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::name::{self, uid};
use super::{Pod, facts, keys};
use crate::gang::apart::Labelled;
use crate::gang::ask::{AskingSpec, Unscheduled};
use crate::gang::resources::ResourceList;
use crate::gang::{Reference, Stamp, StampHash};
use crate::workload::child;
use crate::workload::seen::{PodPhase, Sealed, SeenPod};

/// What is kept of the pod itself: its gang has no other object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Own {
    /// The pod's name.
    pub(crate) pod: String,
    /// What made it.
    pub(crate) controller: Option<Reference>,
    /// What it asks of a node.
    pub(crate) need: Arc<Need>,
}

/// What a pod asks of a node, as far as its gang's objects say it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Need {
    pub(crate) requests: ResourceList,
    pub(crate) priority_class: Option<String>,
}

/// The fields of a stored pod that no review has.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Stored {
    metadata: StoredMeta,
    spec: AskingSpec,
    status: Status,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StoredMeta {
    labels: Option<BTreeMap<String, String>>,
    creation_timestamp: Option<Timestamp>,
    owner_references: Vec<OwnerReference>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct OwnerReference {
    api_version: String,
    kind: String,
    name: String,
    uid: String,
    controller: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    phase: Option<String>,
    conditions: Vec<Condition>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    reason: Option<String>,
    message: Option<String>,
}

/// Reads a stored pod, of the namespace `home` where it does not say so; `None` for one that Muster has
/// not admitted as a member of a gang that it declares.
pub(crate) fn seen(text: &str, home: &str) -> Option<SeenPod> {
    let pod: Pod<'_> = serde_json::from_str(text).ok()?;
    let stored: Stored = serde_json::from_str(text).ok()?;
    let meta = &pod.metadata;
    let name = meta.label(keys::GANG_NAME)?;
    let stamp = Stamp::parse(meta.annotation(keys::STAMP)?).ok()?;
    let namespace = meta.namespace.as_deref().unwrap_or(home);
    let identity = name::identity(namespace, name, child::round(meta));
    let (shape, _) = pod.spec.shape(None);
    let need = Need {
        requests: shape.requests,
        priority_class: shape.priority_class,
    };
    let mut owners = stored.metadata.owner_references.into_iter();
    let controller = owners.find(|owner| owner.controller);
    let Status { phase, conditions } = stored.status;
    let phase = PodPhase::of(phase.as_deref(), pod.spec.node_name.as_deref());
    let waits = |c: &Condition| c.kind == "PodScheduled" && c.status == "False";
    let unscheduled = conditions.into_iter().find(waits);
    let unscheduled = unscheduled.map(|c| Unscheduled::new(c.reason, c.message));
    let labelled = Labelled {
        namespace,
        labels: stored.metadata.labels.as_ref(),
    };
    let waits = stored.spec.node_name.is_none();
    let asks = waits.then(|| stored.spec.ask(labelled));
    Some(SeenPod {
        uid: meta.uid.as_deref().unwrap_or_default().to_owned(),
        gang: Arc::new(identity),
        role: None,
        stamp: Some(Arc::new(stamp)),
        stamped: StampHash::default(),
        sealed: Sealed::Yes,
        link: facts::link(meta),
        phase,
        created: stored.metadata.creation_timestamp,
        going: meta.deleting(),
        unscheduled,
        ask: asks.flatten().map(Arc::new),
        ailment: None,
        own: Some(Arc::new(Own {
            pod: meta.name.as_deref().unwrap_or_default().to_owned(),
            controller: controller.and_then(|owner| {
                let reference = Reference {
                    api_version: owner.api_version,
                    kind: owner.kind,
                    name: owner.name,
                    uid: owner.uid,
                };
                reference.checked()
            }),
            need: Arc::new(need),
        })),
    })
}

/// The object that stands for all pods of a gang: its name, and what one of them declares.
pub(crate) fn stand_in<'d>(
    namespace: &str,
    name: &str,
    declared: impl Iterator<Item = (&'d str, &'d str)>,
) -> Value {
    let own = [keys::STAMP, keys::ROUND];
    let declared = declared.filter(|(key, _)| key.starts_with(keys::PREFIX) && !own.contains(key));
    let annotations: BTreeMap<&str, &str> = declared.collect();
    json!({"metadata": {
        "namespace": namespace,
        "name": name,
        "uid": uid(namespace, name),
        "annotations": annotations,
        "labels": {keys::GANG_NAME: name},
    }})
}
