//! The wire: what comes in as an AdmissionReview and goes out as one.

use crate::common;

use common::cluster;
use muster::admission::{self, Outcome, Phase};
use serde_json::{Value, json};

fn review(request: Value) -> Value {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
}

fn create(kind: (&str, &str), object: Value) -> Value {
    review(json!({
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": kind.0, "version": "v1", "kind": kind.1},
        "name": "train",
        "namespace": "ml",
        "operation": "CREATE",
        "userInfo": {"username": "alice"},
        "object": object,
        "dryRun": false,
    }))
}

fn answer(phase: Phase, body: &Value) -> Value {
    let answer = admission::answer(phase, body.to_string().as_bytes(), &cluster()).unwrap();
    serde_json::from_slice(&answer.body).unwrap()
}

fn jobset(spec: Value) -> Value {
    create(
        ("jobset.x-k8s.io", "JobSet"),
        json!({"metadata": {"name": "train"}, "spec": spec}),
    )
}

/// What the apiserver checks of an answer before it uses it (`webhook/request/admissionreview.go`).
fn verify(answer: &Value) {
    assert_eq!(answer["apiVersion"], "admission.k8s.io/v1");
    assert_eq!(answer["kind"], "AdmissionReview");
    let response = &answer["response"];
    assert_eq!(response["uid"], "705ab4f5-6393-11e8-b7cc-42010a800002");
    assert!(response["allowed"].is_boolean());
    assert_eq!(response["patch"].is_null(), response["patchType"].is_null());
}

#[test]
fn a_gang_is_answered_with_a_base64_patch() {
    let body = jobset(json!({
        "gangConfig": {"gangMode": "Gang"},
        "replicatedJobs": [{"name": "workers", "template": {"spec": {"parallelism": 4}}}],
    }));
    let answer = answer(Phase::Mutate, &body);
    verify(&answer);
    assert_eq!(answer["response"]["allowed"], true);
    assert_eq!(answer["response"]["patchType"], "JSONPatch");
    assert!(answer["response"]["patch"].is_string());
}

#[test]
fn the_second_phase_never_patches() {
    let body = jobset(json!({
        "gangConfig": {"gangMode": false},
        "replicatedJobs": [{"name": "workers", "template": {"spec": {}}}],
    }));
    let answer = answer(Phase::Validate, &body);
    verify(&answer);
    assert!(answer["response"]["patch"].is_null());
}

#[test]
fn a_refusal_is_the_422_status_of_kubernetes_with_every_cause() {
    let body = jobset(json!({
        "gangConfig": {"gangMode": "Gnag"},
        "replicatedJobs": [
            {"name": "workers", "gangConfig": {"gangMode": "Gagn"}, "template": {"spec": {}}}
        ],
    }));
    for phase in [Phase::Mutate, Phase::Validate] {
        let answer = answer(phase, &body);
        verify(&answer);
        insta::assert_json_snapshot!("refusal", answer["response"]);
    }
}

#[test]
fn without_a_gang_the_answer_is_an_empty_yes() {
    for (kind, object) in [
        (("jobset.x-k8s.io", "JobSet"), json!({"spec": {}})),
        (
            ("batch", "Job"),
            json!({"metadata": {"labels": {"a": "b"}}, "spec": {}}),
        ),
        (("", "Pod"), json!({"metadata": null, "spec": null})),
    ] {
        for phase in [Phase::Mutate, Phase::Validate] {
            let answer = answer(phase, &create(kind, object.clone()));
            verify(&answer);
            assert_eq!(
                answer["response"],
                json!({"uid": "705ab4f5-6393-11e8-b7cc-42010a800002", "allowed": true})
            );
        }
    }
}

#[test]
fn the_order_of_the_request_does_not_matter() {
    let text = r#"{"request":{"oldObject":null,"object":{"spec":{"gangConfig":{"gangMode":"Gang"},
        "replicatedJobs":[{"name":"w","template":{"spec":{"parallelism":4}}}]},"metadata":{"name":"x"}},
        "operation":"CREATE","namespace":"ml","kind":{"kind":"JobSet","group":"jobset.x-k8s.io"},
        "uid":"u"},"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}"#;
    let answer = admission::answer(Phase::Mutate, text.as_bytes(), &cluster()).unwrap();
    assert_eq!(answer.record.outcome, Outcome::Patched);
    assert_eq!(answer.record.gang, "all");
    assert_eq!(answer.record.name, "x");
}

#[test]
fn what_is_no_review_is_the_callers_mistake() {
    let unknown = create(("apps", "ControllerRevision"), json!({}));
    let mut no_uid = jobset(json!({}));
    no_uid["request"]["uid"] = json!("");
    let mut no_operation = jobset(json!({}));
    no_operation["request"]["operation"] = Value::Null;
    let mut old = jobset(json!({}));
    old["apiVersion"] = json!("admission.k8s.io/v1beta1");
    let cases = [
        ("broken", "{".to_owned()),
        ("empty", String::new()),
        ("a list", "[]".to_owned()),
        ("null", "null".to_owned()),
        ("no request", review(Value::Null).to_string()),
        ("an unknown kind", unknown.to_string()),
        ("no uid", no_uid.to_string()),
        ("no operation", no_operation.to_string()),
        ("another version", old.to_string()),
        ("trailing text", jobset(json!({})).to_string() + "x"),
    ];
    let shown: String = cases
        .iter()
        .map(|(name, body)| {
            let error = admission::answer(Phase::Mutate, body.as_bytes(), &cluster()).unwrap_err();
            format!("{name}: {} {error}\n", error.status())
        })
        .collect();
    insta::assert_snapshot!("unanswerable", shown);
}

#[test]
fn a_deletion_is_never_held_up() {
    let broken = json!({"gangConfig": {"gangMode": "Gnag"}});
    let mut delete = jobset(broken.clone());
    delete["request"]["operation"] = json!("DELETE");
    delete["request"]["oldObject"] = delete["request"]["object"].take();
    let mut finalizer = jobset(broken.clone());
    finalizer["request"]["operation"] = json!("UPDATE");
    finalizer["request"]["oldObject"] = finalizer["request"]["object"].clone();
    finalizer["request"]["object"]["spec"] = json!({});
    finalizer["request"]["object"]["metadata"]["deletionTimestamp"] = json!("2026-11-16T00:00:00Z");
    let mut status = jobset(broken);
    status["request"]["subResource"] = json!("status");
    for body in [delete, finalizer, status] {
        let answer = answer(Phase::Validate, &body);
        assert_eq!(answer["response"]["allowed"], true, "{body}");
    }
}

#[test]
fn an_object_that_does_not_fit_its_schema_is_refused_only_after_the_schema() {
    let body = jobset(json!({
        "gangConfig": {"gangMode": "Gang"},
        "replicatedJobs": [{"name": "workers", "replicas": "two"}],
    }));
    assert_eq!(answer(Phase::Mutate, &body)["response"]["allowed"], true);
    let refused = answer(Phase::Validate, &body);
    assert_eq!(refused["response"]["allowed"], false);
    assert_eq!(
        refused["response"]["status"]["details"]["causes"][0]["field"],
        "spec.replicatedJobs[0].replicas"
    );
}
