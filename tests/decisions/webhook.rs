//! The whole webhook: real reviews over real TLS sockets, HTTP/1.1 and HTTP/2, answered by the real
//! rules.

use crate::common;
use crate::support;

use std::sync::Arc;

use base64::Engine as _;
use hyper::StatusCode;
use muster::admission;
use muster::server::Handler;
use serde_json::{Value, json};
use support::client::{Http1, Http2, Reply, metric, review};
use support::{config, start, within};

fn handler() -> Handler {
    let cluster = common::cluster();
    Arc::new(move |phase, body| admission::answer(phase, body, &cluster))
}

fn body(fixture: &str) -> (Value, String) {
    let path = common::fixtures("rules").join(format!("{fixture}.yaml"));
    let object = common::documents(&std::fs::read_to_string(path).unwrap()).remove(0);
    let review = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": format!("uid-of-{fixture}"),
            "kind": {"group": "jobset.x-k8s.io", "version": "v1alpha2", "kind": "JobSet"},
            "namespace": "ml",
            "operation": "CREATE",
            "object": object,
        },
    });
    (object, review.to_string())
}

fn response(reply: &Reply) -> Value {
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
    serde_json::from_str::<Value>(&reply.text).unwrap()["response"].take()
}

#[tokio::test]
async fn a_jobset_is_stamped_over_http1_and_validated_over_http2() {
    let server = start(config(), handler()).await;
    let (mut object, sent) = body("accepted-job-replicas");
    let mut http1 = Http1::connect(&server).await;
    let reply = within(5, http1.send(review("/mutate?timeout=5s", sent))).await;
    let stamped = response(&reply.unwrap());
    assert_eq!(stamped["uid"], "uid-of-accepted-job-replicas");
    let patch = base64::engine::general_purpose::STANDARD
        .decode(stamped["patch"].as_str().unwrap())
        .unwrap();
    let patch: json_patch::Patch = serde_json::from_slice(&patch).unwrap();
    json_patch::patch(&mut object, &patch).unwrap();
    assert_eq!(
        object["spec"]["replicatedJobs"][0]["template"]["metadata"]["labels"]["muster.dev/gang"],
        "workers"
    );
    let mut review_of_result: Value =
        serde_json::from_str(&body("accepted-job-replicas").1).unwrap();
    review_of_result["request"]["object"] = object;
    let http2 = Http2::connect(&server).await;
    let sent = review_of_result.to_string();
    let reply = within(5, http2.send(review("/validate", sent))).await;
    assert_eq!(response(&reply.unwrap())["allowed"], true);
    let series =
        r#"muster_admission_requests_total{operation="CREATE",kind="JobSet",outcome="patched"}"#;
    assert_eq!(metric(server.admin, series).await, 1.0);
}

#[tokio::test]
async fn a_refusal_is_a_200_with_every_cause_and_a_mistake_of_the_caller_is_a_400() {
    let server = start(config(), handler()).await;
    let mut http1 = Http1::connect(&server).await;
    let reply = within(5, http1.send(review("/validate", body("both-levels").1))).await;
    let refused = response(&reply.unwrap());
    assert_eq!(refused["allowed"], false);
    assert_eq!(refused["status"]["code"], 422);
    let causes = refused["status"]["details"]["causes"].as_array().unwrap();
    assert_eq!(causes.len(), 2);
    for wrong in ["{", "[]", "{\"kind\":\"AdmissionReview\"}"] {
        let reply = within(5, http1.send(review("/mutate", wrong)))
            .await
            .unwrap();
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{wrong}");
        assert!(!reply.text.is_empty());
    }
}

/// Serde would read the list as the object's fields; the patch would then not apply to the list, which
/// was a mistake of Muster's, HTTP 500, where the user's should be told.
#[tokio::test]
async fn a_list_in_the_place_of_an_object_is_refused_as_such() {
    let server = start(config(), handler()).await;
    let mut http1 = Http1::connect(&server).await;
    let (object, _) = body("accepted-job-replicas");
    for (path, list) in [
        ("/spec/replicatedJobs/0", json!(["x"])),
        ("/spec/replicatedJobs/0/template", json!([{}])),
        ("/spec/replicatedJobs/0/template/metadata", json!(["x"])),
        ("/spec/replicatedJobs/0/template/spec/template", json!([])),
    ] {
        for barrier in [None, Some("60s")] {
            let mut object = object.clone();
            object["spec"]["replicatedJobs"][0]["template"]["metadata"] = json!({});
            let barrier = barrier.map_or(Value::Null, Value::from);
            object["metadata"]["annotations"]["muster.dev/start-barrier"] = barrier;
            *object.pointer_mut(path).unwrap() = list.clone();
            let sent = json!({
                "apiVersion": "admission.k8s.io/v1",
                "kind": "AdmissionReview",
                "request": {
                    "uid": "u",
                    "kind": {"group": "jobset.x-k8s.io", "version": "v1alpha2", "kind": "JobSet"},
                    "namespace": "ml",
                    "operation": "CREATE",
                    "object": object,
                },
            });
            let mut ask = async |phase: &str| {
                let sent = review(&format!("/{phase}?timeout=5s"), sent.to_string());
                response(&within(5, http1.send(sent)).await.unwrap())
            };
            // The schema of a custom resource is checked between the two.
            let mutated = ask("mutate").await;
            assert_eq!(
                (&mutated["allowed"], &mutated["patch"]),
                (&json!(true), &Value::Null)
            );
            let validated = ask("validate").await;
            assert_eq!(validated["allowed"], false, "{path}");
            let said = validated["status"]["message"].as_str().unwrap();
            assert!(
                said.contains("replicatedJobs[0]")
                    && said.contains("expected an object, got sequence"),
                "{said}"
            );
        }
    }
}
