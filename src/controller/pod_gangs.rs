//! Gangs that pods declare themselves, as the reconciler looks at them: there is no object to watch,
//! and so one is made up for each name that a pod or an object of Muster's has.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use futures::channel::mpsc;
use k8s_openapi::jiff::Timestamp;
use kube::core::DynamicObject;
use kube::runtime::watcher::{self, Event};

use super::cache::by_owner::{ByOwner, Kept};
use super::cache::stored::Stored;
use super::gang_objects;
use crate::workload::SeenPod;
use crate::workload::pods;

/// Namespace and name.
type Name = (String, String);

/// A pod's place among those of its gang: what the first one says counts.
type Place = (Option<Timestamp>, String);

/// What was told of a gang.
#[derive(Debug, Clone)]
struct Told {
    stand_in: Stored,
    /// The pod that declares it; `None` when that is gone: then the next one does that shows itself.
    by: Option<Place>,
}

impl Told {
    /// What a pod or an object that shows itself makes of it.
    fn follow(before: Option<&Self>, name: &Name, shown: Shown<'_>) -> Self {
        let by = before.and_then(|before| before.by.as_ref());
        match (shown, before) {
            (Shown::Here(pod), _) if by.is_none_or(|by| place(pod) <= *by) => Self {
                stand_in: stand_in(name, Some(pod)),
                by: Some(place(pod)),
            },
            (Shown::Leaving(pod), Some(before)) if by == Some(&place(pod)) => Self {
                by: None,
                ..before.clone()
            },
            (_, Some(before)) => before.clone(),
            (_, None) => Self {
                stand_in: stand_in(name, None),
                by: None,
            },
        }
    }
}

/// What a watch shows of a gang.
#[derive(Debug, Clone, Copy)]
enum Shown<'a> {
    /// A pod that counts.
    Here(&'a Stored),
    /// A pod that has ended, or goes.
    Leaving(&'a Stored),
    /// Nothing of its pods.
    Nothing,
}

/// What was made up, and for whom it is told.
pub(super) struct PodGangs {
    pods: Arc<ByOwner<SeenPod>>,
    objects: Vec<Arc<ByOwner<Arc<DynamicObject>>>>,
    told: Mutex<HashMap<Name, Told>>,
    sender: mpsc::UnboundedSender<watcher::Result<Event<Stored>>>,
}

impl PodGangs {
    /// With the events of what it makes up. There is nothing to list.
    pub(super) fn new(
        pods: Arc<ByOwner<SeenPod>>,
        objects: Vec<Arc<ByOwner<Arc<DynamicObject>>>>,
    ) -> (
        Arc<Self>,
        mpsc::UnboundedReceiver<watcher::Result<Event<Stored>>>,
    ) {
        let (sender, receiver) = mpsc::unbounded();
        let gangs = Self {
            pods,
            objects,
            told: Mutex::default(),
            sender,
        };
        gangs.send(Event::Init);
        gangs.send(Event::InitDone);
        (Arc::new(gangs), receiver)
    }

    /// After the pods were followed.
    pub(super) fn pod_changed(&self, event: &watcher::Result<Event<Stored>>) {
        match event {
            Ok(Event::Apply(pod)) => {
                if let Some((name, shown)) = show(pod) {
                    self.changed(name, shown);
                }
            }
            Ok(Event::Delete(pod)) => {
                if let Some((name, _)) = show(pod) {
                    self.changed(name, Shown::Leaving(pod));
                }
            }
            // Who declares may be gone.
            Ok(Event::Init) => self.lock().values_mut().for_each(|told| told.by = None),
            Ok(Event::InitApply(pod)) => {
                if let Some((name, shown)) = show(pod) {
                    self.note(name, shown);
                }
            }
            Ok(Event::InitDone) => self.all_changed(),
            Err(_) => {}
        }
    }

    /// After the objects were followed.
    pub(super) fn object_changed(&self, event: &watcher::Result<Event<DynamicObject>>) {
        match event {
            Ok(Event::Apply(object) | Event::Delete(object)) => {
                if let Some(name) = name_of(object) {
                    self.changed(name, Shown::Nothing);
                }
            }
            Ok(Event::InitApply(object)) => {
                if let Some(name) = name_of(object) {
                    self.note(name, Shown::Nothing);
                }
            }
            Ok(Event::InitDone) => self.all_changed(),
            Ok(Event::Init) | Err(_) => {}
        }
    }

    /// Takes note of a gang while a list goes on.
    fn note(&self, name: Name, shown: Shown<'_>) {
        let mut all = self.lock();
        let told = Told::follow(all.get(&name), &name, shown);
        all.insert(name, told);
    }

    /// Tells of a gang; of one without pods and objects that it is gone.
    fn changed(&self, name: Name, shown: Shown<'_>) {
        let mut all = self.lock();
        let (namespace, gang) = (name.0.as_str(), name.1.as_str());
        let exists = self.pods.has(namespace, gang)
            || self.objects.iter().any(|made| made.has(namespace, gang));
        if !exists {
            if let Some(gone) = all.remove(&name) {
                self.send(Event::Delete(gone.stand_in));
            }
            return;
        }
        let told = Told::follow(all.get(&name), &name, shown);
        self.send(Event::Apply(told.stand_in.clone()));
        all.insert(name, told);
    }

    /// After a list: what it does not show is gone.
    fn all_changed(&self) {
        let names: Vec<Name> = self.lock().keys().cloned().collect();
        for name in names {
            self.changed(name, Shown::Nothing);
        }
    }

    fn send(&self, event: Event<Stored>) {
        // Fails only while the reconciler stops.
        let _ = self.sender.unbounded_send(Ok(event));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Name, Told>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What stands for the gangs of these pods.
pub(super) fn stand_ins(pods: &[Stored]) -> impl Iterator<Item = Stored> {
    let mut all: BTreeMap<Name, Told> = BTreeMap::new();
    for (name, shown) in pods.iter().filter_map(show) {
        let told = Told::follow(all.get(&name), &name, shown);
        all.insert(name, told);
    }
    all.into_values().map(|told| told.stand_in)
}

/// The gang of a pod, and whether the pod counts; `None` for one that Muster has not admitted.
fn show(pod: &Stored) -> Option<(Name, Shown<'_>)> {
    let seen = pods::seen(pod.text(), pod.namespace())?;
    let name = (pod.namespace().to_owned(), seen.gang.workload.clone());
    let here = !seen.going && seen.phase.is_live();
    Some(match here {
        true => (name, Shown::Here(pod)),
        false => (name, Shown::Leaving(pod)),
    })
}

fn place(pod: &Stored) -> Place {
    let created = pod.metadata.creation_timestamp.as_ref();
    (created.map(|time| time.0), pod.name().to_owned())
}

fn name_of(object: &DynamicObject) -> Option<Name> {
    let namespace = object.metadata.namespace.clone().unwrap_or_default();
    let name = gang_objects::gang_name(&object.metadata)?;
    Some((namespace, name.to_owned()))
}

fn stand_in((namespace, name): &Name, declaring: Option<&Stored>) -> Stored {
    let declared = declaring.and_then(|pod| pod.metadata.annotations.as_ref());
    let declared = declared.into_iter().flatten();
    let declared = declared.map(|(key, value)| (key.as_str(), value.as_str()));
    Stored::new(&pods::stand_in(namespace, name, declared))
}

/// What is kept of a pod that declares its gang.
pub(super) fn keep_pod(pod: &Stored) -> Option<Kept<SeenPod>> {
    let value = pods::seen(pod.text(), pod.namespace())?;
    Some(Kept {
        owners: vec![value.gang.workload.clone()],
        value,
    })
}

#[cfg(test)]
mod tests;
