//! What controllers were told when they could not create pods: their events, watched.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::StreamExt as _;
use futures::stream::select_all;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, ListParams};
use kube::core::DynamicObject;
use kube::runtime::watcher::{self, Event as Change};
use serde_json::Value;
use tokio::sync::Notify;

use crate::controller::report::few::cut;
use crate::controller::run::watch;
use crate::controller::write::resource;
use crate::explain::refusal::Refusal;
use crate::gang::field::shorten;
use crate::workload::object::workloads;

/// So many are kept, the last ones, and of one namespace fewer.
const MOST: usize = 4_096;
const MOST_OF_ONE: usize = 64;
/// The longest message that is kept.
const LONGEST: usize = 1_024;

/// One watch for each: the apiserver selects events by one reason only. Each kind of workload names
/// those of its controllers.
fn selectors() -> BTreeSet<String> {
    let reasons = workloads().flat_map(|facts| facts.members.failures);
    reasons.map(|reason| format!("reason={reason}")).collect()
}

/// Who was refused.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Who {
    namespace: String,
    kind: String,
    name: String,
}

/// The last refusal of each controller.
#[derive(Default)]
pub(super) struct Refusals {
    told: Mutex<HashMap<Who, Refusal>>,
    filled: AtomicBool,
}

impl Refusals {
    pub(super) fn is_filled(&self) -> bool {
        self.filled.load(Ordering::Acquire)
    }

    pub(super) fn clear(&self) {
        self.filled.store(false, Ordering::Release);
        self.lock().clear();
    }

    pub(super) fn of(&self, namespace: &str, makes: impl Fn(&str, &str) -> bool) -> Vec<Refusal> {
        let told = self.lock();
        let told = told
            .iter()
            .filter(|(who, _)| who.namespace == namespace && makes(&who.kind, &who.name));
        let mut refusals: Vec<Refusal> = told.map(|(_, refusal)| refusal.clone()).collect();
        refusals.sort_by(|a, b| b.at.cmp(&a.at).then_with(|| a.words.cmp(&b.words)));
        refusals
    }

    /// Looks once, at one namespace or at all.
    pub(super) async fn list(
        &self,
        client: &Client,
        namespace: Option<&str>,
    ) -> Result<(), kube::Error> {
        let (client, kind) = (client.clone(), resource("", "v1", "Event"));
        let events: Api<DynamicObject> = match namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &kind),
            None => Api::all_with(client, &kind),
        };
        for selector in selectors() {
            let params = ListParams::default().fields(&selector);
            let failed = events.list(&params).await?;
            failed.items.iter().for_each(|event| self.note(event));
        }
        self.filled.store(true, Ordering::Release);
        Ok(())
    }

    /// Watches until dropped.
    pub(super) async fn watch(&self, client: Client, changed: &Notify) {
        let kind = resource("", "v1", "Event");
        let mut unfilled: BTreeSet<String> = selectors();
        let watches = unfilled.clone().into_iter().map(|selector| {
            let failed = watcher::Config::default().fields(&selector);
            let events = watch::<DynamicObject>(&client, &kind, failed);
            events.map(move |event| (selector.clone(), event)).boxed()
        });
        let mut events = select_all(watches.collect::<Vec<_>>());
        while let Some((selector, event)) = events.next().await {
            match event {
                Ok(Change::Apply(event)) => {
                    self.note(&event);
                    changed.notify_one();
                }
                Ok(Change::InitApply(event)) => self.note(&event),
                // An event that is gone was told all the same: the next one replaces it.
                Ok(Change::Delete(_) | Change::Init) => {}
                Ok(Change::InitDone) => {
                    unfilled.remove(&selector);
                    changed.notify_one();
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot watch what controllers are refused");
                    // What is not known is not waited for.
                    unfilled.remove(&selector);
                }
            }
            self.filled.store(unfilled.is_empty(), Ordering::Release);
        }
    }

    fn note(&self, event: &DynamicObject) {
        let read = |value: &Value| value.as_str()?.parse::<Timestamp>().ok();
        let time = |field: &str| read(&event.data[field]);
        // One that is told again and again has either a count or a series, by which API it was told.
        let last =
            time("lastTimestamp").or_else(|| read(&event.data["series"]["lastObservedTime"]));
        let first = time("firstTimestamp").or_else(|| time("eventTime"));
        // Whoever may write events may write of the future: that must not hide what comes now.
        let now = Timestamp::now();
        let at = last.or(first).map(|at| at.min(now));
        let text = |value: &Value| shorten(value.as_str().unwrap_or_default().to_owned());
        let who = Who {
            namespace: event.metadata.namespace.clone().unwrap_or_default(),
            kind: text(&event.data["involvedObject"]["kind"]),
            name: text(&event.data["involvedObject"]["name"]),
        };
        let message = event.data["message"].as_str().unwrap_or_default();
        let refusal = Refusal::read(&cut(message, LONGEST), first.or(at), at);
        let mut told = self.lock();
        if told.get(&who).is_some_and(|known| known.at > refusal.at) {
            return;
        }
        let namespace = who.namespace.clone();
        told.insert(who, refusal);
        // One namespace cannot push out what is known of another, up to the bound of all.
        let of = |who: &Who| who.namespace == namespace;
        let own = told.keys().filter(|who| of(who)).count();
        if own > MOST_OF_ONE || told.len() > MOST {
            let old = told.iter().filter(|(who, _)| own <= MOST_OF_ONE || of(who));
            let oldest = old.min_by_key(|(_, refusal)| refusal.at);
            if let Some(oldest) = oldest.map(|(who, _)| who.clone()) {
                told.remove(&oldest);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Who, Refusal>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(pod: &str, first: &str, last: &str) -> DynamicObject {
        let event = json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"namespace": "ml", "name": pod},
            "involvedObject": {"kind": "Maker", "name": "train"},
            "message": format!("pods is forbidden: exceeded quota: pods, requested: {pod}"),
            "firstTimestamp": first,
            "lastTimestamp": last,
        });
        serde_json::from_value(event).unwrap()
    }

    #[test]
    fn an_event_of_the_future_does_not_hide_what_is_told_now() {
        let forged = event("forged", "2099-01-01T00:00:00Z", "2099-01-01T00:00:00Z");
        let refusals = Refusals::default();
        refusals.note(&forged);
        std::thread::sleep(std::time::Duration::from_millis(2));
        let now = Timestamp::now().to_string();
        refusals.note(&event("train-a", &now, &now));
        let refusal = refusals.of("ml", |_, _| true).remove(0);
        assert!(refusal.words.contains("train-a"), "{refusal:?}");
    }
}
