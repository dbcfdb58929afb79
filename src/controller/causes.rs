//! Why the gangs of a workload wait: what was seen of them and what witnesses say goes into
//! `explain`, and its answer into how each gang stands.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::Client;

use super::decide::{Actions, GangStatus, State};
use super::report::events::FIRST_WORDS;
use super::witness::{Need, Witnesses};
use crate::explain::refusal::Refusal;
use crate::explain::{Answer, Cause, Evidence, causes};
use crate::gang::Ask;
use crate::scheduler;
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

    /// Finds the causes of every gang that waits.
    pub(super) async fn explain(
        &self,
        actions: &mut Actions,
        witnesses: &Witnesses,
        client: &Client,
    ) {
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
        for gang in actions.gangs.iter_mut().filter(|gang| gang.waits()) {
            let waited = gang.waited.unwrap_or_default();
            let lacks = gang.evidence.live < gang.evidence.quorum as usize;
            let need = match lacks {
                true => Need::Refusals,
                false => Need::Room,
            };
            if !witnesses.has_seen(need) && waited < FIRST_WORDS + GRACE {
                continue;
            }
            let known = &mut gang.evidence;
            if lacks {
                known.refusals = of_this_start(&refusals, gang.age, self.now);
            } else {
                let placed = u32::try_from(gang.bound).unwrap_or(u32::MAX);
                let needed = gang.quorum.saturating_sub(placed);
                let own = known.placeholders.as_ref();
                let own = own.map(|prefix| format!("{}/{prefix}", self.namespace));
                let of = (self.namespace, gang.name.as_str());
                known.fit = witnesses.fit(of, &known.asks, needed, own.as_deref());
                known.answer = answer(&known.asks, witnesses);
            }
            if is_being_made(known, gang.newest) {
                continue;
            }
            let asked = known.asks.iter().flat_map(|(ask, _)| &ask.claims);
            known.claims = no_claims
                .iter()
                .filter(|m| asked.clone().any(|a| a == *m))
                .cloned()
                .collect();
            gang.causes = causes(known);
        }
        // One that has no pod yet waits for no node; but it can be said what it waits for.
        let empty = |gang: &&mut GangStatus| gang.state == State::Empty;
        for gang in actions.gangs.iter_mut().filter(empty) {
            let awaits = gang.evidence.awaits.clone().map(Cause::NotBegun);
            gang.causes = awaits.into_iter().collect();
        }
    }

    /// A gang whose pods are refused is wanted, also if none of them exists. It has waited since then,
    /// and never for longer than it exists: an event may count refusals of an earlier start too.
    fn refused(&self, actions: &mut Actions, refusals: &[Refusal]) {
        let settled = |gang: &GangStatus| gang.state == State::Scheduled;
        if let Some(scheduler) = actions.scheduler
            && actions.unmade
            && !refusals.is_empty()
            && actions.gangs.iter().all(settled)
        {
            let name = self.workload.meta().name.as_deref().unwrap_or_default();
            actions
                .gangs
                .push(GangStatus::unmade(name, actions.first_quorum, scheduler));
        }
        // Of one whose controller waits for others, the pods of these others are refused.
        let empty =
            |gang: &&mut GangStatus| gang.state == State::Empty && gang.evidence.awaits.is_none();
        for gang in actions.gangs.iter_mut().filter(empty) {
            let refusals = of_this_start(refusals, gang.age, self.now);
            if refusals.is_empty() {
                continue;
            }
            gang.state = State::Waiting;
            gang.evidence.quorum = gang.quorum;
            gang.waited = waited(&refusals, gang.age, self.now);
        }
    }
}

/// How long the pods of a gang have been refused; nothing where it is not known since when it is wanted.
fn waited(refusals: &[Refusal], age: Option<Duration>, now: Timestamp) -> Option<Duration> {
    let since = refusals.iter().filter_map(|refusal| refusal.since).min()?;
    let refused = Duration::try_from(now.duration_since(since)).unwrap_or_default();
    Some(refused.min(age?))
}

/// Those that came since a gang exists: events outlive what they tell of by an hour. A moment before
/// counts too, because its object and its pods are made at once.
fn of_this_start(refusals: &[Refusal], age: Option<Duration>, now: Timestamp) -> Vec<Refusal> {
    let oldest = age.unwrap_or(OBJECTLESS) + MOMENT;
    let young = |refusal: &&Refusal| {
        let at = refusal.at.unwrap_or(now);
        Duration::try_from(now.duration_since(at)).unwrap_or_default() <= oldest
    };
    refusals.iter().filter(young).cloned().collect()
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
    let lacks = known.live < known.quorum as usize;
    let silent = known.refusals.is_empty() && known.unlinked == 0 && known.awaits.is_none();
    lacks && silent && newest.is_some_and(|newest| newest < STILL_COMING)
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
            of_this_start(&refusals, age, now).len()
        };
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
    fn a_gang_has_not_waited_for_longer_than_it_exists() {
        let now = Timestamp::now();
        let ago = |seconds| Some(now - Duration::from_secs(seconds));
        let refusals = [Refusal::read("x", ago(3000), ago(1))];
        let seconds = |age: Option<u64>| {
            let waited = waited(&refusals, age.map(Duration::from_secs), now);
            waited.map(|waited| waited.as_secs())
        };
        assert_eq!(seconds(Some(20)), Some(20));
        assert_eq!(seconds(Some(7200)), Some(3000));
        assert_eq!(seconds(None), None);
    }
}
