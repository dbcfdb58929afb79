use kube::core::ObjectMeta;

use super::*;
use crate::gang::{BarrierStart, Round};

const SECOND: Duration = Duration::from_secs(1);

/// A barrier that is open, and at which so many pods still wait.
fn open(pods: usize) -> BarrierStatus {
    let straggler = |number| Straggler {
        pod: format!("w{number}"),
        round: Round(0),
    };
    BarrierStatus {
        start: BarrierStart::example(),
        outlived: Default::default(),
        members: pods as u64,
        says: Some(Says::Open),
        missing: None,
        timed_out: false,
        waited: None,
        stragglers: (0..pods).map(straggler).collect(),
        again: None,
        begun: true,
    }
}

#[test]
fn what_a_policy_refuses_is_not_written_again_and_again() {
    assert!([400, 403, 422].into_iter().all(is_final));
    let pass = [401, 409, 429, 500, 503];
    assert!(!pass.into_iter().any(is_final));
}

/// A refused pod stays a straggler: the next look must not begin with it again.
#[test]
fn each_straggler_is_told_once_and_has_its_turn() {
    let (stragglers, now) = (Stragglers::default(), Instant::now());
    let all = open(MOST + 1);
    let due = stragglers.due(&all, now);
    assert_eq!((due.pods.len(), due.again), (0, Some(PATIENCE)));
    let now = now + PATIENCE;
    let first = stragglers.due(&all, now);
    assert_eq!((first.pods.len(), first.again), (MOST, Some(NEXT)));
    let last = stragglers.due(&all, now + SECOND);
    assert_eq!(last.pods, all.stragglers[MOST..]);
    assert_eq!(last.again, None);
    assert_eq!(stragglers.due(&all, now + 2 * SECOND), Due::default());
    // What is remembered of a pod goes with it.
    stragglers.due(&open(1), now + 3 * SECOND);
    let mut opened = stragglers.opened.lock().unwrap();
    let opened = opened.get_mut(&all.start.name(), now).unwrap();
    assert_eq!(opened.told.len(), 1);
}

#[test]
fn who_could_not_be_told_for_now_is_told_again_after_the_others() {
    let (stragglers, start) = (Stragglers::default(), Instant::now());
    let all = open(MOST + 1);
    stragglers.due(&all, start);
    let now = start + PATIENCE;
    let first = stragglers.due(&all, now).pods;
    let failed = first.into_iter().map(|one| one.pod).collect();
    stragglers.tell_again(&all, failed, now);
    let others = stragglers.due(&all, now);
    assert_eq!((others.pods.len(), others.again), (1, Some(PATIENCE)));
    assert_eq!(stragglers.due(&all, now + PATIENCE).pods.len(), MOST);
}

/// The pods give up soon, and then it is too late.
#[test]
fn who_is_missing_is_held_back_only_once_it_is_written() {
    let stragglers = Stragglers::default();
    let late = || {
        let says = Says::Late("1 of 2 members have started".to_owned());
        let status = BarrierStatus {
            says: Some(says),
            ..open(0)
        };
        let named = ObjectMeta {
            name: Some(status.start.name()),
            ..ObjectMeta::default()
        };
        Actions {
            apply: vec![DynamicObject {
                types: None,
                metadata: named,
                data: Value::Null,
            }],
            barrier: Some(status),
            ..Actions::default()
        }
    };
    // The first write has failed, and nothing is noted.
    for _ in 0..2 {
        let mut actions = late();
        assert_eq!(stragglers.hold_back(&mut actions), None);
        assert_eq!(actions.apply.len(), 1);
    }
    stragglers.wrote(&late());
    let mut actions = late();
    assert!(stragglers.hold_back(&mut actions).is_some());
    assert_eq!(actions.apply, []);
}

/// After a suspension it may be of the same name.
#[test]
fn a_barrier_that_closes_is_forgotten() {
    let (stragglers, start) = (Stragglers::default(), Instant::now());
    let all = open(2);
    stragglers.due(&all, start);
    assert_eq!(stragglers.due(&all, start + PATIENCE).pods.len(), 2);
    let closed = BarrierStatus {
        says: None,
        ..all.clone()
    };
    stragglers.due(&closed, start + PATIENCE);
    let again = stragglers.due(&all, start + PATIENCE).again;
    assert_eq!(again, Some(PATIENCE));
}
