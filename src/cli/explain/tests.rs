use super::*;
use crate::cli::standing::stands;
use crate::controller::decide::State;
use crate::controller::inspect::Sight;
use crate::controller::inspect::example::example;
use crate::controller::inspect::progress::Progress;
use crate::controller::queued::Queued;
use crate::gang::SchedulerKind;
use crate::workload::Life;

fn found(workloads: Vec<Inspected>, note: Option<&str>) -> Answer {
    let note = note.map(str::to_owned);
    Answer::Found { workloads, note }
}

fn unseen() -> [String; 1] {
    ["events: forbidden".to_owned()]
}

#[test]
fn a_gang_that_waits_is_explained_with_evidence_and_the_next_step() {
    let text = text(&found(vec![example()], None), &unseen());
    insta::assert_snapshot!("explain-text", text);
}

#[test]
fn what_only_the_condition_says_is_told_with_what_is_missing() {
    let told = |reason: &str| Inspected {
        told: Some((reason.to_owned(), "exceeded quota".to_owned())),
        missing: vec!["PodGroup train-all-0".to_owned()],
        ..example()
    };
    let text = |reason: &str| text(&found(vec![told(reason)], None), &[]);
    let lines: Vec<String> = text("GangRefused").lines().map(str::to_owned).collect();
    let missing = "missing: PodGroup train-all-0; Muster creates it when it runs and nothing \
                   blocks it";
    assert_eq!(lines[1], missing);
    assert_eq!(lines[2], "its condition says: GangRefused: exceeded quota");
    let same = text("InsufficientResources");
    assert!(!same.contains("its condition says"), "{same}");
}

/// One whose gang's name the condition begins with, as whoever may not list nodes sees it.
fn half_seen(reason: &str) -> Inspected {
    let name = &example().gangs[0].name;
    let message = format!("{name}: no node tolerates it");
    Inspected {
        told: Some((reason.to_owned(), message)),
        sight: Sight::Partial,
        ..example()
    }
}

#[test]
fn who_may_not_look_at_everything_is_told_what_the_condition_says() {
    for reason in ["TaintNotTolerated", "InsufficientResources"] {
        let found = half_seen(reason);
        assert_eq!(headline(&found), "no node tolerates it");
        let value = machine::workload(&found);
        assert_eq!(value["condition"]["reason"], reason);
    }
    let seen = found(vec![half_seen("TaintNotTolerated")], None);
    insta::assert_snapshot!("explain-partial", text(&seen, &unseen()));
    // Who sees everything sees what is now, and of one that is placed the condition is old.
    let own = headline(&example());
    let whole = Inspected {
        sight: Sight::Whole,
        ..half_seen("TaintNotTolerated")
    };
    assert_eq!(headline(&whole), own);
    let mut placed = half_seen("TaintNotTolerated");
    placed.gangs[0].state = State::Scheduled;
    placed.gangs[0].causes.clear();
    assert_eq!(headline(&placed), "all gangs are placed");
}

#[test]
fn the_scheduler_is_quoted_as_it_spoke() {
    let mut quoting = example();
    quoting.gangs[0].evidence.words[0].0.message = "error in \"Devices\":\n none".to_owned();
    let text = text(&found(vec![quoting], None), &[]);
    let said = "  the scheduler says: \"error in \"Devices\": none\"\n";
    assert!(text.contains(said), "{text}");
}

#[test]
fn a_pod_is_told_before_its_gang() {
    let text = text(&found(vec![example()], Some("the pod train-0 waits")), &[]);
    assert!(text.starts_with("the pod train-0 waits\n\n"), "{text}");
}

#[test]
fn several_workloads_are_explained_one_after_another_and_what_was_looked_at_once() {
    let other = Inspected {
        name: "other".to_owned(),
        ..example()
    };
    let text = text(&found(vec![example(), other], None), &[]);
    assert!(
        text.contains("ml/train: ") && text.contains("\n\nExample ml/other: "),
        "{text}"
    );
    assert_eq!(text.matches("looked at: its pods; nodes\n").count(), 1);
    assert_eq!(text.matches("  what preemption could free\n").count(), 1);
}

#[test]
fn scripts_read_the_same_as_json_and_as_yaml() {
    let value = value(&found(vec![example()], None), &unseen());
    let mut json = Vec::new();
    machine::write_json(&value, &mut json).unwrap();
    let json = String::from_utf8(json).unwrap();
    insta::assert_snapshot!("explain-json", json);
    let mut yaml = Vec::new();
    machine::write_yaml(&value, &mut yaml).unwrap();
    let yaml = String::from_utf8(yaml).unwrap();
    insta::assert_snapshot!("explain-yaml", &yaml);
    let read = crate::cli::yaml::documents(&yaml).remove(0).unwrap();
    assert_eq!(read.value, value);
}

#[test]
fn where_nothing_is_unknown_nothing_is_said_of_it() {
    let known = Inspected {
        unknown: Vec::new(),
        ..example()
    };
    let answer = found(vec![known], None);
    assert!(text(&answer, &[]).ends_with("looked at: its pods; nodes\n"));
    assert!(text(&answer, &unseen()).ends_with("still unknown:\n  events: forbidden\n"));
}

#[test]
fn what_has_no_gang_is_one_sentence() {
    let answer = Answer::NoGang("the pod belongs to no gang".to_owned());
    assert_eq!(text(&answer, &unseen()), "the pod belongs to no gang\n");
    let value = value(&answer, &[]);
    assert_eq!(value["note"], "the pod belongs to no gang");
    assert_eq!(value["workloads"], json!([]));
}

#[test]
fn a_gang_that_is_not_there_is_told_which_are() {
    let names = |names: &[&str]| -> Vec<String> { names.iter().map(|n| (*n).to_owned()).collect() };
    assert_eq!(
        no_gang("ml", "rign", &names(&["train-all-0", "ring"])),
        "there is no gang rign in the namespace ml: did you mean ring?"
    );
    assert_eq!(
        no_gang("ml", "x", &names(&["aa", "bb", "cc", "dd", "ee", "ff"])),
        "there is no gang x in the namespace ml; there are aa, bb, cc, dd, ee and 1 more"
    );
    assert_eq!(
        no_gang("ml", "x", &[]),
        "there is no gang x in the namespace ml, nor any other"
    );
}

#[test]
fn of_many_gangs_those_that_wait_come_first_and_the_rest_is_counted() {
    let named = |number: usize, state| GangStatus {
        name: format!("gang-{number}"),
        state,
        ..GangStatus::example()
    };
    let mut gangs: Vec<GangStatus> = (0..30).map(|n| named(n, State::Scheduled)).collect();
    gangs.push(named(30, State::Waiting));
    let many = Inspected { gangs, ..example() };
    let text = text(&found(vec![many], None), &[]);
    assert_eq!(text.matches("\ngang gang-").count(), MOST_GANGS);
    assert!(text.find("gang-30 ").unwrap() < text.find("gang-0 ").unwrap());
    assert!(text.contains("\nand 11 more gangs\n"), "{text}");
}

#[test]
fn one_is_told_as_one() {
    let one = |bound| {
        let gang = GangStatus {
            state: State::Scheduled,
            size: 1,
            quorum: 1,
            live: 1,
            bound,
            ..GangStatus::example()
        };
        standing(&gang, Sight::Whole)
    };
    insta::assert_snapshot!(one(1), @"placed; 1 of 1 pod created, 1 placed, 1 needed to start");
    insta::assert_snapshot!(one(0), @"placed; 1 of 1 pod created, 0 placed, 1 needed to start");
}

#[test]
fn what_does_not_wait_says_how_it_stands() {
    let head = |life: Life, kueue: Option<Queued>| {
        headline(&Inspected {
            life,
            kueue,
            ..example()
        })
    };
    let queued = |says: Option<&str>| Queued {
        queue: "team".to_owned(),
        says: says.map(str::to_owned),
    };
    assert_eq!(head(Life::Suspended, None), "suspended");
    assert_eq!(
        head(Life::Suspended, Some(queued(None))),
        "suspended: Kueue has not admitted it from the queue \"team\""
    );
    assert_eq!(
        head(Life::Suspended, Some(queued(Some("too little quota")))),
        "suspended by Kueue (queue \"team\"): too little quota"
    );
    assert_eq!(head(Life::Finished, None), "it has ended");
    let failed = Inspected {
        life: Life::Finished,
        failed: Some("BackoffLimitExceeded: too often".to_owned()),
        ..example()
    };
    let said = "it has failed: BackoffLimitExceeded: too often";
    assert_eq!(headline(&failed), said);
    let timed_out = Inspected {
        life: Life::Suspended,
        gangs: Vec::new(),
        told: Some(("GangTimedOut".to_owned(), "a gang waited for 5m".to_owned())),
        resume: Some("kubectl patch it".to_owned()),
        ..example()
    };
    let said = text(&found(vec![timed_out], None), &[]);
    let said: Vec<&str> = said.lines().take(2).collect();
    insta::assert_snapshot!(said.join("\n"), @r"
    Example ml/train: timed out: a gang waited for 5m
    next: kubectl patch it
    ");
    let gang = |state| Inspected {
        gangs: vec![GangStatus {
            state,
            ..GangStatus::example()
        }],
        ..example()
    };
    assert_eq!(headline(&gang(State::Scheduled)), "all gangs are placed");
    assert_eq!(
        headline(&gang(State::Empty)),
        "a gang is waiting for its pods to be created"
    );
    assert_eq!(
        headline(&gang(State::Waiting)),
        "a gang is waiting, and nothing says why yet"
    );
    let broken = Inspected {
        broken: Some("the pods disagree".to_owned()),
        ..example()
    };
    assert_eq!(headline(&broken), "the pods disagree");
    // As in the condition: what is placed is not broken any more, and before all comes what is refused.
    let mended = Inspected {
        broken: broken.broken.clone(),
        ..gang(State::Scheduled)
    };
    assert_eq!(headline(&mended), "all gangs are placed");
    let foreign = Inspected {
        foreign: vec!["PodGroup a exists and was not made by Muster".to_owned()],
        ..broken
    };
    assert_eq!(headline(&foreign), foreign.foreign[0]);
    let refused = Inspected {
        refused: Some("it was created without Muster".to_owned()),
        life: Life::Suspended,
        ..foreign
    };
    assert_eq!(headline(&refused), "it was created without Muster");
    let waits = "main containers wait until all members have started";
    let at_barrier = Inspected {
        barrier: Some(("BarrierWaiting".to_owned(), waits.to_owned())),
        ..gang(State::Scheduled)
    };
    assert_eq!(
        headline(&at_barrier),
        format!("all gangs are placed; at the start barrier {waits}")
    );
    let alone = Inspected {
        gangs: Vec::new(),
        ..at_barrier
    };
    assert_eq!(headline(&alone), format!("at the start barrier {waits}"));
    // These name the barrier themselves.
    for (reason, message) in [
        (
            "BarrierTimedOut",
            "the start barrier did not open in time: 2 of 3 members have started",
        ),
        (
            "BarrierRefused",
            "the start barrier does not open: ConfigMap x: exceeded quota",
        ),
    ] {
        let closed = Inspected {
            barrier: Some((reason.to_owned(), message.to_owned())),
            ..alone.clone()
        };
        assert_eq!(headline(&closed), message);
    }
    let mut imageless = gang(State::Scheduled);
    imageless.gangs[0].imageless = 2;
    insta::assert_snapshot!(headline(&imageless), @"all gangs are placed; 2 pods cannot pull an image, which is not a matter of scheduling: kubectl describe pods -n ml");
    let elsewhere = Inspected {
        life: Life::LeftAlone,
        manager: Some("example.com/other".to_owned()),
        ..example()
    };
    insta::assert_snapshot!(headline(&elsewhere), @"example.com/other runs it (spec.managedBy), so Muster leaves it alone: ask there why it waits");
}

#[test]
fn a_gang_stands_in_one_word() {
    let stands = |state, running, done| {
        let gang = GangStatus {
            state,
            ..GangStatus::example()
        };
        let progress = Progress {
            running,
            done,
            ..Progress::default()
        };
        stands(&gang, progress, Sight::Whole)
    };
    assert_eq!(stands(State::Empty, 0, 0), "Empty");
    assert_eq!(stands(State::Waiting, 3, 0), "Waiting");
    assert_eq!(stands(State::Scheduled, 3, 0), "Placed");
    assert_eq!(stands(State::Scheduled, 3, 1), "Running");
    assert_eq!(stands(State::Scheduled, 0, 4), "Done");
}

/// Nothing is said of pods that could not be looked at.
#[test]
fn who_may_not_list_pods_is_told_what_the_condition_says_and_nothing_of_pods() {
    let blind = |told: Option<(&str, &str)>| {
        let gang = GangStatus {
            scheduler: SchedulerKind::new("example"),
            state: State::Empty,
            ..GangStatus::example()
        };
        Inspected {
            gangs: vec![gang],
            told: told.map(|(reason, message)| (reason.to_owned(), message.to_owned())),
            sight: Sight::NoPods,
            ..example()
        }
    };
    let name = GangStatus::example().name;
    let waits = format!("{name}: only 2 of 3 pods exist");
    let waits = blind(Some(("PodsMissing", &waits)));
    let placed = blind(Some(("GangScheduled", "1 of 1 gangs are placed")));
    let text = |found: &Inspected| {
        let all = text(&self::found(vec![found.clone()], None), &[]);
        let (head, _) = all.split_once("\nlooked at").unwrap();
        head.to_owned()
    };
    insta::assert_snapshot!(text(&waits), @r"
    Example ml/train: train-all-0: only 2 of 3 pods exist

    gang train-all-0 (example): you may not list its pods
      its condition says: PodsMissing: only 2 of 3 pods exist
    ");
    insta::assert_snapshot!(text(&placed), @r"
    Example ml/train: 1 of 1 gangs are placed
    its condition says: GangScheduled: 1 of 1 gangs are placed

    gang train-all-0 (example): you may not list its pods
    ");
    insta::assert_snapshot!(headline(&blind(None)), @"its state is unknown: you may not list its pods, and it has no condition that says more");
    let value = machine::workload(&waits);
    assert_eq!(value["gangs"][0]["created"], Value::Null);
    assert_eq!(value["gangs"][0]["state"], "Unknown");
}
