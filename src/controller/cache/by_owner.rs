//! Watched objects, by the workload that owns them.
//!
//! A store of our own and not kube's: that one finds the objects of a workload only by walking those
//! of the whole cluster, and keeps whole objects where a few fields are read.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::ResourceExt;
use kube::runtime::watcher::Event;

/// What is kept of one watched object.
#[derive(Debug, Clone)]
pub(crate) struct Kept<T> {
    /// What its owners are called: their uid, or their name.
    pub owners: Vec<String>,
    pub value: T,
}

/// What a watch has shown.
#[derive(Debug)]
pub(crate) struct ByOwner<T>(Mutex<State<T>>);

#[derive(Debug)]
struct State<T> {
    shown: Shown<T>,
    /// What a list has shown so far. It replaces the rest once it is complete, so that what was deleted
    /// while nobody watched is dropped.
    listing: Shown<T>,
    /// Whether a list has been complete.
    filled: bool,
}

/// Namespaces by name.
type Shown<T> = HashMap<String, Namespace<T>>;

#[derive(Debug)]
struct Namespace<T> {
    /// Objects by owner and by their own name.
    by_owner: HashMap<Arc<str>, BTreeMap<Arc<str>, T>>,
    /// The owners of each object, which can change.
    owners: HashMap<Arc<str>, Vec<Arc<str>>>,
}

impl<T> Default for ByOwner<T> {
    fn default() -> Self {
        Self(Mutex::new(State {
            shown: HashMap::new(),
            listing: HashMap::new(),
            filled: false,
        }))
    }
}

impl<T: Clone> ByOwner<T> {
    /// Follows a watch. `keep` says what is kept of an object; `None` for one that is not of interest.
    pub(crate) fn follow<K: ResourceExt>(
        &self,
        event: &Event<K>,
        keep: impl Fn(&K) -> Option<Kept<T>>,
    ) {
        let mut state = self.lock();
        match event {
            Event::Init => state.listing = HashMap::new(),
            Event::InitApply(object) => state.listing.put(object, keep(object)),
            Event::InitDone => {
                state.shown = std::mem::take(&mut state.listing);
                state.filled = true;
            }
            Event::Apply(object) => state.shown.put(object, keep(object)),
            Event::Delete(object) => state.shown.put(object, None),
        }
    }

    /// Whether all that exists has been shown once. Before that, nothing found means nothing.
    pub(crate) fn is_filled(&self) -> bool {
        self.lock().filled
    }

    /// The objects of one owner, in the order of their names.
    pub(crate) fn of(&self, namespace: &str, owner: &str) -> Vec<T> {
        let state = self.lock();
        let namespace = state.shown.get(namespace);
        let objects = namespace.and_then(|namespace| namespace.by_owner.get(owner));
        objects
            .into_iter()
            .flat_map(BTreeMap::values)
            .cloned()
            .collect()
    }

    /// Whether an owner has any.
    pub(crate) fn has(&self, namespace: &str, owner: &str) -> bool {
        let state = self.lock();
        let namespace = state.shown.get(namespace);
        namespace.is_some_and(|namespace| namespace.by_owner.contains_key(owner))
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

trait Put<T> {
    fn put<K: ResourceExt>(&mut self, object: &K, kept: Option<Kept<T>>);
}

impl<T: Clone> Put<T> for Shown<T> {
    /// Replaces what was kept of an object.
    fn put<K: ResourceExt>(&mut self, object: &K, kept: Option<Kept<T>>) {
        let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
        if let Some(found) = self.get_mut(&namespace) {
            found.remove(&name);
            if found.owners.is_empty() && kept.is_none() {
                self.remove(&namespace);
            }
        }
        if let Some(kept) = kept {
            self.entry(namespace).or_default().insert(&name, kept);
        }
    }
}

impl<T> Default for Namespace<T> {
    fn default() -> Self {
        Self {
            by_owner: HashMap::new(),
            owners: HashMap::new(),
        }
    }
}

impl<T: Clone> Namespace<T> {
    fn insert(&mut self, name: &str, kept: Kept<T>) {
        let name: Arc<str> = name.into();
        let mut owners = Vec::with_capacity(kept.owners.len());
        for owner in kept.owners {
            let owner: Arc<str> = match self.by_owner.get_key_value(owner.as_str()) {
                Some((known, _)) => Arc::clone(known),
                None => owner.into(),
            };
            let objects = self.by_owner.entry(Arc::clone(&owner)).or_default();
            objects.insert(Arc::clone(&name), kept.value.clone());
            owners.push(owner);
        }
        self.owners.insert(name, owners);
    }

    fn remove(&mut self, name: &str) {
        for owner in self.owners.remove(name).into_iter().flatten() {
            if let Some(objects) = self.by_owner.get_mut(&owner) {
                objects.remove(name);
                if objects.is_empty() {
                    self.by_owner.remove(&owner);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::core::DynamicObject;
    use serde_json::json;

    use super::*;

    /// An object `name` of a namespace with its owners.
    fn object(namespace: &str, name: &str, owners: &[&str]) -> DynamicObject {
        let mut object: DynamicObject = serde_json::from_value(json!({"metadata": {}})).unwrap();
        object.metadata.namespace = Some(namespace.to_owned());
        object.metadata.name = Some(name.to_owned());
        object.data = json!(owners);
        object
    }

    fn keep(object: &DynamicObject) -> Option<Kept<String>> {
        Some(Kept {
            owners: serde_json::from_value(object.data.clone()).unwrap(),
            value: object.name_any(),
        })
    }

    fn after(events: Vec<Event<DynamicObject>>) -> ByOwner<String> {
        let kept = ByOwner::default();
        events.iter().for_each(|event| kept.follow(event, keep));
        kept
    }

    #[test]
    fn the_objects_of_one_owner_in_one_namespace_are_found() {
        let kept = after(vec![
            Event::Apply(object("ml", "b", &["x"])),
            Event::Apply(object("ml", "a", &["x", "y"])),
            Event::Apply(object("web", "a", &["x"])),
        ]);
        assert_eq!(kept.of("ml", "x"), ["a", "b"]);
        assert_eq!(kept.of("ml", "y"), ["a"]);
        assert_eq!(kept.of("web", "x"), ["a"]);
        assert!(kept.of("web", "y").is_empty());
    }

    #[test]
    fn an_object_that_goes_to_another_owner_leaves_the_first_and_a_deleted_one_leaves_all() {
        let kept = after(vec![
            Event::Apply(object("ml", "a", &["x", "y"])),
            Event::Apply(object("ml", "a", &["y"])),
        ]);
        assert!(kept.of("ml", "x").is_empty());
        assert_eq!(kept.of("ml", "y"), ["a"]);
        kept.follow(&Event::Delete(object("ml", "a", &["y"])), keep);
        assert!(kept.lock().shown.is_empty(), "nothing is left behind");
    }

    #[test]
    fn a_second_list_drops_what_is_gone_and_not_before_it_is_complete() {
        let kept = after(vec![
            Event::Init,
            Event::InitApply(object("ml", "a", &["x"])),
            Event::InitApply(object("ml", "b", &["x"])),
        ]);
        assert!(!kept.is_filled() && kept.of("ml", "x").is_empty());
        kept.follow(&Event::InitDone, keep);
        assert!(kept.is_filled());
        assert_eq!(kept.of("ml", "x"), ["a", "b"]);
        // The watch was interrupted: b was deleted meanwhile, and c is new.
        kept.follow(&Event::Init, keep);
        kept.follow(&Event::InitApply(object("ml", "a", &["x"])), keep);
        kept.follow(&Event::InitApply(object("ml", "c", &["x"])), keep);
        assert_eq!(kept.of("ml", "x"), ["a", "b"]);
        kept.follow(&Event::InitDone, keep);
        assert_eq!(kept.of("ml", "x"), ["a", "c"]);
        assert!(kept.lock().listing.is_empty());
        // A list that breaks off and begins again.
        kept.follow(&Event::Init, keep);
        kept.follow(&Event::InitApply(object("ml", "d", &["x"])), keep);
        kept.follow(&Event::Init, keep);
        kept.follow(&Event::InitDone, keep);
        assert!(kept.of("ml", "x").is_empty());
    }
}
