//! How the gangs stand, as a condition of their workload: for `kubectl wait` and for people.
//!
//! The workload's controller writes the same status, but whole and with the version that it read, and
//! keeps conditions of types that it does not know (JobSet v0.12, LeaderWorkerSet v0.9). Ours is
//! applied as a field of its own.

mod reason;
mod says;
#[cfg(test)]
mod tests;

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use self::reason::Reason;
pub(crate) use self::reason::{BARRIER_OPENED, BARRIER_REFUSED, BARRIER_WAITING};
use self::says::Condition;
use crate::controller::barriers::status::BarrierStatus;
use crate::controller::cache::expiring::Expiring;
use crate::controller::cache::stored::Stored;
use crate::controller::decide::Actions;
use crate::controller::report::events::{Report, SILENCE, TURNS};

/// True once every gang of the workload has its quorum on nodes.
pub(crate) const TYPE: &str = "muster.dev/GangScheduled";

/// True once every member of the start barrier has started.
pub(crate) const BARRIER: &str = "muster.dev/StartBarrier";

/// How a start barrier stands, as its condition would say it: reason and message.
pub(crate) fn of_barrier(status: &BarrierStatus) -> Option<(String, String)> {
    let condition = Condition::of_barrier(status, None, Some(&Value::Null))?;
    Some((condition.reason.as_str().to_owned(), condition.message))
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
pub(crate) struct Conditions(Mutex<Expiring<(String, &'static str), Written>>);

/// A condition that was written.
#[derive(Debug)]
struct Written {
    condition: Condition,
    /// How often another cause was told, each within [`SILENCE`] of the last.
    turns: u32,
}

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
        let Some(mut condition) = Condition::of_barrier(status, refused, shown) else {
            return (ConditionUpdate::NotNeeded, report);
        };
        let moment = condition.soften(status);
        let is_shown = shown.is_some_and(|shown| condition.is(shown));
        // What was said of the start before is corrected at once.
        if let (Some(left), true) = (moment, is_shown || shown.is_none()) {
            return (ConditionUpdate::Later(left), report);
        }
        if is_shown {
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
        let late = matches!(
            condition.reason,
            Reason::Idle | Reason::Ended | Reason::Failed
        );
        if late && shown.is_none() {
            return ConditionUpdate::NotNeeded;
        }
        let stays = |shown: &Value| condition.is(shown) || condition.yields_to(shown);
        if shown.is_some_and(|shown| stays(shown) || condition.forgets(shown, actions)) {
            return ConditionUpdate::NotNeeded;
        }
        if let Some(left) = condition.hold_back(workload, shown, actions) {
            return ConditionUpdate::Later(left);
        }
        if let Some(left) = condition.leaves(shown, actions) {
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
        let mut turns = 0;
        if let Some((written, left)) = written.get(&key, now) {
            let last = &written.condition;
            if *last == condition {
                return ConditionUpdate::Later(left);
            }
            // The cache may not show yet why it was suspended.
            if (last.reason, condition.reason) == (Reason::TimedOut, Reason::Suspended) {
                return ConditionUpdate::Later(left);
            }
            if condition.recounts(last) {
                return ConditionUpdate::Later(left);
            }
            if condition.waits() && last.waits() {
                turns = written.turns + 1;
                if turns > TURNS {
                    return ConditionUpdate::Later(left);
                }
            }
        }
        let value = condition.to_json(shown);
        written.insert(key, Written { condition, turns }, now);
        ConditionUpdate::Write(value)
    }
}
