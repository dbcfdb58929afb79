//! Start barriers in the reconciler: who has come ([`waiters`]), what follows from that ([`status`], pure),
//! and what the replicas see of it ([`show`]).

mod missing;
pub(super) mod status;
pub(super) mod stragglers;
pub mod waiters;

use std::collections::HashSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::jiff::Timestamp;
use kube::core::{DynamicObject, ObjectMeta, TypeMeta};
use kube::runtime::watcher::{self, Event};
use kube::{Client, ResourceExt as _};
use serde_json::json;

use super::decide::Seen;
use super::report::few::cut;
use super::run::watch;
use super::write::resource;
use crate::barrier::container::{MISSING, OPEN};
use crate::barrier::release::{Barriers, Key, State};
use crate::gang::{Attempt, Barrier, BarrierStart, Identity, Owner, Round, keys};
use crate::judge::{self, Judged};
use crate::scheduler::object::{self, MANAGED_BY, Scope};
use crate::workload::seen::Sealed;
use crate::workload::{Site, child, site};
use status::{BarrierStatus, Says, Shown, elapsed};
use waiters::Waiter;

/// The value of the label on a ConfigMap that opens a barrier.
pub(super) const OPENED: &str = "open";
/// The same on one that says who is missing.
pub(super) const LATE: &str = "late";

/// Shows the barriers' ConfigMaps to those who wait, until dropped. Every replica does this.
pub async fn show(client: Client, barriers: Barriers) {
    let selected = format!("{},{}={}", keys::BARRIER, MANAGED_BY.0, MANAGED_BY.1);
    let selected = watcher::Config::default().labels(&selected);
    let kind = resource("", "v1", "ConfigMap");
    let mut events = pin!(watch::<DynamicObject>(&client, &kind, selected));
    let mut listed = HashSet::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(shown)) => {
                listed.insert(key(&shown));
                barriers.show(key(&shown), state(&shown));
            }
            Ok(Event::InitDone) => barriers.filled(&std::mem::take(&mut listed)),
            Ok(Event::Apply(shown)) => barriers.show(key(&shown), state(&shown)),
            Ok(Event::Delete(gone)) => barriers.hide(&key(&gone)),
            Err(error) => tracing::warn!(%error, "cannot watch start barriers"),
        }
    }
}

fn key(shown: &DynamicObject) -> Key {
    (shown.namespace().unwrap_or_default(), shown.name_any())
}

fn state(shown: &DynamicObject) -> State {
    let data = &shown.data["data"];
    match data[MISSING].as_str() {
        _ if data[OPEN].is_string() => State::Open,
        // Whoever may write ConfigMaps may have written it.
        Some(missing) => State::Late(Arc::from(cut(missing, missing::LONGEST))),
        None => State::Closed,
    }
}

/// How a workload's barrier stands; `None` where it has none, or its pods do not wait.
pub(super) fn look(seen: &Seen<'_>, judged: &Judged) -> Option<BarrierStatus> {
    let (barrier, start) = asked(seen, judged)?;
    let carried = site::carried(seen.workload);
    let believed =
        |waiter: &&Waiter| waiter.sealed == Sealed::Yes || carried.contains(&waiter.stamped);
    let waiters: Vec<&Waiter> = seen.waiters.iter().filter(believed).collect();
    let start = status::start_of_now(start, &waiters);
    let shown = shown(seen.made, &start, seen.now);
    Some(status::status(barrier, start, &waiters, shown, seen.now))
}

/// What the ConfigMap of a start says.
pub(super) fn shown(made: &[DynamicObject], start: &BarrierStart, now: Timestamp) -> Shown {
    let made = find(made, start);
    match made.and_then(says) {
        Some(OPENED) => Shown::Open,
        Some(LATE) => {
            let since = made.and_then(|made| made.metadata.creation_timestamp.as_ref());
            Shown::Late(since.map_or(Duration::ZERO, |since| elapsed(since.0, now)))
        }
        _ => Shown::Nothing,
    }
}

/// The same of a workload that is suspended: nobody waits, and nothing is open.
pub(super) fn suspended(seen: &Seen<'_>, judged: &Judged) -> Option<BarrierStatus> {
    let (barrier, start) = asked(seen, judged)?;
    let nobody = status::status(barrier, start, &[], Shown::Nothing, seen.now);
    Some(BarrierStatus {
        missing: Some(status::SUSPENDED.to_owned()),
        ..nobody
    })
}

/// The barrier that a workload asks for, and its start of now.
fn asked<'j>(seen: &Seen<'_>, judged: &'j Judged) -> Option<(&'j Barrier, BarrierStart)> {
    let barrier = judged.plan.barrier.as_ref()?;
    let stamped = |site: &Site<'_>| site.annotation(keys::BARRIER_STAMP).is_some();
    // Created without Muster: nobody waits.
    if !seen.workload.sites().iter().any(stamped) {
        return None;
    }
    let of = seen.origin();
    let start = BarrierStart {
        namespace: of.namespace.to_owned(),
        workload: of.name.to_owned(),
        uid: of.uid.to_owned(),
        attempt: seen.workload.attempt(),
        round: child::round(seen.workload.meta()),
    };
    Some((barrier, start))
}

/// The ConfigMaps that must exist now.
pub(super) fn wanted(seen: &Seen<'_>, status: Option<&BarrierStatus>) -> Vec<DynamicObject> {
    let Some((status, says)) = status.and_then(|status| Some((status, status.says.as_ref()?)))
    else {
        return Vec::new();
    };
    let owner = judge::owner(seen.workload.facts(), &seen.origin());
    let config_map = |start: BarrierStart| {
        // What was opened before a suspension that not all have seen stays open for those.
        let opened = find(seen.made, &start).and_then(self::says) == Some(OPENED);
        config_map(&start, &owner, if opened { &Says::Open } else { says })
    };
    status.starts().map(config_map).collect()
}

/// The ConfigMaps that stay because they are open: a pod that is replaced goes straight through, whether or
/// not others of its round live. Of the last rounds of the attempt only, since each is looked for.
pub(super) fn open(seen: &Seen<'_>, judged: &Judged) -> Vec<String> {
    let Some((_, start)) = asked(seen, judged) else {
        return Vec::new();
    };
    let last = start.round.0;
    let rounds = last.saturating_sub(status::MOST_OUTLIVED as u32)..=last;
    let starts = rounds.map(|round| start.in_round(Round(round)));
    let open = starts.filter(|start| find(seen.made, start).and_then(says) == Some(OPENED));
    open.map(|start| start.name()).collect()
}

fn find<'m>(made: &'m [DynamicObject], start: &BarrierStart) -> Option<&'m DynamicObject> {
    let name = start.name();
    made.iter()
        .find(|made| made.metadata.name.as_deref() == Some(&name))
}

/// Whether an object is the ConfigMap of a barrier.
pub(super) fn is_one(made: &DynamicObject) -> bool {
    says(made).is_some()
}

fn says(made: &DynamicObject) -> Option<&str> {
    made.metadata
        .labels
        .as_ref()?
        .get(keys::BARRIER)
        .map(String::as_str)
}

/// The ConfigMap of a barrier: one write opens it.
pub(super) fn config_map(start: &BarrierStart, owner: &Owner, says: &Says) -> DynamicObject {
    let (label, data) = match says {
        Says::Open => (OPENED, json!({OPEN: "true"})),
        Says::Late(missing) => (LATE, json!({MISSING: missing})),
    };
    let identity = Identity {
        namespace: start.namespace.clone(),
        uid: start.uid.clone(),
        attempt: Attempt {
            whole: start.attempt,
            own: 0,
        },
        round: start.round,
        ..Identity::default()
    };
    let mut metadata = object::metadata(owner, Scope::Start(&identity));
    let labels = metadata.labels.get_or_insert_default();
    labels.insert(keys::BARRIER.to_owned(), label.to_owned());
    DynamicObject {
        types: Some(TypeMeta {
            api_version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
        }),
        metadata: ObjectMeta {
            name: Some(start.name()),
            ..metadata
        },
        data: json!({"data": data}),
    }
}

#[cfg(test)]
mod tests;
