use serde_json::json;

use super::*;
use crate::args::Command;
use crate::controller::decide::{GangStatus, State};
use crate::controller::inspect::Sight;
use crate::controller::inspect::example::example;
use crate::controller::inspect::progress::Progress;
use crate::controller::queued::Queued;
use crate::workload::Life;

const WIDE: Columns = Columns {
    reach: Reach::One,
    screen: Screen::Plain,
    depth: Depth::Wide,
    width: None,
};

/// Gangs and workloads of every state.
fn all() -> Vec<Inspected> {
    let running = Inspected {
        name: "serve".to_owned(),
        gangs: vec![GangStatus {
            state: State::Scheduled,
            ..GangStatus::example()
        }],
        progress: vec![Progress {
            created: 4,
            placed: 4,
            running: 3,
            done: 1,
        }],
        ..example()
    };
    let suspended = Inspected {
        name: "night".to_owned(),
        life: Life::Suspended,
        kueue: Some(Queued {
            queue: "team".to_owned(),
            says: None,
        }),
        gangs: Vec::new(),
        told: Some(("GangSuspended".to_owned(), "the workload waits".to_owned())),
        ..example()
    };
    let refused = Inspected {
        namespace: "web".to_owned(),
        name: "old".to_owned(),
        gangs: Vec::new(),
        refused: Some("it was created without Muster".to_owned()),
        ..example()
    };
    vec![example(), running, suspended, refused]
}

fn table(reach: Reach, screen: Screen, depth: Depth) -> String {
    let columns = Columns {
        reach,
        screen,
        depth,
        width: None,
    };
    columns.table(&all())
}

#[test]
fn a_gang_is_a_line() {
    insta::assert_snapshot!("status", table(Reach::One, Screen::Plain, Depth::Narrow));
    let columns = Columns {
        reach: Reach::One,
        screen: Screen::Drawn,
        depth: Depth::Narrow,
        width: None,
    };
    assert_eq!(columns.table(&[]), "no gangs\n");
}

#[test]
fn the_wide_table_has_sentences_and_that_of_all_namespaces_names_them() {
    insta::assert_snapshot!("status-wide", table(Reach::All, Screen::Plain, Depth::Wide));
}

#[test]
fn on_a_terminal_a_gang_has_a_bar() {
    insta::assert_snapshot!(
        "status-drawn",
        table(Reach::One, Screen::Drawn, Depth::Narrow)
    );
}

#[test]
fn a_narrow_terminal_gets_the_columns_that_matter_on_one_line_each() {
    let fitted = |width| {
        let columns = Columns {
            reach: Reach::One,
            screen: Screen::Drawn,
            depth: Depth::Narrow,
            width: Some(width),
        };
        columns.table(&all())
    };
    let whole = table(Reach::One, Screen::Drawn, Depth::Narrow);
    assert_eq!(fitted(200), whole);
    for width in [40, 80, 100, 120] {
        let longest = fitted(width).lines().map(|line| line.chars().count()).max();
        assert!(longest <= Some(width), "{longest:?} of {width}");
    }
    insta::assert_snapshot!("status-narrow", fitted(80));
}

#[test]
fn what_the_condition_knows_better_is_the_cause() {
    let message = format!("{}: no node tolerates it", example().gangs[0].name);
    let half_seen = Inspected {
        told: Some(("TaintNotTolerated".to_owned(), message)),
        sight: Sight::Partial,
        ..example()
    };
    insta::assert_snapshot!("status-partial", WIDE.table(&[half_seen]));
}

#[test]
fn a_start_barrier_is_a_line_too() {
    let waits = "main containers wait until all members have started: 2 of 3 members have started";
    let closed = Some(("BarrierWaiting".to_owned(), waits.to_owned()));
    let alone = Inspected {
        gangs: Vec::new(),
        progress: Vec::new(),
        barrier: closed.clone(),
        ..example()
    };
    let open = Inspected {
        barrier: Some((
            "BarrierOpened".to_owned(),
            "3 of 3 members have started".to_owned(),
        )),
        ..alone.clone()
    };
    let placed = Inspected {
        gangs: vec![GangStatus {
            state: State::Scheduled,
            causes: Vec::new(),
            waited: None,
            ..GangStatus::example()
        }],
        barrier: closed,
        ..example()
    };
    insta::assert_snapshot!("status-barrier", WIDE.table(&[alone, open, placed]));
}

#[test]
fn scripts_read_the_same() {
    let listed = value(&all());
    let gang = &listed[0]["gangs"][0];
    assert_eq!(gang["causes"][0]["reason"], "InsufficientResources");
    assert_eq!(gang["causes"][0]["waitingFor"], "3 nvidia.com/gpu");
    assert_eq!((&gang["placed"], &gang["quorum"]), (&json!(0), &json!(9)));
    assert_eq!(gang["waitedSeconds"], 42);
    assert_eq!(listed[1]["gangs"][0]["state"], "Running");
    assert_eq!(listed[3]["refused"], "it was created without Muster");
    let mut yaml = Vec::new();
    machine::write_yaml(&listed, &mut yaml).unwrap();
    let yaml = String::from_utf8(yaml).unwrap();
    insta::assert_snapshot!("status-yaml", &yaml);
}

#[test]
fn nothing_that_could_be_listed_is_not_no_gangs() {
    let printed = |arguments: &[&str], answer| {
        let command = ["muster", "status"].iter().chain(arguments);
        let parsed = crate::called::parse(command.map(Into::into)).unwrap();
        let Command::Status(args) = parsed.command else {
            panic!("{arguments:?}");
        };
        let mut out = Vec::new();
        print(&[], answer, &args, Screen::Plain, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    assert_eq!(Answer::of(&[], 1), Answer::None);
    assert_eq!(Answer::of(&[], 0), Answer::Listed);
    assert_eq!(Answer::of(&[example()], 1), Answer::Listed);
    assert_eq!(printed(&[], Answer::Listed), "no gangs\n");
    assert_eq!(printed(&[], Answer::None), "");
    assert_eq!(printed(&["-o", "wide"], Answer::None), "");
    assert_eq!(printed(&["-o", "json"], Answer::None), "[]\n");
    // As kubectl takes it.
    assert_eq!(printed(&["-n", "ml", "-A"], Answer::Listed), "no gangs\n");
}
