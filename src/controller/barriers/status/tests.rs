use super::*;
use crate::gang::StampHash;
use crate::workload::seen::Sealed;

const SECOND: Duration = Duration::from_secs(1);

fn start(attempt: u32) -> BarrierStart {
    BarrierStart {
        attempt,
        ..BarrierStart::example()
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
        seen: at(0),
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

fn stragglers(status: &BarrierStatus) -> Vec<&str> {
    let stragglers = status.stragglers.iter();
    stragglers.map(|straggler| straggler.pod.as_str()).collect()
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
    let missing = "2 of 3 members have started; w1 has not started yet";
    assert_eq!(early.missing.as_deref(), Some(missing));
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

/// Two of six, at a Job whose pods are of one round before and after it was suspended.
fn resumed_in_its_round(next: Step) -> BarrierStatus {
    let mut barrier = barrier();
    barrier.targets.remove(0);
    barrier.targets[0].completions = 6;
    let all = [
        waiter("workers", "w0", Step::Done),
        waiter("workers", "w1", Step::Done),
        waiter("workers", "w2", waits()),
        waiter("workers", "w3", next),
    ];
    let waiters: Vec<&Waiter> = all.iter().collect();
    status(&barrier, start(0), &waiters, Shown::Nothing, at(10))
}

#[test]
fn who_was_done_before_a_resume_in_the_same_round_has_not_come() {
    let early = resumed_in_its_round(Step::Starting(None));
    assert_eq!(early.says, None);
    let missing = "1 of 2 members have started; w3 has not started yet";
    assert_eq!(early.missing.as_deref(), Some(missing));
    assert_eq!(resumed_in_its_round(waits()).says, Some(Says::Open));
    // It was open: somebody runs.
    let passed = resumed_in_its_round(Step::Passed);
    assert_eq!(passed.says, Some(Says::Open));
}

/// The ConfigMap may be gone, and Muster restarted.
#[test]
fn who_is_done_is_not_waited_for() {
    let mut all = [
        waiter("driver", "d", Step::Done),
        waiter("workers", "w0", Step::Done),
        waiter("workers", "w1", waits()),
    ];
    let open = look(&all, Shown::Nothing, 10);
    // Their number stays what it was.
    assert_eq!((open.says, open.members), (Some(Says::Open), 3));
    all[2].step = Step::Done;
    let ended = look(&all, Shown::Nothing, 10);
    assert_eq!((ended.says, ended.members), (Some(Says::Open), 3));
}

#[test]
fn a_pod_that_has_just_come_is_no_straggler() {
    let early = [waiter("workers", "w0", waits())];
    let status = look(&early, Shown::Open, 2);
    assert_eq!(stragglers(&status), [""; 0]);
    assert_eq!(status.again, Some(Duration::from_secs(3)));
}

#[test]
fn once_open_it_stays_open() {
    let one = [waiter("workers", "w0", waits())];
    let open = look(&one, Shown::Open, 10);
    assert_eq!(open.says, Some(Says::Open));
    assert_eq!(stragglers(&open), ["w0"]);
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
    let late = look(&all, Shown::Nothing, 298);
    // It may still open in time.
    assert_eq!((late.timed_out, late.again), (false, Some(2 * SECOND)));
    let Some(Says::Late(text)) = late.says else {
        panic!("it is late");
    };
    assert!(look(&all, Shown::Late(2 * SECOND), 300).timed_out);
    insta::assert_snapshot!(text, @"1 of 3 members have started; driver: 1 not created yet; w1 has not started: load: ErrImagePull");
}

#[test]
fn a_short_timeout_is_not_over_at_once() {
    let mut barrier = barrier();
    barrier.timeout = 2 * SECOND;
    let all = [waiter("workers", "w0", waits())];
    let look = |shown, millis: i64| {
        let now = at(0) + k8s_openapi::jiff::SignedDuration::from_millis(millis);
        let waiters: Vec<&Waiter> = all.iter().collect();
        let status = status(&barrier, start(0), &waiters, shown, now);
        (status.says.is_some(), status.timed_out, status.again)
    };
    let millis = Duration::from_millis;
    assert_eq!(look(Shown::Nothing, 0), (false, false, Some(millis(1500))));
    let late = Shown::Late(Duration::ZERO);
    assert_eq!(look(late, 1600), (true, false, Some(millis(400))));
    assert_eq!(look(late, 2000), (true, true, None));
}

/// Kubelet restarts a container in place, and says that it has just begun.
#[test]
fn whose_time_is_over_has_not_begun_to_wait_when_it_is_restarted() {
    let all = [waiter("workers", "w0", Step::Waits(Some(at(301))))];
    assert!(look(&all, Shown::Late(3 * SECOND), 301).timed_out);
    // All who waited have failed, and nobody has come yet.
    let gone = [waiter("workers", "w0", Step::Gone)];
    assert!(look(&gone, Shown::Late(SECOND), 300).timed_out);
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
    let Some(Says::Late(text)) = look(&all, Shown::Late(10 * SECOND), 400).says else {
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

/// Two Jobs in the second round, of which one has not seen the suspension.
fn half_resumed() -> [Waiter; 3] {
    let mut all = [
        waiter("driver", "d", waits()),
        waiter("workers", "w0", waits()),
        waiter("workers", "w1", waits()),
    ];
    for waiter in &mut all[1..] {
        waiter.start.round = Round(1);
        waiter.step = Step::Waits(Some(at(100)));
        waiter.seen = at(100);
    }
    all
}

/// Else a leader whose clock is behind would wait for ever, and one whose clock is ahead not at all.
#[test]
fn whether_old_pods_have_outlived_a_suspension_is_a_matter_of_one_clock() {
    for node in [-5000, 5000] {
        let mut all = half_resumed();
        for waiter in &mut all[1..] {
            waiter.step = Step::Waits(Some(at(node)));
        }
        let early = in_round_one(&all, Shown::Nothing, 102);
        assert_ne!(early.says, Some(Says::Open));
        assert_eq!(early.again, Some(3 * SECOND));
        let open = in_round_one(&all, Shown::Nothing, 106);
        assert_eq!(open.says, Some(Says::Open));
    }
}

fn in_round_one(all: &[Waiter], shown: Shown, now: i64) -> BarrierStatus {
    let waiters: Vec<&Waiter> = all.iter().collect();
    let start = start(0).in_round(Round(1));
    status(&barrier(), start, &waiters, shown, at(now))
}

#[test]
fn a_job_that_has_not_seen_a_short_suspension_is_waited_for_no_longer_than_it_lives() {
    let mut all = half_resumed();
    // It may still be on its way out.
    let early = in_round_one(&all, Shown::Nothing, 102);
    assert_eq!(early.says, None);
    assert_eq!(early.again, Some(Duration::from_secs(3)));
    // It has stayed: both rounds are opened, and both are told.
    let open = in_round_one(&all, Shown::Nothing, 106);
    assert_eq!(open.says, Some(Says::Open));
    let rounds: Vec<Round> = open.starts().map(|start| start.round).collect();
    assert_eq!(rounds, [Round(0), Round(1)]);
    assert_eq!(stragglers(&open), ["d", "w0", "w1"]);
    assert_eq!(open.stragglers[0].round, Round(0));
    // It runs already.
    all[0].step = Step::Passed;
    let open = in_round_one(&all, Shown::Nothing, 106);
    assert_eq!(open.says, Some(Says::Open));
    // It has gone, and must come back.
    all[0].step = Step::Gone;
    let closed = in_round_one(&all, Shown::Nothing, 106);
    assert_eq!((&closed.says, closed.starts().count()), (&None, 1));
}

/// Nobody else would look again in time.
#[test]
fn a_late_barrier_is_looked_at_again_once_old_pods_have_outlived_a_suspension() {
    let all = half_resumed();
    let late = in_round_one(&all, Shown::Late(10 * SECOND), 102);
    assert!(matches!(late.says, Some(Says::Late(_))));
    assert_eq!(late.again, Some(Duration::from_secs(3)));
    let open = in_round_one(&all, Shown::Late(10 * SECOND), 106);
    assert_eq!(open.says, Some(Says::Open));
}

#[test]
fn who_gave_up_before_a_suspension_does_not_make_the_next_round_late() {
    let mut all = half_resumed();
    all[0].step = Step::GaveUp(Some(at(-1000)));
    assert_eq!(in_round_one(&all, Shown::Nothing, 102).says, None);
}

#[test]
fn pods_that_ran_before_a_suspension_do_not_open_the_next_round() {
    let mut all = half_resumed();
    all[0].step = Step::Passed;
    all[2].step = Step::Starting(None);
    assert_eq!(in_round_one(&all, Shown::Nothing, 200).says, None);
}

#[test]
fn few_rounds_are_kept_whatever_pods_say() {
    let mut all: Vec<Waiter> = (0..20).map(|_| waiter("driver", "d", waits())).collect();
    for (round, waiter) in all.iter_mut().enumerate() {
        waiter.start.round = Round(round as u32);
    }
    let waiters: Vec<&Waiter> = all.iter().collect();
    let start = start(0).in_round(Round(19));
    let status = status(&barrier(), start, &waiters, Shown::Nothing, at(10));
    let rounds: Vec<u32> = status.starts().map(|start| start.round.0).collect();
    assert_eq!(rounds, [15, 16, 17, 18, 19]);
}

#[test]
fn who_gave_up_is_missing_until_kubelet_restarts_it() {
    let all = [
        waiter("driver", "d", Step::GaveUp(Some(at(0)))),
        waiter("workers", "w0", waits()),
        waiter("workers", "w1", waits()),
    ];
    let late = look(&all, Shown::Late(10 * SECOND), 10);
    assert_eq!(
        late.says,
        Some(Says::Late(
            "3 of 3 members have started, and some of them have given up".to_owned()
        ))
    );
}

/// The text is short however many are missing, and is made in one pass.
#[test]
fn of_many_who_are_missing_the_first_are_named() {
    let step = || Step::Unplaced(Some("0/4 nodes are available".to_owned()));
    let mut all: Vec<Waiter> = (0..10_000)
        .map(|number| waiter("workers", &format!("w{number}"), step()))
        .collect();
    all.push(waiter("driver", "d", waits()));
    let mut barrier = barrier();
    barrier.targets[1].pods = 10_001;
    let waiters: Vec<&Waiter> = all.iter().collect();
    let missing = status(&barrier, start(0), &waiters, Shown::Nothing, at(10)).missing;
    insta::assert_snapshot!(missing.unwrap(), @"1 of 10002 members have started; w0 is not placed: 0/4 nodes are available; w1 is not placed: 0/4 nodes are available; w2 is not placed: 0/4 nodes are available; and 9998 more");
}
