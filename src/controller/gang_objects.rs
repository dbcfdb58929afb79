//! What Muster has made for gangs, as it is found: whether it is as wanted, and still in use. No
//! client here.

use std::collections::{BTreeMap, HashMap, HashSet};

use kube::core::{DynamicObject, ObjectMeta};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::gang::Round;
use crate::gang::keys::{self, APPLIED};
use crate::workload::SeenPod;

/// Drops what no decision reads of an object that Muster made: of its annotations all but the hash, of
/// its data all but the status.
pub(super) fn strip(object: &mut DynamicObject) {
    object.metadata.managed_fields = None;
    if let Some(annotations) = &mut object.metadata.annotations {
        annotations.retain(|key, _| key == APPLIED);
    }
    let status = object.data.get_mut("status").map(Value::take);
    object.data = status.map_or(Value::Null, |status| json!({"status": status}));
}

/// The gang that its pods declare, where the object is for such a one.
pub(super) fn gang_name(meta: &ObjectMeta) -> Option<&str> {
    let labels = meta.labels.as_ref()?;
    labels.get(keys::GANG_NAME).map(String::as_str)
}

/// The bundle that an object is for, where several workloads share it.
pub(super) fn shared_by(meta: &ObjectMeta) -> Option<&str> {
    let labels = meta.labels.as_ref()?;
    labels.get(keys::BUNDLE).map(String::as_str)
}

/// The hash of what was applied last to an object.
pub(super) fn applied(object: &DynamicObject) -> Option<&str> {
    let annotations = object.metadata.annotations.as_ref()?;
    annotations.get(APPLIED).map(String::as_str)
}

/// The object with the hash of itself, by which the next look knows that nothing is to do.
pub(super) fn with_hash(mut object: DynamicObject) -> DynamicObject {
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

/// What Muster has made for one workload, by name. Objects of several kinds can share a name.
#[derive(Debug, Default)]
pub struct GangObjects<'a>(HashMap<&'a str, Vec<&'a DynamicObject>>);

impl<'a> GangObjects<'a> {
    pub fn by_name(made: &'a [DynamicObject]) -> Self {
        let mut objects: HashMap<&str, Vec<&DynamicObject>> = HashMap::new();
        for object in made {
            let name = object.metadata.name.as_deref().unwrap_or_default();
            objects.entry(name).or_default().push(object);
        }
        Self(objects)
    }

    pub fn named(&self, name: &str) -> &[&'a DynamicObject] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }

    /// Whether an object exists as it is wanted. `wanted` carries its hash.
    pub fn is_settled(&self, wanted: &DynamicObject) -> bool {
        let name = wanted.metadata.name.as_deref().unwrap_or_default();
        self.named(name)
            .iter()
            .any(|object| kind(object) == kind(wanted) && applied(object) == applied(wanted))
    }
}

fn kind(object: &DynamicObject) -> Option<&str> {
    object.types.as_ref().map(|types| types.kind.as_str())
}

/// The gangs and starts of a workload that live pods still belong to.
#[derive(Debug, Default)]
pub(super) struct InUse<'a> {
    uids: HashSet<&'a str>,
    starts: HashSet<Start<'a>>,
}

/// The attempt and the round, and where the object is for less than the whole workload, the part; where
/// it is for one replica, its index and own attempt.
type Start<'a> = (u32, Round, Option<&'a str>, Option<(u32, u32)>);

impl<'a> InUse<'a> {
    /// `told` is the round as far as it tells gangs apart.
    pub(super) fn by(
        pods: impl Iterator<Item = &'a SeenPod>,
        told: impl Fn(Round) -> Round,
    ) -> Self {
        let mut used = Self::default();
        for pod in pods.filter(|pod| pod.phase.is_live()) {
            let gang = &pod.gang;
            used.uids.insert(&gang.uid);
            let replica = gang.index.map(|index| (index, gang.attempt.own));
            // Where the scheduler is not known just now, the object may be of either name.
            for round in [gang.round, told(gang.round)] {
                for part in [None, Some(gang.part.as_str())] {
                    for replica in [None, replica] {
                        let start = (gang.attempt.whole, round, part, replica);
                        used.starts.insert(start);
                    }
                }
            }
        }
        used
    }

    /// Whether a live pod still belongs to the gang, or to the start of the workload, that an object
    /// is for.
    pub(super) fn contains(&self, object: &DynamicObject) -> bool {
        let labels = object.metadata.labels.as_ref();
        let label = |key: &str| labels.and_then(|l| l.get(key)).map(String::as_str);
        if let Some(life) = label(keys::LIFE) {
            return self.uids.contains(life);
        }
        let (whole, own) = attempt(label(keys::ATTEMPT).unwrap_or("0"));
        let replica = match label(keys::INDEX).map(str::parse) {
            None => None,
            Some(Ok(index)) => Some((index, own)),
            Some(Err(_)) => return false,
        };
        let round = label(keys::ROUND).and_then(|round| round.parse().ok());
        let round = Round(round.unwrap_or(0));
        let start = (whole, round, label(keys::GANG), replica);
        self.starts.contains(&start)
    }
}

fn attempt(text: &str) -> (u32, u32) {
    let (whole, own) = text.split_once('-').unwrap_or((text, "0"));
    (whole.parse().unwrap_or(0), own.parse().unwrap_or(0))
}
