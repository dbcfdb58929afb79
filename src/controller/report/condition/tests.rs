use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use super::*;
use crate::controller::barriers::status::Says;
use crate::controller::decide::{GangStatus, State};
use crate::controller::queued::Queued;
use crate::controller::report::events::FIRST_WORDS;
use crate::controller::report::few::LONGEST;
use crate::explain::Cause;
use crate::explain::refusal::Refusal;

fn workload(condition: Option<&Value>) -> Stored {
    let completed = json!({"type": "Completed", "status": "False"});
    let all: Vec<&Value> = [&completed].into_iter().chain(condition).collect();
    let metadata = json!({"name": "train", "uid": "4d1c"});
    let workload = json!({"metadata": metadata, "status": {"conditions": all}});
    serde_json::from_value(workload).unwrap()
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
        Conditions::default().update(&workload(None), &waiting, &[])
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
        let mut workload = workload(None);
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
        conditions.update(&workload(Some(&old)), &placed, &[]),
        ConditionUpdate::NotNeeded
    );
    let waits = gang(State::Waiting, 0);
    let new = written(conditions.update(&workload(Some(&old)), &waits, &[]));
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
        suspended: Some("Job"),
        ..Actions::default()
    };
    let said = written(conditions.update(&workload(None), &timed_out, &[]));
    assert_eq!(said["reason"], "GangTimedOut");
    // Whether or not the cache shows it.
    let behind = conditions.update(&workload(None), &suspended, &[]);
    assert!(matches!(behind, ConditionUpdate::Later(_)), "{behind:?}");
    let shown = Conditions::default().update(&workload(Some(&said)), &suspended, &[]);
    assert_eq!(shown, ConditionUpdate::NotNeeded);
    let resumed = gang(State::Scheduled, 1);
    let shown = conditions.update(&workload(Some(&said)), &resumed, &[]);
    assert_eq!(written(shown)["reason"], "GangScheduled");
}

#[test]
fn why_kueue_has_suspended_it_is_told_at_once_and_other_numbers_later() {
    let conditions = Conditions::default();
    let says = |words: Option<&str>| {
        let suspended = Actions {
            suspended: Some("Job"),
            kueue: Some(Queued {
                queue: "team".to_owned(),
                says: words.map(str::to_owned),
            }),
            ..Actions::default()
        };
        conditions.update(&workload(None), &suspended, &[])
    };
    // Most are admitted at once.
    assert_eq!(says(None), ConditionUpdate::Later(FIRST_WORDS));
    let first = written(says(Some("3 more CPU needed")));
    assert_eq!(first["reason"], "GangSuspended");
    let message = "the Job is suspended by Kueue (queue \"team\"): 3 more CPU needed";
    assert_eq!(first["message"], message);
    assert!(matches!(
        says(Some("12 more CPU needed")),
        ConditionUpdate::Later(_)
    ));
    let stopped = written(says(Some("the queue is stopped")));
    assert_eq!(stopped["reason"], "GangSuspended");
}

#[test]
fn a_workload_that_ends_while_a_gang_waits_says_so_and_one_that_was_placed_says_nothing() {
    let ended = Actions {
        finished: Some("Job"),
        ..Actions::default()
    };
    let shown = |status: &str| json!({"type": TYPE, "status": status, "reason": "x"});
    let update =
        |shown: Option<Value>| Conditions::default().update(&workload(shown.as_ref()), &ended, &[]);
    assert_eq!(written(update(Some(shown("False"))))["reason"], "GangEnded");
    assert_eq!(update(Some(shown("True"))), ConditionUpdate::NotNeeded);
    assert_eq!(update(None), ConditionUpdate::NotNeeded);
}

#[test]
fn a_workload_that_fails_says_why_whether_or_not_its_gangs_were_placed() {
    let failed = |why: &str| Actions {
        finished: Some("Job"),
        failure: Some(why.to_owned()),
        ..Actions::default()
    };
    let update = |shown: Option<&Value>, why| {
        let actions = failed(why);
        Conditions::default().update(&workload(shown), &actions, &[])
    };
    for status in ["True", "False"] {
        let shown = json!({"type": TYPE, "status": status, "reason": "x"});
        let said = written(update(Some(&shown), "DeadlineExceeded: it took too long"));
        assert_eq!(
            (&said["status"], &said["reason"]),
            (&json!("False"), &json!("GangFailed"))
        );
        let message = "the Job has failed: DeadlineExceeded: it took too long";
        assert_eq!(said["message"], message);
        let again = update(Some(&said), "DeadlineExceeded: it took too long");
        assert_eq!(again, ConditionUpdate::NotNeeded);
        assert_eq!(
            written(update(Some(&shown), ""))["message"],
            "the Job has failed"
        );
    }
    assert_eq!(update(None, "x"), ConditionUpdate::NotNeeded);
}

#[test]
fn it_is_written_once_although_the_cache_is_behind() {
    let conditions = Conditions::default();
    let placed = gang(State::Scheduled, 9);
    let first = written(conditions.update(&workload(None), &placed, &[]));
    assert!(matches!(
        conditions.update(&workload(None), &placed, &[]),
        ConditionUpdate::Later(_)
    ));
    assert_eq!(
        conditions.update(&workload(Some(&first)), &placed, &[]),
        ConditionUpdate::NotNeeded
    );
}

#[test]
fn a_broken_gang_is_said_to_be_broken_by_every_muster_until_it_is_whole_or_gone() {
    let note = "train-all-0: 3 pods are placed without the others";
    let mut broken = gang(State::Waiting, 1);
    broken.broken = Some(note.to_owned());
    let said = written(Conditions::default().update(&workload(None), &broken, &[]));
    assert_eq!(
        (&said["status"], &said["reason"], &said["message"]),
        (&json!("False"), &json!("GangBroken"), &json!(note))
    );
    let restarted =
        |actions: &Actions| Conditions::default().update(&workload(Some(&said)), actions, &[]);
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
    let step = |shown: Option<&Value>| Conditions::default().update(&workload(shown), &idle, &[]);
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
    written(conditions.update(&workload(None), &placed, &[]));
    conditions.forget("4d1c");
    written(conditions.update(&workload(None), &placed, &[]));
}

#[test]
fn many_refused_objects_fit_into_a_condition() {
    let refused: Vec<String> = (0..10_000)
        .map(|index| format!("PodGroup train-workers-{index} is refused"))
        .collect();
    let placed = gang(State::Scheduled, 9);
    let said = written(Conditions::default().update(&workload(None), &placed, &refused));
    let message = said["message"].as_str().unwrap();
    assert!(message.len() <= LONGEST, "{} bytes", message.len());
    assert!(message.ends_with("and 9997 more"), "{message}");
    assert!(message.contains("train-workers-0 is refused"), "{message}");
}

#[test]
fn what_is_in_the_way_is_named_and_a_workload_without_a_gang_has_no_condition() {
    let foreign = ["PodGroup a is not Muster's".to_owned()];
    let placed = gang(State::Scheduled, 9);
    let said = written(Conditions::default().update(&workload(None), &placed, &foreign));
    assert_eq!(
        (&said["reason"], &said["message"]),
        (&json!("GangRefused"), &json!(foreign[0]))
    );
    let none = Conditions::default().update(&workload(None), &Actions::default(), &[]);
    assert_eq!(none, ConditionUpdate::NotNeeded);
}

/// Where many gangs wait, a count takes its time; without it other causes would be named.
#[test]
fn a_cause_that_was_told_stays_while_it_is_looked_into_later() {
    let told = json!({"type": TYPE, "status": "False", "reason": "InsufficientResources",
        "message": "train-all-0: 6 of 9 pods fit", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let mut waits = gang(State::Waiting, 90);
    let later = Duration::from_secs(7);
    waits.gangs[0].explained_in = Some(later);
    let step = |shown: &Value, actions: &Actions| {
        Conditions::default().update(&workload(Some(shown)), actions, &[])
    };
    assert_eq!(step(&told, &waits), ConditionUpdate::Later(later));
    let suspended = json!({"type": TYPE, "status": "False", "reason": "GangSuspended"});
    assert_eq!(written(step(&suspended, &waits))["reason"], "GangWaiting");
    waits.gangs[0].explained_in = None;
    waits.gangs[0].causes = vec![crate::explain::Cause::NoNodes];
    assert_eq!(written(step(&told, &waits))["reason"], "NoNodes");
    waits.gangs[0].state = State::Scheduled;
    assert_eq!(written(step(&told, &waits))["reason"], "GangScheduled");
}

#[test]
fn another_cause_of_the_same_reason_is_written_at_once_and_other_numbers_later() {
    use crate::explain::Cause;
    use crate::explain::refusal::Refusal;
    let conditions = Conditions::default();
    let step = |quota: &str, live| {
        let refusal = Refusal::read(&format!("exceeded quota: {quota}"), None, None);
        let mut waits = gang(State::Waiting, 90);
        waits.gangs[0].causes = vec![Cause::PodsRefused {
            live,
            quorum: 4,
            refusal,
        }];
        conditions.update(&workload(None), &waits, &[])
    };
    let first = written(step("a", 1));
    assert!(matches!(step("a", 2), ConditionUpdate::Later(_)));
    let other = written(step("b", 2));
    assert_eq!(
        (&first["reason"], &other["reason"]),
        (&json!("QuotaExceeded"), &json!("QuotaExceeded"))
    );
    // Causes that take turns are not written again and again.
    let turns = ["a", "b"].into_iter().cycle().take(40);
    let writes = turns.filter(|quota| matches!(step(quota, 2), ConditionUpdate::Write(_)));
    assert!(writes.count() <= TURNS as usize);
}

/// A quota stops its other pods: that must be mended, whatever the scheduler does with those that exist.
#[test]
fn refused_pods_are_told_before_a_gang_that_is_not_held_together() {
    let mut actions = gang(State::Waiting, 60);
    actions.broken = Some("train-all-0: 1 pods are placed without the others".to_owned());
    let told = |actions: &Actions| {
        let update = Conditions::default().update(&workload(None), actions, &[]);
        let condition = written(update);
        let text = |field: &str| condition[field].as_str().unwrap().to_owned();
        (text("reason"), text("message"))
    };
    assert_eq!(told(&actions).0, "GangBroken");
    actions.gangs[0].causes = vec![Cause::PodsRefused {
        live: 1,
        quorum: 4,
        refusal: Refusal::read("exceeded quota: small", None, None),
    }];
    let (reason, message) = told(&actions);
    assert_eq!(reason, "QuotaExceeded");
    assert!(
        message.ends_with("1 pods are placed without the others"),
        "{message}"
    );
}

fn barrier(missing: &str, waited: u64) -> BarrierStatus {
    BarrierStatus {
        start: crate::gang::BarrierStart::example(),
        outlived: Default::default(),
        members: 3,
        says: None,
        missing: Some(missing.to_owned()),
        timed_out: false,
        waited: Some(Duration::from_secs(waited)),
        stragglers: Vec::new(),
        again: None,
        begun: true,
    }
}

#[test]
fn who_is_missing_at_a_barrier_is_told_after_a_moment_and_then_once_a_minute() {
    let conditions = Conditions::default();
    let step = |status: &BarrierStatus| conditions.barrier(&workload(None), status, None).0;
    let one = barrier("1 of 3 members have started; w1 is not placed yet", 1);
    let left = FIRST_WORDS - Duration::from_secs(1);
    assert_eq!(step(&one), ConditionUpdate::Later(left));
    let told = written(step(&barrier(
        "2 of 3 members have started; w1 is not placed yet",
        4,
    )));
    assert_eq!(told["reason"], "BarrierWaiting");
    insta::assert_snapshot!(told["message"].as_str().unwrap(), @"main containers wait until all members have started: 2 of 3 members have started; w1 is not placed yet");
    assert!(matches!(step(&one), ConditionUpdate::Later(_)));
    let late = |timed_out| BarrierStatus {
        says: Some(Says::Late("1 of 3 members have started".to_owned())),
        timed_out,
        ..one.clone()
    };
    // It is written down for the pods, and their time is not over.
    assert!(matches!(step(&late(false)), ConditionUpdate::Later(_)));
    assert_eq!(written(step(&late(true)))["reason"], "BarrierTimedOut");
    let open = BarrierStatus {
        says: Some(Says::Open),
        ..one.clone()
    };
    assert_eq!(written(step(&open))["reason"], "BarrierOpened");
}

/// After a restart: its pods are just being made, and why one is missing is not known yet.
#[test]
fn the_first_words_of_a_new_start_wait_for_the_same_moment() {
    let conditions = Conditions::default();
    let step = |shown: &Value, status: &BarrierStatus| {
        conditions.barrier(&workload(Some(shown)), status, None).0
    };
    let open = BarrierStatus {
        says: Some(crate::controller::barriers::status::Says::Open),
        ..barrier("", 60)
    };
    let opened = written(conditions.barrier(&workload(None), &open, None).0);
    // Nobody waits yet; that it is no longer open is told at once.
    let unmade = BarrierStatus {
        waited: None,
        begun: false,
        ..barrier("0 of 3 members have started; workers: 3 not created yet", 0)
    };
    let closed = written(step(&opened, &unmade));
    assert_eq!(closed["reason"], "BarrierWaiting");
    insta::assert_snapshot!(closed["message"].as_str().unwrap(), @"main containers wait until all members have started");
    assert_eq!(step(&closed, &unmade), ConditionUpdate::NotNeeded);
    let missing = "2 of 3 members have started; w1 is not placed: 0/2 nodes are available";
    let left = FIRST_WORDS - Duration::from_secs(1);
    let soon = step(&closed, &barrier(missing, 1));
    assert_eq!(soon, ConditionUpdate::Later(left));
    // Not a minute later.
    let told = written(step(&closed, &barrier(missing, 3)));
    insta::assert_snapshot!(told["message"].as_str().unwrap(), @"main containers wait until all members have started: 2 of 3 members have started; w1 is not placed: 0/2 nodes are available");
    // And it is not taken back whenever a pod is replaced.
    assert!(matches!(
        step(&told, &barrier(missing, 1)),
        ConditionUpdate::Later(_)
    ));
}

/// The condition is of one start after the other, and a suspension is between them.
#[test]
fn a_suspended_workload_waits_for_nobody_and_is_told_at_once_in_both_directions() {
    use crate::controller::barriers::status::SUSPENDED;
    let conditions = Conditions::default();
    let step = |shown: Option<&Value>, status: &BarrierStatus| {
        conditions.barrier(&workload(shown), status, None).0
    };
    let missing = "2 of 3 members have started; w1 is not placed yet";
    let waits = written(step(None, &barrier(missing, 10)));
    let suspended = BarrierStatus {
        waited: None,
        begun: false,
        ..barrier(SUSPENDED, 0)
    };
    let told = written(step(Some(&waits), &suspended));
    insta::assert_snapshot!(told["message"].as_str().unwrap(), @"main containers wait until all members have started: the workload is suspended");
    let resumed = written(step(Some(&told), &barrier(missing, 10)));
    assert_eq!(resumed["message"], waits["message"]);
    // Words of others are held back like any.
    let forged = barrier(&format!("{missing}: {SUSPENDED}"), 10);
    assert!(matches!(
        step(Some(&resumed), &forged),
        ConditionUpdate::Later(_)
    ));
}
