//! What Muster has made for gangs, as it is found: whether it is as wanted, and still in use. No
//! client here.

use std::collections::BTreeMap;

use kube::core::DynamicObject;
use sha2::{Digest, Sha256};

use super::observe::Pod;
use crate::gang::keys::{self, APPLIED};

/// Drops what no decision reads from any watched object.
pub fn strip_metadata(object: &mut DynamicObject) {
    object.metadata.managed_fields = None;
    if let Some(annotations) = &mut object.metadata.annotations {
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    }
}

/// The hash of what was applied last to an object.
pub fn applied(object: &DynamicObject) -> Option<&str> {
    let annotations = object.metadata.annotations.as_ref()?;
    annotations.get(APPLIED).map(String::as_str)
}

/// The object with the hash of itself, by which the next look knows that nothing is to do.
pub fn with_hash(mut object: DynamicObject) -> DynamicObject {
    let text = serde_json::to_vec(&object).unwrap_or_default();
    let digest = Sha256::digest(&text);
    let hash: String = digest.iter().take(8).map(|b| format!("{b:02x}")).collect();
    let annotations = object
        .metadata
        .annotations
        .get_or_insert_with(BTreeMap::new);
    annotations.insert(APPLIED.to_owned(), hash);
    object
}

pub fn is_settled(wanted: &DynamicObject, made: &[DynamicObject]) -> bool {
    made.iter().any(|object| {
        object.metadata.name == wanted.metadata.name
            && object.types.as_ref().map(|t| &t.kind) == wanted.types.as_ref().map(|t| &t.kind)
            && applied(object) == applied(wanted)
    })
}

/// Whether a live pod still belongs to the gang, or to the start of the workload, that an object
/// is for.
pub fn in_use(object: &DynamicObject, pods: &[Pod]) -> bool {
    let labels = object.metadata.labels.as_ref();
    let label = |key: &str| labels.and_then(|l| l.get(key)).map(String::as_str);
    if let Some(key) = label(keys::LIFE) {
        let lives = |pod: &Pod| pod.life.as_ref().is_some_and(|life| life.key == key);
        return pods.iter().any(|pod| pod.phase.is_live() && lives(pod));
    }
    let (part, index) = (label(keys::GANG), label(keys::INDEX));
    let (whole, own) = attempt(label(keys::ATTEMPT).unwrap_or("0"));
    pods.iter().filter(|pod| pod.phase.is_live()).any(|pod| {
        pod.attempt.whole == whole
            && part.is_none_or(|part| part == pod.part)
            && index.is_none_or(|index| index == pod.index.to_string() && own == pod.attempt.own)
    })
}

fn attempt(text: &str) -> (u32, u32) {
    let (whole, own) = text.split_once('-').unwrap_or((text, "0"));
    (whole.parse().unwrap_or(0), own.parse().unwrap_or(0))
}
