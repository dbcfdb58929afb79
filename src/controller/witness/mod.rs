//! What is watched only while a gang waits, to say why: nodes, the pods on them, and what controllers
//! were told when they could not create pods. Nothing of it is kept when no gang waits.

mod claims;
mod fits;
mod refusals;
mod room;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::Client;
use tokio::sync::Notify;

use super::bundles::neighbours::Neighbours;
use crate::explain::refusal::Refusal;
use crate::explain::room::Fit;
use crate::gang::{Ask, PartnerRef};
use claims::Claims;
use fits::Fits;
use refusals::Refusals;
use room::WatchedRoom;

/// Watches go on for so long after the last gang that waited: another one may come.
const LINGER: Duration = Duration::from_secs(60);

/// What changes is looked at not more often than this, however much changes.
const REST: Duration = Duration::from_secs(2);

/// So many workloads are looked at then.
const FEW: usize = 50;

/// What witnesses say. One for all kinds of workloads.
#[derive(Default)]
pub(super) struct Witnesses {
    /// Workloads with gangs that wait, by uid.
    waiting: Mutex<HashMap<String, PartnerRef>>,
    /// The first one came, or the last one went.
    turned: Notify,
    /// Something that was said has changed.
    changed: Notify,
    room: WatchedRoom,
    refusals: Refusals,
    claims: Claims,
    fits: Fits,
    /// Where the last round of looks ended.
    round: AtomicUsize,
}

impl Witnesses {
    /// A workload has a gang that waits: it is looked at again when witnesses say something else.
    pub(super) fn wait(&self, uid: &str, workload: PartnerRef) {
        let first = {
            let mut waiting = self.lock();
            let first = waiting.is_empty();
            waiting.insert(uid.to_owned(), workload);
            first
        };
        if first {
            self.turned.notify_one();
        }
    }

    /// A workload has none, or is gone.
    pub(super) fn done(&self, uid: &str) {
        let last = {
            let mut waiting = self.lock();
            waiting.remove(uid).is_some() && waiting.is_empty()
        };
        if last {
            self.turned.notify_one();
        }
    }

    /// Of the workloads of a kind only these exist.
    pub(super) fn keep_only(&self, kind: &str, uids: &HashSet<String>) {
        let mut waiting = self.lock();
        waiting.retain(|uid, workload| workload.kind() != kind || uids.contains(uid));
        drop(waiting);
        self.turned.notify_one();
    }

    /// Whether everything that exists has been seen.
    pub(super) fn is_filled(&self) -> bool {
        self.sees_room() && self.hears_refusals()
    }

    /// Whether all nodes and the pods on them have been seen.
    pub(super) fn sees_room(&self) -> bool {
        self.room.is_filled()
    }

    /// Whether what controllers were told has been seen.
    pub(super) fn hears_refusals(&self) -> bool {
        self.refusals.is_filled()
    }

    /// Whether so many pods of a gang fit now; nothing before all nodes and pods were seen. What pods
    /// take whose holder begins with `own` is kept for them.
    pub(super) fn fit(
        &self,
        (namespace, gang): (&str, &str),
        asks: &[(Arc<Ask>, u32)],
        needed: u32,
        own: Option<&str>,
    ) -> Option<Fit> {
        let key = (namespace.to_owned(), gang.to_owned());
        let count = || self.room.fit(asks, needed, own);
        self.fits.get(key, asks, needed, count)
    }

    /// What those that create pods of a workload were told, the last first. `makes` says by kind and name
    /// who they are.
    pub(super) fn refusals(
        &self,
        namespace: &str,
        makes: impl Fn(&str, &str) -> bool,
    ) -> Vec<Refusal> {
        self.refusals.of(namespace, makes)
    }

    /// Which of these claims of volumes do not exist.
    pub(super) async fn missing_claims(
        &self,
        client: &Client,
        namespace: &str,
        names: BTreeSet<&str>,
    ) -> Vec<String> {
        self.claims.missing(client, namespace, names).await
    }

    /// Looks once at everything that is watched otherwise, at the events of one namespace or of all;
    /// what could not be looked at, and why.
    pub(super) async fn list(
        &self,
        client: &Client,
        namespace: Option<&str>,
    ) -> Vec<(&'static str, kube::Error)> {
        let mut unseen = self.room.list(client).await;
        if let Err(error) = self.refusals.list(client, namespace).await {
            unseen.push(("events of controllers", error));
        }
        unseen
    }

    /// Watches while a gang waits, and has workloads looked at. Never ends.
    pub(super) async fn run(&self, client: Client, neighbours: &Neighbours) {
        loop {
            while self.lock().is_empty() {
                self.turned.notified().await;
            }
            tracing::debug!("a gang waits: nodes and refusals are watched");
            tokio::select! {
                () = self.room.watch(client.clone(), &self.changed) => {}
                () = self.refusals.watch(client.clone(), &self.changed) => {}
                () = self.tell(neighbours) => {}
                () = self.idle() => {}
            }
            self.room.clear();
            self.refusals.clear();
        }
    }

    async fn tell(&self, neighbours: &Neighbours) {
        loop {
            self.changed.notified().await;
            let waiting = self.next_few();
            waiting
                .iter()
                .for_each(|workload| neighbours.tell(workload));
            tokio::time::sleep(REST).await;
            // The others come in the next rounds.
            if self.lock().len() > waiting.len() {
                self.changed.notify_one();
            }
        }
    }

    /// Those that are looked at in one round: all, or some of many.
    fn next_few(&self) -> Vec<PartnerRef> {
        let waiting = self.lock();
        if waiting.len() <= FEW {
            return waiting.values().cloned().collect();
        }
        let from = self.round.fetch_add(FEW, Ordering::Relaxed) % waiting.len();
        let all = waiting.values().cycle().skip(from);
        all.take(FEW).cloned().collect()
    }

    /// Comes back when no gang has waited for a while.
    async fn idle(&self) {
        loop {
            while !self.lock().is_empty() {
                self.turned.notified().await;
            }
            let another = tokio::time::timeout(LINGER, self.turned.notified());
            if another.await.is_err() && self.lock().is_empty() {
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, PartnerRef>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
