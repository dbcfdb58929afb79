//! Members that keep apart from each other, counted.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{Held, Own, Room};
use crate::explain::evidence::{Evidence, causes};
use crate::explain::nodes::NodeRoom;
use crate::gang::apart::Labelled;
use crate::gang::ask::{Ask, AskingSpec};

/// A pod of one CPU that keeps away from pods with this label, by a label of nodes.
fn ask(app: &str, key: &str, rest: Value) -> Arc<Ask> {
    let term = json!({"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}});
    let mut spec = json!({
        "containers": [{"resources": {"requests": {"cpu": "1"}}}],
        "affinity": {"podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [term]}},
    });
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
    let of = |key: &str, pods| told(&room, vec![(ask("train", key, json!({})), pods)]);
    assert!(of("host", 3).is_empty());
    assert_eq!(
        of("host", 4),
        [
            "PodAntiAffinity: 3 of 4 pods fit; anti-affinity allows one of them for each host, and \
          there is room in 3"
        ]
    );
    assert_eq!(
        of("zone", 3),
        [
            "PodAntiAffinity: 2 of 3 pods fit; anti-affinity allows one of them for each zone, and \
          there is room in 2"
        ]
    );
    assert!(
        of("rack", 9).is_empty(),
        "nodes without the label are near no other"
    );
    let wanted = ask("train", "zone", json!({"nodeSelector": {"pool": "a100"}}));
    let told = told(&room, vec![(wanted, 3)]);
    assert!(
        told[0].ends_with("room in 2 on nodes with pool=a100"),
        "{told:?}"
    );
}

#[test]
fn members_that_keep_away_from_others_alone_may_be_together() {
    let room = room(&["a"]);
    let others = ask("web", "host", json!({}));
    assert!(told(&room, vec![(others, 4)]).is_empty());
    // How kinds stand to each other is not counted: no more may fit than is said.
    let bigger = json!({"containers": [{"resources": {"requests": {"cpu": "2"}}}]});
    let kinds = vec![
        (ask("train", "host", json!({})), 1),
        (ask("train", "host", bigger), 1),
    ];
    assert!(told(&room, kinds).is_empty());
}

#[test]
fn what_is_short_beside_is_told_first_where_keeping_apart_is_not_all() {
    let mut room = room(&["a", "b"]);
    for number in 0..2 {
        let held = Held {
            node: format!("node-{number}"),
            requests: serde_json::from_value(json!({"cpu": "3"})).unwrap(),
            holder: "ml/other".to_owned(),
            priority: 0,
            scheduler: "default".to_owned(),
        };
        room.pod(&number.to_string(), held);
    }
    let told = told(&room, vec![(ask("train", "host", json!({})), 3)]);
    assert!(
        told[0].starts_with("InsufficientResources: 2 of 3"),
        "{told:?}"
    );
    assert!(
        !told[0].contains("held by"),
        "nobody's room would help: {told:?}"
    );
}
