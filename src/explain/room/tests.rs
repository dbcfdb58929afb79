//! Members that keep apart from each other, counted.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Held, Own, Room};
use crate::explain::evidence::{Evidence, causes};
use crate::explain::nodes::NodeRoom;
use crate::explain::tests::ask;
use crate::gang::ask::Ask;

/// A pod that keeps away from pods with this label, by a label of nodes.
fn apart(app: &str, key: &str) -> Value {
    let term = json!({"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}});
    let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
    json!({"affinity": {"podAntiAffinity": required}})
}

/// Nodes of four CPUs, each with its own name and one of these zones.
fn room(zones: &[&str]) -> Room {
    let mut room = Room::default();
    for (number, zone) in zones.iter().enumerate() {
        let name = format!("node-{number}");
        let labels = [("host", name.as_str()), ("zone", *zone), ("pool", "a100")];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let node = NodeRoom {
            allocatable: serde_json::from_value(json!({"cpu": "4", "pods": "10"})).unwrap(),
            labels: labels.into_iter().collect(),
            ..NodeRoom::default()
        };
        room.node(&name, node);
    }
    room
}

/// The causes of a gang of so many pods.
fn told(room: &Room, asks: Vec<(Arc<Ask>, u32)>) -> Vec<String> {
    let quorum = asks.iter().map(|(_, count)| *count).sum();
    let known = Evidence {
        quorum,
        live: quorum as usize,
        fit: Some(room.fit(&asks, quorum, Own::default())),
        unheard: quorum,
        asks,
        ..Evidence::default()
    };
    let causes = causes(&known).into_iter();
    let told = causes.map(|cause| format!("{}: {cause}", cause.reason()));
    told.filter(|told| !told.starts_with("SchedulerAbsent"))
        .collect()
}

#[test]
fn members_that_keep_apart_need_a_place_each() {
    let room = room(&["a", "a", "b"]);
    let of = |key: &str, pods| told(&room, vec![(ask("1", apart("train", key)), pods)]);
    assert!(of("host", 3).is_empty());
    assert_eq!(
        of("host", 4),
        [
            "PodAntiAffinity: 3 of 4 pods fit; anti-affinity allows one of them for each host, and \
          there are 3"
        ]
    );
    assert_eq!(
        of("zone", 3),
        [
            "PodAntiAffinity: 2 of 3 pods fit; anti-affinity allows one of them for each zone, and \
          there are 2"
        ]
    );
    assert!(
        of("rack", 9).is_empty(),
        "nodes without the label are near no other"
    );
    let mut wanted = apart("train", "zone");
    wanted["nodeSelector"] = json!({"pool": "a100"});
    let wanted = ask("1", wanted);
    let told = told(&room, vec![(wanted, 3)]);
    assert!(
        told[0].ends_with("there are 2 on nodes with pool=a100"),
        "{told:?}"
    );
}

#[test]
fn members_that_keep_away_from_others_alone_may_be_together() {
    let room = room(&["a"]);
    let others = ask("1", apart("web", "host"));
    assert!(told(&room, vec![(others, 4)]).is_empty());
    // How kinds stand to each other is not counted: no more may fit than is said.
    let kinds = ["1", "2"].map(|cpu| (ask(cpu, apart("train", "host")), 1));
    let kinds = kinds.to_vec();
    assert!(told(&room, kinds).is_empty());
}

/// Three hosts of four CPUs, of each of which another holds so many.
fn held(cpus: [u32; 3]) -> Room {
    let mut room = room(&["a", "a", "a"]);
    for (number, cpu) in cpus.iter().enumerate() {
        let held = Held {
            node: format!("node-{number}"),
            requests: serde_json::from_value(json!({"cpu": cpu.to_string()})).unwrap(),
            holder: "ml/other".to_owned(),
            priority: 0,
            scheduler: "default".to_owned(),
        };
        room.pod(&number.to_string(), held);
    }
    room
}

#[test]
fn places_that_are_full_are_told_apart_from_places_that_are_missing() {
    let told = |cpus, pods| {
        let asks = vec![(ask("1", apart("train", "host")), pods)];
        told(&held(cpus), asks).remove(0)
    };
    assert_eq!(
        told([4, 0, 0], 3),
        "PodAntiAffinity: 2 of 3 pods fit; anti-affinity allows one of them for each host, and there \
         is room in 2 of 3"
    );
    assert_eq!(
        told([4, 3, 3], 4),
        "PodAntiAffinity: 2 of 4 pods fit; anti-affinity allows one of them for each host, and there \
         is room in 2 of 3"
    );
    // There are enough places, and what is missing is room in them.
    assert_eq!(
        told([4, 4, 3], 3),
        "InsufficientResources: 1 of 3 pods fit; 2 more CPU are needed (held by ml/other)"
    );
}

/// All of one zone: adding CPUs there would change nothing.
#[test]
fn room_that_no_member_may_use_is_not_called_short() {
    let room = room(&["a", "a", "a", "a"]);
    let asks = vec![(ask("3", apart("train", "zone")), 5)];
    assert_eq!(
        told(&room, asks),
        [
            "PodAntiAffinity: 1 of 5 pods fit; anti-affinity allows one of them for each zone, and \
         there is 1"
        ]
    );
}

#[test]
fn more_than_are_needed_may_wait() {
    let room = room(&["a", "b"]);
    let asks = vec![(ask("1", apart("train", "host")), 10)];
    let fit = room.fit(&asks, 3, Own::default());
    assert_eq!((fit.fits, fit.needed), (2, 3));
    let lacking = fit.lacking.unwrap();
    assert_eq!(lacking.apart.map(|places| places.all), Some(2));
}

/// One order of placing may put the first kind where the second must be.
#[test]
fn kinds_that_are_in_each_others_way_are_placed_in_the_best_order() {
    let mut room = room(&["a", "b", "b"]);
    let labels = |pairs: &[(&str, &str)]| {
        let pairs = pairs.iter();
        pairs
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    };
    let mut node = |name: &str, cpu: &str, pairs: &[(&str, &str)]| {
        let node = NodeRoom {
            allocatable: serde_json::from_value(json!({"cpu": cpu, "pods": "10"})).unwrap(),
            labels: labels(pairs),
            ..NodeRoom::default()
        };
        room.node(name, node);
    };
    node("node-0", "8", &[("zone", "a")]);
    node("node-1", "4", &[("zone", "b"), ("disk", "fast")]);
    node("node-2", "4", &[("zone", "b")]);
    let asks = vec![
        (ask("4", apart("train", "zone")), 2),
        (ask("2", json!({"nodeSelector": {"disk": "fast"}})), 1),
    ];
    assert_eq!(room.fit(&asks, 3, Own::default()).fits, 3);
    // The small ones are all that is needed.
    let mut room = Room::default();
    let node = NodeRoom {
        allocatable: serde_json::from_value(json!({"cpu": "8", "pods": "10"})).unwrap(),
        ..NodeRoom::default()
    };
    room.node("node-0", node);
    let asks = vec![(ask("8", json!({})), 1), (ask("1", json!({})), 8)];
    assert_eq!(room.fit(&asks, 5, Own::default()).fits, 5);
}
