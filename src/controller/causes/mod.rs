//! Why the gangs of a workload wait: what was seen of them and what witnesses say goes into
//! `explain`, and its answer into how each gang stands.

mod refused;

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
use crate::explain::room::Own;
use crate::explain::words::Obstacle;
use crate::explain::{Answer, Cause, Evidence, causes};
use crate::gang::Ask;
use crate::scheduler::{self, Queue};
use crate::workload::{SeenPod, Workload};
use refused::{Refused, of_this_start};

/// Witnesses that have not seen everything yet are waited for so much longer.
const GRACE: Duration = Duration::from_millis(1500);

/// The same of what pods say, where the gang's object speaks already.
const BRIEF: Duration = Duration::from_secs(1);

/// Pods that came no longer ago are followed by others: that one is missing says nothing then. A second
/// more than it takes, because the API tells full seconds.
const STILL_COMING: Duration = Duration::from_secs(3);

/// The same where one was refused: how many exist is told with it, and not again for a while.
const STILL_COUNTED: Duration = Duration::from_secs(2);

/// Whether it was counted if a gang fits.
enum Counting {
    /// It was, or cannot be; after so long it may be said otherwise.
    Done(Option<Duration>),
    /// After so long.
    Later(Duration),
}

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
        self.bound(actions);
        let refused = match actions.gangs.iter().any(lacks_pods) || actions.unmade {
            true => self.refused(witnesses),
            false => Refused::default(),
        };
        let missed = self.want(actions, &refused);
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
                // Pods that outlive a resume are the same gang, and so are its refusals.
                let start = self.start(gang.age).filter(|_| !gang.outlives_resume);
                let own = refused.of(gang);
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
            let silent = is_unheard(&gang.causes) || is_unsaid(known, &gang.causes);
            let brief = gang.waited.unwrap_or_default() < FIRST_WORDS + BRIEF;
            let silent = early && silent || brief && is_of_object_alone(known, &gang.causes);
            if known.answer == Answer::Likely && silent {
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

    /// No gang has waited for longer than its workload is wanted: pods may outlive a suspension, where the
    /// workload is resumed at once.
    fn bound(&self, actions: &mut Actions) {
        actions.wanted_for = self.start(None).map(|start| elapsed(start, self.now));
        let Some(most) = actions.wanted_for else {
            return;
        };
        for gang in &mut actions.gangs {
            gang.outlives_resume = gang.waited.is_some_and(|waited| waited > most);
            gang.waited = gang.waited.map(|waited| waited.min(most));
        }
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
}

impl GangStatus {
    /// How many more must be placed.
    fn lacks_placed(&self) -> u32 {
        let placed = u32::try_from(self.bound).unwrap_or(u32::MAX);
        self.quorum.saturating_sub(placed)
    }
}

/// Whether all that is known of a gang is that a claim waits for its first pod, as most do.
fn is_unsaid(known: &Evidence, causes: &[Cause]) -> bool {
    let unbound = Obstacle::VolumeUnbound;
    let volume = matches!(causes, [Cause::Obstacle { obstacle, .. }] if *obstacle == unbound);
    volume && known.words.is_empty() && known.said.is_none()
}

/// Whether only the gang's object says why it waits: Volcano (1.14) writes its pods a moment later, and
/// they say more.
fn is_of_object_alone(known: &Evidence, causes: &[Cause]) -> bool {
    known.words.is_empty() && matches!(causes, [Cause::SchedulerSays(_)])
}

/// Whether nobody has said anything of a gang.
fn is_unheard(causes: &[Cause]) -> bool {
    matches!(causes, [Cause::Unheard { .. }])
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
    let silent = known.unlinked == 0 && known.awaits.is_none();
    let coming = match known.refusals.is_empty() {
        true => STILL_COMING,
        false => STILL_COUNTED,
    };
    known.lacks() && silent && newest.is_some_and(|newest| newest < coming)
}

fn lacks_pods(gang: &GangStatus) -> bool {
    gang.state != State::Scheduled && gang.live < gang.quorum as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::refusal::Refusal;

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
        assert!(
            is_being_made(&known, ago(1)),
            "how many exist is not known yet"
        );
        assert!(!is_being_made(&known, ago(2)));
        (known.refusals, known.live) = (Vec::new(), 3);
        assert!(!is_being_made(&known, ago(1)));
    }
}
