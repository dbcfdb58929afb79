//! What is watched only while a gang waits, to say why: nodes and the pods on them while pods wait for a
//! node, and what controllers were told when they could not create pods while any gang waits. Nothing of
//! it is kept when no gang waits.

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
use crate::explain::fit::Fit;
use crate::explain::refusal::Refusal;
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

/// What is needed to say why the gangs of a workload wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Need {
    /// What controllers were refused: its pods do not exist, so that room does not matter yet.
    Refusals,
    /// Also the room on nodes: pods of it wait for a node.
    Room,
}

impl Need {
    const ALL: [Self; 2] = [Self::Refusals, Self::Room];
}

/// Workloads with gangs that wait, by uid.
#[derive(Default)]
struct Waiting {
    all: HashMap<String, (PartnerRef, Need)>,
    /// How many need the room.
    room: usize,
}

impl Waiting {
    fn insert(&mut self, uid: &str, workload: PartnerRef, need: Need) {
        self.remove(uid);
        self.room += usize::from(need == Need::Room);
        self.all.insert(uid.to_owned(), (workload, need));
    }

    fn remove(&mut self, uid: &str) {
        if let Some((_, need)) = self.all.remove(uid) {
            self.room -= usize::from(need == Need::Room);
        }
    }

    fn needs(&self, need: Need) -> usize {
        match need {
            Need::Refusals => self.all.len(),
            Need::Room => self.room,
        }
    }
}

/// How the watches for one need are told.
#[derive(Default)]
struct Signs {
    /// The first workload that needs it came, or the last one went.
    turned: Notify,
    /// Something that was said has changed.
    changed: Notify,
    /// Where the last round of looks ended.
    round: AtomicUsize,
}

/// What witnesses say. One for all kinds of workloads.
#[derive(Default)]
pub(super) struct Witnesses {
    waiting: Mutex<Waiting>,
    for_room: Signs,
    for_refusals: Signs,
    room: WatchedRoom,
    refusals: Refusals,
    claims: Claims,
    fits: Fits,
}

impl Witnesses {
    /// A workload has a gang that waits: it is looked at again when witnesses say something else.
    pub(super) fn wait(&self, uid: &str, workload: PartnerRef, need: Need) {
        self.change(|waiting| waiting.insert(uid, workload, need));
    }

    /// A workload has none, or is gone.
    pub(super) fn done(&self, uid: &str) {
        self.change(|waiting| waiting.remove(uid));
    }

    /// Of the workloads of a kind only these exist.
    pub(super) fn keep_only(&self, kind: &str, uids: &HashSet<String>) {
        self.change(|waiting| {
            let gone = waiting
                .all
                .iter()
                .filter(|(uid, (workload, _))| workload.kind() == kind && !uids.contains(*uid));
            let gone: Vec<String> = gone.map(|(uid, _)| uid.clone()).collect();
            gone.iter().for_each(|uid| waiting.remove(uid));
        });
    }

    fn change(&self, change: impl FnOnce(&mut Waiting)) {
        let mut waiting = self.lock();
        let needed = |waiting: &Waiting| Need::ALL.map(|need| waiting.needs(need) > 0);
        let before = needed(&waiting);
        change(&mut waiting);
        let after = needed(&waiting);
        drop(waiting);
        for (index, need) in Need::ALL.into_iter().enumerate() {
            if before[index] != after[index] {
                self.signs(need).turned.notify_one();
            }
        }
    }

    fn signs(&self, need: Need) -> &Signs {
        match need {
            Need::Refusals => &self.for_refusals,
            Need::Room => &self.for_room,
        }
    }

    fn is_needed(&self, need: Need) -> bool {
        self.lock().needs(need) > 0
    }

    /// Whether everything of it that exists has been seen.
    pub(super) fn has_seen(&self, need: Need) -> bool {
        match need {
            Need::Refusals => self.refusals.is_filled(),
            Need::Room => self.room.is_filled(),
        }
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

    /// Whether somebody answers for a `schedulerName`; nothing before all pods were seen.
    pub(super) fn answers(&self, scheduler: &str) -> Option<bool> {
        self.room.answers(scheduler)
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
        let room = self.attend(
            Need::Room,
            neighbours,
            || self.room.watch(client.clone(), &self.for_room.changed),
            || self.room.clear(),
        );
        let refusals = self.attend(
            Need::Refusals,
            neighbours,
            || {
                let changed = &self.for_refusals.changed;
                self.refusals.watch(client.clone(), changed)
            },
            || self.refusals.clear(),
        );
        tokio::join!(room, refusals);
    }

    async fn attend<W: Future<Output = ()>>(
        &self,
        need: Need,
        neighbours: &Neighbours,
        watch: impl Fn() -> W,
        clear: impl Fn(),
    ) {
        loop {
            while !self.is_needed(need) {
                self.signs(need).turned.notified().await;
            }
            tracing::debug!(?need, "a gang waits: watched from now on");
            tokio::select! {
                () = watch() => {}
                () = self.tell(need, neighbours) => {}
                () = self.idle(need) => {}
            }
            clear();
            tracing::debug!(?need, "no gang waits: no longer watched");
        }
    }

    async fn tell(&self, need: Need, neighbours: &Neighbours) {
        let changed = &self.signs(need).changed;
        loop {
            changed.notified().await;
            let waiting = self.next_few(need);
            waiting
                .iter()
                .for_each(|workload| neighbours.tell(workload));
            tokio::time::sleep(REST).await;
            // The others come in the next rounds.
            if self.lock().needs(need) > waiting.len() {
                changed.notify_one();
            }
        }
    }

    /// Those that are looked at in one round: all, or some of many.
    fn next_few(&self, need: Need) -> Vec<PartnerRef> {
        let waiting = self.lock();
        let all = waiting.all.values().filter(|(_, needs)| *needs >= need);
        let all = all.map(|(workload, _)| workload);
        let count = waiting.needs(need);
        if count <= FEW {
            return all.cloned().collect();
        }
        let from = self.signs(need).round.fetch_add(FEW, Ordering::Relaxed) % count;
        all.cycle().skip(from).take(FEW).cloned().collect()
    }

    /// Comes back when no gang has needed it for a while.
    async fn idle(&self, need: Need) {
        let turned = &self.signs(need).turned;
        loop {
            while self.is_needed(need) {
                turned.notified().await;
            }
            let another = tokio::time::timeout(LINGER, turned.notified());
            if another.await.is_err() && !self.is_needed(need) {
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gang::WorkloadRef;

    fn workload(name: &str) -> PartnerRef {
        PartnerRef::new("Workload", WorkloadRef::new("ml", name))
    }

    #[test]
    fn nodes_are_watched_only_while_pods_wait_for_one() {
        let witnesses = Witnesses::default();
        let needed = || Need::ALL.map(|need| witnesses.is_needed(need));
        witnesses.wait("a", workload("a"), Need::Refusals);
        assert_eq!(needed(), [true, false]);
        witnesses.wait("b", workload("b"), Need::Room);
        witnesses.wait("b", workload("b"), Need::Room);
        assert_eq!(needed(), [true, true]);
        assert_eq!(witnesses.next_few(Need::Room), [workload("b")]);
        assert_eq!(witnesses.next_few(Need::Refusals).len(), 2);
        witnesses.wait("b", workload("b"), Need::Refusals);
        assert_eq!(needed(), [true, false]);
        witnesses.keep_only("Workload", &HashSet::new());
        assert_eq!(needed(), [false, false]);
    }
}
