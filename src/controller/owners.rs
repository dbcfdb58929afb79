//! Who owns the objects of a gang that pods declare themselves: what made the pods, found by walking up
//! from controller to controller; the pods where nothing made them all.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kube::api::Api;
use kube::core::{DynamicObject, ObjectMeta};
use kube::{Client, ResourceExt as _};

use super::write::resource;
use crate::gang::{Owner, Reference};
use crate::workload::{SeenPod, object, pods};

/// A controller has another above it, and that perhaps one more.
const MAX_STEPS: usize = 8;
/// More controllers than that seldom have one above them, and each is asked for.
const MAX_CONTROLLERS: usize = 8;
/// So many pods own an object: it lives while one of them does.
const MAX_PODS: usize = 4;
/// What is remembered of controllers.
const MAX_KNOWN: usize = 10_000;

/// What is known of controllers.
pub(super) struct Owners {
    client: Client,
    known: Mutex<Known>,
}

/// What is above a controller of a namespace. By all that a pod says of it: the uid alone may be that of
/// somebody else's.
type Known = HashMap<(String, Reference), (Instant, Reference)>;

/// A controller keeps its uid when another adopts it: what is above it is asked for again.
const AGAIN: Duration = Duration::from_secs(30);

/// A controller is gone, or another object has its name.
struct Gone;

impl Owners {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            known: Mutex::default(),
        }
    }

    /// The owner of what is made for the pods of a gang.
    pub(super) async fn of(
        &self,
        namespace: &str,
        gang: &str,
        pods: &[SeenPod],
        made: &[DynamicObject],
    ) -> Result<Owner, kube::Error> {
        let top = self.top_of(namespace, pods).await?;
        let references = match top {
            Some(top) => vec![top],
            None => pods_themselves(pods, made),
        };
        Ok(Owner {
            kind: pods::KIND.name,
            namespace: namespace.to_owned(),
            gang_name: Some(gang.to_owned()),
            references,
        })
    }

    /// What all pods belong to in the end, if it is one.
    async fn top_of(
        &self,
        namespace: &str,
        pods: &[SeenPod],
    ) -> Result<Option<Reference>, kube::Error> {
        let mut controllers: HashMap<&str, &Reference> = HashMap::new();
        for own in live(pods).filter_map(|pod| pod.own.as_ref()) {
            let Some(controller) = &own.controller else {
                return Ok(None);
            };
            controllers.insert(&controller.uid, controller);
            if controllers.len() > MAX_CONTROLLERS {
                return Ok(None);
            }
        }
        let mut tops = HashSet::new();
        for controller in controllers.into_values() {
            match self.above(namespace, controller).await? {
                Ok(top) => tops.insert(top),
                Err(Gone) => return Ok(None),
            };
        }
        let mut tops = tops.into_iter();
        Ok(tops.next().filter(|_| tops.next().is_none()))
    }

    /// The highest controller above one.
    async fn above(
        &self,
        namespace: &str,
        controller: &Reference,
    ) -> Result<Result<Reference, Gone>, kube::Error> {
        let key = (namespace.to_owned(), controller.clone());
        let known = self.lock().get(&key).cloned();
        if let Some((_, known)) = known.filter(|(asked, _)| asked.elapsed() < AGAIN) {
            return Ok(Ok(known));
        }
        let mut top = controller.clone();
        for _ in 0..MAX_STEPS {
            match self.next_above(namespace, &top).await? {
                Ok(Some(above)) => top = above,
                Ok(None) => break,
                Err(Gone) => return Ok(Err(Gone)),
            }
        }
        let mut known = self.lock();
        if known.len() >= MAX_KNOWN {
            known.clear();
        }
        known.insert(key, (Instant::now(), top.clone()));
        Ok(Ok(top))
    }

    /// The controller of a controller; nothing for the highest that may be read.
    async fn next_above(
        &self,
        namespace: &str,
        controller: &Reference,
    ) -> Result<Result<Option<Reference>, Gone>, kube::Error> {
        // Whoever may create a pod writes this, and it becomes part of a path: the version is the
        // table's, and the name was checked when the pod was read.
        let version = controller.api_version.split_once('/');
        let group = version.map_or("", |(group, _)| group);
        let Some(kind) = object::kind_of(group, &controller.kind) else {
            // Of other kinds Muster may not read anything: they are taken to be the highest.
            return Ok(Ok(None));
        };
        let kind = resource(kind.group, kind.version, kind.name);
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, &kind);
        let found = match api.get_metadata_opt(&controller.name).await {
            // A role of an earlier version.
            Err(kube::Error::Api(status)) if status.code == 403 => return Ok(Ok(None)),
            found => found?,
        };
        let found = found.filter(|found| found.uid().as_deref() == Some(&controller.uid));
        Ok(match found {
            Some(found) => Ok(controller_of(&found.metadata)),
            None => Err(Gone),
        })
    }

    /// Whether an object, by its uid, is a controller or above it.
    pub(super) async fn is_above(
        &self,
        namespace: &str,
        uid: &str,
        controller: &Reference,
    ) -> Result<bool, kube::Error> {
        let mut above = Some(controller.clone());
        for _ in 0..MAX_STEPS {
            match above {
                Some(found) if found.uid == uid => return Ok(true),
                Some(found) => above = self.next_above(namespace, &found).await?.unwrap_or(None),
                None => break,
            }
        }
        Ok(false)
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What may own an object for the pods of a gang, without a question to anybody: their controller, or
/// they themselves.
pub(super) fn nearest(pods: &[SeenPod]) -> Vec<Reference> {
    let controllers = live(pods).map(|pod| pod.own.as_ref()?.controller.as_ref());
    let controllers: HashSet<Option<&Reference>> = controllers.collect();
    let mut controllers = controllers.into_iter();
    match (controllers.next().flatten(), controllers.next()) {
        (Some(one), None) => vec![one.clone()],
        _ => pods_themselves(pods, &[]),
    }
}

pub(super) fn controller_of(meta: &ObjectMeta) -> Option<Reference> {
    let mut owners = meta.owner_references.iter().flatten();
    let owner = owners.find(|owner| owner.controller == Some(true))?;
    let reference = Reference {
        api_version: owner.api_version.clone(),
        kind: owner.kind.clone(),
        name: owner.name.clone(),
        uid: owner.uid.clone(),
    };
    reference.checked()
}

fn live(pods: &[SeenPod]) -> impl Iterator<Item = &SeenPod> {
    pods.iter().filter(|pod| pod.phase.is_live() && !pod.going)
}

/// The pods that own the objects already, while they live; else the first few. So another pod brings no
/// write.
fn pods_themselves(pods: &[SeenPod], made: &[DynamicObject]) -> Vec<Reference> {
    let owners = made.iter().flat_map(|object| object.owner_references());
    let before: HashSet<&str> = owners.map(|owner| owner.uid.as_str()).collect();
    let mut kept = BTreeSet::new();
    let mut first = BTreeSet::new();
    for pod in live(pods) {
        let Some(own) = &pod.own else { continue };
        let place = (pod.created, own.pod.as_str(), pod.uid.as_str());
        if before.contains(pod.uid.as_str()) {
            kept.insert(place);
        }
        first.insert(place);
        if first.len() > MAX_PODS {
            first.pop_last();
        }
    }
    let chosen = match kept.is_empty() {
        true => first,
        false => kept,
    };
    let reference = |(_, name, uid): (_, &str, &str)| Reference {
        api_version: pods::KIND.api_version(),
        kind: pods::KIND.name.to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
    };
    chosen.into_iter().map(reference).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::workload::pods::example;

    fn pod(name: &str) -> SeenPod {
        example::seen(&example::stored(name, 4, "1"))
    }

    /// An object of Muster's that those pods own.
    fn owned(by: &[Reference]) -> DynamicObject {
        let owner = |owner: &Reference| {
            json!({
                "apiVersion": owner.api_version,
                "kind": owner.kind,
                "name": owner.name,
                "uid": owner.uid,
            })
        };
        let owners: Vec<Value> = by.iter().map(owner).collect();
        let object = json!({"metadata": {"name": "ring-0", "ownerReferences": owners}});
        serde_json::from_value(object).unwrap()
    }

    fn names(references: &[Reference]) -> Vec<&str> {
        references.iter().map(|owner| owner.name.as_str()).collect()
    }

    #[test]
    fn the_first_few_pods_own_what_is_made_for_them() {
        let pods: Vec<SeenPod> = ["f", "e", "d", "c", "b", "a"].map(pod).to_vec();
        let owners = pods_themselves(&pods, &[]);
        assert_eq!(names(&owners), ["a", "b", "c", "d"]);
        assert_eq!(
            (owners[0].kind.as_str(), owners[0].uid.as_str()),
            ("Pod", "uid-a")
        );
        assert!(pods_themselves(&[], &[]).is_empty());
    }

    #[test]
    fn owners_stay_while_one_of_them_lives_and_others_follow_them() {
        let first = [pod("b")];
        let owners = pods_themselves(&first, &[]);
        let made = [owned(&owners)];
        let mut pods: Vec<SeenPod> = ["a", "b", "c"].map(pod).to_vec();
        assert_eq!(pods_themselves(&pods, &made), owners, "no write");
        pods[1].going = true;
        assert_eq!(names(&pods_themselves(&pods, &made)), ["a", "c"]);
        pods[0].phase = crate::workload::seen::PodPhase::Succeeded;
        assert_eq!(names(&pods_themselves(&pods, &made)), ["c"]);
    }

    #[test]
    fn of_several_owners_the_controller_counts() {
        let object = json!({"ownerReferences": [
            {"apiVersion": "v1", "kind": "ConfigMap", "name": "aside", "uid": "1"},
            {"apiVersion": "apps/v1", "kind": "X", "name": "above", "uid": "2", "controller": true},
        ]});
        let meta: ObjectMeta = serde_json::from_value(object).unwrap();
        assert_eq!(controller_of(&meta).unwrap().name, "above");
        assert!(controller_of(&ObjectMeta::default()).is_none());
    }
}
