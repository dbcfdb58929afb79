//! The gangs that pods declare themselves, kept for admission by every replica.

use std::sync::Arc;

use futures::StreamExt as _;
use kube::runtime::watcher::{self, Event};
use kube::{Client, ResourceExt as _};

use super::Cluster;
use super::observe::WatchedPod;
use super::run::watch;
use super::write::resource;
use crate::gang::Standing;
use crate::gang::standing::{Declared, DeclaredPod, Presence};
use crate::workload::child;
use crate::workload::keys;
use crate::workload::pods::PodStamp;

/// Fails until the pods that declare gangs are listed: a readiness check.
pub fn listed(cluster: Cluster) -> impl Fn() -> Result<(), String> {
    move || match &cluster.load().standing {
        Standing::Watched(declared) if !declared.is_filled() => {
            Err("the pods that declare gangs are not known yet".to_owned())
        }
        Standing::Watched(_) | Standing::Nobody => Ok(()),
    }
}

/// Keeps what such pods say, until dropped.
pub(super) async fn keep(client: Client, cluster: Cluster) {
    let declared = take(&cluster);
    let pods = resource("", "v1", "Pod");
    let selected = watcher::Config::default().labels(keys::GANG_NAME);
    let mut events = std::pin::pin!(watch::<WatchedPod>(&client, &pods, selected));
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => follow(&declared, &event),
            Err(error) => tracing::warn!(%error, "cannot watch the pods that declare gangs"),
        }
    }
}

/// What admission looks at.
fn take(cluster: &Cluster) -> Arc<Declared> {
    cluster.rcu(|old| {
        let mut new = crate::scheduler::Snapshot::clone(old);
        new.standing = old.standing.watched();
        new
    });
    match &cluster.load().standing {
        Standing::Watched(declared) => Arc::clone(declared),
        Standing::Nobody => Arc::default(),
    }
}

fn follow(declared: &Declared, event: &Event<WatchedPod>) {
    match event {
        Event::Init => declared.list(),
        Event::InitApply(pod) => {
            if let Some(pod) = read(pod) {
                declared.listed(pod);
            }
        }
        Event::InitDone => declared.complete(),
        Event::Apply(pod) => {
            if let Some(pod) = read(pod) {
                declared.applied(pod);
            }
        }
        Event::Delete(pod) => {
            if let Some(gone) = read(pod) {
                declared.deleted(&gone.namespace, &gone.gang, &gone.pod);
            }
        }
    }
}

/// A pod as it counts for others; `None` for one that Muster has not admitted.
fn read(pod: &WatchedPod) -> Option<DeclaredPod> {
    let gang = pod.labels().get(keys::GANG_NAME)?.clone();
    let stamp = child::stamp(&pod.metadata).ok()?;
    let ended = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    let ended = matches!(ended, Some("Succeeded" | "Failed"));
    let presence = match ended || pod.metadata.deletion_timestamp.is_some() {
        true => Presence::Leaving,
        false => Presence::Here,
    };
    Some(DeclaredPod {
        namespace: pod.namespace().unwrap_or_default(),
        gang,
        pod: pod.name_any(),
        round: child::round(&pod.metadata),
        presence,
        created: pod.metadata.creation_timestamp.as_ref().map(|time| time.0),
        terms: PodStamp::of(&stamp).terms,
    })
}
