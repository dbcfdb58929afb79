//! How a start barrier stands: pure, from what is wanted and who has come.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::missing::missing;
use super::waiters::{Step, Waiter};
use crate::gang::{Barrier, BarrierStart, Round, Target};

/// So long before the first pod's time is over it is written down who is missing, so that the pod can
/// say it. Of a short time it is this part.
const AHEAD: Duration = Duration::from_secs(2);
const PART_AHEAD: u32 = 4;

/// The apiserver writes down in whole seconds when an object was made.
const WHOLE: Duration = Duration::from_secs(1);

/// After its barrier has opened, or after it has come, a pod that can ask a replica has gone on long
/// before.
const PATIENCE: Duration = Duration::from_secs(5);

/// Pods of an earlier round that live for so long beside one of this round that waits have outlived the
/// suspension: the Job controller deletes the others before their Job makes new ones.
const OUTLIVED: Duration = Duration::from_secs(5);

/// So many earlier rounds at most, the latest ones: each has a ConfigMap.
pub(super) const MOST_OUTLIVED: usize = 4;

/// Instead of who is missing, of a workload that is suspended.
pub(crate) const SUSPENDED: &str = "the workload is suspended";

/// What a barrier's ConfigMap says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Says {
    /// All have come.
    Open,
    /// Somebody's time is over, or will be in a moment, and who is missing.
    Late(String),
}

/// How a barrier stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BarrierStatus {
    pub(crate) start: BarrierStart,
    /// Earlier rounds of the same attempt whose pods live on. A workload may be suspended and resumed before
    /// every Job has seen it: those that have not keep their pods, and these wait for their own round.
    pub(crate) outlived: BTreeSet<Round>,
    pub(crate) members: u64,
    /// What its ConfigMap must say; none before anything is to be said.
    pub(crate) says: Option<Says>,
    /// Who is missing, while nobody's time is over.
    pub(crate) missing: Option<String>,
    /// Somebody's time is over.
    pub(crate) timed_out: bool,
    /// How long the first one has waited.
    pub(crate) waited: Option<Duration>,
    /// Pods that still wait although it is open, and whose kubelet was not told to look.
    pub(crate) stragglers: Vec<Straggler>,
    /// When the next pod's time is over, if nobody comes.
    pub(crate) again: Option<Duration>,
    /// Somebody waits.
    pub(crate) begun: bool,
}

impl BarrierStatus {
    /// Every start whose pods wait for each other, each with a ConfigMap of its own.
    pub(crate) fn starts(&self) -> impl Iterator<Item = BarrierStart> {
        let rounds = self.outlived.iter().copied();
        let rounds = rounds.chain([self.start.round]);
        rounds.map(|round| self.start.in_round(round))
    }
}

/// A pod that still waits although its barrier is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Straggler {
    pub(crate) pod: String,
    pub(crate) round: Round,
}

/// What the ConfigMap says that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    Nothing,
    Open,
    /// For so long.
    Late(Duration),
}

/// How a barrier stands, by those of its own start and those of earlier rounds that live on.
pub(crate) fn status(
    barrier: &Barrier,
    start: BarrierStart,
    waiters: &[&Waiter],
    shown: Shown,
    now: Timestamp,
) -> BarrierStatus {
    let outlived = outlived(&start, waiters);
    let own: Vec<&Waiter> = waiters
        .iter()
        .copied()
        .filter(|waiter| {
            let now = waiter.start == start || outlived.contains(&waiter.start.round);
            now && lives(waiter, &start)
        })
        .collect();
    let of_now = || own.iter().filter(|waiter| waiter.start == start);
    let mut came: HashMap<&str, u64> = HashMap::new();
    for waiter in own.iter().filter(|w| has_come(&w.step)) {
        *came.entry(&waiter.role).or_default() += 1;
    }
    let wanted = wanted(barrier, &start, waiters, |round| round <= start.round);
    let all = wanted.iter().all(|(role, wanted)| {
        let came = came.get(role).copied().unwrap_or(0);
        came >= *wanted
    });
    // Who has gone on was let through: a restart of Muster must not hold up the others.
    let passed = of_now().any(|waiter| waiter.step == Step::Passed);
    // Where all have ended, nobody is left to wait.
    let done = |waiter: &&Waiter| waiter.start == start && waiter.step == Step::Done;
    let begun = of_now().any(|w| has_come(&w.step)) || waiters.iter().any(done);
    let settles = match outlived.is_empty() {
        true => None,
        false => {
            // By the clock of who looks: whether it opens depends on no other.
            let come = of_now().filter(|waiter| since(&waiter.step).is_some());
            let first = come.map(|waiter| waiter.seen).min();
            let left = first.and_then(|first| OUTLIVED.checked_sub(elapsed(first, now)));
            left.filter(|left| !left.is_zero())
        }
    };
    let mut status = BarrierStatus {
        members: wanted.iter().map(|(_, wanted)| wanted).sum(),
        says: None,
        missing: None,
        timed_out: false,
        waited: None,
        stragglers: Vec::new(),
        again: None,
        begun,
        outlived,
        start: start.clone(),
    };
    if shown == Shown::Open || passed || all && begun && settles.is_none() {
        status.says = Some(Says::Open);
        // As many as it had: the number is told, and each change of it would be a write.
        let had = self::wanted(barrier, &start, waiters, |round| round < start.round);
        status.members = had.iter().map(|(_, wanted)| wanted).sum();
        for waiter in own.iter().filter(|waiter| !waiter.touched) {
            // One that has just come still asks.
            let Step::Waits(since) = waiter.step else {
                continue;
            };
            let waited = since.map_or(PATIENCE, |since| elapsed(since, now));
            match PATIENCE.checked_sub(waited).filter(|left| !left.is_zero()) {
                None => status.stragglers.push(Straggler {
                    pod: waiter.pod.clone(),
                    round: waiter.start.round,
                }),
                Some(left) => status.again = Some(status.again.map_or(left, |a| a.min(left))),
            }
        }
        return status;
    }
    let missing = missing(&wanted, &own);
    // One that gave up before a suspension is probably on its way out.
    let counts = |waiter: &&&Waiter| waiter.start == start || has_come(&waiter.step);
    let counted = own.iter().filter(counts);
    let first = counted.filter_map(|waiter| since(&waiter.step)).min();
    status.waited = first.map(|first| elapsed(first, now));
    let waited = status.waited;
    let left = waited.map(|waited| barrier.timeout.saturating_sub(waited));
    let ahead = AHEAD.min(barrier.timeout / PART_AHEAD);
    // Until the next thing is to be said.
    let next = match (shown, left) {
        // Those who gave up may be restarted, or gone: their time is over all the same.
        (Shown::Late(said), left) => {
            let rest = (ahead + WHOLE).saturating_sub(said);
            Some(left.map_or(Duration::ZERO, |left| left.min(rest)))
        }
        (_, Some(left)) if left <= ahead => Some(left),
        (_, left) => {
            status.missing = Some(missing);
            let left = left.map(|left| left.saturating_sub(ahead));
            status.again = settles.into_iter().chain(left).min();
            return status;
        }
    };
    let left = next.filter(|left| !left.is_zero());
    status.timed_out = left.is_none();
    status.missing = left.is_some().then(|| missing.clone());
    status.says = Some(Says::Late(missing));
    status.again = settles.into_iter().chain(left).min();
    status
}

pub(super) fn elapsed(since: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(since)).unwrap_or_default()
}

/// How many of each role must come, without what was done in the `ended` rounds: a workload that is resumed
/// does not run that again. It may be resumed in the same round, so who is done has not come.
fn wanted<'b>(
    barrier: &'b Barrier,
    start: &BarrierStart,
    waiters: &[&Waiter],
    ended: impl Fn(Round) -> bool,
) -> Vec<(&'b str, u64)> {
    let is_done = |waiter: &&&Waiter| {
        let same = waiter.start.is_of_attempt(start);
        same && ended(waiter.start.round) && waiter.step == Step::Done
    };
    let mut done: HashMap<(&str, &str), u64> = HashMap::new();
    for waiter in waiters.iter().filter(is_done) {
        *done.entry((&waiter.role, &waiter.job)).or_default() += 1;
    }
    let of = |target: &'b Target| {
        let done = done.iter().filter(|((role, _), _)| *role == target.role);
        (
            target.role.as_str(),
            target.left(done.map(|(_, done)| *done)),
        )
    };
    barrier.targets.iter().map(of).collect()
}

pub(super) fn has_come(step: &Step) -> bool {
    matches!(step, Step::Waits(_) | Step::Passed)
}

fn since(step: &Step) -> Option<Timestamp> {
    match step {
        Step::Waits(since) | Step::GaveUp(since) => *since,
        _ => None,
    }
}

/// Whether a pod of the same attempt still has its work to do.
fn lives(waiter: &Waiter, start: &BarrierStart) -> bool {
    waiter.start.is_of_attempt(start) && !matches!(waiter.step, Step::Gone | Step::Done)
}

/// The start whose pods wait: that of the workload's round, or of an earlier one whose pods live on. A
/// workload may be suspended and resumed before its controller has seen the suspension: then its pods
/// stay, and with them their round. A later round than the workload's is nobody's.
pub(crate) fn start_of_now(workload: BarrierStart, waiters: &[&Waiter]) -> BarrierStart {
    let living = waiters.iter().filter(|waiter| lives(waiter, &workload));
    let rounds = living.map(|waiter| waiter.start.round);
    let round = rounds.filter(|round| *round <= workload.round).max();
    BarrierStart {
        round: round.unwrap_or(workload.round),
        ..workload
    }
}

/// The rounds before this one whose pods live on.
fn outlived(start: &BarrierStart, waiters: &[&Waiter]) -> BTreeSet<Round> {
    let living = waiters.iter().filter(|waiter| lives(waiter, start));
    let rounds = living.map(|waiter| waiter.start.round);
    let mut rounds: BTreeSet<Round> = rounds.filter(|round| *round < start.round).collect();
    while rounds.len() > MOST_OUTLIVED {
        rounds.pop_first();
    }
    rounds
}

#[cfg(test)]
mod tests;
