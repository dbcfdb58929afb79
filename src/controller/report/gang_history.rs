//! What was told of one gang before, and what is therefore new about it.

use std::time::{Duration, Instant};

use crate::controller::decide::{Actions, GangStatus, State};
use crate::controller::report::events::{FIRST_WORDS, NOT_YET, PATIENCE, Report, SILENCE, TURNS};
use crate::controller::report::few::cut;
use crate::explain::Cause;
use crate::gang::TimeoutAction;

/// Of each cause, and of the scheduler's words.
const EACH: usize = 280;

#[derive(Debug)]
pub(super) struct GangHistory {
    settled: bool,
    waiting_since: Instant,
    told: Option<Told>,
    /// The reason that the condition showed when it was seen first: whoever looked then has told that.
    shown: Option<String>,
    timed_out: bool,
    stranded: bool,
    /// It was whole once, or it was told that it is not.
    whole: bool,
    /// Since when so many are placed and the others are not.
    partial_since: Option<(usize, Instant)>,
    /// What was told of a gang that the scheduler does not hold together, until it is whole.
    broken: Option<String>,
}

/// What was told last of why a gang waits.
#[derive(Debug)]
struct Told {
    at: Instant,
    /// Which cause came first.
    key: String,
    why: String,
    /// How often another cause was told, each soon after the last.
    turns: u32,
}

impl GangHistory {
    /// A gang that is seen for the first time.
    pub(super) fn new(
        gang: &GangStatus,
        actions: &Actions,
        now: Instant,
        shown: Option<&str>,
    ) -> Self {
        let settled = gang.state == State::Scheduled;
        Self {
            settled,
            waiting_since: now,
            told: None,
            shown: shown.map(str::to_owned),
            // An old gang that is not whole has lost members: it was whole once.
            whole: settled || gang.age.is_some_and(|age| age > SILENCE),
            partial_since: None,
            broken: None,
            // What was due before Muster looked was told by whoever looked then.
            stranded: gang.evidence.stranded.is_some(),
            // A gang that is overdue and not suspended was not looked at when it was due.
            timed_out: matches!(actions.timeout, Some((_, TimeoutAction::Wait)))
                && gang
                    .waited
                    .and_then(|waited| gang.overdue(waited, actions))
                    .is_some_and(|by| by > PATIENCE),
        }
    }

    /// How long a gang has waited: where nothing says since when it is wanted, since it was seen first. It
    /// may have been seen before its workload was suspended and resumed.
    fn waited(&self, now: Instant, gang: &GangStatus, actions: &Actions) -> Duration {
        let seen = || match gang.waits() || self.misses(gang) {
            true => now.duration_since(self.waiting_since),
            false => Duration::ZERO,
        };
        let waited = gang.waited.unwrap_or_else(seen);
        actions.wanted_for.map_or(waited, |most| waited.min(most))
    }

    /// Whether it has no pod, and never had all that it needs.
    fn misses(&self, gang: &GangStatus) -> bool {
        gang.is_missed() && !self.whole
    }

    pub(super) fn update(
        &mut self,
        now: Instant,
        gang: &GangStatus,
        actions: &Actions,
        report: &mut Report,
    ) {
        if let Some(why) = &gang.evidence.stranded
            && !std::mem::replace(&mut self.stranded, true)
        {
            report.warn("GangStuck", format!("{}: {why}", gang.name));
        }
        if gang.state == State::Scheduled {
            self.whole = true;
            self.broken = None;
            self.timed_out = false;
            self.shown = None;
            if !self.settled {
                self.settled = true;
                self.told = None;
                let note = format!("{}: {} of {} pods placed", gang.name, gang.bound, gang.size);
                report.tell("GangScheduled", note);
            }
            return;
        }
        if self.settled {
            self.settled = false;
            self.waiting_since = now;
        }
        self.tell_partial(now, gang, report);
        if report.broken.is_none() {
            report.broken.clone_from(&self.broken);
        }
        self.tell_waiting(now, gang, report);
        let Some((limit, action)) = actions.timeout else {
            return;
        };
        let waited = self.waited(now, gang, actions);
        let waits = gang.waits() || self.misses(gang);
        if !waits || waited < limit {
            // Its workload was resumed since: that time is over is told again.
            self.timed_out = false;
            let left = limit.saturating_sub(waited);
            report.again_in(left + Duration::from_millis(100));
            return;
        }
        // Told once, and due until it is done: a write may fail.
        report.timed_out = Some(action);
        if !std::mem::replace(&mut self.timed_out, true) {
            report.timeouts += 1;
            let then = match action {
                TimeoutAction::Wait => "it keeps waiting",
                TimeoutAction::Suspend => "its workload will be suspended",
            };
            let note = format!("{} waits longer than {limit:?}: {then}", gang.name);
            report.warn("GangTimedOut", note);
        }
    }

    /// A gang of which some are placed and the others are not, for longer than placing takes.
    fn tell_partial(&mut self, now: Instant, gang: &GangStatus, report: &mut Report) {
        if self.whole || gang.bound == 0 {
            self.partial_since = None;
            return;
        }
        // While more of them are placed, it is being placed: a large gang takes its time.
        let (bound, since) = *self.partial_since.get_or_insert((gang.bound, now));
        let since = match gang.bound > bound {
            true => now,
            false => since,
        };
        self.partial_since = Some((gang.bound, since));
        match PATIENCE.checked_sub(now.duration_since(since)) {
            Some(left) if !left.is_zero() => report.again_in(left),
            _ => {
                self.whole = true;
                let note = format!(
                    "{}: {} pods are placed without the others, {} are needed: the scheduler does \
                     not hold them together; {}",
                    gang.name, gang.bound, gang.quorum, gang.suspect
                );
                self.broken = Some(note.clone());
                report.warn("GangBroken", note);
            }
        }
    }

    fn tell_waiting(&mut self, now: Instant, gang: &GangStatus, report: &mut Report) {
        let waited = now.duration_since(self.waiting_since);
        if waited < FIRST_WORDS {
            report.again_in(FIRST_WORDS - waited);
            return;
        }
        // Its Jobs may still wait for others.
        if !gang.waits() {
            return;
        }
        let Some(first) = gang.causes.first() else {
            report.again_in(gang.explained_in.unwrap_or(NOT_YET));
            return;
        };
        let (key, why) = (first.key(), gang.why());
        let mut turns = 0;
        let due = match &self.told {
            None => self.shown.take().as_deref() != Some(first.reason()),
            // Another cause is told at once. The numbers of one change with every attempt of the
            // scheduler: not each change is worth an event.
            Some(told) => {
                let (since, same) = (now.duration_since(told.at), told.key == key);
                if !same && since < 2 * SILENCE {
                    turns = (told.turns + 1).min(TURNS + 1);
                }
                let rest = match same || turns > TURNS {
                    true => SILENCE,
                    false => FIRST_WORDS,
                };
                if !same && since < rest {
                    report.again_in(rest - since);
                }
                if told.why == why || since < rest {
                    return;
                }
                true
            }
        };
        if due {
            let note = format!(
                "{}: {} of {} pods placed, {} needed: {why}",
                gang.name, gang.bound, gang.size, gang.quorum
            );
            report.warn("GangWaiting", note);
        }
        self.told = Some(Told {
            at: now,
            key,
            why,
            turns,
        });
    }
}

impl GangStatus {
    /// Its causes, and after them what the scheduler says, in its own words.
    fn why(&self) -> String {
        let causes: Vec<String> = self
            .causes
            .iter()
            .map(|cause| cut(&cause.to_string(), EACH))
            .collect();
        let mut why = causes.join("; also: ");
        let said = self
            .causes
            .iter()
            .any(|c| matches!(c, Cause::SchedulerSays(_)));
        if let Some(words) = self.evidence.quotation().filter(|_| !said) {
            why.push_str(&format!(
                " (the scheduler: \"{}\")",
                cut(words.trim(), EACH)
            ));
        }
        why
    }

    /// By how much a gang that waits has done so longer than it may.
    fn overdue(&self, waited: Duration, actions: &Actions) -> Option<Duration> {
        let (limit, _) = actions.timeout?;
        waited.checked_sub(limit).filter(|_| self.waits())
    }
}

#[cfg(test)]
mod tests;
