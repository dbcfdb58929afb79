//! Pods that nobody could create: which gang lacks them, since when, and in whose words. Pure but for
//! asking the witnesses.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::{Case, elapsed};
use crate::controller::decide::{Actions, GangStatus, State};
use crate::controller::witness::Witnesses;
use crate::explain::refusal::{REPEATED, Refusal};
use crate::workload::{Makes, SeenPod};

/// Between a refusal and the gang's object.
const MOMENT: Duration = Duration::from_secs(5);

/// Of a gang that has neither an object nor a pod, refusals so old count. Controllers try again sooner: a
/// StatefulSet's and a ReplicaSet's after 1000 s at most (client-go 0.37: `DefaultControllerRateLimiter`).
const OBJECTLESS: Duration = Duration::from_secs(1100);

/// A gang without pods has waited for them after so long. Controllers make them sooner.
const UNMADE: Duration = Duration::from_secs(10);

/// What those were told that make the pods of a workload, what must be fixed first first. By whose pods
/// they are, because a workload may have thousands of gangs, and each of them may be refused.
#[derive(Debug, Default)]
pub(super) struct Refused {
    all: Vec<Refusal>,
    /// Positions of those that count for every gang.
    any: Vec<usize>,
    /// Of those who make the first pod of each gang.
    first: Vec<usize>,
    /// Of those who make the pods of one role and one replica.
    of: HashMap<String, BTreeMap<u32, Vec<usize>>>,
}

impl Refused {
    fn new(refusals: Vec<(Makes, Refusal)>) -> Self {
        let mut refused = Self::default();
        for (at, (makes, refusal)) in refusals.into_iter().enumerate() {
            refused.all.push(refusal);
            match makes {
                Makes::Any => refused.any.push(at),
                Makes::First => refused.first.push(at),
                Makes::Of { role, replica } => {
                    let of = refused.of.entry(role).or_default();
                    of.entry(replica).or_default().push(at);
                }
            }
        }
        refused
    }

    /// What those were told that make the pods of a gang. Where its controller waits for others, it counts
    /// only what its own pods were refused: they are being made then.
    pub(super) fn of(&self, gang: &GangStatus) -> Vec<Refusal> {
        let mut own: Vec<usize> = Vec::new();
        for of in gang.roles.iter().filter_map(|role| self.of.get(role)) {
            match gang.replica {
                Some(replica) => own.extend(of.get(&replica).into_iter().flatten()),
                None => own.extend(of.values().flatten()),
            }
        }
        let begun = gang.state != State::Empty || gang.evidence.awaits.is_none();
        if begun {
            own.extend(&self.any);
        }
        // A gang whose parts are known has its first pod.
        if begun && gang.live == 0 && gang.roles.is_empty() {
            own.extend(&self.first);
        }
        own.sort_unstable();
        let own = own.into_iter().filter_map(|at| self.all.get(at));
        own.cloned().collect()
    }
}

impl Case<'_> {
    pub(super) fn refused(&self, witnesses: &Witnesses) -> Refused {
        let controller = |pod: &SeenPod| {
            let made = pod.own.as_ref()?.controller.as_ref()?;
            Some((made.kind.clone(), made.name.clone()))
        };
        let by_pods = self.pods.iter().filter_map(controller);
        let known = self.makers.iter().cloned();
        let known: HashSet<(String, String)> = by_pods.chain(known).collect();
        let makes = |kind: &str, name: &str| {
            let named = self.workload.made_by(kind, name);
            let is_known = || known.contains(&(kind.to_owned(), name.to_owned()));
            named.or_else(|| is_known().then_some(Makes::Any))
        };
        Refused::new(witnesses.refusals(self.namespace, makes))
    }

    /// A gang whose pods are refused is wanted, also if none of them exists. It has waited since the first
    /// was refused, and never for longer than it is wanted: events tell of earlier starts too. One of
    /// which nobody says anything waits too, once its object has existed for a while: when to look again
    /// for that.
    pub(super) fn want(&self, actions: &mut Actions, refused: &Refused) -> Option<Duration> {
        let mut again: Option<Duration> = None;
        let empty = |gang: &&mut GangStatus| gang.state == State::Empty;
        for gang in actions.gangs.iter_mut().filter(empty) {
            let start = self.start(gang.age);
            let mut refusals = of_this_start(&refused.of(gang), gang.age, start, self.now);
            // Of a part that has ended, the pods that were refused once came later, and may be gone.
            if gang.ended {
                let age = |at| elapsed(at, self.now);
                refusals.retain(|refusal| refusal.at().is_some_and(|at| age(at) <= REPEATED));
            }
            if !refusals.is_empty() {
                gang.refuse();
                gang.waited = start.and_then(|start| waited(&refusals, start, self.now));
                continue;
            }
            // Without an object it is not known since when this attempt is wanted. How long it has waited
            // is known to whoever looks again and again: it may have had pods a moment ago.
            let made = gang.age.and(start).filter(|_| gang.is_missed());
            let Some(wanted) = made.map(|start| elapsed(start, self.now)) else {
                continue;
            };
            match UNMADE.checked_sub(wanted).filter(|left| !left.is_zero()) {
                Some(left) => again = Some(again.map_or(left, |again| again.min(left))),
                None => gang.refuse(),
            }
        }
        self.note_unmade(actions, refused);
        again
    }

    /// A gang that is wanted and has no pod that could say which one it is.
    fn note_unmade(&self, actions: &mut Actions, refused: &Refused) {
        let settled = |gang: &GangStatus| gang.state == State::Scheduled;
        let Some(scheduler) = actions.scheduler else {
            return;
        };
        if !actions.unmade || !actions.gangs.iter().all(settled) {
            return;
        }
        let name = self.workload.meta().name.as_deref().unwrap_or_default();
        // Others of the workload may have been refused before: since when this one is wanted is
        // known only from when it was seen first.
        let mut unmade = GangStatus::unmade(name, actions.first_quorum, scheduler);
        let mut own = of_this_start(&refused.of(&unmade), None, self.start(None), self.now);
        // They are made one after the other: whoever was refused before the last came is there.
        let newest = self.pods.iter().filter_map(|pod| pod.created).max();
        own.retain(|refusal| refusal.at() >= newest);
        if !own.is_empty() {
            unmade.refuse();
        }
        actions.gangs.push(unmade);
    }
}

impl GangStatus {
    /// Its pods are refused, or nobody makes them.
    fn refuse(&mut self) {
        self.state = State::Waiting;
        self.evidence.quorum = self.quorum;
        self.evidence.awaits = None;
    }
}

/// How long the pods of a gang have been refused that is wanted since `start`.
fn waited(refusals: &[Refusal], start: Timestamp, now: Timestamp) -> Option<Duration> {
    let refused = refusals.iter().filter_map(|refusal| refusal.since(start));
    Some(elapsed(refused.min()?, now))
}

/// Those that came since a gang is wanted: events outlive what they tell of by an hour. A moment before
/// counts too, because its object and its pods are made at once.
pub(super) fn of_this_start(
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

#[cfg(test)]
mod tests;
