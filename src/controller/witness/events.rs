//! Events of some reasons, listed or watched, and who they are about.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::StreamExt as _;
use futures::stream::select_all;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, ListParams};
use kube::core::DynamicObject;
use kube::runtime::watcher::{self, Event as Change};
use serde_json::Value;
use tokio::sync::Notify;

use crate::controller::pages;
use crate::controller::report::few::cut;
use crate::controller::run;
use crate::controller::write::resource;
use crate::gang::field::shorten;

/// The longest message that is kept.
const LONGEST: usize = 1_024;

/// Whom an event is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Who {
    pub(super) namespace: String,
    pub(super) kind: String,
    pub(super) name: String,
}

/// What an event tells.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) who: Who,
    /// Another object of the name is another one.
    pub(super) uid: String,
    pub(super) message: String,
    pub(super) first: Option<Timestamp>,
    pub(super) last: Option<Timestamp>,
}

impl Told {
    fn read(event: &DynamicObject) -> Self {
        let now = Timestamp::now();
        // Whoever may write events may write of the future: that must not hide what comes now.
        let read = |value: &Value| {
            let time = value.as_str()?.parse::<Timestamp>().ok()?;
            Some(time.min(now))
        };
        let time = |field: &str| read(&event.data[field]);
        // One that is told again and again has either a count or a series, by which API it was told.
        let last =
            time("lastTimestamp").or_else(|| read(&event.data["series"]["lastObservedTime"]));
        let first = time("firstTimestamp").or_else(|| time("eventTime"));
        let about = &event.data["involvedObject"];
        let text = |field: &str| shorten(about[field].as_str().unwrap_or_default().to_owned());
        let message = event.data["message"].as_str().unwrap_or_default();
        Self {
            who: Who {
                namespace: event.metadata.namespace.clone().unwrap_or_default(),
                kind: text("kind"),
                name: text("name"),
            },
            uid: text("uid"),
            message: cut(message, LONGEST),
            first: first.or(last),
            last: last.or(first),
        }
    }
}

/// The apiserver selects events by one reason only, so that there is a watch for each.
fn selectors(reasons: BTreeSet<&'static str>) -> BTreeSet<String> {
    reasons
        .into_iter()
        .map(|reason| format!("reason={reason}"))
        .collect()
}

/// Looks once at events of these reasons, of one namespace or of all.
pub(super) async fn list(
    client: &Client,
    namespace: Option<&str>,
    reasons: BTreeSet<&'static str>,
    note: impl Fn(Told),
) -> Result<(), kube::Error> {
    let (client, kind) = (client.clone(), resource("", "v1", "Event"));
    let events: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &kind),
        None => Api::all_with(client, &kind),
    };
    for selector in selectors(reasons) {
        let params = ListParams::default().fields(&selector);
        pages::each(&events, params, |event| note(Told::read(&event))).await?;
    }
    Ok(())
}

/// Watches events of these reasons until dropped; `filled` says that all that exist were seen.
pub(super) async fn watch(
    client: &Client,
    reasons: BTreeSet<&'static str>,
    note: impl Fn(Told),
    filled: &AtomicBool,
    changed: &Notify,
) {
    let kind = resource("", "v1", "Event");
    let mut unfilled = selectors(reasons);
    let watches = unfilled.clone().into_iter().map(|selector| {
        let config = watcher::Config::default().fields(&selector);
        let events = run::watch::<DynamicObject>(client, &kind, config);
        events.map(move |event| (selector.clone(), event)).boxed()
    });
    let mut events = select_all(watches.collect::<Vec<_>>());
    while let Some((selector, event)) = events.next().await {
        match event {
            Ok(Change::Apply(event)) => {
                note(Told::read(&event));
                changed.notify_one();
            }
            Ok(Change::InitApply(event)) => note(Told::read(&event)),
            // An event that is gone was told all the same: the next one replaces it.
            Ok(Change::Delete(_) | Change::Init) => {}
            Ok(Change::InitDone) => {
                unfilled.remove(&selector);
                changed.notify_one();
            }
            Err(error) => {
                tracing::warn!(%error, selector, "cannot watch events");
                // What is not known is not waited for.
                unfilled.remove(&selector);
            }
        }
        filled.store(unfilled.is_empty(), Ordering::Release);
    }
}

#[cfg(test)]
impl Told {
    /// An event of a controller, told first and last at these times.
    pub(super) fn example(message: &str, first: &str, last: &str) -> Self {
        let event = serde_json::json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"namespace": "ml", "name": "x"},
            "involvedObject": {"kind": "Maker", "name": "train", "uid": "1"},
            "message": message,
            "firstTimestamp": first,
            "lastTimestamp": last,
        });
        Self::read(&serde_json::from_value(event).unwrap())
    }
}
