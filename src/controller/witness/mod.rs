//! What is watched only while a gang waits, to say why: nodes and the pods on them while pods wait for a
//! node, queues while a gang waits in one, what Kueue says while it has not admitted a workload, and what
//! controllers were told when they could not create pods while any gang waits. Nothing of it is kept when
//! no gang waits.

mod admissions;
mod claims;
mod events;
mod fits;
mod heard;
mod latest;
mod queues;
mod refusals;
mod room;
mod telling;
mod waiting;
mod words;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kube::Client;
use tokio::sync::Notify;

use super::bundles::neighbours::Neighbours;
use crate::explain::Evidence;
use crate::explain::refusal::Refusal;
use crate::explain::room::Own;
use crate::gang::resources::ResourceList;
use crate::gang::{Ask, PartnerRef};
use crate::scheduler::{Queue, QueueTrouble, TABLE};
use admissions::Admissions;
use claims::{Claims, Missing};
pub(super) use fits::{Count, Pace};
use fits::{Fits, Question};
use queues::Queues;
use refusals::Refusals;
use room::WatchedRoom;
use telling::Telling;
pub(super) use waiting::Need;
use waiting::Waiting;
use words::Words;

/// Watches go on for so long after the last gang that waited: another one may come.
const LINGER: Duration = Duration::from_secs(60);

/// What changes is looked at not more often than this, however much changes.
const REST: Duration = Duration::from_secs(2);

/// So many workloads are looked at then.
const FEW: usize = 50;

/// So long it may take to see all that exists, before it is not waited for any more.
const FIRST_LOOK: Duration = Duration::from_secs(5);

/// How the watches for one need are told.
#[derive(Default)]
struct Signs {
    /// The first workload that needs it came, or the last one went.
    turned: Notify,
    /// Something that was said has changed.
    changed: Notify,
    /// Where the last round of looks ended.
    round: AtomicUsize,
    /// Since when it is watched.
    since: Mutex<Option<Instant>>,
}

impl Signs {
    fn lock_since(&self) -> MutexGuard<'_, Option<Instant>> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What witnesses say. One for all kinds of workloads.
pub(super) struct Witnesses {
    waiting: Mutex<Waiting>,
    signs: BTreeMap<Need, Signs>,
    admissions: Admissions,
    room: WatchedRoom,
    refusals: Refusals,
    /// By group and version.
    queues: BTreeMap<&'static str, Queues>,
    words: Words,
    claims: Claims,
    fits: Fits,
    telling: Telling,
}

impl Witnesses {
    pub(super) fn new(pace: Pace) -> Self {
        let queues = TABLE.iter().filter_map(|entry| entry.queues);
        Self {
            waiting: Mutex::default(),
            signs: Need::all().map(|need| (need, Signs::default())).collect(),
            room: WatchedRoom::default(),
            refusals: Refusals::default(),
            queues: queues.map(|api| (api, Queues::default())).collect(),
            words: Words::default(),
            admissions: Admissions::default(),
            claims: Claims::default(),
            fits: Fits::new(pace),
            telling: Telling::default(),
        }
    }

    /// A workload has a gang that waits: it is looked at again when witnesses say something else.
    pub(super) fn wait(&self, uid: &str, workload: PartnerRef, needs: BTreeSet<Need>) {
        self.change(|waiting| waiting.insert(uid, workload, needs));
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
        let needed = |waiting: &Waiting| -> Vec<bool> {
            let needs = self.signs.keys();
            needs.map(|need| waiting.needs(*need) > 0).collect()
        };
        let before = needed(&waiting);
        change(&mut waiting);
        let after = needed(&waiting);
        drop(waiting);
        let turned = before
            .iter()
            .zip(after)
            .map(|(before, after)| *before != after);
        for (signs, _) in self
            .signs
            .values()
            .zip(turned)
            .filter(|(_, turned)| *turned)
        {
            signs.turned.notify_one();
        }
    }

    fn is_needed(&self, need: Need) -> bool {
        self.lock().needs(need) > 0
    }

    /// Whether everything of it that exists has been seen.
    pub(super) fn has_seen(&self, need: Need) -> bool {
        match need {
            // What it says is told as soon as it is known.
            Need::Admission => true,
            Need::Refusals => self.refusals.is_filled(),
            Need::Room => self.room.is_filled(),
            Need::Queues(api) => self.queues.get(api).is_some_and(Queues::is_filled),
            Need::Words => self.words.is_filled(),
        }
    }

    /// Whether what exists of it is being looked at for the first time, as after a restart: soon all of
    /// it is known.
    pub(super) fn is_about_to_see(&self, need: Need) -> bool {
        let since = self.signs.get(&need).map(Signs::lock_since);
        let begun = |since: Instant| since.elapsed() < FIRST_LOOK;
        let new = since.is_some_and(|since| since.is_some_and(begun));
        new && !self.has_seen(need)
    }

    /// Why Kueue has not admitted a workload, in its words.
    pub(super) fn admission(&self, namespace: &str, uid: &str) -> Option<String> {
        self.admissions.of(namespace, uid)
    }

    /// Looks once at what Kueue says, in one namespace or in all. Whether Kueue is there.
    pub(super) async fn list_admissions(
        &self,
        client: &Client,
        namespace: Option<&str>,
    ) -> Result<bool, kube::Error> {
        self.admissions.list(client, namespace).await
    }

    /// Adds to what is known of a gang what its scheduler said of nodes a moment ago, and says for how
    /// long that still counts.
    pub(super) fn recall(
        &self,
        (namespace, gang): (&str, &str),
        known: &mut Evidence,
    ) -> Option<Duration> {
        let gang = (namespace.to_owned(), gang.to_owned());
        self.telling.recall(gang, known, Instant::now())
    }

    /// Whether so many pods of a gang fit now.
    pub(super) fn fit(
        &self,
        (namespace, gang): (&str, &str),
        asks: &[(Arc<Ask>, u32)],
        needed: u32,
        own: Own<'_>,
    ) -> Count {
        let key = (namespace.to_owned(), gang.to_owned());
        // Before it is counted: what changes meanwhile asks for another count.
        let version = self.room.version();
        // To a workload that holds nothing all others are others: it may share their answer.
        let workload = own.workload.filter(|name| self.room.may_hold(name));
        let own = Own { workload, ..own };
        let question = Question {
            asks,
            needed,
            own,
            version,
        };
        let count = || self.room.fit(asks, needed, own);
        self.fits.get(key, &question, Instant::now(), count)
    }

    /// Whether somebody answers for a `schedulerName`; nothing before all pods were seen.
    pub(super) fn answers(&self, scheduler: &str) -> Option<bool> {
        self.room.answers(scheduler)
    }

    /// What those that create pods of a workload were told, what must be fixed first first. `makes` says by
    /// kind and name who they are.
    pub(super) fn refusals<T>(
        &self,
        namespace: &str,
        makes: impl Fn(&str, &str) -> Option<T>,
    ) -> Vec<(T, Refusal)> {
        self.refusals.of(namespace, makes)
    }

    /// What is wrong with a queue, for a gang that still needs so much; nothing where that is not known.
    pub(super) fn queue(&self, queue: &Queue, needed: &ResourceList) -> Option<QueueTrouble> {
        self.queues.get(queue.api_version)?.trouble(queue, needed)
    }

    /// Whether it is known if a queue exists, and how it is.
    pub(super) fn knows(&self, queue: &Queue) -> bool {
        let queues = self.queues.get(queue.api_version);
        queues.is_none_or(|queues| queues.knows(&queue.name))
    }

    /// Looks once at a queue.
    pub(super) async fn look_up(&self, client: &Client, queue: &Queue) -> Result<(), kube::Error> {
        match self.queues.get(queue.api_version) {
            Some(queues) => queues.look_up(client, queue).await,
            None => Ok(()),
        }
    }

    /// What a scheduler says in events of pods whose names begin like this, the last first.
    pub(super) fn words(&self, namespace: &str, prefix: &str) -> Vec<String> {
        self.words.of(namespace, prefix)
    }

    /// Which of these claims of volumes do not exist.
    pub(super) async fn missing_claims(
        &self,
        client: &Client,
        namespace: &str,
        names: BTreeSet<&str>,
    ) -> Missing {
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
        let refusals = self.refusals.list(client, namespace).await;
        let words = self.words.list(client, namespace).await;
        if let Err(error) = refusals.and(words) {
            unseen.push(("events of controllers", error));
        }
        unseen
    }

    /// Watches while a gang waits, and has workloads looked at. Never ends.
    pub(super) async fn run(&self, client: Client, neighbours: &Neighbours) {
        let needs = self.signs.iter();
        let attended = needs.map(|(need, signs)| self.attend(*need, signs, &client, neighbours));
        futures::future::join_all(attended).await;
    }

    async fn attend(&self, need: Need, signs: &Signs, client: &Client, neighbours: &Neighbours) {
        loop {
            while !self.is_needed(need) {
                signs.turned.notified().await;
            }
            tracing::debug!(?need, "a gang waits: watched from now on");
            *signs.lock_since() = Some(Instant::now());
            tokio::select! {
                () = self.watch(need, client.clone(), &signs.changed, neighbours) => {}
                () = self.tell(need, signs, neighbours) => {}
                () = self.idle(need, signs) => {}
            }
            *signs.lock_since() = None;
            self.clear(need);
            tracing::debug!(?need, "no gang waits: no longer watched");
        }
    }

    async fn watch(&self, need: Need, client: Client, changed: &Notify, neighbours: &Neighbours) {
        match need {
            // Each of Kueue's is one workload's: the others need not be looked at.
            Need::Admission => {
                let tell = |uid: &str| {
                    let waiting = self.lock();
                    let workload = waiting.all.get(uid).map(|(workload, _)| workload.clone());
                    drop(waiting);
                    workload
                        .iter()
                        .for_each(|workload| neighbours.tell(workload));
                };
                self.admissions.watch(client, tell).await;
            }
            Need::Refusals => self.refusals.watch(client, changed).await,
            Need::Room => self.room.watch(client, changed).await,
            Need::Words => self.words.watch(client, changed).await,
            Need::Queues(api) => {
                if let Some(queues) = self.queues.get(api) {
                    queues.watch(client, api, changed).await;
                }
            }
        }
    }

    fn clear(&self, need: Need) {
        match need {
            Need::Admission => self.admissions.clear(),
            Need::Refusals => self.refusals.clear(),
            Need::Room => self.room.clear(),
            Need::Words => self.words.clear(),
            Need::Queues(api) => {
                if let Some(queues) = self.queues.get(api) {
                    queues.clear();
                }
            }
        }
    }

    async fn tell(&self, need: Need, signs: &Signs, neighbours: &Neighbours) {
        loop {
            signs.changed.notified().await;
            // Each of them once, and then no more until something else is said.
            let rounds = self.lock().needs(need).div_ceil(FEW);
            for _ in 0..rounds {
                let few = self.next_few(need, &signs.round);
                few.iter().for_each(|workload| neighbours.tell(workload));
                tokio::time::sleep(REST).await;
            }
        }
    }

    /// Those that are looked at in one round: all, or some of many.
    fn next_few(&self, need: Need, round: &AtomicUsize) -> Vec<PartnerRef> {
        let waiting = self.lock();
        let all = waiting.all.values();
        let all = all.filter(|(_, needs)| needs.contains(&need));
        let all = all.map(|(workload, _)| workload);
        let count = waiting.needs(need);
        if count <= FEW {
            return all.cloned().collect();
        }
        let from = round.fetch_add(FEW, Ordering::Relaxed) % count;
        all.cycle().skip(from).take(FEW).cloned().collect()
    }

    /// Comes back when no gang has needed it for a while.
    async fn idle(&self, need: Need, signs: &Signs) {
        let turned = &signs.turned;
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
    fn nodes_are_watched_only_while_pods_wait_for_one_and_queues_while_a_gang_waits_in_one() {
        let witnesses = Witnesses::new(Pace::Rationed);
        let queues = Need::Queues(TABLE.iter().find_map(|entry| entry.queues).unwrap());
        let needed = || {
            let needs = [Need::Refusals, Need::Room, queues];
            needs.map(|need| witnesses.is_needed(need))
        };
        let next = |need| witnesses.next_few(need, &AtomicUsize::default());
        let needs = |needs: &[Need]| needs.iter().copied().collect();
        witnesses.wait("a", workload("a"), needs(&[Need::Refusals]));
        assert_eq!(needed(), [true, false, false]);
        let both = [Need::Refusals, Need::Room];
        witnesses.wait("b", workload("b"), needs(&both));
        witnesses.wait("b", workload("b"), needs(&both));
        assert_eq!(needed(), [true, true, false]);
        assert_eq!(next(Need::Room), [workload("b")]);
        assert_eq!(next(Need::Refusals).len(), 2);
        witnesses.wait("b", workload("b"), needs(&[Need::Refusals, queues]));
        assert_eq!(needed(), [true, false, true]);
        witnesses.keep_only("Workload", &HashSet::new());
        assert_eq!(needed(), [false, false, false]);
    }
}
