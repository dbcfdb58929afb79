//! The queues of one scheduler, watched while a gang waits in one of them: schedulers do not say that a
//! queue does not exist (Volcano 1.14, KAI 0.12), and of one that is closed or full Volcano says that
//! there is too little room.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::StreamExt as _;
use kube::api::Api;
use kube::core::DynamicObject;
use kube::runtime::watcher::{self, Event};
use kube::{Client, ResourceExt as _};
use serde_json::json;
use tokio::sync::Notify;

use crate::controller::run;
use crate::controller::write::resource;
use crate::gang::resources::ResourceList;
use crate::scheduler::{Queue, QueueTrouble};

const KIND: &str = "Queue";

/// So many are kept; of those beyond nothing is said.
const MOST: usize = 10_000;

/// The queues of a group and version.
#[derive(Default)]
pub(super) struct Queues {
    found: Mutex<HashMap<String, Option<Arc<DynamicObject>>>>,
    filled: AtomicBool,
}

impl Queues {
    pub(super) fn is_filled(&self) -> bool {
        self.filled.load(Ordering::Acquire)
    }

    pub(super) fn clear(&self) {
        self.filled.store(false, Ordering::Release);
        self.lock().clear();
    }

    pub(super) fn knows(&self, name: &str) -> bool {
        self.is_filled() || self.lock().contains_key(name)
    }

    /// What is wrong with a queue, for a gang that still needs so much; nothing where that is not known.
    pub(super) fn trouble(&self, queue: &Queue, needed: &ResourceList) -> Option<QueueTrouble> {
        let found = self.lock();
        let known = found.get(&queue.name).cloned();
        let whole = self.is_filled() && found.len() < MOST;
        drop(found);
        let found = match known {
            Some(found) => found,
            None if whole => None,
            None => return None,
        };
        queue.trouble(found.as_deref(), needed)
    }

    /// Looks once at one of them.
    pub(super) async fn look_up(&self, client: &Client, queue: &Queue) -> Result<(), kube::Error> {
        let (group, version) = queue.group_version();
        let kind = resource(group, version, KIND);
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
        let name = &queue.name;
        let found = match api.get(name).await {
            Ok(found) => Some(Arc::new(strip(found))),
            // When the API is not served, the answer names no object.
            Err(kube::Error::Api(status)) if status.is_not_found() => {
                let named = status.details.as_ref();
                if named.is_none_or(|named| named.name != *name) {
                    return Ok(());
                }
                None
            }
            Err(error) => return Err(error),
        };
        self.lock().insert(name.clone(), found);
        Ok(())
    }

    /// Watches until dropped.
    pub(super) async fn watch(&self, client: Client, api_version: &str, changed: &Notify) {
        let (group, version) = api_version.split_once('/').unwrap_or_default();
        let kind = resource(group, version, KIND);
        let config = watcher::Config::default();
        let mut events = std::pin::pin!(run::watch::<DynamicObject>(&client, &kind, config));
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Apply(queue) | Event::InitApply(queue)) => self.note(queue),
                Ok(Event::Delete(queue)) => {
                    self.lock().remove(&queue.name_any());
                }
                Ok(Event::Init) => self.clear(),
                Ok(Event::InitDone) => self.filled.store(true, Ordering::Release),
                Err(error) => {
                    tracing::warn!(%error, api_version, "cannot watch queues");
                    continue;
                }
            }
            if self.is_filled() {
                changed.notify_one();
            }
        }
    }

    fn note(&self, queue: DynamicObject) {
        let mut found = self.lock();
        let name = queue.name_any();
        if found.len() < MOST || found.contains_key(&name) {
            found.insert(name, Some(Arc::new(strip(queue))));
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Option<Arc<DynamicObject>>>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What limits it and what is in use, and nothing else of a queue.
fn strip(mut queue: DynamicObject) -> DynamicObject {
    queue.metadata.managed_fields = None;
    queue.metadata.annotations = None;
    let mut part = |name: &str| queue.data[name].take();
    queue.data = json!({"spec": part("spec"), "status": part("status")});
    queue
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::queue::Wrong;

    #[test]
    fn a_queue_is_missing_only_once_all_were_seen() {
        let queue = |name: &str| Queue {
            api_version: "example.com/v1",
            name: name.to_owned(),
            open: Some("Open"),
            bounds: None,
        };
        let object = json!({"metadata": {"name": "here"}, "status": {"state": "Open"}});
        let queues = Queues::default();
        queues.note(serde_json::from_value(object).unwrap());
        let none = ResourceList::default();
        let trouble = |name: &str| queues.trouble(&queue(name), &none);
        assert_eq!((trouble("here"), trouble("gone")), (None, None));
        queues.filled.store(true, Ordering::Release);
        assert_eq!(trouble("here"), None);
        assert_eq!(trouble("gone").unwrap().wrong, Wrong::Absent);
    }
}
