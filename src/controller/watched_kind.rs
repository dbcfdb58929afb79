//! How the workloads of a kind are watched, and how their members and objects are found: from the
//! kind's facts. It names none.

use std::pin::pin;

use futures::StreamExt as _;
use kube::Client;
use kube::core::{ApiResource, ObjectMeta};
use kube::runtime::{WatchStreamExt as _, watcher};

use super::cache::stored::Stored;
use super::gang_objects::gang_name;
use super::run::watch;
use super::write::{owners, resource};
use crate::gang::keys;
use crate::scheduler::object::MANAGED_BY;
use crate::workload::facts::Watched;
use crate::workload::{Facts, object};

/// The kind as kube's client wants it.
pub(super) fn api_resource(facts: &Facts) -> ApiResource {
    let kind = facts.kind;
    resource(kind.group, kind.version, kind.name)
}

/// Which workloads of the kind are watched.
pub(super) fn workloads(facts: &Facts) -> watcher::Config {
    match facts.watched {
        Watched::All => watcher::Config::default(),
        Watched::Labelled => watcher::Config::default().labels(keys::WORKLOAD),
        Watched::ByMembers => watcher::Config::default().labels(&members(facts)),
    }
}

/// Waits until there is one: of a kind that nobody uses nothing else is watched. Where its workloads are
/// no objects, one that is gone may have left something behind.
pub(super) async fn appear(facts: &Facts, client: &Client, made: &[ApiResource]) {
    let mut watches = vec![(api_resource(facts), workloads(facts))];
    if facts.watched == Watched::ByMembers {
        let ours = watcher::Config::default().labels(&objects(facts));
        watches.extend(made.iter().map(|kind| (kind.clone(), ours.clone())));
    }
    let watches = watches.into_iter().map(|(kind, selected)| {
        let events = watch::<Stored>(client, &kind, selected);
        events.touched_objects().boxed()
    });
    let mut seen = pin!(futures::stream::select_all(watches));
    while let Some(seen) = seen.next().await {
        match seen {
            Ok(_) => return,
            Err(error) => tracing::warn!(%error, kind = facts.kind.plural, "cannot watch"),
        }
    }
}

/// Which pods are members: each kind's own, so that no pod is kept twice. A pod of a Job of another
/// workload has the labels of both, and belongs to the kind that comes first in the table.
pub(super) fn members(facts: &Facts) -> String {
    if facts.watched == Watched::ByMembers {
        // One that has the label of a stamped child belongs to the workload that stamped it.
        return format!("{},!{}", facts.members.name, keys::GANG);
    }
    format!("{},{}", keys::GANG, own(facts))
}

/// Which pods wait at start barriers of this kind's workloads; none where it has none.
pub(super) fn waiters(facts: &Facts) -> Option<String> {
    facts.members.attempt?;
    Some(format!("{},{}", keys::BARRIER, own(facts)))
}

fn own(facts: &Facts) -> String {
    let before = object::workloads().take_while(|other| *other != facts);
    let not_theirs: String = before
        .map(|other| format!(",!{}", other.members.name))
        .collect();
    format!("{}{not_theirs}", facts.members.name)
}

/// Which objects Muster made for this kind: each kind's own, so that no object is kept twice.
pub(super) fn objects(facts: &Facts) -> String {
    let kind = facts.kind.name;
    format!(
        "{}={},{}={kind}",
        MANAGED_BY.0,
        MANAGED_BY.1,
        keys::WORKLOAD
    )
}

/// Who an object of Muster's was made for; [`object_key`] is how a workload is found there.
pub(super) fn made_for(facts: &Facts, meta: &ObjectMeta) -> Vec<String> {
    match facts.watched {
        Watched::ByMembers => gang_name(meta).map(str::to_owned).into_iter().collect(),
        Watched::All | Watched::Labelled => owners(meta).map(str::to_owned).collect(),
    }
}

/// What the objects of a workload know it by.
pub(super) fn object_key<'w>(facts: &Facts, workload: &'w Stored) -> &'w str {
    match facts.watched {
        Watched::ByMembers => workload.name(),
        Watched::All | Watched::Labelled => workload.uid(),
    }
}

/// The label of a member that says which workload owns it; [`known_as`] is its value.
pub(super) fn owner_label(facts: &Facts) -> &'static str {
    facts.members.uid.unwrap_or(facts.members.name)
}

/// What the members of a workload know it by.
pub(super) fn known_as<'w>(facts: &Facts, workload: &'w Stored) -> &'w str {
    match facts.members.uid {
        Some(_) => workload.uid(),
        None => workload.name(),
    }
}
