//! What a made-up child can have Muster ask, say and keep: a question is for something that can be a
//! workload, and no text of a stranger comes back or goes on at full length.

use crate::common;
use crate::support;

use std::sync::Arc;

use arc_swap::ArcSwap;
use common::{Kind, Phase, Snapshot, admission, pods};
use muster::admission::Unanswerable;
use muster::gang::{SchedulerKind, Seals, Vouched};
use muster::scheduler::Dialect;
use muster::seals::{Keeper, SECRET};
use serde_json::{Value, json};
use support::apiserver::{Apiserver, Objects};

const LARGE: usize = 6_900_000;

/// The longest response to any body.
const MOST: usize = 3 << 20;

fn cluster() -> Snapshot {
    Snapshot {
        seals: Arc::new(Seals::new(&[1; 32], &[])),
        vouched: Vouched::Asked(Arc::default()),
        ..Snapshot::assumed(SchedulerKind::VOLCANO, Dialect::V1_37)
    }
}

fn review(kind: &Kind, namespace: &str, object: &Value) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "u",
            "kind": {"group": kind.group, "kind": kind.name},
            "namespace": namespace,
            "operation": "CREATE",
            "object": object,
        },
    })
}

/// A pod with a stamp of its own, dressed as one of that workload.
fn dressed(workload: &str) -> Value {
    json!({
        "metadata": {
            "name": "serve-7",
            "labels": {
                "muster.dev/gang": "replica",
                "leaderworkerset.sigs.k8s.io/name": workload,
            },
            "annotations": {
                "muster.dev/stamp":
                    r#"{"scheduler":"volcano","level":"Replica","size":1,"quorum":1}"#,
            },
        },
        "spec": {"containers": [{"name": "main"}]},
    })
}

/// The apiserver validates labels only after the first phase.
#[test]
fn a_name_that_no_workload_can_have_is_refused_and_nobody_is_asked() {
    let names = [
        ("ml", "?watch=true"),
        ("ml", "?limit=500"),
        ("ml", "serve?x=1"),
        ("ml", "serve/status"),
        ("ml", "../../../../../../api/v1/pods"),
        ("ml", "serve#x"),
        ("ml", "a b"),
        ("ml", ""),
        ("ml/leaderworkersets?x=", "serve"),
        ("", "serve"),
    ];
    let mut asked = Vec::new();
    for (namespace, name) in names {
        let body = review(&pods::KIND, namespace, &dressed(name)).to_string();
        let answer = admission::answer(Phase::Mutate, body.as_bytes(), &cluster());
        if let Err(Unanswerable::StampNotKnown(carrier)) = answer {
            asked.push(carrier.workload.to_string());
        }
    }
    assert!(asked.is_empty(), "asked for {asked:?}");
}

#[test]
fn what_is_said_of_a_review_does_not_grow_with_the_texts_in_it() {
    let long = "x".repeat(LARGE);
    let with = |key: &str, value: Value| {
        let mut review = review(&pods::KIND, "ml", &dressed("serve"));
        review["request"][key] = value;
        review
    };
    let cases = [
        ("workload", review(&pods::KIND, "ml", &dressed(&long))),
        ("namespace", review(&pods::KIND, &long, &dressed("serve"))),
        ("kind", with("kind", json!({"group": "", "kind": long}))),
        ("operation", with("operation", json!(long))),
        ("uid", with("uid", json!(long))),
    ];
    let mut over = Vec::new();
    for (what, review) in cases {
        let body = review.to_string();
        let nobody = Snapshot {
            vouched: Vouched::Nobody,
            ..cluster()
        };
        for cluster in [cluster(), nobody] {
            // The text of an error is the response, and a line of the log.
            let said = match admission::answer(Phase::Mutate, body.as_bytes(), &cluster) {
                Ok(answer) => answer.body.len(),
                Err(error) => error.to_string().len(),
            };
            if said > MOST {
                over.push((what, said));
            }
        }
    }
    assert!(over.is_empty(), "of {LARGE} bytes, said {over:?}");
}

#[tokio::test]
async fn a_key_whose_date_cannot_be_is_no_reason_to_stop() {
    let mut objects = Objects::default();
    let path = format!("/api/v1/namespaces/muster-system/secrets/{SECRET}");
    let key = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": SECRET, "namespace": "muster-system"},
        "data": {(format!("{}.key", u64::MAX)): key},
    });
    objects.put(&path, secret);
    let (server, client) = Apiserver::start(objects, Box::new(|_, _, _| {})).await;
    for _ in 0..3 {
        let cluster = Arc::new(ArcSwap::from_pointee(cluster()));
        let opened = Keeper::open(client.clone(), "muster-system", cluster).await;
        assert!(opened.is_ok(), "{:?}", opened.err());
    }
    // One key is made in its place, and not another at each look.
    let objects = server.objects.lock().expect("unpoisoned");
    let kept = objects.get(&path).and_then(|o| o["data"].as_object());
    assert!(kept.is_some_and(|data| data.len() <= 2), "{kept:?}");
}
