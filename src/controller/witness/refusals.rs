//! What controllers were told when they could not create pods: their events, watched.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

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
/// Controllers try again after ten minutes at most: what is refused within so long was never granted.
const SERIES: Duration = Duration::from_secs(15 * 60);

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
        let mut refusal = Refusal::read(&cut(message, LONGEST), first.or(at), at);
        let mut told = self.lock();
        if let Some(known) = told.get_mut(&who) {
            let since = joined(known, &refusal);
            if known.at > refusal.at {
                known.since = since.or(known.since);
                return;
            }
            refusal.since = since.or(refusal.since);
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

/// Since when both were refused, where one follows the other. A message that names the pod is another
/// event each time, with a first time of its own.
fn joined(one: &Refusal, other: &Refusal) -> Option<Timestamp> {
    let (one_since, other_since) = (one.since?, other.since?);
    let apart = match one_since <= other_since {
        true => other_since.duration_since(one.at?),
        false => one_since.duration_since(other.at?),
    };
    // They overlap where this is negative.
    let near = Duration::try_from(apart).map_or(true, |apart| apart <= SERIES);
    near.then(|| one_since.min(other_since))
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

    fn told(events: &[DynamicObject]) -> Refusal {
        let refusals = Refusals::default();
        events.iter().for_each(|event| refusals.note(event));
        refusals.of("ml", |_, _| true).remove(0)
    }

    /// Else a timeout would begin again with each pod that is refused.
    #[test]
    fn pods_of_other_names_are_refused_since_the_first_one_was() {
        let first = event("train-a", "2026-01-01T10:00:00Z", "2026-01-01T10:00:00Z");
        let second = event("train-b", "2026-01-01T10:05:00Z", "2026-01-01T10:09:00Z");
        let third = event("train-c", "2026-01-01T10:19:00Z", "2026-01-01T10:19:00Z");
        let since = first.data["firstTimestamp"].as_str().unwrap();
        for events in [
            [first.clone(), second.clone(), third.clone()],
            [third.clone(), second.clone(), first.clone()],
        ] {
            let refusal = told(&events);
            assert_eq!(refusal.since, since.parse().ok());
            assert!(refusal.words.contains("train-c"), "{refusal:?}");
        }
        let later = event("train-d", "2026-01-01T11:00:00Z", "2026-01-01T11:00:00Z");
        let alone = told(&[first, later.clone()]);
        assert_eq!(alone.since, told(&[later]).since);
    }

    #[test]
    fn an_event_of_the_future_does_not_hide_what_is_told_now() {
        let forged = event("forged", "2099-01-01T00:00:00Z", "2099-01-01T00:00:00Z");
        let refusals = Refusals::default();
        refusals.note(&forged);
        std::thread::sleep(Duration::from_millis(2));
        let now = Timestamp::now().to_string();
        refusals.note(&event("train-a", &now, &now));
        let refusal = refusals.of("ml", |_, _| true).remove(0);
        assert!(refusal.words.contains("train-a"), "{refusal:?}");
    }
}
