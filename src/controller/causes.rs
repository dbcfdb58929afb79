//! Why the gangs of a workload wait: what was seen of them and what witnesses say goes into
//! `explain`, and its answer into how each gang stands.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::Client;

use super::decide::{Actions, GangStatus, State};
use super::needs;
use super::report::events::{FIRST_WORDS, NOT_YET};
use super::wanted::Wanted;
use super::witness::{Count, Witnesses};
use crate::explain::refusal::Refusal;
use crate::explain::room::Own;
use crate::explain::{Answer, Cause, Evidence, causes};
use crate::gang::Ask;
use crate::scheduler::{self, Queue};
use crate::workload::{Makes, SeenPod, Workload};

/// Witnesses that have not seen everything yet are waited for so much longer.
const GRACE: Duration = Duration::from_millis(1500);

/// Between a refusal and the gang's object.
const MOMENT: Duration = Duration::from_secs(5);

/// Of a gang that has neither an object nor a pod, refusals so old count. Controllers try again sooner: a
/// StatefulSet's and a ReplicaSet's after 1000 s at most (client-go 0.37: `DefaultControllerRateLimiter`).
const OBJECTLESS: Duration = Duration::from_secs(1100);

/// Pods that came no longer ago are followed by others: that one is missing says nothing then. A second
/// more than it takes, because the API tells full seconds.
const STILL_COMING: Duration = Duration::from_secs(3);

/// Whether it was counted if a gang fits.
enum Counting {
    /// It was, or cannot be; after so long it may be said otherwise.
    Done(Option<Duration>),
    /// After so long.
    Later(Duration),
}

/// A gang without pods has waited for them after so long. Controllers make them sooner.
const UNMADE: Duration = Duration::from_secs(10);

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
    fn refusals(&self, witnesses: &Witnesses) -> Vec<(Makes, Refusal)> {
        let makes = |kind: &str, name: &str| {
            let own = |pod: &SeenPod| {
                let controller = pod.own.as_ref().and_then(|own| own.controller.as_ref());
                controller.is_some_and(|made| made.kind == kind && made.name == name)
            };
            let known = self
                .makers
                .iter()
                .any(|made| (&*made.0, &*made.1) == (kind, name));
            let named = self.workload.made_by(kind, name);
            let any = || (known || self.pods.iter().any(own)).then_some(Makes::Any);
            named.or_else(any)
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
        let missed = self.refused(actions, &refusals);
        let queue = actions.queue.clone();
        let mut stale = [no_claims.again, missed].into_iter().flatten().min();
        for gang in actions.gangs.iter_mut().filter(|gang| gang.waits()) {
            let early = gang.waited.unwrap_or_default() < FIRST_WORDS + GRACE;
            if (early || needs::are_about_to_be_met(gang, witnesses))
                && !needs::are_met(gang, queue.as_ref(), witnesses)
            {
                gang.explained_in = Some(NOT_YET);
                continue;
            }
            if gang.evidence.lacks() {
                let start = self.start(gang.age);
                let own = gang.of_its_pods(&refusals);
                gang.evidence.refusals = of_this_start(&own, gang.age, start, self.now);
            } else {
                match self.count(gang, witnesses) {
                    Counting::Done(again) => {
                        stale = [stale, again].into_iter().flatten().min();
                    }
                    // Without a count other causes would be named.
                    Counting::Later(after) => {
                        gang.explained_in = Some(after);
                        continue;
                    }
                }
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
            let of = |names: &[String]| -> Vec<String> {
                let own = names.iter().filter(|m| asked.clone().any(|a| a == *m));
                own.cloned().collect()
            };
            (known.claims, known.unbound) = (of(&no_claims.names), of(&no_claims.unbound));
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
    fn count(&self, gang: &mut GangStatus, witnesses: &Witnesses) -> Counting {
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
        let again = match witnesses.fit(of, &known.asks, needed, own) {
            Count::Known(fit, again) => {
                known.fit = Some(*fit);
                again
            }
            Count::Unseen => None,
            Count::Later(after) => return Counting::Later(after),
        };
        known.answer = answer(&known.asks, witnesses);
        Counting::Done(again)
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
    /// was refused, and never for longer than it is wanted: events tell of earlier starts too. One of
    /// which nobody says anything waits too, once its object has existed for a while: when to look again
    /// for that.
    fn refused(&self, actions: &mut Actions, refusals: &[(Makes, Refusal)]) -> Option<Duration> {
        let mut again: Option<Duration> = None;
        // Of one whose controller waits for others, the pods of these others are refused.
        let empty =
            |gang: &&mut GangStatus| gang.state == State::Empty && gang.evidence.awaits.is_none();
        for gang in actions.gangs.iter_mut().filter(empty) {
            let start = self.start(gang.age);
            let own = gang.of_its_pods(refusals);
            let refusals = of_this_start(&own, gang.age, start, self.now);
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
        let settled = |gang: &GangStatus| gang.state == State::Scheduled;
        if let Some(scheduler) = actions.scheduler
            && actions.unmade
            && actions.gangs.iter().all(settled)
        {
            let name = self.workload.meta().name.as_deref().unwrap_or_default();
            // Others of the workload may have been refused before: since when this one is wanted is
            // known only from when it was seen first.
            let mut unmade = GangStatus::unmade(name, actions.first_quorum, scheduler);
            let own = unmade.of_its_pods(refusals);
            if !of_this_start(&own, None, self.start(None), self.now).is_empty() {
                unmade.refuse();
            }
            actions.gangs.push(unmade);
        }
        again
    }
}

impl GangStatus {
    /// How many more must be placed.
    fn lacks_placed(&self) -> u32 {
        let placed = u32::try_from(self.bound).unwrap_or(u32::MAX);
        self.quorum.saturating_sub(placed)
    }

    /// What those were told that make its pods.
    fn of_its_pods(&self, refusals: &[(Makes, Refusal)]) -> Vec<Refusal> {
        let own = refusals.iter().filter(|(makes, _)| match makes {
            Makes::Any => true,
            Makes::First => self.live == 0,
            Makes::Of { role, replica } => {
                self.roles.contains(role) && self.replica.is_none_or(|own| own == *replica)
            }
        });
        own.map(|(_, refusal)| refusal.clone()).collect()
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

    /// Else one whose pods are all refused would lose its cause between two attempts, and a timeout of
    /// more than some minutes would never be due.
    #[test]
    fn a_gang_without_an_object_keeps_its_refusal_until_its_controller_tries_again() {
        let now = Timestamp::now();
        let ago = |seconds| now - Duration::from_secs(seconds);
        let count = |refused: u64, wanted: u64| {
            let refusals = [Refusal::read("x", Some(ago(refused)), Some(ago(refused)))];
            of_this_start(&refusals, None, Some(ago(wanted)), now).len()
        };
        assert_eq!(count(600, 700), 1);
        assert_eq!(count(1000, 86_400), 1, "the longest pause of a controller");
        assert_eq!(count(600, 60), 0, "it was resumed since");
        assert_eq!(count(3000, 86_400), 0, "nobody was refused since");
    }

    #[test]
    fn a_gang_is_told_what_its_own_pods_were_refused() {
        let refusal = |words: &str| Refusal::read(words, None, None);
        let of = |role: &str, replica, words: &str| {
            let role = role.to_owned();
            (Makes::Of { role, replica }, refusal(words))
        };
        let refusals = [
            of("driver", 0, "error looking up service account"),
            of("workers", 0, "exceeded quota: a"),
            of("workers", 1, "exceeded quota: b"),
            (Makes::Any, refusal("all")),
            (Makes::First, refusal("first")),
        ];
        let told = |roles: &[&str], replica, live| {
            let gang = GangStatus {
                roles: roles.iter().map(ToString::to_string).collect(),
                replica,
                live,
                ..GangStatus::example()
            };
            let own = gang.of_its_pods(&refusals).into_iter();
            own.map(|refusal| refusal.words).collect::<Vec<_>>()
        };
        let account = "error looking up service account";
        assert_eq!(told(&["driver"], None, 1), [account, "all"]);
        assert_eq!(told(&["workers"], Some(1), 1), ["exceeded quota: b", "all"]);
        assert_eq!(told(&["driver", "workers"], None, 1).len(), 4);
        assert_eq!(told(&[], None, 0), ["all", "first"]);
    }

    /// The controller that makes them may be down.
    #[test]
    fn a_gang_none_of_whose_pods_is_made_waits_for_them_and_says_so() {
        let job = serde_json::json!({"metadata": {"name": "train", "namespace": "ml"}}).to_string();
        let object = crate::workload::Object::read(crate::workload::KINDS[0].kind, &job);
        let case = |wanted| Case {
            workload: object.workload().unwrap(),
            namespace: "ml",
            pods: &[],
            makers: &[],
            wanted,
            now: Timestamp::now(),
        };
        let empty = |age: Option<u64>| GangStatus {
            age: age.map(Duration::from_secs),
            ..GangStatus::example()
        };
        let looked = |gang: GangStatus, wanted| {
            let mut actions = Actions {
                gangs: vec![gang],
                ..Actions::default()
            };
            let again = case(wanted).refused(&mut actions, &[]);
            let gang = actions.gangs.remove(0);
            assert_eq!(gang.waited, None, "it may have had pods a moment ago");
            (gang.waits(), again.is_some())
        };
        let ago = |seconds| Wanted::Since(Timestamp::now() - Duration::from_secs(seconds));
        assert_eq!(looked(empty(Some(4)), ago(90)), (false, true));
        assert_eq!(looked(empty(Some(60)), ago(90)), (true, false));
        assert_eq!(looked(empty(Some(60)), ago(4)), (false, true), "resumed");
        assert_eq!(looked(empty(None), ago(90)), (false, false));
        let mut later = empty(Some(60));
        later.evidence.awaits = Some("it comes after another".to_owned());
        assert_eq!(looked(later, ago(90)), (false, false));
        let ended = GangStatus {
            ended: true,
            ..empty(Some(60))
        };
        assert_eq!(looked(ended, ago(90)), (false, false));
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
