//! From what is known of a gang to the sentence that its owner reads.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::Place;
use super::evidence::{Answer, Evidence, causes};
use super::fit::How;
use super::nodes::{NodeRoom, Taint};
use super::refusal::Refusal;
use super::room::{Held, Own, Room};
use crate::gang::Unscheduled;
use crate::gang::apart::Labelled;
use crate::gang::ask::{Ask, AskingSpec};
use crate::gang::quantity::Quantity;
use crate::scheduler::queue::{Full, Left, QueueTrouble, Wrong};

/// What one pod asks: so many CPUs, and this.
pub(super) fn ask(cpu: &str, rest: Value) -> Arc<Ask> {
    let mut spec = json!({"containers": [{"resources": {"requests": {"cpu": cpu}}}]});
    for (field, value) in rest.as_object().unwrap() {
        spec[field] = value.clone();
    }
    let spec: AskingSpec = serde_json::from_value(spec).unwrap();
    let labels = BTreeMap::from([("app".to_owned(), "train".to_owned())]);
    let labelled = Labelled {
        namespace: "ml",
        labels: Some(&labels),
    };
    Arc::new(spec.ask(labelled).unwrap())
}

fn node(cpu: &str) -> NodeRoom {
    NodeRoom {
        allocatable: serde_json::from_value(json!({"cpu": cpu, "pods": "10"})).unwrap(),
        ..NodeRoom::default()
    }
}

fn held(node: &str, cpu: &str, holder: &str) -> Held {
    Held {
        node: node.to_owned(),
        requests: serde_json::from_value(json!({"cpu": cpu})).unwrap(),
        holder: holder.to_owned(),
        priority: 0,
        scheduler: "default".to_owned(),
    }
}

/// A gang of nine pods that all exist.
fn gang(room: &Room, ask: Arc<Ask>) -> Evidence {
    let asks = vec![(ask, 9)];
    Evidence {
        quorum: 9,
        live: 9,
        fit: Some(room.fit(&asks, 9, Own::default())),
        asks,
        ..Evidence::default()
    }
}

fn placeholders(prefix: &str) -> Own<'_> {
    Own {
        placeholders: Some(prefix),
        ..Own::default()
    }
}

fn first(known: &Evidence) -> (&'static str, String) {
    let causes = causes(known);
    (causes[0].reason(), causes[0].to_string())
}

fn says(message: &str) -> (Unscheduled, u32) {
    let words = Unscheduled {
        reason: "Unschedulable".to_owned(),
        message: message.to_owned(),
    };
    (words, 1)
}

#[test]
fn what_is_short_is_said_with_who_holds_it() {
    let mut room = Room::default();
    for (name, cpu) in [("a", "5"), ("b", "4")] {
        let labels = [("pool".to_owned(), "a100".to_owned())].into();
        let node = NodeRoom {
            labels,
            ..node(cpu)
        };
        room.node(name, node);
    }
    room.node("elsewhere", node("100"));
    room.pod("1", held("a", "3", "ml/train-b"));
    room.pod("2", held("elsewhere", "9", "ml/other"));
    let ask = ask("1", json!({"nodeSelector": {"pool": "a100"}}));
    let (reason, text) = first(&gang(&room, Arc::clone(&ask)));
    assert_eq!(reason, "InsufficientResources");
    assert_eq!(
        text,
        "6 of 9 pods fit; 3 more CPU are needed on nodes with pool=a100 (held by ml/train-b)"
    );
    room.pod("1", held("a", "1", "ml/train-b"));
    assert!(
        first(&gang(&room, ask))
            .1
            .starts_with("8 of 9 pods fit; 1 more CPU is needed")
    );
}

#[test]
fn nodes_that_it_asks_for_and_may_not_use_are_mentioned_where_others_are_too_small() {
    let mut room = Room::default();
    let pool = |cpu: &str, cordoned, taints: &[&str]| NodeRoom {
        labels: [("pool".to_owned(), "a100".to_owned())].into(),
        cordoned,
        taints: taints
            .iter()
            .map(|key| Taint {
                key: (*key).to_owned(),
                effect: "NoSchedule".to_owned(),
                ..Taint::default()
            })
            .collect(),
        ..node(cpu)
    };
    room.node("a", pool("4", false, &[]));
    room.node("b", pool("4", false, &[]));
    room.node("elsewhere", node("100"));
    room.node(
        "head",
        pool("9", false, &["node-role.kubernetes.io/control-plane"]),
    );
    let ask = ask("1", json!({"nodeSelector": {"pool": "a100"}}));
    let text = |room: &Room| first(&gang(room, Arc::clone(&ask))).1;
    let short = "8 of 9 pods fit; 1 more CPU is needed on nodes with pool=a100 (usable nodes have 8 \
                 CPU in all)";
    assert_eq!(text(&room), short);
    room.node("c", pool("4", false, &["gpu"]));
    assert_eq!(
        text(&room),
        format!("{short}; 1 other node has the taint gpu")
    );
    room.node("d", pool("4", true, &[]));
    room.node("e", pool("4", true, &[]));
    assert_eq!(text(&room), format!("{short}; 2 other nodes are cordoned"));
}

/// Whoever is named would be asked to give room that does not help.
#[test]
fn nobody_is_said_to_hold_what_empty_nodes_would_not_have() {
    let mut room = Room::default();
    for name in ["a", "b"] {
        room.node(name, node("4"));
        room.pod(name, held(name, "3", "ml/train-b"));
    }
    let one = ask("1", json!({"priority": 1000}));
    assert_eq!(
        first(&gang(&room, one)).1,
        "2 of 9 pods fit; 7 more CPU are needed (usable nodes have 8 CPU in all)"
    );
    // What they have in all would do, but not in these pieces.
    let asks = [(ask("2500m", json!({})), 3)];
    let known = Evidence {
        fit: Some(room.fit(&asks, 3, Own::default())),
        ..gang(&room, ask("1", json!({})))
    };
    assert_eq!(
        first(&known).1,
        "0 of 3 pods fit; 7.5 more CPU are needed (usable nodes would hold 2 even if they were empty)"
    );
}

#[test]
fn who_holds_too_little_to_help_alone_is_named_with_others() {
    let mut room = Room::default();
    room.node("a", node("9"));
    let says = |room: &Room| first(&gang(room, ask("1", json!({})))).1;
    for (index, holder) in ["ml/a", "ml/b", "ml/c"].into_iter().enumerate() {
        room.pod(&index.to_string(), held("a", "2", holder));
    }
    let text = says(&room);
    assert!(text.ends_with(" (held by ml/a, ml/b, ml/c)"), "{text}");
    room.pod("d", held("a", "1", "ml/d"));
    let text = says(&room);
    assert!(
        text.ends_with(" (held by ml/a, ml/b, ml/c and others)"),
        "{text}"
    );
}

#[test]
fn what_is_kept_for_a_gang_is_not_said_to_be_held() {
    let mut room = Room::default();
    room.node("a", node("9"));
    room.pod("1", held("a", "4", "ml/tg-train-0-workers-x"));
    room.pod("2", held("a", "1", "ml/train-b"));
    let asks = [(ask("1", json!({})), 9)];
    let lacking = room
        .fit(&asks, 9, placeholders("ml/tg-train-0-"))
        .lacking
        .unwrap();
    let holders: Vec<&str> = lacking.holders.iter().map(|(name, _)| &**name).collect();
    assert_eq!(holders, ["ml/train-b"]);
}

/// What is free in pieces that hold no pod is no room, so the sums do not tell.
#[test]
fn a_node_with_what_is_said_to_be_needed_lets_the_gang_fit() {
    let two_roles = vec![(ask("3", json!({})), 2), (ask("1500m", json!({})), 3)];
    for (asks, needed, told) in [
        (vec![(ask("1", json!({})), 9)], 9, "2"),
        (vec![(ask("3", json!({})), 3)], 3, "3"),
        // One of those that wait is not needed.
        (vec![(ask("3", json!({})), 5)], 4, "6"),
        (two_roles, 5, "4500m"),
    ] {
        let mut room = Room::default();
        for (name, cpu) in [("a", "4400m"), ("b", "3400m"), ("c", "1")] {
            room.node(name, node(cpu));
        }
        room.pod("1", held("c", "900m", "ml/train-b"));
        let fit = room.fit(&asks, needed, Own::default());
        let short = fit.lacking.unwrap().short.unwrap();
        assert_eq!(short.how, How::By(told.parse().unwrap()), "{asks:?}");
        assert!(fit.fits < needed);
        room.node("more", node(told));
        assert_eq!(
            room.fit(&asks, needed, Own::default()).fits,
            needed,
            "{asks:?}"
        );
    }
}

#[test]
fn roles_that_use_the_same_nodes_need_together_what_is_said() {
    let mut room = Room::default();
    room.node("a", node("4"));
    let other = json!({"nodeSelector": {"pool": "a100"}});
    let asks = [
        (ask("3", json!({})), 2),
        (ask("2", json!({})), 2),
        (ask("1", other), 1),
    ];
    let short = room
        .fit(&asks, 5, Own::default())
        .lacking
        .unwrap()
        .short
        .unwrap();
    assert_eq!(short.how, How::By("7".parse().unwrap()));
}

#[test]
fn room_that_the_gang_itself_leaves_scattered_is_not_called_enough() {
    let mut room = Room::default();
    for name in ["a", "b"] {
        room.node(name, node("3"));
    }
    let fit = room.fit(&[(ask("2", json!({})), 3)], 3, Own::default());
    let how = How::Scattered {
        one: "2".parse().unwrap(),
    };
    assert_eq!(
        (fit.fits, fit.lacking.unwrap().short.unwrap().how),
        (2, how)
    );
}

#[test]
fn a_pod_that_no_node_could_hold_is_said_before_what_others_hold() {
    let mut room = Room::default();
    room.node("a", node("6600m"));
    room.pod("1", held("a", "4", "ml/train-b"));
    let (_, text) = first(&gang(&room, ask("100", json!({}))));
    assert_eq!(
        text,
        "0 of 9 pods fit; a pod asks for 100 CPU, and the largest node has 6.6"
    );
}

#[test]
fn room_that_is_scattered_is_not_called_enough() {
    let mut room = Room::default();
    for name in ["a", "b", "c"] {
        room.node(name, node("3"));
        room.pod(name, held(name, "2", "ml/train-b"));
    }
    let known = Evidence {
        fit: Some(room.fit(&[(ask("2", json!({})), 1)], 1, Own::default())),
        ..gang(&room, ask("2", json!({})))
    };
    let (_, text) = first(&known);
    assert_eq!(
        text,
        "0 of 1 pods fit; no node has 2 CPU left for one more (held by ml/train-b)"
    );
}

#[test]
fn nodes_that_a_selector_wants_and_a_taint_keeps_are_named_before_the_others() {
    let mut room = Room::default();
    for number in 0..9 {
        room.node(&format!("other-{number}"), node("9"));
    }
    let taint = Taint {
        key: "gpu".to_owned(),
        value: "only".to_owned(),
        effect: "NoSchedule".to_owned(),
    };
    let wanted = NodeRoom {
        labels: [("pool".to_owned(), "a100".to_owned())].into(),
        taints: vec![taint],
        ..node("9")
    };
    room.node("wanted", wanted.clone());
    let selector = json!({"nodeSelector": {"pool": "a100"}});
    let (reason, text) = first(&gang(&room, ask("1", selector.clone())));
    assert_eq!(reason, "TaintNotTolerated");
    assert_eq!(text, "it does not tolerate the taint gpu=only of 1 node");
    let tolerates = json!({"nodeSelector": {"pool": "a100"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}]});
    let fit = room.fit(&[(ask("1", tolerates), 9)], 9, Own::default());
    assert_eq!(fit.fits, 9);
    let cordoned = NodeRoom {
        cordoned: true,
        taints: Vec::new(),
        ..wanted
    };
    room.node("wanted", cordoned);
    assert_eq!(first(&gang(&room, ask("1", selector))).0, "NodesCordoned");
    let (reason, text) = first(&gang(&room, ask("1", json!({"nodeSelector": {"a": "b"}}))));
    assert_eq!(reason, "NodeSelectorMismatch");
    assert_eq!(text, "no node has the labels that it asks for (a=b)");
}

#[test]
fn missing_pods_come_before_room_and_whoever_refuses_them_before_their_number() {
    let mut known = gang(&Room::default(), ask("1", json!({})));
    known.live = 8;
    assert_eq!(
        first(&known),
        ("PodsMissing", "only 8 of 9 pods exist".to_owned())
    );
    let quota = "Error creating: pods \"x\" is forbidden: exceeded quota: small, limited: pods=8";
    known.refusals = vec![Refusal::read(quota, None, None)];
    let text = "8 of 9 pods exist; the others are refused by a ResourceQuota: exceeded quota: \
                small, limited: pods=8";
    assert_eq!(first(&known), ("QuotaExceeded", text.to_owned()));
    known.unlinked = 1;
    assert_eq!(first(&known).0, "LinkLost");
    assert!(causes(&known).len() <= 3);
}

#[test]
fn what_pods_do_to_each_other_is_taken_from_the_scheduler_where_there_is_room() {
    let mut room = Room::default();
    room.node("a", node("9"));
    let mut known = gang(&room, ask("1", json!({})));
    known.words = vec![
        says("minCount (9) cannot be satisfied: 1 scheduled, 8 remaining"),
        says(
            "0/5 nodes are available: 3 node(s) had untolerated taint(s), 1 Insufficient cpu, 1 \
             node(s) didn't match pod anti-affinity rules.",
        ),
    ];
    assert_eq!(first(&known).0, "PodAntiAffinity");
    assert!(known.quotation().unwrap().starts_with("0/5 nodes"));
    known.claims = vec!["data".to_owned()];
    assert_eq!(first(&known).0, "VolumeClaimMissing");
}

/// The words of a gang's object say that it does not fit, and those on a pod why.
#[test]
fn words_that_are_not_known_are_told_as_they_stand_on_a_pod() {
    let mut known = Evidence {
        quorum: 9,
        live: 9,
        said: Some("minCount (9) cannot be satisfied: 1 scheduled, 8 remaining".to_owned()),
        words: vec![
            says("pod group is unschedulable"),
            says("0/5 nodes are available: 5 node(s) are on holiday."),
        ],
        ..Evidence::default()
    };
    assert_eq!(
        first(&known).1,
        "the scheduler says: 0/5 nodes are available: 5 node(s) are on holiday."
    );
    known.unbound = vec!["data".to_owned()];
    assert_eq!(first(&known).0, "SchedulerWaits");
    known.words.pop();
    assert_eq!(first(&known).0, "VolumeNotBound", "nobody says more");
    known.unbound.clear();
    assert!(first(&known).1.contains("minCount (9)"));
}

#[test]
fn a_gang_of_which_nobody_says_anything_has_no_scheduler() {
    let mut room = Room::default();
    room.node("a", node("9"));
    let mut known = gang(&room, ask("1", json!({"schedulerName": "nobody"})));
    known.unheard = 9;
    let (reason, text) = first(&known);
    assert_eq!(reason, "SchedulerAbsent");
    assert!(
        text.ends_with("does one answer for schedulerName \"nobody\"?"),
        "{text}"
    );
    known.said = Some("queue is full".to_owned());
    assert_eq!(
        first(&known),
        (
            "SchedulerWaits",
            "the scheduler says: queue is full".to_owned()
        )
    );
}

#[test]
fn what_keeps_room_for_a_gang_is_not_held_by_others() {
    let mut room = Room::default();
    room.node("a", node("3"));
    room.pod("1", held("a", "2", "ml/tg-train-0-workers-x"));
    let asks = [(ask("1", json!({})), 3)];
    assert_eq!(room.fit(&asks, 3, Own::default()).fits, 1);
    assert_eq!(room.fit(&asks, 3, placeholders("ml/tg-train-0-")).fits, 3);
}

#[test]
fn whom_it_could_preempt_is_said_as_far_as_it_is_counted() {
    let mut room = Room::default();
    room.node("a", node("9"));
    let lower = Held {
        priority: -5,
        ..held("a", "4", "ml/train-b")
    };
    room.pod("1", lower.clone());
    let says = |room: &Room, rest: Value| {
        let (_, text) = first(&gang(room, ask("1", rest)));
        let (_, said) = text.split_once("(held by ml/train-b)").unwrap();
        said.to_owned()
    };
    assert_eq!(
        says(
            &room,
            json!({"priority": 1000, "preemptionPolicy": "Never"})
        ),
        "; priority 1000 is above ml/train-b (-5), but preemptionPolicy is Never"
    );
    assert_eq!(
        says(&room, json!({"priority": 1000})),
        "; priority 1000 is above ml/train-b (-5): without pods of lower priority all would fit"
    );
    assert_eq!(says(&room, json!({"priority": -5})), "");
    let same = Held {
        priority: 1000,
        ..lower.clone()
    };
    room.pod("1", same.clone());
    assert_eq!(
        says(&room, json!({"priority": 1000})),
        "; no pod of lower priority than 1000 holds any"
    );
    // Of lower priority, but not enough of it.
    room.pod(
        "1",
        Held {
            requests: held("a", "3", "").requests,
            ..same
        },
    );
    let little = Held {
        requests: held("a", "1", "").requests,
        ..lower
    };
    room.pod("2", little);
    assert_eq!(
        says(&room, json!({"priority": 1000})),
        "; without all pods of lower priority than 1000 6 of 9 would fit"
    );
}

/// Else one that could never be placed would be told to preempt.
#[test]
fn a_pod_that_no_node_could_hold_is_not_told_whom_to_preempt() {
    let mut room = Room::default();
    room.node("a", node("4"));
    room.pod("1", held("a", "4", "ml/train-b"));
    let (_, text) = first(&gang(&room, ask("100", json!({"priority": 1000}))));
    assert!(!text.contains("priority"), "{text}");
    // Roles of several priorities have none in common.
    let asks = [
        (ask("1", json!({"priority": 1})), 1),
        (ask("1", json!({})), 1),
    ];
    let fit = room.fit(&asks, 2, Own::default());
    assert_eq!(fit.lacking.unwrap().preemption, None);
}

#[test]
fn a_gang_whose_pods_are_made_later_is_not_said_to_lack_them() {
    let mut known = gang(&Room::default(), ask("1", json!({})));
    (known.live, known.awaits) = (0, Some("its pods are made later".to_owned()));
    let later = ("DependencyPending", "its pods are made later".to_owned());
    assert_eq!(first(&known), later);
    assert_eq!(causes(&known).len(), 1);
    assert!(causes(&known)[0].follows_another());
    known.live = 9;
    assert_ne!(first(&known).0, "DependencyPending");
}

/// It would be told to buy nodes else.
#[test]
fn what_nobody_answers_for_is_said_before_the_room_that_it_lacks() {
    let mut room = Room::default();
    room.node("a", node("2"));
    room.pod("1", held("a", "1", "ml/train-b"));
    assert!(room.answers("default") && !room.answers("nobody"));
    let mut known = gang(&room, ask("1", json!({"schedulerName": "nobody"})));
    known.unheard = 9;
    assert_eq!(first(&known).0, "InsufficientResources");
    known.answer = Answer::Nobody;
    assert_eq!(first(&known).0, "SchedulerAbsent");
    known.words = vec![says("0/1 nodes are available: 1 Insufficient cpu.")];
    assert_eq!(first(&known).0, "InsufficientResources", "somebody did");
}

#[test]
fn pods_without_a_link_are_told_to_be_deleted() {
    let mut known = gang(&Room::default(), ask("1", json!({})));
    (known.live, known.unlinked) = (7, 2);
    assert_eq!(
        first(&known).1,
        "2 pods are not linked to the gang: the link was taken away, or Muster's webhooks were not \
         called; delete them to have them made again"
    );
    known.unlinked = 1;
    assert!(first(&known).1.ends_with("delete it to have it made again"));
}

/// Nothing of it would be placed if there were room.
#[test]
fn a_queue_that_is_full_comes_before_nodes_that_are() {
    let mut known = gang(&Room::default(), ask("1", json!({})));
    let trouble = |wrong| QueueTrouble {
        queue: "team".to_owned(),
        resource: Some("queues.example.com".to_owned()),
        wrong,
    };
    let full = |asked: i64, left| {
        let full = Full {
            resource: "cpu".to_owned(),
            asked: Quantity::from_units(asked),
            left,
        };
        Some(trouble(Wrong::Full(Some(full))))
    };
    let [limit, used] = [4, 2].map(Quantity::from_units);
    let of = Left::ForGang { limit, used };
    for (queue, reason, text) in [
        (
            full(3, of),
            "QueueFull",
            "queue \"team\" is full: of 4 CPU that it may hold 2 are in use, and the gang needs 3 \
             more",
        ),
        (
            full(5, of),
            "QueueFull",
            "queue \"team\" is too small: it may hold 4 CPU, and the gang needs 5",
        ),
        (
            full(3, Left::ForOnePod(Quantity::from_units(1))),
            "QueueFull",
            "queue \"team\" is full: 1 CPU is left in it, and a pod asks for 3",
        ),
        (
            Some(trouble(Wrong::Full(None))),
            "QueueFull",
            "queue \"team\" is full",
        ),
        (
            Some(trouble(Wrong::Absent)),
            "QueueUnusable",
            "queue \"team\" does not exist",
        ),
        (
            Some(trouble(Wrong::NotOpen("closed".to_owned()))),
            "QueueUnusable",
            "queue \"team\" is closed",
        ),
    ] {
        known.queue = queue;
        assert_eq!(first(&known), (reason, text.to_owned()));
    }
    let place = Place {
        namespace: "ml",
        pods: "app=train",
    };
    let step = causes(&known)[0].next_step(place);
    assert_eq!(
        step.as_deref(),
        Some("kubectl get queues.example.com team -o yaml")
    );
}

#[test]
fn the_least_that_so_many_pods_need_together_is_summed_up() {
    let asks = vec![(ask("2", json!({})), 2), (ask("1", json!({})), 5)];
    let known = Evidence {
        asks,
        ..Evidence::default()
    };
    let cpu = |pods| known.needs(pods).unwrap().get("cpu");
    assert_eq!(cpu(3), Some(Quantity::from_units(3)));
    assert_eq!(cpu(6), Some(Quantity::from_units(7)));
    assert_eq!(cpu(9), Some(Quantity::from_units(9)));
    assert!(cpu(0).is_none_or(Quantity::is_zero));
}

/// Its own pods are not asked to go, and nobody is sent to them.
#[test]
fn a_gang_that_is_partly_placed_is_not_told_that_its_own_workload_holds_the_room() {
    let mut room = Room::default();
    room.node("a", node("4"));
    room.pod("1", held("a", "2", "ml/train"));
    room.pod("2", held("a", "2", "ml/train-b"));
    let own = Own {
        workload: Some("ml/train"),
        ..Own::default()
    };
    let told = |needed: u32| {
        let asks = vec![(ask("1", json!({})), needed)];
        let known = Evidence {
            quorum: needed + 2,
            live: needed as usize + 2,
            fit: Some(room.fit(&asks, needed, own)),
            asks,
            ..Evidence::default()
        };
        first(&known).1
    };
    assert_eq!(
        told(2),
        "0 of 2 pods fit; 2 more CPU are needed (held by ml/train-b)"
    );
    assert_eq!(
        told(3),
        "0 of 3 pods fit; 3 more CPU are needed (without pods of other workloads 2 would fit)"
    );
}
