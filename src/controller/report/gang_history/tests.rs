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
    let mut history = GangHistory::new(&late(None, State::Empty), &actions, Instant::now(), None);
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
