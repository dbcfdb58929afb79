//! Patches over generated JobSets and pods: they apply to what was sent, a second run is empty, and they
//! touch nothing but Muster's own keys.

use crate::common;

use muster::admission::{self, Decision, Phase, Review};
use muster::cli::admit;
use muster::gang::SchedulerKind;
use muster::scheduler::{Dialect, Snapshot};
use muster::workload::jobset::ChildRef;
use muster::workload::{Kind, job, jobset, pods};
use proptest::prelude::*;
use serde_json::{Value, json};

fn snapshots() -> impl Strategy<Value = Snapshot> {
    (
        prop::sample::select(vec![
            SchedulerKind::NATIVE,
            SchedulerKind::VOLCANO,
            SchedulerKind::COSCHEDULING,
        ]),
        prop::sample::select(Dialect::ALL.to_vec()),
    )
        .prop_map(|(kind, dialect)| Snapshot::assumed(kind, dialect))
}

/// Metadata as users write it: absent, null, empty, with keys that need escaping.
fn metadata() -> BoxedStrategy<Option<Value>> {
    let map = prop_oneof![
        Just(None),
        Just(Some(Value::Null)),
        Just(Some(json!({}))),
        Just(Some(
            json!({"team/a~b": "x", "plain": "\"quoted\" \\ \u{e9}"})
        )),
    ];
    prop_oneof![
        Just(None),
        Just(Some(Value::Null)),
        (map.clone(), map).prop_map(|(labels, annotations)| {
            let mut meta = json!({});
            if let Some(labels) = labels {
                meta["labels"] = labels;
            }
            if let Some(annotations) = annotations {
                meta["annotations"] = annotations;
            }
            Some(meta)
        }),
    ]
    .boxed()
}

fn with(mut object: Value, key: &str, value: Option<Value>) -> Value {
    if let Some(value) = value {
        object[key] = value;
    }
    object
}

fn group(index: usize) -> BoxedStrategy<Value> {
    let mode = prop_oneof![
        Just(None),
        Just(Some(json!({"gangMode": "Off"}))),
        Just(Some(json!({"gangMode": false}))),
        Just(Some(json!({"gangMode": "Gang"}))),
        Just(Some(json!({"gangMode": "ReplicatedGang"}))),
    ];
    let count = || prop_oneof![Just(None), (0..4i64).prop_map(|n| Some(json!(n)))];
    let scheduler_name = prop_oneof![4 => Just(None), 1 => Just(Some(json!("my-profile")))];
    (
        mode,
        (count(), count(), count()),
        (metadata(), metadata()),
        scheduler_name,
    )
        .prop_map(move |(mode, counts, metas, name)| {
            let pod = with(json!({"containers": []}), "schedulerName", name);
            let pods = with(json!({"spec": pod}), "metadata", metas.0);
            let spec = with(json!({"template": pods}), "parallelism", counts.0);
            let spec = with(spec, "completions", counts.1);
            let template = with(json!({"spec": spec}), "metadata", metas.1);
            let group = json!({"name": format!("group-{index}"), "template": template});
            with(with(group, "gangConfig", mode), "replicas", counts.2)
        })
        .prop_flat_map(|group| {
            // Parts that a user left out, which a patch must create.
            let cut = prop_oneof![
                6 => Just(""),
                1 => Just("/template"),
                1 => Just("/template/spec"),
                1 => Just("/template/spec/template"),
                1 => Just("/template/spec/template/spec"),
            ];
            (Just(group), cut, any::<bool>()).prop_map(|(mut group, path, null)| {
                if let Some((parent, key)) = path.rsplit_once('/') {
                    let parent = group.pointer_mut(parent).unwrap().as_object_mut().unwrap();
                    parent.remove(key);
                    if null {
                        parent.insert(key.to_owned(), Value::Null);
                    }
                }
                group
            })
        })
        .boxed()
}

fn jobset() -> impl Strategy<Value = Value> {
    let whole = prop_oneof![
        3 => Just(None),
        1 => Just(Some(json!({"gangMode": false}))),
        1 => Just(Some(json!({"gangMode": "Gang"}))),
    ];
    let groups = prop_oneof![
        (group(0),).prop_map(|(a,)| vec![a]),
        (group(0), group(1)).prop_map(|(a, b)| vec![a, b]),
        (group(0), group(1), group(2)).prop_map(|(a, b, c)| vec![a, b, c]),
    ];
    (whole, groups, metadata()).prop_map(|(whole, groups, meta)| {
        let mut metadata = meta.filter(Value::is_object).unwrap_or(json!({}));
        metadata["name"] = json!("train");
        let spec = with(json!({"replicatedJobs": groups}), "gangConfig", whole);
        json!({
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": metadata,
            "spec": spec,
        })
    })
}

/// A pod that declares its gang in Muster's words, in Koordinator's, or in both.
fn declaring() -> impl Strategy<Value = Value> {
    let own = |quorum: &u32| {
        vec![
            ("muster.dev/gang-name", "ring".to_owned()),
            ("muster.dev/min-count", quorum.to_string()),
        ]
    };
    let dialect = |quorum: &u32| {
        vec![
            ("gang.scheduling.koordinator.sh/name", "ring".to_owned()),
            (
                "gang.scheduling.koordinator.sh/min-available",
                quorum.to_string(),
            ),
        ]
    };
    let words = (1..5u32, 0..3u8).prop_map(move |(quorum, which)| match which {
        0 => own(&quorum),
        1 => dialect(&quorum),
        _ => [own(&quorum), dialect(&quorum)].concat(),
    });
    let more = prop::sample::subsequence(
        vec![
            ("muster.dev/queue", "gold"),
            ("muster.dev/timeout", "90s"),
            ("muster.dev/strictness", "NonStrict"),
            ("muster.dev/revision-label", "hash"),
            ("gang.scheduling.koordinator.sh/waiting-time", "2m"),
            ("gang.scheduling.koordinator.sh/mode", "Strict"),
            ("gang.scheduling.koordinator.sh/total-number", "9"),
            ("team/a~b", "\"quoted\""),
        ],
        0..4,
    );
    let labels = prop_oneof![
        Just(None),
        Just(Some(Value::Null)),
        Just(Some(json!({"app": "x", "hash": "5c5f"}))),
    ];
    let scheduler_name = prop_oneof![4 => Just(None), 1 => Just(Some(json!("my-profile")))];
    (words, more, labels, scheduler_name).prop_map(|(words, more, labels, name)| {
        let more = more.into_iter().map(|(key, value)| (key, value.to_owned()));
        let annotations: std::collections::BTreeMap<_, _> = words.into_iter().chain(more).collect();
        let requests = json!({"cpu": "500m"});
        let containers = json!([{"name": "main", "resources": {"requests": requests}}]);
        let meta = json!({"name": "ring-0", "namespace": "ml", "annotations": annotations});
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": with(meta, "labels", labels),
            "spec": with(json!({"containers": containers}), "schedulerName", name),
        })
    })
}

/// Every scheduler, in each of its ways.
fn schedulers() -> impl Strategy<Value = Snapshot> {
    let names = muster::scheduler::names().into_iter();
    let all: Vec<SchedulerKind> = names.map(|name| name.parse().unwrap()).collect();
    (
        prop::sample::select(all),
        prop::sample::select(Dialect::ALL.to_vec()),
    )
        .prop_map(|(kind, dialect)| Snapshot::assumed(kind, dialect))
}

fn review(kind: &'static Kind, object: &Value) -> Vec<u8> {
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "u",
            "kind": {"group": kind.group, "kind": kind.name},
            "namespace": "ml",
            "operation": "CREATE",
            "object": object,
        },
    })
    .to_string()
    .into_bytes()
}

/// Mutates once; `None` when the object is refused.
fn mutate(
    kind: &'static Kind,
    object: &Value,
    cluster: &Snapshot,
) -> Option<(Value, json_patch::Patch)> {
    let body = review(kind, object);
    let review = Review::parse(&body).unwrap();
    let Decision::Allow { patch, .. } = admission::decide(Phase::Mutate, &review, cluster)
        .unwrap()
        .decision
    else {
        return None;
    };
    let mut after = object.clone();
    json_patch::patch(&mut after, &patch).expect("the patch applies to what was sent");
    Some((after, patch))
}

fn assert_owned(patch: &json_patch::Patch) {
    for operation in &patch.0 {
        let path = operation.path().to_string();
        let last = path.rsplit('/').next().unwrap();
        let value = serde_json::to_value(operation).unwrap()["value"].take();
        let created = value == json!({}) && matches!(last, "template" | "spec");
        let owned = created
            || last.starts_with("muster.dev~1")
            || matches!(
                last,
                "metadata" | "labels" | "annotations" | "gangMode" | "schedulerName"
            )
            || matches!(last, "schedulingGroup" | "workloadRef")
            || matches!(
                last,
                "scheduling.k8s.io~1group-name" | "scheduling.x-k8s.io~1pod-group"
            );
        assert!(owned, "{path} is not Muster's to change");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_patched_jobset_is_patched_no_more(object in jobset(), cluster in snapshots()) {
        if let Some((after, patch)) = mutate(&jobset::KIND, &object, &cluster) {
            assert_owned(&patch);
            let (again, second) = mutate(&jobset::KIND, &after, &cluster).unwrap();
            prop_assert!(second.0.is_empty(), "{}", serde_json::to_string(&second).unwrap());
            prop_assert_eq!(again, after);
        }
    }

    #[test]
    fn an_admitted_jobset_passes_the_second_phase(object in jobset(), cluster in snapshots()) {
        if let Some((after, _)) = mutate(&jobset::KIND, &object, &cluster) {
            let body = review(&jobset::KIND, &after);
            let review = Review::parse(&body).unwrap();
            let decided = admission::decide(Phase::Validate, &review, &cluster).unwrap();
            let allowed = matches!(decided.decision, Decision::Allow { .. });
            prop_assert!(allowed, "{decided:?}");
        }
    }

    #[test]
    fn every_child_of_a_gang_is_linked_once(object in jobset(), cluster in snapshots()) {
        let Some((stored, _)) = mutate(&jobset::KIND, &object, &cluster) else { return Ok(()) };
        for group in stored["spec"]["replicatedJobs"].as_array().unwrap() {
            if group.pointer("/template/spec/template/spec").is_none_or(Value::is_null) {
                continue; // no Job can be made of it
            }
            let child = ChildRef {
                namespace: "ml",
                jobset: "train",
                uid: "2f0c",
                replicated_job: group["name"].as_str().unwrap(),
                index: 1,
                attempt: 2,
            };
            let job = jobset::job(&stored, child).unwrap();
            let (job, patch) = mutate(&job::KIND, &job, &cluster).unwrap();
            assert_owned(&patch);
            let (_, again) = mutate(&job::KIND, &job, &cluster).unwrap();
            prop_assert!(again.0.is_empty());
            let (pod, patch) = mutate(&pods::KIND, &jobset::pod(&job), &cluster).unwrap();
            assert_owned(&patch);
            let (_, again) = mutate(&pods::KIND, &pod, &cluster).unwrap();
            prop_assert!(again.0.is_empty());
            let stamped = !group["template"]["metadata"]["labels"]["muster.dev/gang"].is_null();
            let linked = !pod["metadata"]["labels"]["muster.dev/index"].is_null();
            prop_assert_eq!(stamped, linked);
            // The second phase agrees that the pod may start.
            let admitted = admit::create(&pods::KIND, &pod, &cluster).unwrap();
            prop_assert!(admitted.errors.is_empty(), "{:?}", admitted.errors);
        }
    }

    #[test]
    fn a_pod_that_declares_its_gang_is_linked_once(pod in declaring(), cluster in schedulers()) {
        let Some((after, patch)) = mutate(&pods::KIND, &pod, &cluster) else { return Ok(()) };
        for (key, value) in pod["metadata"]["annotations"].as_object().unwrap() {
            prop_assert_eq!(&after["metadata"]["annotations"][key], value, "the user's word");
        }
        let (again, second) = mutate(&pods::KIND, &after, &cluster).unwrap();
        prop_assert!(second.0.is_empty(), "{}", serde_json::to_string(&second).unwrap());
        prop_assert_eq!(&again, &after);
        let admitted = admit::create(&pods::KIND, &after, &cluster).unwrap();
        prop_assert!(admitted.errors.is_empty(), "{:?}", admitted.errors);
        prop_assert!(!patch.0.is_empty() || after["spec"]["schedulerName"].is_string());
    }

    #[test]
    fn no_body_makes_it_panic(body in ".{0,200}", cluster in snapshots()) {
        let _ = admission::answer(Phase::Mutate, body.as_bytes(), &cluster);
    }

    #[test]
    fn no_truncation_makes_it_panic(object in jobset(), cut in 0..2000usize) {
        let body = review(&jobset::KIND, &object);
        let cut = cut.min(body.len() - 1);
        let answer = admission::answer(Phase::Validate, &body[..cut], &common::cluster());
        prop_assert_eq!(answer.err().map(|e| e.status()), Some(400));
    }
}
