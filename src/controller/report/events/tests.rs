use super::*;
use crate::controller::decide::State;

#[test]
fn only_new_gangs_are_told_as_created() {
    let gangs: Vec<GangStatus> = (0..6)
        .map(|index| GangStatus {
            name: format!("serve-replica-{index}"),
            ..GangStatus::example()
        })
        .collect();
    let told = |objects: &[&str]| {
        let objects: Vec<String> = objects.iter().map(ToString::to_string).collect();
        created(&gangs, &objects).note
    };
    assert_eq!(
        told(&["serve-replica-5"]),
        "1 gang(s) ready for their pods: serve-replica-5"
    );
    // One object for all of them, as on Kubernetes 1.35.
    assert_eq!(
        told(&["serve"]),
        "6 gang(s) ready for their pods: serve-replica-0, serve-replica-1, serve-replica-2, \
         serve-replica-3, ..."
    );
}

/// A workload of so many gangs, the first of which are placed.
fn placed(gangs: usize, placed: usize) -> Actions {
    let gang = |index| GangStatus {
        name: format!("train-workers-{index}"),
        state: match index < placed {
            true => State::Scheduled,
            false => State::Waiting,
        },
        ..GangStatus::example()
    };
    Actions {
        gangs: (0..gangs).map(gang).collect(),
        ..Actions::default()
    }
}

#[test]
fn of_many_gangs_that_are_placed_at_once_a_few_are_told_and_the_rest_is_counted() {
    let (mut history, start) = (History::default(), Instant::now());
    history.compare(start, &placed(1000, 0), None);
    let report = history.compare(start, &placed(1000, 1000), None);
    let notes: Vec<&str> = report.events.iter().map(|e| e.note.as_str()).collect();
    assert_eq!(notes.len(), TOLD_EACH + 1, "{notes:?}");
    assert!(notes[0].starts_with("train-workers-0: "), "{notes:?}");
    assert_eq!(notes[TOLD_EACH], "the same of 995 more gangs");
}

#[test]
fn gangs_that_are_placed_one_by_one_are_counted_when_no_more_come() {
    let (mut history, start) = (History::default(), Instant::now());
    history.compare(start, &placed(100, 0), None);
    let mut told = Vec::new();
    for count in 1..=60 {
        let report = history.compare(start, &placed(100, count), None);
        told.extend(report.events.into_iter().map(|event| event.note));
    }
    assert_eq!(told.len(), TOLD_EACH);
    let later = history.compare(start + GATHER, &placed(100, 60), None);
    let counted = later.events.iter().filter(|e| e.reason == "GangScheduled");
    let counted: Vec<&str> = counted.map(|e| e.note.as_str()).collect();
    assert_eq!(counted, ["the same of 55 more gangs"]);
}

#[test]
fn a_refusal_is_told_once_for_each_reason() {
    let mut history = History::default();
    let mut told = |refused: Option<&str>| {
        let actions = Actions {
            refused: refused.map(str::to_owned),
            ..Actions::default()
        };
        history
            .compare(Instant::now(), &actions, None)
            .reasons()
            .count()
    };
    assert_eq!(
        [Some("a"), Some("a"), None, Some("a"), Some("b")].map(&mut told),
        [1, 0, 0, 0, 1]
    );
    // Another thing that is refused for the same reason is told by itself.
    assert!(history.is_new_refusal(Refusal::Objects, "b"));
}

#[test]
fn nothing_is_kept_of_a_gang_that_is_gone() {
    let mut history = History::default();
    let mut actions = Actions {
        gangs: vec![GangStatus::example()],
        ..Actions::default()
    };
    history.compare(Instant::now(), &actions, None);
    assert!(!history.is_empty());
    actions.gangs.clear();
    history.compare(Instant::now(), &actions, None);
    assert!(history.is_empty());
}
