//! Why the gangs of a workload wait: what was seen of them and what witnesses say goes into
//! `explain`, and its answer into how each gang stands.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::Client;

use super::decide::{Actions, GangStatus, State};
use super::needs;
use super::report::events::FIRST_WORDS;
use super::wanted::Wanted;
use super::witness::Witnesses;
use crate::explain::refusal::Refusal;
use crate::explain::room::Own;
use crate::explain::{Answer, Cause, Evidence, causes};
use crate::gang::Ask;
use crate::scheduler::{self, Queue};
use crate::workload::{SeenPod, Workload};

/// Witnesses that have not seen everything yet are waited for so much longer.
const GRACE: Duration = Duration::from_millis(1500);

/// Between a refusal and the gang's object.
const MOMENT: Duration = Duration::from_secs(5);

/// Of a gang that has neither an object nor a pod, refusals so old count. Controllers try again sooner.
const OBJECTLESS: Duration = Duration::from_secs(120);

/// Pods that came no longer ago are followed by others: that one is missing says nothing then. A second
/// more than it takes, because the API tells full seconds.
const STILL_COMING: Duration = Duration::from_secs(3);

/// A workload, as far as its gangs' causes need it.
pub(super) struct Case<'a> {
    pub(super) workload: &'a dyn Workload,
    pub(super) namespace: &'a str,
    pub(super) pods: &'a [SeenPod],
    /// Who makes its pods, where neither it nor a pod says so: kind and name.
    pub(super) makers: &'a [(String, String)],
    pub(super) wanted: Wanted,
    pub(super) now: Timestamp,
}

impl Case<'_> {
    fn refusals(&self, witnesses: &Witnesses) -> Vec<Refusal> {
        let makes = |kind: &str, name: &str| {
            let own = |pod: &SeenPod| {
                let controller = pod.own.as_ref().and_then(|own| own.controller.as_ref());
                controller.is_some_and(|made| made.kind == kind && made.name == name)
            };
            let known = self
                .makers
                .iter()
                .any(|made| (&*made.0, &*made.1) == (kind, name));
            known || self.workload.makes_pods(kind, name) || self.pods.iter().any(own)
        };
        witnesses.refusals(self.namespace, makes)
    }

    /// Asks why Kueue has not admitted the workload, where it is suspended.
    fn admission(&self, actions: &mut Actions, witnesses: &Witnesses) {
        let uid = self.workload.meta().uid.as_deref();
        if let (Some(_), Some(queued), Some(uid)) = (actions.suspended, &mut actions.kueue, uid) {
            queued.says = witnesses.admission(self.namespace, uid);
        }
    }

    /// Finds the causes of every gang that waits, and why there is none yet. Comes back with how long it
    /// may be said, where nothing else may bring another look.
    pub(super) async fn explain(
        &self,
        actions: &mut Actions,
        witnesses: &Witnesses,
        client: &Client,
    ) -> Option<Duration> {
        self.admission(actions, witnesses);
        let waiting = actions.gangs.iter().filter(|gang| gang.waits());
        let asks = waiting.flat_map(|gang| &gang.evidence.asks);
        let claims: BTreeSet<&str> = asks
            .flat_map(|(ask, _)| ask.claims.iter().map(String::as_str))
            .collect();
        let no_claims = witnesses
            .missing_claims(client, self.namespace, claims)
            .await;
        let refusals = match actions.gangs.iter().any(lacks_pods) || actions.unmade {
            true => self.refusals(witnesses),
            false => Vec::new(),
        };
        self.refused(actions, &refusals);
        let queue = actions.queue.clone();
        let mut stale: Option<Duration> = None;
        for gang in actions.gangs.iter_mut().filter(|gang| gang.waits()) {
            let early = gang.waited.unwrap_or_default() < FIRST_WORDS + GRACE;
            if early && !needs::are_met(gang, queue.as_ref(), witnesses) {
                continue;
            }
            if gang.evidence.lacks() {
                let start = self.start(gang.age);
                gang.evidence.refusals = of_this_start(&refusals, gang.age, start, self.now);
            } else {
                self.count(gang, witnesses);
            }
            self.look_at_queue(gang, queue.as_ref(), witnesses);
            let known = &mut gang.evidence;
            if is_being_made(known, gang.newest) {
                continue;
            }
            // While members are missing, no scheduler looks for nodes.
            if !known.lacks() {
                let of = (self.namespace, gang.name.as_str());
                let left = witnesses.recall(of, known);
                stale = [stale, left].into_iter().flatten().min();
            }
            let asked = known.asks.iter().flat_map(|(ask, _)| &ask.claims);
            known.claims = no_claims
                .iter()
                .filter(|m| asked.clone().any(|a| a == *m))
                .cloned()
                .collect();
            gang.causes = causes(known);
            // A scheduler that is known to be there may speak in a moment.
            if early && known.answer == Answer::Likely && is_unheard(&gang.causes) {
                gang.causes.clear();
            }
        }
        // One that has no pod yet waits for no node; but it can be said what it waits for.
        let empty = |gang: &&mut GangStatus| gang.state == State::Empty;
        for gang in actions.gangs.iter_mut().filter(empty) {
            let awaits = gang.evidence.awaits.clone().map(Cause::NotBegun);
            gang.causes = awaits.into_iter().collect();
        }
        stale
    }

    /// Whether it fits, and whether anybody answers for its pods.
    fn count(&self, gang: &mut GangStatus, witnesses: &Witnesses) {
        let needed = gang.lacks_placed();
        let known = &mut gang.evidence;
        let held = |holder: &str| format!("{}/{holder}", self.namespace);
        let placeholders = known.placeholders.as_deref().map(held);
        let workload = self.workload.meta().name.as_deref().map(held);
        let own = Own {
            placeholders: placeholders.as_deref(),
            workload: workload.as_deref(),
        };
        let of = (self.namespace, gang.name.as_str());
        known.fit = witnesses.fit(of, &known.asks, needed, own);
        known.answer = answer(&known.asks, witnesses);
    }

    /// What is wrong with its queue: as its object says, else as the scheduler says in events. What its
    /// gang's object says is known already.
    fn look_at_queue(&self, gang: &mut GangStatus, queue: Option<&Queue>, witnesses: &Witnesses) {
        let needed = gang.evidence.needs(gang.lacks_placed()).unwrap_or_default();
        let known = &mut gang.evidence;
        let by_object = queue.and_then(|queue| witnesses.queue(queue, &needed));
        // Words alone do not tell a queue's own limit from what the cluster has.
        let fits = known.fit.as_ref().is_none_or(|fit| fit.fits >= fit.needed);
        let tells = scheduler::tells(gang.scheduler).filter(|_| fits && !known.lacks());
        let tells = tells.zip(known.placeholders.as_deref());
        let by_events = || {
            let (tells, prefix) = tells?;
            let words = witnesses.words(self.namespace, prefix);
            (tells.queue)(words.first()?)
        };
        known.queue = by_object.or(known.queue.take()).or_else(by_events);
    }

    /// Since when a gang is wanted: its workload was resumed then, or its object made. The object alone
    /// does not tell: one whose workload is resumed at once may be kept.
    fn start(&self, age: Option<Duration>) -> Option<Timestamp> {
        let made = age.and_then(|age| self.now.checked_sub(age).ok());
        let wanted = match self.wanted {
            Wanted::Since(time) => Some(time.min(self.now)),
            Wanted::Unknown => None,
        };
        made.max(wanted)
    }

    /// A gang whose pods are refused is wanted, also if none of them exists. It has waited since the first
    /// was refused, and never for longer than it is wanted: events tell of earlier starts too.
    fn refused(&self, actions: &mut Actions, refusals: &[Refusal]) {
        // Of one whose controller waits for others, the pods of these others are refused.
        let empty =
            |gang: &&mut GangStatus| gang.state == State::Empty && gang.evidence.awaits.is_none();
        for gang in actions.gangs.iter_mut().filter(empty) {
            let start = self.start(gang.age);
            let refusals = of_this_start(refusals, gang.age, start, self.now);
            if !refusals.is_empty() {
                gang.refuse();
                gang.waited = start.and_then(|start| waited(&refusals, start, self.now));
            }
        }
        let settled = |gang: &GangStatus| gang.state == State::Scheduled;
        if let Some(scheduler) = actions.scheduler
            && actions.unmade
            && actions.gangs.iter().all(settled)
            && !of_this_start(refusals, None, self.start(None), self.now).is_empty()
        {
            let name = self.workload.meta().name.as_deref().unwrap_or_default();
            // Others of the workload may have been refused before: since when this one is wanted is
            // known only from when it was seen first.
            let mut unmade = GangStatus::unmade(name, actions.first_quorum, scheduler);
            unmade.refuse();
            actions.gangs.push(unmade);
        }
    }
}

impl GangStatus {
    /// How many more must be placed.
    fn lacks_placed(&self) -> u32 {
        let placed = u32::try_from(self.bound).unwrap_or(u32::MAX);
        self.quorum.saturating_sub(placed)
    }

    /// Its pods are refused.
    fn refuse(&mut self) {
        self.state = State::Waiting;
        self.evidence.quorum = self.quorum;
    }
}

/// Whether nobody has said anything of a gang.
fn is_unheard(causes: &[Cause]) -> bool {
    matches!(causes, [Cause::Unheard { .. }])
}

/// How long the pods of a gang have been refused that is wanted since `start`.
fn waited(refusals: &[Refusal], start: Timestamp, now: Timestamp) -> Option<Duration> {
    let refused = refusals.iter().filter_map(|refusal| refusal.since(start));
    Some(elapsed(refused.min()?, now))
}

/// Those that came since a gang is wanted: events outlive what they tell of by an hour. A moment before
/// counts too, because its object and its pods are made at once.
fn of_this_start(
    refusals: &[Refusal],
    age: Option<Duration>,
    start: Option<Timestamp>,
    now: Timestamp,
) -> Vec<Refusal> {
    let oldest = age.unwrap_or(OBJECTLESS);
    let oldest = start.map_or(oldest, |start| oldest.min(elapsed(start, now)));
    let young = |refusal: &&Refusal| {
        let at = refusal.at().unwrap_or(now);
        elapsed(at, now) <= oldest + MOMENT
    };
    refusals.iter().filter(young).cloned().collect()
}

fn elapsed(since: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(since)).unwrap_or_default()
}

/// Whether anybody answers for the name that pods ask for. Schedulers that Muster knows may say nothing
/// for long, and are not doubted.
fn answer(asks: &[(Arc<Ask>, u32)], witnesses: &Witnesses) -> Answer {
    let Some((ask, _)) = asks.first() else {
        return Answer::Likely;
    };
    let known = scheduler::listens_to(&ask.scheduler);
    match !known && witnesses.answers(&ask.scheduler) == Some(false) {
        true => Answer::Nobody,
        false => Answer::Likely,
    }
}

/// Whether the pods that a gang lacks are likely on their way: others came a moment ago, and nothing else
/// says why they are missing.
fn is_being_made(known: &Evidence, newest: Option<Duration>) -> bool {
    let silent = known.refusals.is_empty() && known.unlinked == 0 && known.awaits.is_none();
    known.lacks() && silent && newest.is_some_and(|newest| newest < STILL_COMING)
}

fn lacks_pods(gang: &GangStatus) -> bool {
    gang.state != State::Scheduled && gang.live < gang.quorum as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_refused_before_a_gang_existed_is_no_cause_of_its_wait() {
        let now = Timestamp::now();
        let ago = |seconds| Some(now - Duration::from_secs(seconds));
        let refusals = [3, 30, 3000].map(|seconds| Refusal::read("x", ago(3000), ago(seconds)));
        let count = |age: Option<u64>| {
            let age = age.map(Duration::from_secs);
            of_this_start(&refusals, age, None, now).len()
        };
        let hour = Some(Duration::from_secs(3600));
        let resumed = of_this_start(&refusals, hour, ago(40), now).len();
        assert_eq!(resumed, 2, "its object is older");
        assert_eq!(count(Some(0)), 1, "it was made in the same moment");
        assert_eq!(count(Some(60)), 2);
        assert_eq!(count(Some(7200)), 3);
        assert_eq!(count(None), 2);
    }

    #[test]
    fn pods_that_are_still_being_made_are_not_missing() {
        let mut known = Evidence {
            quorum: 3,
            live: 2,
            ..Evidence::default()
        };
        let ago = |seconds| Some(Duration::from_secs(seconds));
        assert!(is_being_made(&known, ago(1)));
        assert!(!is_being_made(&known, ago(5)));
        assert!(!is_being_made(&known, None), "none has come at all");
        known.refusals = vec![Refusal::read("x", None, None)];
        assert!(!is_being_made(&known, ago(1)));
        (known.refusals, known.live) = (Vec::new(), 3);
        assert!(!is_being_made(&known, ago(1)));
    }

    /// Else a workload that is resumed would be suspended at once for what was refused an hour ago.
    #[test]
    fn a_gang_has_not_waited_for_longer_than_it_is_wanted() {
        let now = Timestamp::now();
        let ago = |seconds| now - Duration::from_secs(seconds);
        let mut refusals = [Refusal::read("x", Some(ago(3000)), Some(ago(1)))];
        let seconds = |refusals: &[Refusal], start| {
            waited(refusals, ago(start), now).map(|waited| waited.as_secs())
        };
        assert_eq!(seconds(&refusals, 20), Some(20));
        assert_eq!(seconds(&refusals, 7200), Some(3000));
        assert_eq!(seconds(&refusals, 0), None, "none since then");
        // Pods of other names, each refused once, one after the other.
        let one = |at| Refusal::read("x", Some(ago(at)), Some(ago(at)));
        refusals[0] = one(300);
        for at in [30, 27, 20, 5] {
            refusals[0].join(one(at));
        }
        assert_eq!(seconds(&refusals, 31), Some(30), "since the first");
        assert_eq!(seconds(&refusals, 28), Some(27));
    }
}
