//! How the gangs stand, as a condition of their workload: for `kubectl wait` and for people.
//!
//! The workload's controller writes the same status, but whole and with the version that it read, and
//! keeps conditions of types that it does not know (JobSet v0.12, LeaderWorkerSet v0.9). Ours is
//! applied as a field of its own.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::controller::barriers::status::{BarrierStatus, Says};
use crate::controller::cache::expiring::Expiring;
use crate::controller::cache::stored::Stored;
use crate::controller::decide::{Actions, GangStatus, State};
use crate::controller::gang_status;
use crate::controller::metrics::BarrierOutcome;
use crate::controller::report::events::{FIRST_WORDS, Report, SILENCE};
use crate::controller::report::few::{LONGEST, cut, few};

/// True once every gang of the workload has its quorum on nodes.
pub(crate) const TYPE: &str = "muster.dev/GangScheduled";

const BROKEN: &str = "GangBroken";
const TIMED_OUT: &str = "GangTimedOut";

/// True once every member of the start barrier has started.
pub(crate) const BARRIER: &str = "muster.dev/StartBarrier";

/// Without a number: it would change while pods try again.
const NO_IMAGE: &str = "; pods on nodes cannot pull an image, which is not a matter of scheduling";

/// What the condition says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Condition {
    kind: &'static str,
    reason: Reason,
    message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    Scheduled,
    Waiting,
    /// The first cause for which a gang waits.
    Because(&'static str),
    Broken,
    TimedOut,
    Ended,
    Suspended,
    Refused,
    Idle,
    BarrierOpen,
    BarrierWaiting,
    BarrierTimedOut,
    BarrierRefused,
}

impl Reason {
    fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "GangScheduled",
            Self::Waiting => "GangWaiting",
            Self::Because(cause) => cause,
            Self::Broken => BROKEN,
            Self::TimedOut => TIMED_OUT,
            Self::Ended => "GangEnded",
            Self::Suspended => "GangSuspended",
            Self::Refused => "GangRefused",
            Self::Idle => "NoGang",
            Self::BarrierOpen => "BarrierOpened",
            Self::BarrierWaiting => "BarrierWaiting",
            Self::BarrierTimedOut => "BarrierTimedOut",
            Self::BarrierRefused => "BarrierRefused",
        }
    }

    fn status(self) -> &'static str {
        match self {
            Self::Scheduled | Self::BarrierOpen => "True",
            Self::Waiting | Self::Because(_) | Self::Broken | Self::TimedOut => "False",
            Self::Ended | Self::Suspended | Self::Refused | Self::Idle => "False",
            Self::BarrierWaiting | Self::BarrierTimedOut | Self::BarrierRefused => "False",
        }
    }

    fn barrier(self) -> Option<BarrierOutcome> {
        match self {
            Self::BarrierOpen => Some(BarrierOutcome::Opened),
            Self::BarrierTimedOut => Some(BarrierOutcome::TimedOut),
            Self::BarrierRefused => Some(BarrierOutcome::Refused),
            _ => None,
        }
    }
}

/// The first cause of the first gang that waits, before those that only wait for it; of the others how
/// many there are.
fn waiting(gangs: &[GangStatus]) -> (Reason, String) {
    let causes = gangs
        .iter()
        .filter_map(|gang| Some((gang, gang.causes.first()?)));
    let Some((gang, cause)) = causes
        .clone()
        .min_by_key(|(_, cause)| cause.follows_another())
    else {
        let message = "a gang waits for its pods to be made and placed";
        return (Reason::Waiting, message.to_owned());
    };
    let mut message = format!("{}: {cause}", gang.name);
    let more = causes.count() - 1;
    if more > 0 {
        let gangs = if more == 1 {
            "gang waits"
        } else {
            "gangs wait"
        };
        message.push_str(&format!("; {more} more {gangs}"));
    }
    (Reason::Because(cause.reason()), message)
}

impl Condition {
    /// What holds now; `None` where there is no gang, or no longer one. No numbers that change
    /// while gangs start: each would be a write.
    pub(crate) fn of(actions: &Actions, obstacles: &[String]) -> Option<Self> {
        let refused = actions.refused.iter().chain(obstacles);
        let refused: Vec<&str> = refused.map(String::as_str).collect();
        let all = actions.gangs.len();
        let (reason, message) = if !refused.is_empty() {
            (Reason::Refused, few(refused))
        } else if let Some(why) = &actions.suspended_after {
            (Reason::TimedOut, why.clone())
        } else if let Some(kind) = actions.suspended {
            let message = match &actions.kueue {
                Some(queue) => format!(
                    "the {kind} is suspended: Kueue has not admitted it from the queue {queue:?}"
                ),
                None => format!("the {kind} is suspended"),
            };
            (Reason::Suspended, message)
        } else if let Some(kind) = actions.finished {
            (
                Reason::Ended,
                format!("the {kind} has ended: no gang waits any more"),
            )
        } else if all == 0 && actions.idle {
            (Reason::Idle, "there is no gang now".to_owned())
        } else if all == 0 && !actions.unmade {
            return None;
        } else if !actions.unmade && actions.gangs.iter().all(|g| g.state == State::Scheduled) {
            let mut message = format!("{all} of {all} gangs are placed");
            if actions.gangs.iter().any(|gang| gang.imageless > 0) {
                message.push_str(NO_IMAGE);
            }
            (Reason::Scheduled, message)
        } else if let Some(broken) = &actions.broken {
            (Reason::Broken, broken.clone())
        } else {
            waiting(&actions.gangs)
        };
        Some(Self {
            kind: TYPE,
            reason,
            message: cut(&message, LONGEST),
        })
    }

    /// How a start barrier stands; `None` before anybody has waited. `refused` is why it does not open
    /// although it should.
    fn of_barrier(
        status: &BarrierStatus,
        refused: Option<&str>,
        shown: Option<&Value>,
    ) -> Option<Self> {
        let members = status.members;
        let (reason, message) = match &status.says {
            Some(_) if refused.is_some() => (
                Reason::BarrierRefused,
                refused.unwrap_or_default().to_owned(),
            ),
            Some(Says::Open) => (
                Reason::BarrierOpen,
                format!("{members} of {members} members have started"),
            ),
            Some(Says::Late(missing)) => (
                Reason::BarrierTimedOut,
                format!("the start barrier did not open in time: {missing}"),
            ),
            None if status.begun || shown.is_some() => (
                Reason::BarrierWaiting,
                "main containers wait until all members have started".to_owned(),
            ),
            None => return None,
        };
        Some(Self {
            kind: BARRIER,
            reason,
            message: cut(&message, LONGEST),
        })
    }

    /// How long to hold it back: a gang that starts at once is not worth saying that it waited.
    /// What was said before is corrected at once.
    fn hold_back(
        &self,
        workload: &Stored,
        shown: Option<&Value>,
        actions: &Actions,
    ) -> Option<Duration> {
        if !self.waits() || shown.is_some() {
            return None;
        }
        let waiting = actions.gangs.iter().filter(|g| g.state != State::Scheduled);
        let age = waiting.filter_map(|gang| gang.age.or(gang.waited)).max();
        // A gang that has no pod yet has no age either.
        let age = age.or_else(|| gang_status::age(&workload.metadata));
        FIRST_WORDS
            .checked_sub(age.unwrap_or_default())
            .filter(|left| !left.is_zero())
    }

    /// Muster forgets at a restart that a gang was broken; the condition on the workload still says so.
    fn forgets(&self, shown: &Value, actions: &Actions) -> bool {
        let of = |gang: &GangStatus| {
            let message = shown["message"].as_str().unwrap_or_default();
            let named = message.strip_prefix(&gang.name);
            gang.state != State::Scheduled && named.is_some_and(|rest| rest.starts_with(':'))
        };
        self.waits() && shown["reason"] == BROKEN && actions.gangs.iter().any(of)
    }

    fn waits(&self) -> bool {
        matches!(self.reason, Reason::Waiting | Reason::Because(_))
    }

    /// Whether what is shown stays although this holds too.
    fn yields_to(&self, shown: &Value) -> bool {
        match self.reason {
            // Until somebody resumes it.
            Reason::Suspended => shown["reason"] == TIMED_OUT,
            // One that was placed has been a gang, and ends as one.
            Reason::Ended => shown["status"] == "True",
            _ => false,
        }
    }

    fn is(&self, shown: &Value) -> bool {
        shown["status"] == self.reason.status()
            && shown["reason"] == self.reason.as_str()
            && shown["message"] == self.message
    }

    fn to_json(&self, shown: Option<&Value>) -> Value {
        let same = shown.filter(|shown| shown["status"] == self.reason.status());
        let since = same.and_then(|shown| shown["lastTransitionTime"].as_str());
        let now = || Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        json!({
            "type": self.kind,
            "status": self.reason.status(),
            "reason": self.reason.as_str(),
            "message": self.message,
            "lastTransitionTime": since.map_or_else(now, str::to_owned),
        })
    }
}

/// What is to be done about the condition.
#[derive(Debug, PartialEq)]
pub(crate) enum ConditionUpdate {
    NotNeeded,
    Later(Duration),
    Write(Value),
}

/// The conditions of the last moments, by the workload's uid, until the cache shows them.
#[derive(Debug)]
pub(crate) struct Conditions(Mutex<Expiring<(String, &'static str), Condition>>);

impl Default for Conditions {
    fn default() -> Self {
        Self(Mutex::new(Expiring::new(SILENCE)))
    }
}

impl Conditions {
    /// The condition of a workload could not be written: the next look writes it again.
    pub(crate) fn forget(&self, uid: &str) {
        let mut written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for kind in [TYPE, BARRIER] {
            written.remove(&(uid.to_owned(), kind));
        }
    }

    /// The condition of a start barrier, and the event that says the same.
    pub(crate) fn barrier(
        &self,
        workload: &Stored,
        status: &BarrierStatus,
        refused: Option<&str>,
    ) -> (ConditionUpdate, Report) {
        let mut report = Report::default();
        let shown = workload.condition(BARRIER);
        let shown = shown.as_ref();
        let Some(condition) = Condition::of_barrier(status, refused, shown) else {
            return (ConditionUpdate::NotNeeded, report);
        };
        if shown.is_some_and(|shown| condition.is(shown)) {
            return (ConditionUpdate::NotNeeded, report);
        }
        let Condition {
            reason, message, ..
        } = condition.clone();
        // Who is missing changes, and is told once.
        let told = shown.is_some_and(|shown| shown["reason"] == reason.as_str());
        let update = self.settle(workload, condition, shown);
        if !told && matches!(update, ConditionUpdate::Write(_)) {
            report.barrier = reason.barrier();
            match reason {
                Reason::BarrierOpen => report.tell(reason.as_str(), message),
                Reason::BarrierTimedOut | Reason::BarrierRefused => {
                    report.warn(reason.as_str(), message);
                }
                _ => {}
            }
        }
        (update, report)
    }

    pub(crate) fn update(
        &self,
        workload: &Stored,
        actions: &Actions,
        obstacles: &[String],
    ) -> ConditionUpdate {
        let Some(condition) = Condition::of(actions, obstacles) else {
            return ConditionUpdate::NotNeeded;
        };
        let shown = workload.condition(TYPE);
        let shown = shown.as_ref();
        // A workload that never had a gang needs no condition; one that had keeps none that is no
        // longer true.
        if matches!(condition.reason, Reason::Idle | Reason::Ended) && shown.is_none() {
            return ConditionUpdate::NotNeeded;
        }
        let stays = |shown: &Value| condition.is(shown) || condition.yields_to(shown);
        if shown.is_some_and(|shown| stays(shown) || condition.forgets(shown, actions)) {
            return ConditionUpdate::NotNeeded;
        }
        if let Some(left) = condition.hold_back(workload, shown, actions) {
            return ConditionUpdate::Later(left);
        }
        self.settle(workload, condition, shown)
    }

    /// Writes a condition, unless that was done a moment ago.
    fn settle(
        &self,
        workload: &Stored,
        condition: Condition,
        shown: Option<&Value>,
    ) -> ConditionUpdate {
        let (mut written, now) = (
            self.0.lock().unwrap_or_else(PoisonError::into_inner),
            Instant::now(),
        );
        let key = (workload.uid().to_owned(), condition.kind);
        if let Some((last, left)) = written.get(&key, now) {
            if *last == condition {
                return ConditionUpdate::Later(left);
            }
            // The cache may not show yet why it was suspended.
            if (last.reason, condition.reason) == (Reason::TimedOut, Reason::Suspended) {
                return ConditionUpdate::Later(left);
            }
            // The numbers of one cause change often, and each change would be a write.
            if condition.waits() && last.reason == condition.reason {
                return ConditionUpdate::Later(left);
            }
        }
        let value = condition.to_json(shown);
        written.insert(key, condition, now);
        ConditionUpdate::Write(value)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn jobset(condition: Option<&Value>) -> Stored {
        let completed = json!({"type": "Completed", "status": "False"});
        let all: Vec<&Value> = [&completed].into_iter().chain(condition).collect();
        let metadata = json!({"name": "train", "uid": "4d1c"});
        let jobset = json!({"metadata": metadata, "status": {"conditions": all}});
        serde_json::from_value(jobset).unwrap()
    }

    fn gang(state: State, age: u64) -> Actions {
        Actions {
            gangs: vec![GangStatus {
                state,
                age: Some(Duration::from_secs(age)),
                ..GangStatus::example()
            }],
            ..Actions::default()
        }
    }

    fn written(update: ConditionUpdate) -> Value {
        match update {
            ConditionUpdate::Write(value) => value,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_gang_is_given_a_moment_before_it_is_said_to_wait() {
        let step = |age| {
            let waiting = gang(State::Waiting, age);
            Conditions::default().update(&jobset(None), &waiting, &[])
        };
        assert_eq!(
            step(1),
            ConditionUpdate::Later(FIRST_WORDS - Duration::from_secs(1))
        );
        assert_eq!(written(step(5))["reason"], "GangWaiting");
    }

    #[test]
    fn what_is_placed_is_not_all_while_a_gang_has_no_pod() {
        let mut actions = gang(State::Scheduled, 60);
        let step = |actions: &Actions, age: i64| {
            let mut workload = jobset(None);
            let created = Timestamp::now().as_second() - age;
            let created = Timestamp::from_second(created).unwrap();
            workload.metadata.creation_timestamp = Some(Time(created));
            Conditions::default().update(&workload, actions, &[])
        };
        assert_eq!(written(step(&actions, 60))["status"], "True");
        actions.unmade = true;
        assert_eq!(written(step(&actions, 60))["reason"], "GangWaiting");
        assert!(matches!(step(&actions, 1), ConditionUpdate::Later(_)));
        actions.gangs.clear();
        assert_eq!(written(step(&actions, 60))["reason"], "GangWaiting");
    }

    #[test]
    fn what_is_no_longer_true_is_corrected_at_once_and_keeps_no_old_time() {
        let old = json!({"type": TYPE, "status": "True", "reason": "GangScheduled",
            "message": "1 of 1 gangs are placed", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let conditions = Conditions::default();
        let placed = gang(State::Scheduled, 9);
        assert_eq!(
            conditions.update(&jobset(Some(&old)), &placed, &[]),
            ConditionUpdate::NotNeeded
        );
        let waits = gang(State::Waiting, 0);
        let new = written(conditions.update(&jobset(Some(&old)), &waits, &[]));
        assert_eq!(new["status"], "False");
        assert_ne!(new["lastTransitionTime"], old["lastTransitionTime"]);
    }

    #[test]
    fn why_it_was_suspended_stays_until_somebody_resumes_it() {
        let conditions = Conditions::default();
        let timed_out = Actions {
            suspended_after: Some("it waited too long".to_owned()),
            ..Actions::default()
        };
        let suspended = Actions {
            suspended: Some("JobSet"),
            ..Actions::default()
        };
        let said = written(conditions.update(&jobset(None), &timed_out, &[]));
        assert_eq!(said["reason"], "GangTimedOut");
        // Whether or not the cache shows it.
        let behind = conditions.update(&jobset(None), &suspended, &[]);
        assert!(matches!(behind, ConditionUpdate::Later(_)), "{behind:?}");
        let shown = Conditions::default().update(&jobset(Some(&said)), &suspended, &[]);
        assert_eq!(shown, ConditionUpdate::NotNeeded);
        let resumed = gang(State::Scheduled, 1);
        let shown = conditions.update(&jobset(Some(&said)), &resumed, &[]);
        assert_eq!(written(shown)["reason"], "GangScheduled");
    }

    #[test]
    fn a_workload_that_ends_while_a_gang_waits_says_so_and_one_that_was_placed_says_nothing() {
        let ended = Actions {
            finished: Some("JobSet"),
            ..Actions::default()
        };
        let shown = |status: &str| json!({"type": TYPE, "status": status, "reason": "x"});
        let update = |shown: Option<Value>| {
            Conditions::default().update(&jobset(shown.as_ref()), &ended, &[])
        };
        assert_eq!(written(update(Some(shown("False"))))["reason"], "GangEnded");
        assert_eq!(update(Some(shown("True"))), ConditionUpdate::NotNeeded);
        assert_eq!(update(None), ConditionUpdate::NotNeeded);
    }

    #[test]
    fn it_is_written_once_although_the_cache_is_behind() {
        let conditions = Conditions::default();
        let placed = gang(State::Scheduled, 9);
        let first = written(conditions.update(&jobset(None), &placed, &[]));
        assert!(matches!(
            conditions.update(&jobset(None), &placed, &[]),
            ConditionUpdate::Later(_)
        ));
        assert_eq!(
            conditions.update(&jobset(Some(&first)), &placed, &[]),
            ConditionUpdate::NotNeeded
        );
    }

    #[test]
    fn a_broken_gang_is_said_to_be_broken_by_every_muster_until_it_is_whole_or_gone() {
        let note = "train-all-0: 3 pods are placed without the others";
        let mut broken = gang(State::Waiting, 1);
        broken.broken = Some(note.to_owned());
        let said = written(Conditions::default().update(&jobset(None), &broken, &[]));
        assert_eq!(
            (&said["status"], &said["reason"], &said["message"]),
            (&json!("False"), &json!("GangBroken"), &json!(note))
        );
        let restarted =
            |actions: &Actions| Conditions::default().update(&jobset(Some(&said)), actions, &[]);
        let mut gang = gang(State::Waiting, 90);
        assert_eq!(restarted(&gang), ConditionUpdate::NotNeeded);
        gang.gangs[0].state = State::Scheduled;
        assert_eq!(written(restarted(&gang))["reason"], "GangScheduled");
        gang.gangs[0].state = State::Empty;
        gang.gangs[0].name = "train-all-01".to_owned();
        assert_eq!(written(restarted(&gang))["reason"], "GangWaiting");
    }

    #[test]
    fn a_workload_whose_last_gang_is_gone_does_not_keep_its_old_condition() {
        let idle = Actions {
            idle: true,
            ..Actions::default()
        };
        let step = |shown: Option<&Value>| Conditions::default().update(&jobset(shown), &idle, &[]);
        assert_eq!(step(None), ConditionUpdate::NotNeeded);
        let old = json!({"type": TYPE, "status": "True", "reason": "GangScheduled",
            "message": "2 of 2 gangs are placed", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let said = written(step(Some(&old)));
        assert_eq!(
            (&said["status"], &said["reason"]),
            (&json!("False"), &json!("NoGang"))
        );
    }

    #[test]
    fn a_condition_that_could_not_be_written_is_written_again() {
        let (conditions, placed) = (Conditions::default(), gang(State::Scheduled, 9));
        written(conditions.update(&jobset(None), &placed, &[]));
        conditions.forget("4d1c");
        written(conditions.update(&jobset(None), &placed, &[]));
    }

    #[test]
    fn many_refused_objects_fit_into_a_condition() {
        let refused: Vec<String> = (0..10_000)
            .map(|index| format!("PodGroup train-workers-{index} is refused"))
            .collect();
        let placed = gang(State::Scheduled, 9);
        let said = written(Conditions::default().update(&jobset(None), &placed, &refused));
        let message = said["message"].as_str().unwrap();
        assert!(message.len() <= LONGEST, "{} bytes", message.len());
        assert!(message.ends_with("and 9997 more"), "{message}");
        assert!(message.contains("train-workers-0 is refused"), "{message}");
    }

    #[test]
    fn what_is_in_the_way_is_named_and_a_workload_without_a_gang_has_no_condition() {
        let foreign = ["PodGroup a is not Muster's".to_owned()];
        let placed = gang(State::Scheduled, 9);
        let said = written(Conditions::default().update(&jobset(None), &placed, &foreign));
        assert_eq!(
            (&said["reason"], &said["message"]),
            (&json!("GangRefused"), &json!(foreign[0]))
        );
        let none = Conditions::default().update(&jobset(None), &Actions::default(), &[]);
        assert_eq!(none, ConditionUpdate::NotNeeded);
    }
}
