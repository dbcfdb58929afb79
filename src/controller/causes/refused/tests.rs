//! Who was refused what, and since when it counts.

use super::*;
use crate::controller::wanted::Wanted;

#[test]
fn what_was_refused_before_a_gang_existed_is_no_cause_of_its_wait() {
    let now = Timestamp::now();
    let ago = |seconds| Some(now - Duration::from_secs(seconds));
    let refusals = [3, 30, 3000].map(|seconds| Refusal::read("x", ago(3000), ago(seconds)));
    let count = |age: Option<u64>| {
        let age = age.map(Duration::from_secs);
        of_this_start(&refusals, age, None, now).len()
    };
    let hour = Some(Duration::from_secs(3600));
    let resumed = of_this_start(&refusals, hour, ago(40), now).len();
    assert_eq!(resumed, 2, "its object is older");
    assert_eq!(count(Some(0)), 1, "it was made in the same moment");
    assert_eq!(count(Some(60)), 2);
    assert_eq!(count(Some(7200)), 3);
    assert_eq!(count(None), 2);
}

/// Else one whose pods are all refused would lose its cause between two attempts, and a timeout of
/// more than some minutes would never be due.
#[test]
fn a_gang_without_an_object_keeps_its_refusal_until_its_controller_tries_again() {
    let now = Timestamp::now();
    let ago = |seconds| now - Duration::from_secs(seconds);
    let count = |refused: u64, wanted: u64| {
        let refusals = [Refusal::read("x", Some(ago(refused)), Some(ago(refused)))];
        of_this_start(&refusals, None, Some(ago(wanted)), now).len()
    };
    assert_eq!(count(600, 700), 1);
    assert_eq!(count(1000, 86_400), 1, "the longest pause of a controller");
    assert_eq!(count(600, 60), 0, "it was resumed since");
    assert_eq!(count(3000, 86_400), 0, "nobody was refused since");
}

#[test]
fn a_gang_is_told_what_its_own_pods_were_refused() {
    let refusal = |words: &str| Refusal::read(words, None, None);
    let of = |role: &str, replica, words: &str| {
        let role = role.to_owned();
        (Makes::Of { role, replica }, refusal(words))
    };
    let refused = Refused::new(vec![
        of("driver", 0, "error looking up service account"),
        of("workers", 0, "exceeded quota: a"),
        of("workers", 1, "exceeded quota: b"),
        (Makes::Any, refusal("all")),
        (Makes::First, refusal("first")),
    ]);
    let told = |roles: &[&str], replica, live| {
        let gang = GangStatus {
            roles: roles.iter().map(ToString::to_string).collect(),
            replica,
            live,
            ..GangStatus::example()
        };
        let own = refused.of(&gang).into_iter();
        own.map(|refusal| refusal.words).collect::<Vec<_>>()
    };
    let account = "error looking up service account";
    assert_eq!(told(&["driver"], None, 1), [account, "all"]);
    assert_eq!(told(&["workers"], Some(1), 1), ["exceeded quota: b", "all"]);
    assert_eq!(told(&["driver", "workers"], None, 1).len(), 4);
    assert_eq!(told(&[], None, 0), ["all", "first"]);
    // Its leader exists: that of another replica is refused.
    assert_eq!(told(&["workers"], Some(2), 0), ["all"]);
    // Its controller waits for others, unless its own pods are refused.
    let mut later = GangStatus {
        roles: vec!["workers".to_owned()],
        replica: Some(1),
        ..GangStatus::example()
    };
    later.evidence.awaits = Some("it comes after another".to_owned());
    let own = refused.of(&later);
    assert_eq!(own.len(), 1);
    assert_eq!(own[0].words, "exceeded quota: b");
}

/// The controller that makes them may be down.
#[test]
fn a_gang_none_of_whose_pods_is_made_waits_for_them_and_says_so() {
    let job = serde_json::json!({"metadata": {"name": "train", "namespace": "ml"}}).to_string();
    let object = crate::workload::Object::read(crate::workload::KINDS[0].kind, &job);
    let case = |wanted| Case {
        workload: object.workload().unwrap(),
        namespace: "ml",
        pods: &[],
        makers: &[],
        wanted,
        now: Timestamp::now(),
    };
    let empty = |age: Option<u64>| GangStatus {
        age: age.map(Duration::from_secs),
        ..GangStatus::example()
    };
    let looked = |gang: GangStatus, wanted| {
        let mut actions = Actions {
            gangs: vec![gang],
            ..Actions::default()
        };
        let again = case(wanted).want(&mut actions, &Refused::default());
        let gang = actions.gangs.remove(0);
        assert_eq!(gang.waited, None, "it may have had pods a moment ago");
        (gang.waits(), again.is_some())
    };
    let ago = |seconds| Wanted::Since(Timestamp::now() - Duration::from_secs(seconds));
    assert_eq!(looked(empty(Some(4)), ago(90)), (false, true));
    assert_eq!(looked(empty(Some(60)), ago(90)), (true, false));
    assert_eq!(looked(empty(Some(60)), ago(4)), (false, true), "resumed");
    assert_eq!(looked(empty(None), ago(90)), (false, false));
    let mut later = empty(Some(60));
    later.evidence.awaits = Some("it comes after another".to_owned());
    assert_eq!(looked(later, ago(90)), (false, false));
    let ended = GangStatus {
        ended: true,
        ..empty(Some(60))
    };
    assert_eq!(looked(ended, ago(90)), (false, false));
}

/// Else a workload that is resumed would be suspended at once for what was refused an hour ago.
#[test]
fn a_gang_has_not_waited_for_longer_than_it_is_wanted() {
    let now = Timestamp::now();
    let ago = |seconds| now - Duration::from_secs(seconds);
    let mut refusals = [Refusal::read("x", Some(ago(3000)), Some(ago(1)))];
    let seconds = |refusals: &[Refusal], start| {
        waited(refusals, ago(start), now).map(|waited| waited.as_secs())
    };
    assert_eq!(seconds(&refusals, 20), Some(20));
    assert_eq!(seconds(&refusals, 7200), Some(3000));
    assert_eq!(seconds(&refusals, 0), None, "none since then");
    // Pods of other names, each refused once, one after the other.
    let one = |at| Refusal::read("x", Some(ago(at)), Some(ago(at)));
    refusals[0] = one(300);
    for at in [30, 27, 20, 5] {
        refusals[0].join(one(at));
    }
    assert_eq!(seconds(&refusals, 31), Some(30), "since the first");
    assert_eq!(seconds(&refusals, 28), Some(27));
}

/// Its pods came after they were refused, ended, and were removed with their node.
#[test]
fn what_a_part_was_refused_before_it_ended_does_not_suspend_the_rest() {
    let now = Timestamp::now();
    let job = serde_json::json!({"metadata": {"name": "train", "namespace": "ml"}}).to_string();
    let object = crate::workload::Object::read(crate::workload::KINDS[0].kind, &job);
    let case = Case {
        workload: object.workload().unwrap(),
        namespace: "ml",
        pods: &[],
        makers: &[],
        wanted: Wanted::Since(now - Duration::from_secs(7200)),
        now,
    };
    let waits = |refused: u64, ended: bool| {
        let at = Some(now - Duration::from_secs(refused));
        let refused = Refused::new(vec![(Makes::Any, Refusal::read("x", at, at))]);
        let mut actions = Actions {
            gangs: vec![GangStatus {
                age: Some(Duration::from_secs(7000)),
                ended,
                ..GangStatus::example()
            }],
            ..Actions::default()
        };
        case.want(&mut actions, &refused);
        actions.gangs[0].waits()
    };
    assert!(waits(6000, false));
    assert!(!waits(6000, true));
    assert!(waits(60, true), "another replica of it is refused now");
}

/// One that was refused before the last leader came has come itself: they are made in order.
#[test]
fn a_set_that_grows_is_not_told_what_was_refused_before() {
    let now = Timestamp::now();
    let ago = |seconds| now - Duration::from_secs(seconds);
    let set = serde_json::json!({"metadata": {"name": "serve", "namespace": "ml"}}).to_string();
    let object = crate::workload::Object::read(crate::workload::KINDS[0].kind, &set);
    let waits = |refused: u64, newest: u64| {
        let pod = SeenPod {
            created: Some(ago(newest)),
            ..SeenPod::example()
        };
        let case = Case {
            workload: object.workload().unwrap(),
            namespace: "ml",
            pods: &[pod],
            makers: &[],
            wanted: Wanted::Unknown,
            now,
        };
        let at = Some(ago(refused));
        let refused = Refused::new(vec![(Makes::First, Refusal::read("x", at, at))]);
        let mut actions = Actions {
            unmade: true,
            scheduler: Some(GangStatus::example().scheduler),
            ..Actions::default()
        };
        case.want(&mut actions, &refused);
        actions.gangs[0].waits()
    };
    assert!(!waits(600, 500));
    assert!(waits(10, 500));
}
