//! Gangs that pods declare themselves, as the reconciler looks at them: there is no object to watch,
//! and so one is made up for each name that a pod or an object of Muster's has.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures::channel::mpsc;
use kube::core::DynamicObject;
use kube::runtime::watcher::{self, Event};

use super::cache::by_owner::{ByOwner, Kept};
use super::cache::stored::Stored;
use super::gang_objects;
use crate::workload::SeenPod;
use crate::workload::pods;

/// Namespace and name.
type Name = (String, String);

/// What was made up, and for whom it is told.
pub(super) struct PodGangs {
    pods: Arc<ByOwner<SeenPod>>,
    objects: Vec<Arc<ByOwner<Arc<DynamicObject>>>>,
    told: Mutex<HashMap<Name, Stored>>,
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
            Ok(Event::Apply(pod) | Event::Delete(pod)) => {
                if let Some(seen) = pods::seen(pod.text(), pod.namespace()) {
                    let name = (pod.namespace().to_owned(), seen.gang.workload.clone());
                    let here = !seen.going && seen.phase.is_live();
                    self.changed(name, Some(pod).filter(|_| here));
                }
            }
            Ok(Event::InitApply(pod)) => {
                if let Some(seen) = pods::seen(pod.text(), pod.namespace()) {
                    let name = (pod.namespace().to_owned(), seen.gang.workload.clone());
                    let stand_in = stand_in(&name, Some(pod));
                    self.lock().insert(name, stand_in);
                }
            }
            Ok(Event::InitDone) => self.all_changed(),
            Ok(Event::Init) | Err(_) => {}
        }
    }

    /// After the objects were followed.
    pub(super) fn object_changed(&self, event: &watcher::Result<Event<DynamicObject>>) {
        match event {
            Ok(Event::Apply(object) | Event::Delete(object)) => {
                if let Some(name) = name_of(object) {
                    self.changed(name, None);
                }
            }
            Ok(Event::InitApply(object)) => {
                if let Some(name) = name_of(object) {
                    let stand_in = stand_in(&name, None);
                    self.lock().entry(name).or_insert(stand_in);
                }
            }
            Ok(Event::InitDone) => self.all_changed(),
            Ok(Event::Init) | Err(_) => {}
        }
    }

    /// Tells of a gang; of one without pods and objects that it is gone.
    fn changed(&self, name: Name, declaring: Option<&Stored>) {
        let mut told = self.lock();
        let (namespace, gang) = (name.0.as_str(), name.1.as_str());
        let exists = self.pods.has(namespace, gang)
            || self.objects.iter().any(|made| made.has(namespace, gang));
        if !exists {
            if let Some(gone) = told.remove(&name) {
                self.send(Event::Delete(gone));
            }
            return;
        }
        let known = told.get(&name).filter(|_| declaring.is_none()).cloned();
        let stored = known.unwrap_or_else(|| stand_in(&name, declaring));
        told.insert(name, stored.clone());
        self.send(Event::Apply(stored));
    }

    /// After a list: what it does not show is gone.
    fn all_changed(&self) {
        let names: Vec<Name> = self.lock().keys().cloned().collect();
        for name in names {
            self.changed(name, None);
        }
    }

    fn send(&self, event: Event<Stored>) {
        // Fails only while the reconciler stops.
        let _ = self.sender.unbounded_send(Ok(event));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Name, Stored>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
