//! What a condition says, from how the gangs or the start barrier stand. Pure but for the time of a
//! transition.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::reason::{BROKEN, Reason, TIMED_OUT, is_a_cause};
use super::{BARRIER, TYPE};
use crate::controller::barriers::status::{BarrierStatus, SUSPENDED, Says};
use crate::controller::cache::stored::Stored;
use crate::controller::decide::{Actions, GangStatus, State};
use crate::controller::gang_status;
use crate::controller::report::events::FIRST_WORDS;
use crate::controller::report::few::{LONGEST, cut, few};
use crate::explain::Cause;

/// What the condition says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Condition {
    pub(super) kind: &'static str,
    pub(super) reason: Reason,
    /// Which cause it tells, where a gang waits for one.
    pub(super) cause: Option<String>,
    pub(super) message: String,
}

/// Without a number: it would change while pods try again.
const NO_IMAGE: &str = "; pods on nodes cannot pull an image, which is not a matter of scheduling";

/// Of a start barrier; who is missing follows.
const WAITS: &str = "main containers wait until all members have started";

/// The first cause of the first gang that waits, before those that only wait for it; of the others how
/// many there are.
fn waiting(gangs: &[GangStatus]) -> (Reason, Option<String>, String) {
    let causes = gangs
        .iter()
        .filter_map(|gang| Some((gang, gang.causes.first()?)));
    let Some((gang, cause)) = causes
        .clone()
        .min_by_key(|(_, cause)| cause.follows_another())
    else {
        let message = "a gang waits for its pods to be made and placed";
        return (Reason::Waiting, None, message.to_owned());
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
    (Reason::Because(cause.reason()), Some(cause.key()), message)
}

/// Whether pods are refused: that must be mended before it matters that the others are placed without
/// them.
fn lacks_refused(actions: &Actions) -> bool {
    let refused =
        |gang: &GangStatus| matches!(gang.causes.first(), Some(Cause::PodsRefused { .. }));
    actions.gangs.iter().any(refused)
}

impl Condition {
    /// What holds now; `None` where there is no gang, or no longer one. No numbers that change
    /// while gangs start: each would be a write.
    pub(super) fn of(actions: &Actions, obstacles: &[String]) -> Option<Self> {
        let refused = actions.refused.iter().chain(obstacles);
        let refused: Vec<&str> = refused.map(String::as_str).collect();
        let all = actions.gangs.len();
        let mut cause = None;
        let (reason, message) = if !refused.is_empty() {
            (Reason::Refused, few(refused))
        } else if let Some(why) = &actions.suspended_after {
            (Reason::TimedOut, why.clone())
        } else if let Some(kind) = actions.suspended {
            let message = match &actions.kueue {
                Some(queued) => format!("the {kind} is {}", queued.suspended()),
                None => format!("the {kind} is suspended"),
            };
            (Reason::Suspended, message)
        } else if let Some(kind) = actions.finished {
            match actions.failure.as_deref() {
                None => (
                    Reason::Ended,
                    format!("the {kind} has ended: no gang waits any more"),
                ),
                Some("") => (Reason::Failed, format!("the {kind} has failed")),
                Some(why) => (Reason::Failed, format!("the {kind} has failed: {why}")),
            }
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
        } else if let Some(broken) = actions.broken.as_ref().filter(|_| !lacks_refused(actions)) {
            (Reason::Broken, broken.clone())
        } else {
            let (reason, key, message) = waiting(&actions.gangs);
            cause = key;
            match &actions.broken {
                Some(broken) => (reason, format!("{message}; {broken}")),
                None => (reason, message),
            }
        };
        Some(Self {
            kind: TYPE,
            reason,
            cause,
            message: cut(&message, LONGEST),
        })
    }

    /// How a start barrier stands; `None` before anybody has waited. `refused` is why it does not open
    /// although it should.
    pub(super) fn of_barrier(
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
            Some(Says::Late(missing)) if status.timed_out => (
                Reason::BarrierTimedOut,
                format!("the start barrier did not open in time: {missing}"),
            ),
            // It is written down who is missing a moment before anybody's time is over.
            Some(Says::Late(_)) | None if status.begun || shown.is_some() => {
                let missing = match &status.says {
                    Some(Says::Late(missing)) => Some(missing),
                    _ => status.missing.as_ref(),
                };
                let message = missing.map(|missing| format!("{WAITS}: {missing}"));
                (
                    Reason::BarrierWaiting,
                    message.unwrap_or_else(|| WAITS.to_owned()),
                )
            }
            Some(Says::Late(_)) | None => return None,
        };
        Some(Self {
            kind: BARRIER,
            reason,
            cause: None,
            message: cut(&message, LONGEST),
        })
    }

    /// Says nothing of who is missing before somebody has waited for a moment: most wait no longer, and while
    /// the pods of a start are made it changes from one to the next. Returns what is left of that moment.
    pub(super) fn soften(&mut self, status: &BarrierStatus) -> Option<Duration> {
        if self.reason != Reason::BarrierWaiting {
            return None;
        }
        let left = status
            .waited
            .map(|waited| FIRST_WORDS.saturating_sub(waited));
        let left = left.filter(|left| !left.is_zero());
        let nobody = status.waited.is_none() && !status.begun && !self.is_of_suspended();
        if left.is_some() || nobody {
            self.message = WAITS.to_owned();
        }
        left
    }

    /// Whether it is of a start barrier at which nobody waits, because the workload is suspended.
    fn is_of_suspended(&self) -> bool {
        let said = self.message.strip_prefix(WAITS);
        // The whole text: what is said of a pod may end in any words.
        let said = said.and_then(|said| said.strip_prefix(": "));
        self.reason == Reason::BarrierWaiting && said == Some(SUSPENDED)
    }

    /// How long to hold it back: a gang that starts at once is not worth saying that it waited, nor a
    /// workload that Kueue admits at once that it was suspended. What was said before is corrected at
    /// once.
    pub(super) fn hold_back(
        &self,
        workload: &Stored,
        shown: Option<&Value>,
        actions: &Actions,
    ) -> Option<Duration> {
        let queued = actions
            .kueue
            .as_ref()
            .filter(|_| self.reason == Reason::Suspended);
        let unexplained = queued.is_some_and(|queued| queued.says.is_none());
        if !(self.waits() || unexplained) || shown.is_some() {
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
    pub(super) fn forgets(&self, shown: &Value, actions: &Actions) -> bool {
        let of = |gang: &GangStatus| {
            let message = shown["message"].as_str().unwrap_or_default();
            let named = message.strip_prefix(&gang.name);
            gang.state != State::Scheduled && named.is_some_and(|rest| rest.starts_with(':'))
        };
        self.waits() && shown["reason"] == BROKEN && actions.gangs.iter().any(of)
    }

    /// How long a cause that is shown stays, because it is looked into later what it is now.
    pub(super) fn leaves(&self, shown: Option<&Value>, actions: &Actions) -> Option<Duration> {
        let told = shown.and_then(|shown| shown["reason"].as_str());
        told.filter(|told| self.waits() && is_a_cause(told))?;
        let gangs = actions.gangs.iter().filter(|gang| gang.waits());
        gangs.filter_map(|gang| gang.explained_in).min()
    }

    /// Whether it tells the same cause as the last one with other numbers: they change often, and each
    /// change would be a write.
    pub(super) fn recounts(&self, last: &Self) -> bool {
        let wordy =
            |text: &str| -> String { text.chars().filter(|c| !c.is_ascii_digit()).collect() };
        let same = (self.reason, &self.cause) == (last.reason, &last.cause);
        let at_barrier = match self.reason {
            Reason::BarrierWaiting => {
                last.message != WAITS && ![self, last].iter().any(|c| c.is_of_suspended())
            }
            reason => reason == Reason::BarrierTimedOut,
        };
        let waits = (self.waits() || at_barrier) && same;
        let suspended = [self, last].iter().all(|c| c.reason == Reason::Suspended);
        waits || suspended && wordy(&self.message) == wordy(&last.message)
    }

    pub(super) fn waits(&self) -> bool {
        matches!(self.reason, Reason::Waiting | Reason::Because(_))
    }

    /// Whether what is shown stays although this holds too.
    pub(super) fn yields_to(&self, shown: &Value) -> bool {
        match self.reason {
            // Until somebody resumes it.
            Reason::Suspended => shown["reason"] == TIMED_OUT,
            // One that was placed has been a gang, and ends as one.
            Reason::Ended => shown["status"] == "True",
            _ => false,
        }
    }

    pub(super) fn is(&self, shown: &Value) -> bool {
        shown["status"] == self.reason.status()
            && shown["reason"] == self.reason.as_str()
            && shown["message"] == self.message
    }

    pub(super) fn to_json(&self, shown: Option<&Value>) -> Value {
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
