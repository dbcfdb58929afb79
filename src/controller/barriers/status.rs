//! How a start barrier stands: pure, from what is wanted and who has come.

use std::collections::HashMap;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::waiters::{Step, Waiter};
use crate::controller::report::few::{cut, few};
use crate::gang::{Barrier, BarrierStart, Target};

/// So long before the first pod's time is over it is written down who is missing, so that the pod can
/// say it.
const AHEAD: Duration = Duration::from_secs(2);

/// After its barrier has opened, or after it has come, a pod that can ask a replica has gone on long
/// before.
const PATIENCE: Duration = Duration::from_secs(5);

/// The longest text of who is missing: it goes over the line, and into a termination message.
pub(super) const LONGEST: usize = 1000;
/// Of each who is missing.
const EACH: usize = 200;

/// What a barrier's ConfigMap says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Says {
    /// All have come.
    Open,
    /// Somebody's time is over, and who is missing.
    Late(String),
}

/// How a barrier stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BarrierStatus {
    pub(crate) start: BarrierStart,
    pub(crate) members: u64,
    /// What its ConfigMap must say; none before anything is to be said.
    pub(crate) says: Option<Says>,
    /// Pods that still wait although it is open, and whose kubelet was not told to look.
    pub(crate) stragglers: Vec<String>,
    /// When the next pod's time is over, if nobody comes.
    pub(crate) again: Option<Duration>,
    /// Somebody waits.
    pub(crate) begun: bool,
}

/// What the ConfigMap says that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    Nothing,
    Open,
    Late,
}

/// How a barrier stands, by those of its own start.
pub(crate) fn status(
    barrier: &Barrier,
    start: BarrierStart,
    waiters: &[&Waiter],
    shown: Shown,
    now: Timestamp,
) -> BarrierStatus {
    let own: Vec<&Waiter> = waiters
        .iter()
        .copied()
        .filter(|waiter| waiter.start == start && waiter.step != Step::Gone)
        .collect();
    let mut came: HashMap<&str, u64> = HashMap::new();
    for waiter in own.iter().filter(|w| has_come(&w.step)) {
        *came.entry(&waiter.role).or_default() += 1;
    }
    let wanted = wanted(barrier, &start, waiters);
    let all = wanted.iter().all(|(role, wanted)| {
        let came = came.get(role).copied().unwrap_or(0);
        came >= *wanted
    });
    // Who has gone on was let through: a restart of Muster must not hold up the others.
    let passed = own.iter().any(|waiter| waiter.step == Step::Passed);
    let begun = own.iter().any(|waiter| has_come(&waiter.step));
    let mut status = BarrierStatus {
        members: wanted.iter().map(|(_, wanted)| wanted).sum(),
        says: None,
        stragglers: Vec::new(),
        again: None,
        begun,
        start,
    };
    if shown == Shown::Open || passed || all && begun {
        status.says = Some(Says::Open);
        for waiter in own.iter().filter(|waiter| !waiter.touched) {
            // One that has just come still asks.
            let Step::Waits(since) = waiter.step else {
                continue;
            };
            let waited = since.map_or(PATIENCE, |since| elapsed(since, now));
            match PATIENCE.checked_sub(waited).filter(|left| !left.is_zero()) {
                None => status.stragglers.push(waiter.pod.clone()),
                Some(left) => status.again = Some(status.again.map_or(left, |a| a.min(left))),
            }
        }
        return status;
    }
    if shown == Shown::Late {
        // Those who gave up may be restarted: it is late all the same.
        status.says = Some(Says::Late(missing(&wanted, &own)));
        return status;
    }
    let first = own.iter().filter_map(|waiter| since(&waiter.step)).min();
    let Some(first) = first else {
        return status;
    };
    let left = barrier
        .timeout
        .saturating_sub(AHEAD)
        .saturating_sub(elapsed(first, now));
    match left.is_zero() {
        true => status.says = Some(Says::Late(missing(&wanted, &own))),
        false => status.again = Some(left),
    }
    status
}

fn elapsed(since: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(since)).unwrap_or_default()
}

/// How many of each role must come. A workload that is resumed does not run again what was done before.
fn wanted<'b>(
    barrier: &'b Barrier,
    start: &BarrierStart,
    waiters: &[&Waiter],
) -> Vec<(&'b str, u64)> {
    let earlier = |waiter: &&&Waiter| {
        let BarrierStart { uid, attempt, .. } = &waiter.start;
        let same = *uid == start.uid && *attempt == start.attempt;
        same && waiter.start.round < start.round && waiter.step == Step::Done
    };
    let mut done: HashMap<(&str, &str), u64> = HashMap::new();
    for waiter in waiters.iter().filter(earlier) {
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

fn has_come(step: &Step) -> bool {
    matches!(step, Step::Waits(_) | Step::Passed | Step::Done)
}

fn since(step: &Step) -> Option<Timestamp> {
    match step {
        Step::Waits(since) | Step::GaveUp(since) => *since,
        _ => None,
    }
}

/// The start whose pods wait: that of the workload's round, or of an earlier one whose pods live on. A
/// workload may be suspended and resumed before its controller has seen the suspension: then its pods
/// stay, and with them their round. A later round than the workload's is nobody's.
pub(crate) fn start_of_now(workload: BarrierStart, waiters: &[&Waiter]) -> BarrierStart {
    let lives = |waiter: &&&Waiter| {
        let BarrierStart {
            uid,
            attempt,
            round,
            ..
        } = &waiter.start;
        let same = *uid == workload.uid && *attempt == workload.attempt;
        same && *round <= workload.round && !matches!(waiter.step, Step::Gone | Step::Done)
    };
    let rounds = waiters.iter().filter(lives).map(|w| w.start.round);
    BarrierStart {
        round: rounds.max().unwrap_or(workload.round),
        ..workload
    }
}

/// How many of how many have started, and the first of those who have not, with the reason. Those who have
/// given up did start: they are not named, or nobody would find whom they waited for.
fn missing(wanted: &[(&str, u64)], own: &[&Waiter]) -> String {
    let gave_up = |waiter: &&Waiter| matches!(waiter.step, Step::GaveUp(_));
    let started = |waiter: &&&Waiter| has_come(&waiter.step) || gave_up(waiter);
    let mut missing = Vec::new();
    for (role, members) in wanted {
        let of_role = || own.iter().filter(|waiter| waiter.role == *role);
        for waiter in of_role() {
            let reason = match &waiter.step {
                Step::Unplaced(None) => "is not placed yet".to_owned(),
                Step::Unplaced(Some(why)) => format!("is not placed: {why}"),
                Step::Starting(None) => "has not started yet".to_owned(),
                Step::Starting(Some(why)) => format!("has not started: {why}"),
                Step::Waits(_) | Step::GaveUp(_) => continue,
                Step::Passed | Step::Done | Step::Gone => continue,
            };
            missing.push(cut(&format!("{} {reason}", waiter.pod), EACH));
        }
        let made = of_role().count() as u64;
        if let Some(unmade) = members.checked_sub(made).filter(|more| *more > 0) {
            missing.push(format!("{role}: {unmade} not created yet"));
        }
    }
    let members: u64 = wanted.iter().map(|(_, members)| members).sum();
    let began = own.iter().filter(started).count();
    let mut text = format!("{began} of {members} members have started");
    // Without their number, which changes whenever kubelet restarts one.
    if own.iter().any(gave_up) {
        text.push_str(", and some of them have given up");
    }
    match few(missing.iter().map(String::as_str)) {
        missing if missing.is_empty() => text,
        missing => cut(&format!("{text}; {missing}"), LONGEST),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gang::{Round, StampHash};
    use crate::workload::seen::Sealed;

    fn start(attempt: u32) -> BarrierStart {
        BarrierStart {
            namespace: "ml".to_owned(),
            workload: "train".to_owned(),
            uid: "7f6c".to_owned(),
            attempt,
            round: Round(0),
        }
    }

    fn barrier() -> Barrier {
        let target = |role: &str, pods| Target {
            role: role.to_owned(),
            jobs: 1,
            pods,
            completions: pods,
        };
        Barrier {
            timeout: Duration::from_secs(300),
            targets: vec![target("driver", 1), target("workers", 2)],
        }
    }

    fn waiter(role: &str, pod: &str, step: Step) -> Waiter {
        Waiter {
            pod: pod.to_owned(),
            start: start(0),
            role: role.to_owned(),
            job: format!("train-{role}-0"),
            stamped: StampHash::default(),
            sealed: Sealed::Yes,
            step,
            touched: false,
        }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    fn waits() -> Step {
        Step::Waits(Some(at(0)))
    }

    fn look(waiters: &[Waiter], shown: Shown, now: i64) -> BarrierStatus {
        let waiters: Vec<&Waiter> = waiters.iter().collect();
        status(&barrier(), start(0), &waiters, shown, at(now))
    }

    #[test]
    fn it_opens_when_every_member_of_every_target_waits() {
        let mut all = vec![
            waiter("driver", "d", waits()),
            waiter("workers", "w0", waits()),
            waiter("workers", "w1", Step::Starting(None)),
        ];
        let early = look(&all, Shown::Nothing, 10);
        assert_eq!(early.says, None);
        assert_eq!(early.again, Some(Duration::from_secs(288)));
        all[2].step = waits();
        assert_eq!(look(&all, Shown::Nothing, 10).says, Some(Says::Open));
        // One role's pods do not stand for another's.
        all[2].role = "driver".to_owned();
        assert_eq!(look(&all, Shown::Nothing, 10).says, None);
    }

    #[test]
    fn pods_of_another_attempt_do_not_count() {
        let mut all = vec![
            waiter("driver", "d", waits()),
            waiter("workers", "w0", waits()),
            waiter("workers", "w1", waits()),
        ];
        all[1].start = start(1);
        assert_eq!(look(&all, Shown::Nothing, 10).says, None);
        all[1].start = start(0);
        all[1].step = Step::Gone;
        assert_eq!(look(&all, Shown::Nothing, 10).says, None);
    }

    #[test]
    fn what_was_done_before_a_resume_is_not_waited_for() {
        let mut all = [
            waiter("driver", "d", Step::Done),
            waiter("workers", "w0", Step::Done),
            waiter("workers", "w1", Step::Gone),
            waiter("workers", "w2", waits()),
        ];
        all[3].start.round = Round(1);
        let waiters: Vec<&Waiter> = all.iter().collect();
        let resumed = BarrierStart {
            round: Round(1),
            ..start(0)
        };
        let status = status(&barrier(), resumed, &waiters, Shown::Nothing, at(10));
        assert_eq!((status.says, status.members), (Some(Says::Open), 1));
    }

    #[test]
    fn a_pod_that_has_just_come_is_no_straggler() {
        let early = [waiter("workers", "w0", waits())];
        let status = look(&early, Shown::Open, 2);
        assert_eq!(status.stragglers, [""; 0]);
        assert_eq!(status.again, Some(Duration::from_secs(3)));
    }

    #[test]
    fn once_open_it_stays_open() {
        let one = [waiter("workers", "w0", waits())];
        let open = look(&one, Shown::Open, 10);
        assert_eq!(open.says, Some(Says::Open));
        assert_eq!(open.stragglers, ["w0"]);
        // Nobody remembers that it was open, but somebody was let through.
        let two = [
            waiter("workers", "w0", waits()),
            waiter("driver", "d", Step::Passed),
        ];
        assert_eq!(look(&two, Shown::Nothing, 10).says, Some(Says::Open));
    }

    #[test]
    fn shortly_before_the_first_one_gives_up_it_is_said_who_is_missing() {
        let all = [
            waiter("workers", "w0", waits()),
            waiter(
                "workers",
                "w1",
                Step::Starting(Some("load: ErrImagePull".to_owned())),
            ),
        ];
        assert_eq!(look(&all, Shown::Nothing, 290).says, None);
        let Some(Says::Late(text)) = look(&all, Shown::Nothing, 298).says else {
            panic!("it is late");
        };
        insta::assert_snapshot!(text, @"1 of 3 members have started; driver: 1 not created yet; w1 has not started: load: ErrImagePull");
    }

    #[test]
    fn whom_the_others_waited_for_is_named_although_they_have_given_up() {
        let mut all = vec![waiter("driver", "d", Step::GaveUp(Some(at(0))))];
        all.push(waiter("workers", "w0", Step::GaveUp(Some(at(0)))));
        all.push(waiter(
            "workers",
            "w1",
            Step::Unplaced(Some("0/4 nodes are available".to_owned())),
        ));
        let Some(Says::Late(text)) = look(&all, Shown::Late, 400).says else {
            panic!("it is late");
        };
        insta::assert_snapshot!(text, @"2 of 3 members have started, and some of them have given up; w1 is not placed: 0/4 nodes are available");
    }

    #[test]
    fn pods_that_outlive_a_short_suspension_are_the_start_of_now() {
        let mut all = [
            waiter("driver", "d", waits()),
            waiter("workers", "w0", waits()),
            waiter("workers", "w1", waits()),
        ];
        let resumed = || BarrierStart {
            round: Round(1),
            ..start(0)
        };
        let now = |all: &[Waiter]| {
            let waiters: Vec<&Waiter> = all.iter().collect();
            start_of_now(resumed(), &waiters).round
        };
        assert_eq!(now(&all), Round(0));
        // Once the first pod of the new round exists, the old ones are on their way out.
        all[2].start.round = Round(1);
        assert_eq!(now(&all), Round(1));
        // Nobody is in a round that the workload has not begun.
        all[2].start.round = Round(7);
        assert_eq!(now(&all), Round(0));
        for waiter in &mut all {
            waiter.step = Step::Done;
        }
        assert_eq!(now(&all), Round(1));
    }

    #[test]
    fn who_gave_up_is_missing_until_kubelet_restarts_it() {
        let all = [
            waiter("driver", "d", Step::GaveUp(Some(at(0)))),
            waiter("workers", "w0", waits()),
            waiter("workers", "w1", waits()),
        ];
        let late = look(&all, Shown::Late, 10);
        assert_eq!(
            late.says,
            Some(Says::Late(
                "3 of 3 members have started, and some of them have given up".to_owned()
            ))
        );
    }
}
