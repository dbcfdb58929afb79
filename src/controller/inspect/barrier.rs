//! How a start barrier stands, from outside: by its pods, by the ConfigMap of this start, and by Muster's own
//! condition where these two do not say it.
//!
//! The condition does not say of which start it is. While Muster is down it stays as it was, whatever
//! becomes of the workload, and so it is the last that is believed.

use crate::controller::barriers::status::{BarrierStatus, Says, Shown};
use crate::controller::barriers::waiters::Waiter;
use crate::controller::report::condition;

/// Reason and message, as a condition has them.
type Words = (String, String);

/// How it stands, as its condition would say it now. `unlisted`: who looks may not see its ConfigMap.
pub(super) fn stands(
    status: &BarrierStatus,
    waiters: &[Waiter],
    shown: Shown,
    unlisted: bool,
    told: Option<Words>,
) -> Option<Words> {
    // Pods of this start exist: those of another one are no sign that the condition is of this one.
    let came = || waiters.iter().any(|waiter| waiter.start == status.start);
    let believed = |reason: &str| match reason {
        condition::BARRIER_WAITING => false,
        // Muster is told why, and whoever looks is not; as long as there is something to write.
        condition::BARRIER_REFUSED => status.says.is_some() && shown == Shown::Nothing,
        _ => unlisted && came() && status.says != Some(Says::Open),
    };
    if let Some(told) = told.filter(|(reason, _)| believed(reason)) {
        return Some(told);
    }
    let mut status = status.clone();
    // Not by the clock of whoever looks, which may be wrong: Muster writes down that the time is over.
    let late = matches!(shown, Shown::Late(_));
    if let Some(Says::Late(missing)) = &status.says
        && !late
    {
        status.missing = Some(missing.clone());
        status.says = None;
    }
    status.timed_out = late;
    if status.says == Some(Says::Open) && shown != Shown::Open && !unlisted {
        // Muster opens it as soon as it sees that.
        let members = status.members;
        status.missing = Some(format!(
            "{members} of {members} members have started, and Muster has not opened it yet"
        ));
        status.says = None;
    }
    condition::of_barrier(&status)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use k8s_openapi::jiff::Timestamp;

    use super::*;
    use crate::controller::barriers::waiters::Step;
    use crate::gang::{BarrierStart, StampHash};
    use crate::workload::seen::Sealed;

    const WAITS: &str = "main containers wait until all members have started: ";

    fn status(says: Option<Says>) -> BarrierStatus {
        let missing = "0 of 3 members have started; workers: 3 not created yet";
        BarrierStatus {
            start: start(1),
            outlived: Default::default(),
            members: 3,
            missing: says.is_none().then(|| missing.to_owned()),
            says,
            timed_out: false,
            waited: None,
            stragglers: Vec::new(),
            again: None,
            begun: false,
        }
    }

    fn start(attempt: u32) -> BarrierStart {
        BarrierStart {
            attempt,
            ..BarrierStart::example()
        }
    }

    fn pod(attempt: u32) -> Waiter {
        Waiter {
            pod: "train-0".to_owned(),
            start: start(attempt),
            role: "workers".to_owned(),
            job: "train".to_owned(),
            stamped: StampHash::default(),
            sealed: Sealed::Yes,
            step: Step::Starting(None),
            seen: Timestamp::UNIX_EPOCH,
            touched: false,
        }
    }

    fn told(reason: &str, message: &str) -> Option<Words> {
        Some((reason.to_owned(), message.to_owned()))
    }

    fn opened() -> Option<Words> {
        told("BarrierOpened", "3 of 3 members have started")
    }

    fn timed_out() -> Option<Words> {
        told(
            "BarrierTimedOut",
            "the start barrier did not open in time: 2 of 3",
        )
    }

    fn late() -> Option<Says> {
        Some(Says::Late("2 of 3 members have started".to_owned()))
    }

    /// Muster is down, and the workload has restarted: its pods cannot even be created.
    #[test]
    fn a_condition_of_the_start_before_is_not_believed() {
        for condition in [opened(), timed_out(), told("BarrierRefused", "quota")] {
            for (unlisted, pods) in [(false, vec![]), (false, vec![pod(1)]), (true, vec![pod(0)])] {
                let said = stands(
                    &status(None),
                    &pods,
                    Shown::Nothing,
                    unlisted,
                    condition.clone(),
                );
                let (reason, message) = said.unwrap();
                assert_eq!(reason, "BarrierWaiting", "{condition:?}");
                let truth = "0 of 3 members have started; workers: 3 not created yet";
                assert_eq!(message, format!("{WAITS}{truth}"));
            }
        }
    }

    /// Muster is down, and all wait.
    #[test]
    fn what_muster_has_not_opened_is_not_open() {
        let all = status(Some(Says::Open));
        let said = |shown| stands(&all, &[pod(1)], shown, false, None).unwrap();
        let (reason, message) = said(Shown::Nothing);
        assert_eq!(reason, "BarrierWaiting");
        let truth = "3 of 3 members have started, and Muster has not opened it yet";
        assert_eq!(message, format!("{WAITS}{truth}"));
        assert_eq!(said(Shown::Open).0, "BarrierOpened");
    }

    #[test]
    fn who_may_not_see_configmaps_is_told_what_muster_says_of_pods_that_exist() {
        for condition in [opened(), timed_out()] {
            let said = stands(
                &status(None),
                &[pod(1)],
                Shown::Nothing,
                true,
                condition.clone(),
            );
            assert_eq!(said, condition);
        }
    }

    /// Muster's condition says why; whether it is still so the ConfigMap does.
    #[test]
    fn a_refusal_is_told_until_the_configmap_is_there() {
        let refused = told(
            "BarrierRefused",
            "the start barrier does not open: exceeded quota",
        );
        let open = status(Some(Says::Open));
        let said = |shown| stands(&open, &[pod(1)], shown, false, refused.clone());
        assert_eq!(said(Shown::Nothing), refused);
        assert_eq!(said(Shown::Open), opened());
    }

    /// That of a laptop may be ahead.
    #[test]
    fn the_clock_of_whoever_looks_ends_no_ones_time() {
        let waits = told("BarrierWaiting", "2 of 3");
        let said = |shown, told| stands(&status(late()), &[pod(1)], shown, false, told);
        let closed = format!("{WAITS}2 of 3 members have started");
        for told in [waits.clone(), None, opened(), timed_out()] {
            let (reason, message) = said(Shown::Nothing, told).unwrap();
            assert_eq!((reason.as_str(), &message), ("BarrierWaiting", &closed));
        }
        let (reason, _) = said(Shown::Late(Duration::ZERO), waits).unwrap();
        assert_eq!(reason, "BarrierTimedOut");
    }
}
