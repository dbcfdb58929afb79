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
mod tests {
    use super::*;
    use crate::explain::refusal::Refusal;

    /// A gang of four, so many of which are placed, seen first at `age`.
    fn gang(bound: usize, age: u64) -> GangStatus {
        GangStatus {
            state: if bound == 4 {
                State::Scheduled
            } else {
                State::Waiting
            },
            bound,
            live: 4,
            suspect: "look at the gates",
            age: Some(Duration::from_secs(age)),
            waited: Some(Duration::from_secs(age)),
            ..GangStatus::example()
        }
    }

    #[test]
    fn time_runs_while_members_wait_and_not_before_they_exist_or_while_they_run() {
        let actions = Actions {
            timeout: Some((Duration::from_secs(60), TimeoutAction::Suspend)),
            ..Actions::default()
        };
        let late = |waited: Option<u64>, state: State| GangStatus {
            waited: waited.map(Duration::from_secs),
            state,
            ..gang(0, 7200)
        };
        let mut history =
            GangHistory::new(&late(None, State::Empty), &actions, Instant::now(), None);
        let mut look = |standing: GangStatus| {
            let mut report = Report::default();
            history.update(Instant::now(), &standing, &actions, &mut report);
            let told = report.reasons().filter(|r| *r == "GangTimedOut").count();
            assert_eq!(report.timeouts, told as u64, "counted when it is told");
            (report.timed_out.is_some(), told)
        };
        assert_eq!(look(late(None, State::Empty)), (false, 0));
        assert_eq!(look(late(Some(59), State::Waiting)), (false, 0));
        assert_eq!(look(late(Some(60), State::Waiting)), (true, 1));
        // The write may have failed: it is due until it is done, and told once.
        assert_eq!(look(late(Some(61), State::Waiting)), (true, 0));
        assert_eq!(look(gang(4, 7200)), (false, 0));
        // A replacement that waits has its own time.
        assert_eq!(look(late(Some(1), State::Waiting)), (false, 0));
        assert_eq!(look(late(Some(60), State::Waiting)), (true, 1));
    }

    /// One none of whose pods exists, in a workload that has had others.
    #[test]
    fn a_gang_of_which_nothing_says_since_when_it_is_wanted_has_waited_since_it_was_seen() {
        let actions = Actions {
            timeout: Some((Duration::from_secs(60), TimeoutAction::Wait)),
            ..Actions::default()
        };
        let unmade = GangStatus {
            state: State::Waiting,
            ..GangStatus::example()
        };
        let start = Instant::now();
        let mut history = GangHistory::new(&unmade, &actions, start, None);
        let mut overdue = |second| {
            let (mut report, now) = (Report::default(), start + Duration::from_secs(second));
            history.update(now, &unmade, &actions, &mut report);
            report.timed_out.is_some()
        };
        assert!(!overdue(59));
        assert!(overdue(60));
    }

    /// The controller that makes its pods may be down, and its scheduler has no object that says since
    /// when it is wanted.
    #[test]
    fn time_runs_for_a_gang_none_of_whose_pods_is_made() {
        let actions = Actions {
            timeout: Some((Duration::from_secs(60), TimeoutAction::Suspend)),
            ..Actions::default()
        };
        let overdue = |gang: &GangStatus| {
            let start = Instant::now();
            let mut history = GangHistory::new(gang, &actions, start, None);
            [59, 60].map(|second| {
                let (mut report, now) = (Report::default(), start + Duration::from_secs(second));
                history.update(now, gang, &actions, &mut report);
                report.timed_out.is_some()
            })
        };
        let mut empty = GangStatus::example();
        assert_eq!(overdue(&empty), [false, true]);
        let ended = GangStatus {
            ended: true,
            ..empty.clone()
        };
        assert_eq!(overdue(&ended), [false, false]);
        empty.evidence.awaits = Some("it comes after another".to_owned());
        assert_eq!(overdue(&empty), [false, false]);
    }

    /// Its pods may outlive the suspension, and what was known of it then is known still.
    #[test]
    fn a_gang_that_is_resumed_at_once_has_all_of_its_time_again() {
        let actions = |wanted| Actions {
            timeout: Some((Duration::from_secs(8), TimeoutAction::Suspend)),
            wanted_for: Some(Duration::from_secs(wanted)),
            ..Actions::default()
        };
        let waiting = GangStatus {
            waited: Some(Duration::from_secs(9)),
            ..gang(0, 9)
        };
        let now = Instant::now();
        let mut history = GangHistory::new(&waiting, &actions(9), now, None);
        let mut look = |wanted| {
            let mut report = Report::default();
            history.update(now, &waiting, &actions(wanted), &mut report);
            (report.timed_out.is_some(), report.reasons().count())
        };
        assert_eq!(look(9), (true, 1));
        assert_eq!(look(0), (false, 0), "resumed");
        assert_eq!(look(7), (false, 0));
        assert_eq!(look(8), (true, 1), "told again");
        assert_eq!(look(9), (true, 0));
    }

    #[test]
    fn a_gang_that_was_due_while_nobody_looked_is_suspended_and_told() {
        let due = |action: TimeoutAction| {
            let actions = Actions {
                timeout: Some((Duration::from_secs(60), action)),
                ..Actions::default()
            };
            let (now, standing) = (Instant::now(), gang(0, 7200));
            let mut report = Report::default();
            GangHistory::new(&standing, &actions, now, None).update(
                now,
                &standing,
                &actions,
                &mut report,
            );
            (report.timed_out, report.reasons().count())
        };
        assert_eq!(
            due(TimeoutAction::Suspend),
            (Some(TimeoutAction::Suspend), 1)
        );
        // Only to be told, and whoever looked then has told it.
        assert_eq!(due(TimeoutAction::Wait), (Some(TimeoutAction::Wait), 0));
    }

    fn refused(words: &str) -> Cause {
        Cause::PodsRefused {
            live: 2,
            quorum: 4,
            refusal: Refusal::read(words, None, None),
        }
    }

    /// At which of these seconds what is told, of a gang that waits for this then.
    fn told(shown: Option<&str>, looks: &[(u64, Cause)]) -> Vec<u64> {
        let (start, actions) = (Instant::now(), Actions::default());
        let of = |cause: &Cause| GangStatus {
            causes: vec![cause.clone()],
            ..gang(0, 0)
        };
        let mut history = GangHistory::new(&of(&looks[0].1), &actions, start, shown);
        let mut told = Vec::new();
        for (second, cause) in looks {
            let (mut report, now) = (Report::default(), start + Duration::from_secs(*second));
            history.update(now, &of(cause), &actions, &mut report);
            told.extend(report.reasons().map(|_| *second));
        }
        told
    }

    #[test]
    fn another_quota_claim_or_resource_is_told_at_once_and_other_numbers_later() {
        let quota = |name: &str, used| refused(&format!("exceeded quota: {name}, used: {used}"));
        let looks = [
            (3, quota("a", 1)),
            (6, quota("a", 2)),
            (10, quota("b", 2)),
            (12, quota("b", 3)),
            (71, quota("b", 4)),
        ];
        assert_eq!(told(None, &looks), [3, 10, 71]);
        let claim = |name: &str| Cause::ClaimMissing(name.to_owned());
        assert_eq!(told(None, &[(3, claim("data")), (6, claim("tmp"))]), [3, 6]);
    }

    #[test]
    fn causes_that_take_turns_are_not_told_again_and_again() {
        let names = ["a", "b"].into_iter().cycle();
        let looks = (1..).map(|look| 3 * look).zip(names);
        let looks: Vec<(u64, Cause)> = looks
            .take(40)
            .map(|(second, name)| (second, Cause::ClaimMissing(name.to_owned())))
            .collect();
        let told = told(None, &looks);
        assert!(told.len() <= 2 + TURNS as usize + 1, "{told:?}");
    }

    /// Else a thousand gangs that wait would be a thousand events after each restart.
    #[test]
    fn what_the_condition_shows_was_told_by_whoever_looked_before() {
        let looks = [(3, Cause::NoNodes), (90, Cause::NoNodes)];
        assert_eq!(told(None, &looks), [3]);
        assert!(told(Some("NoNodes"), &looks).is_empty());
        assert_eq!(told(Some("QuotaExceeded"), &looks), [3]);
        let then = [(3, Cause::NoNodes), (9, refused("exceeded quota: a"))];
        assert_eq!(told(Some("NoNodes"), &then), [9]);
    }

    /// What is said of a gang of which so many are placed at these seconds, each time as broken.
    fn broken(age: u64, looks: &[(u64, usize)]) -> Vec<Option<String>> {
        let (start, actions) = (Instant::now(), Actions::default());
        let mut history = GangHistory::new(&gang(looks[0].1, age), &actions, start, None);
        let mut said = Vec::new();
        for (second, bound) in looks {
            let (mut report, now) = (Report::default(), start + Duration::from_secs(*second));
            history.update(now, &gang(*bound, age + second), &actions, &mut report);
            said.push(report.broken);
        }
        said
    }

    #[test]
    fn a_gang_that_is_being_placed_is_not_broken() {
        assert_eq!(broken(0, &[(0, 1), (3, 3), (5, 4)]), [None, None, None]);
        let slowly = [(0, 1), (5, 2), (10, 3), (15, 4)];
        assert_eq!(broken(0, &slowly), [None, None, None, None]);
    }

    #[test]
    fn a_broken_gang_is_broken_in_the_same_words_until_it_is_whole() {
        let said = broken(
            0,
            &[(0, 3), (5, 3), (6, 2), (90, 0), (91, 3), (92, 4), (93, 3)],
        );
        let note = said[1].clone().unwrap();
        assert!(
            note.contains("3 pods are placed without the others"),
            "{note}"
        );
        let kept = Some(note);
        let expected = [&None, &kept, &kept, &kept, &kept, &None, &None];
        assert_eq!(said.iter().collect::<Vec<_>>(), expected);
    }

    /// Muster may have been restarted since, and has not seen that it was whole.
    #[test]
    fn an_old_gang_that_has_lost_members_is_not_broken() {
        assert_eq!(broken(300, &[(0, 3), (9, 3)]), [None, None]);
    }
}
