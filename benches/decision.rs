//! What a decision costs, from the request's bytes to the response's: parse, decide, patch, encode.
//!
//! `cargo bench --bench decision` prints times; `benches/README.md` has the ratios to serde_json's
//! bare parse of the same bytes, which is measured in the same run.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group};
use muster::admission::{self, Phase};
use muster::cli::admit;
use muster::gang::SchedulerKind;
use muster::scheduler::{Dialect, Snapshot};
use muster::workload::jobset::ChildRef;
use muster::workload::{Kind, jobset, pods};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

fn cluster() -> Snapshot {
    Snapshot::assumed(SchedulerKind::NATIVE, Dialect::V1_37)
}

/// The review as an apiserver writes it: Go's field order, `kind` before `object`.
fn review(kind: &'static Kind, object: &Value) -> Vec<u8> {
    let group_kind = json!({"group": kind.group, "version": "v1", "kind": kind.name});
    let resource = format!("{}s", kind.name.to_lowercase());
    let resource = json!({"group": kind.group, "version": "v1", "resource": resource});
    let user = json!({
        "username": "system:serviceaccount:kube-system:job-controller",
        "uid": "6b1f54a4-0c4b-4b0a-9a0c-5a7f3a3a8e51",
        "groups": ["system:serviceaccounts", "system:serviceaccounts:kube-system"],
    });
    format!(
        r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{{"uid":"705ab4f5-6393-11e8-b7cc-42010a800002","kind":{group_kind},"resource":{resource},"requestKind":{group_kind},"requestResource":{resource},"namespace":"ml","operation":"CREATE","userInfo":{user},"object":{object},"oldObject":null,"dryRun":false,"options":{{"kind":"CreateOptions","apiVersion":"meta.k8s.io/v1"}}}}}}"#
    )
    .into_bytes()
}

/// A container with `fields` environment variables and mounts, as training jobs have them.
fn container(index: usize, fields: usize) -> Value {
    let env: Vec<Value> = (0..fields)
        .map(|i| json!({"name": format!("TRAIN_OPTION_{i}"), "value": format!("value-{i}")}))
        .collect();
    json!({
        "name": format!("main-{index}"),
        "image": "registry.example/team/train:2026-11-16",
        "command": ["python3", "-m", "train", "--config", "/etc/train/config.yaml"],
        "env": env,
        "resources": {
            "requests": {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "8"},
            "limits": {"nvidia.com/gpu": "8", "memory": "64Gi"},
        },
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        "terminationMessagePath": "/dev/termination-log",
    })
}

fn jobset(groups: usize, containers: usize, fields: usize) -> Value {
    let groups: Vec<Value> = (0..groups)
        .map(|g| {
            let containers: Vec<Value> = (0..containers).map(|i| container(i, fields)).collect();
            json!({
                "name": format!("group-{g}"),
                "replicas": 4,
                "template": {"spec": {
                    "parallelism": 8,
                    "completions": 8,
                    "completionMode": "Indexed",
                    "template": {"spec": {
                        "restartPolicy": "OnFailure",
                        "nodeSelector": {"cloud.example/accelerator": "h100"},
                        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
                        "containers": containers,
                        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
                    }},
                }},
            })
        })
        .collect();
    json!({
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "train", "namespace": "ml", "labels": {"team": "research"}},
        "spec": {"gangConfig": {"gangMode": "Gang"}, "replicatedJobs": groups},
    })
}

/// A pod of that JobSet as it reaches the webhook without a link.
fn pod(jobset: &Value) -> Value {
    let cluster = cluster();
    let stored = admit::create(&jobset::KIND, jobset, &cluster).expect("admitted");
    assert!(stored.errors.is_empty(), "{:?}", stored.errors);
    let child = ChildRef {
        namespace: "ml",
        jobset: "train",
        uid: "8f2d2d52-3a0e-4d4f-9a44-6a4c4f6d3b7e",
        replicated_job: "group-0",
        index: 3,
        attempt: 1,
    };
    jobset::pod(&jobset::job(&stored.object, child).expect("a Job"))
}

/// A pod of the same shape that declares its gang itself.
fn declared(jobset: &Value) -> Value {
    let template = &jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"];
    json!({
        "metadata": {"name": "ring-0", "namespace": "ml", "labels": {"team": "research"},
            "annotations": {"muster.dev/gang-name": "ring", "muster.dev/min-count": "8"}},
        "spec": template["spec"],
    })
}

fn cases() -> Vec<(&'static str, Vec<u8>)> {
    let small = jobset(1, 1, 2);
    let typical = jobset(3, 2, 40);
    let large = jobset(4, 5, 50);
    vec![
        ("jobset/small", review(&jobset::KIND, &small)),
        ("jobset/typical", review(&jobset::KIND, &typical)),
        ("jobset/large", review(&jobset::KIND, &large)),
        ("pod/small", review(&pods::KIND, &pod(&small))),
        ("pod/typical", review(&pods::KIND, &pod(&jobset(1, 1, 90)))),
        (
            "pod/declared",
            review(&pods::KIND, &declared(&jobset(1, 1, 90))),
        ),
        ("pod/large", review(&pods::KIND, &pod(&jobset(1, 20, 50)))),
    ]
}

fn decisions(c: &mut Criterion) {
    let cluster = cluster();
    let mut group = c.benchmark_group("decision");
    for (name, body) in cases() {
        let answer = admission::answer(Phase::Mutate, &body, &cluster).expect("answered");
        assert_eq!(answer.record.outcome.as_str(), "patched", "{name}");
        let size = body.len() as u64;
        group.throughput(Throughput::Bytes(size));
        group.bench_with_input(BenchmarkId::new("muster", name), &body, |b, body| {
            b.iter(|| admission::answer(Phase::Mutate, black_box(body), &cluster).map(|a| a.body));
        });
        group.bench_with_input(BenchmarkId::new("bare-parse", name), &body, |b, body| {
            b.iter(|| serde_json::from_slice::<IgnoredAny>(black_box(body)));
        });
        group.bench_with_input(BenchmarkId::new("value-parse", name), &body, |b, body| {
            b.iter(|| serde_json::from_slice::<Value>(black_box(body)));
        });
    }
    group.finish();
}

/// Instead of times: does one thing so often and nothing else, for `benches/instructions.sh`,
/// which counts instructions. They say the same on a busy machine.
fn repeat(what: &str, case: &str, times: usize) {
    let cluster = cluster();
    let cases = cases();
    let body = cases.iter().find(|(name, _)| *name == case).map(|c| &c.1);
    let body = body.expect("a case");
    for _ in 0..times {
        if what == "muster" {
            let _ = black_box(admission::answer(Phase::Mutate, black_box(body), &cluster));
        } else {
            let _ = black_box(serde_json::from_slice::<IgnoredAny>(black_box(body)));
        }
    }
}

criterion_group!(benches, decisions);

fn main() {
    let repetition = std::env::var("MUSTER_BENCH_REPEAT").unwrap_or_default();
    if let [what, case, times] = repetition.split_whitespace().collect::<Vec<_>>()[..] {
        return repeat(what, case, times.parse().expect("a number"));
    }
    benches();
    Criterion::default().configure_from_args().final_summary();
}
