//! Jobs and pods of a gang: linked at the highest object that keeps the link, from what they carry
//! alone.

use crate::common;

use common::{decide, mutated};
use muster::admission::{Decision, Phase};
use muster::cli::admit;
use muster::gang::SchedulerKind;
use muster::scheduler::{Dialect, JobTemplates, Snapshot};
use muster::workload::jobset::ChildRef;
use muster::workload::{Kind, job, jobset, pods};
use serde_json::{Value, json};

fn native(dialect: Dialect) -> Snapshot {
    Snapshot::assumed(SchedulerKind::NATIVE, dialect)
}

fn coscheduling() -> Snapshot {
    Snapshot::assumed(SchedulerKind::COSCHEDULING, Dialect::V1_37)
}

/// A stored JobSet with one gang per Job replica.
fn stored(cluster: &Snapshot) -> Value {
    let text = std::fs::read_to_string(common::fixtures("rules/accepted-job-replicas.yaml"));
    let jobset = &common::documents(&text.unwrap())[0];
    let admitted = admit::create(&jobset::KIND, jobset, cluster).unwrap();
    assert!(admitted.errors.is_empty(), "{:?}", admitted.errors);
    admitted.object
}

fn job(jobset: &Value, index: u32, attempt: u32) -> Value {
    let child = ChildRef {
        namespace: "ml",
        jobset: "train",
        uid: "9d3f",
        replicated_job: "workers",
        index,
        attempt,
    };
    jobset::job(jobset, child).unwrap()
}

fn group_of(pod: &Value) -> Option<&str> {
    pod["spec"]["schedulingGroup"]["podGroupName"].as_str()
}

#[test]
fn replicas_and_attempts_get_gangs_of_their_own() {
    let cluster = native(Dialect::V1_37);
    let jobset = stored(&cluster);
    let mut names = std::collections::BTreeSet::new();
    for (index, attempt) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
        let linked = mutated(&job::KIND, None, &job(&jobset, index, attempt), &cluster);
        let name = group_of(&linked["spec"]["template"]).unwrap().to_owned();
        assert!(names.insert(name), "two gangs under one name");
    }
}

#[test]
fn a_child_follows_its_stamp_and_not_the_configuration() {
    let by_object = Snapshot::assumed(SchedulerKind::KOORDINATOR, Dialect::V1_37);
    let by_annotations = by_object
        .clone()
        .with_variant(SchedulerKind::KOORDINATOR, "annotations");
    let name = "gang.scheduling.koordinator.sh/name";
    let linked = |stamped: &Snapshot, now: &Snapshot| {
        let job = mutated(&job::KIND, None, &job(&stored(stamped), 0, 0), now);
        job["spec"]["template"]["metadata"]["annotations"][name].is_string()
    };
    assert!(linked(&by_annotations, &by_object));
    assert!(!linked(&by_object, &by_annotations));
}

/// Koordinator waits for ever when the gangs of a bundle do not name the same group.
#[test]
fn every_gang_of_a_bundle_names_the_same_group_and_itself() {
    let cluster = Snapshot::assumed(SchedulerKind::KOORDINATOR, Dialect::V1_37)
        .with_variant(SchedulerKind::KOORDINATOR, "annotations");
    let text = std::fs::read_to_string(common::fixtures("rules/bundle-on-koordinator.yaml"));
    let jobset = &common::documents(&text.unwrap())[0];
    let jobset = admit::create(&jobset::KIND, jobset, &cluster)
        .unwrap()
        .object;
    let mut groups = std::collections::BTreeSet::new();
    for (replicated_job, index, own) in
        [("driver", 0, "0"), ("workers", 0, "0"), ("workers", 1, "2")]
    {
        let child = ChildRef {
            namespace: "ml",
            jobset: "train",
            uid: "9d3f",
            replicated_job,
            index,
            attempt: 1,
        };
        let mut job = jobset::job(&jobset, child).unwrap();
        job["metadata"]["labels"]["jobset.sigs.k8s.io/job-restart-attempt"] = json!(own);
        let job = mutated(&job::KIND, None, &job, &cluster);
        let annotations = &job["spec"]["template"]["metadata"]["annotations"];
        let named = |key: &str| {
            let key = format!("gang.scheduling.koordinator.sh/{key}");
            annotations[&key].as_str().unwrap().to_owned()
        };
        let group: Vec<String> = serde_json::from_str(&named("groups")).unwrap();
        assert_eq!(group.len(), 3);
        assert!(
            group.contains(&format!("ml/{}", named("name"))),
            "{group:?}"
        );
        groups.insert(group);
    }
    assert_eq!(groups.len(), 1);
}

/// A pod of the bundle's driver, as YuniKorn's pods arrive: with what Kueue added on the way.
fn yunikorn_pod(cluster: &Snapshot) -> Value {
    let text = std::fs::read_to_string(common::fixtures("rules/bundle-on-yunikorn.yaml"));
    let jobset = &common::documents(&text.unwrap())[0];
    let jobset = admit::create(&jobset::KIND, jobset, cluster)
        .unwrap()
        .object;
    let child = ChildRef {
        namespace: "ml",
        jobset: "train",
        uid: "9d3f",
        replicated_job: "driver",
        index: 0,
        attempt: 0,
    };
    let job = jobset::job(&jobset, child).unwrap();
    let linked = mutated(&job::KIND, None, &job, cluster);
    assert_eq!(linked, job, "the link waits for the pod");
    let mut pod = jobset::pod(&linked);
    pod["spec"]["nodeSelector"]["flavor"] = json!("spot");
    pod["spec"]["initContainers"] =
        json!([{"name": "fetch", "resources": {"requests": {"cpu": "3"}}}]);
    pod
}

#[test]
fn a_task_group_of_yunikorn_describes_the_pod_as_it_arrives_and_the_others_as_stamped() {
    let cluster = Snapshot::assumed(SchedulerKind::YUNIKORN, Dialect::V1_37);
    let pod = mutated(&pods::KIND, None, &yunikorn_pod(&cluster), &cluster);
    let annotations = &pod["metadata"]["annotations"];
    assert_eq!(annotations["yunikorn.apache.org/task-group-name"], "driver");
    let groups = annotations["yunikorn.apache.org/task-groups"].as_str();
    let groups: Value = serde_json::from_str(groups.unwrap()).unwrap();
    let expected = json!([
        {
            "name": "driver",
            "minMember": 2,
            "minResource": {"cpu": "3", "memory": "2Gi"},
            "nodeSelector": {"pool": "a", "flavor": "spot"},
            "tolerations": [{"key": "gpu", "operator": "Exists"}],
        },
        {
            "name": "workers",
            "minMember": 8,
            "minResource": {"cpu": "1", "memory": "2Gi"},
        },
    ]);
    assert_eq!(groups, expected);
}

#[test]
fn a_webhook_that_changes_a_yunikorn_pod_later_is_followed_and_one_that_drops_its_id_is_refused() {
    let cluster = Snapshot::assumed(SchedulerKind::YUNIKORN, Dialect::V1_37);
    let mut pod = mutated(&pods::KIND, None, &yunikorn_pod(&cluster), &cluster);
    assert_eq!(mutated(&pods::KIND, None, &pod, &cluster), pod);
    pod["spec"]["nodeSelector"]["zone"] = json!("b");
    let allowed = decide(Phase::Validate, &pods::KIND, None, &pod, &cluster);
    assert!(matches!(allowed, Decision::Allow { .. }));
    let again = mutated(&pods::KIND, None, &pod, &cluster);
    let groups = &again["metadata"]["annotations"]["yunikorn.apache.org/task-groups"];
    assert!(groups.as_str().unwrap().contains(r#""zone":"b""#));
    let labels = pod["metadata"]["labels"].as_object_mut().unwrap();
    labels.remove("yunikorn.apache.org/app-id").unwrap();
    let refused = decide(Phase::Validate, &pods::KIND, None, &pod, &cluster);
    assert!(matches!(refused, Decision::Deny { .. }));
}

#[test]
fn a_single_job_that_restarts_gets_a_new_gang() {
    let cluster = native(Dialect::V1_37);
    let jobset = stored(&cluster);
    let first = mutated(&job::KIND, None, &job(&jobset, 0, 0), &cluster);
    let mut again = job(&jobset, 0, 0);
    again["metadata"]["labels"]["jobset.sigs.k8s.io/job-restart-attempt"] = json!("1");
    let again = mutated(&job::KIND, None, &again, &cluster);
    assert_ne!(
        group_of(&first["spec"]["template"]),
        group_of(&again["spec"]["template"])
    );
}

#[test]
fn a_linked_job_makes_pods_that_need_no_call() {
    let cluster = native(Dialect::V1_37);
    let linked = mutated(&job::KIND, None, &job(&stored(&cluster), 0, 0), &cluster);
    let pod = jobset::pod(&linked);
    assert_eq!(pod["metadata"]["labels"]["muster.dev/index"], "0");
    assert_eq!(mutated(&pods::KIND, None, &pod, &cluster), pod);
}

#[test]
fn where_a_template_loses_the_link_the_pod_gets_it() {
    let old_jobset = Snapshot {
        job_templates: JobTemplates::LoseLinks,
        ..native(Dialect::V1_37)
    };
    for (cluster, field) in [
        (native(Dialect::V1_35), "workloadRef"),
        (old_jobset, "schedulingGroup"),
    ] {
        let job = job(&stored(&cluster), 1, 0);
        let same = mutated(&job::KIND, None, &job, &cluster);
        assert_eq!(same, job, "the Job is left as it is");
        let pod = mutated(&pods::KIND, None, &jobset::pod(&job), &cluster);
        assert!(!pod["spec"][field].is_null(), "{field}");
    }
}

#[test]
fn a_resumed_job_is_linked_to_its_new_round() {
    let cluster = coscheduling();
    let label = "scheduling.x-k8s.io/pod-group";
    let linked = mutated(&job::KIND, None, &job(&stored(&cluster), 0, 0), &cluster);
    let before = &linked["spec"]["template"]["metadata"]["labels"][label];
    let mut suspended = linked.clone();
    suspended["spec"]["suspend"] = json!(true);
    // JobSet merges its template's annotations into the Job that it resumes.
    let mut resumed = suspended.clone();
    resumed["spec"]["suspend"] = json!(false);
    resumed["spec"]["template"]["metadata"]["annotations"]["muster.dev/round"] = json!("1");
    let relinked = mutated(&job::KIND, Some(&suspended), &resumed, &cluster);
    let after = &relinked["spec"]["template"]["metadata"]["labels"][label];
    assert!(after.is_string());
    assert_ne!(before, after);
    let again = mutated(&job::KIND, Some(&suspended), &relinked, &cluster);
    assert_eq!(again, relinked);
}

#[test]
fn a_resumed_native_job_keeps_the_link_that_its_template_cannot_change() {
    let cluster = native(Dialect::V1_37);
    let mut suspended = mutated(&job::KIND, None, &job(&stored(&cluster), 0, 0), &cluster);
    suspended["spec"]["suspend"] = json!(true);
    let mut resumed = suspended.clone();
    resumed["spec"]["suspend"] = json!(false);
    resumed["spec"]["template"]["metadata"]["annotations"]["muster.dev/round"] = json!("1");
    let after = mutated(&job::KIND, Some(&suspended), &resumed, &cluster);
    assert_eq!(after, resumed);
}

#[test]
fn a_pod_that_lost_its_link_does_not_start_alone() {
    let cluster = native(Dialect::V1_37);
    let unseen = jobset::pod(&job(&stored(&cluster), 0, 0));
    let mut dropped = mutated(&pods::KIND, None, &unseen, &cluster);
    let spec = dropped["spec"].as_object_mut().unwrap();
    assert!(spec.remove("schedulingGroup").is_some());
    let shown = |pod: &Value| refused(Phase::Validate, &pods::KIND, pod, &cluster);
    insta::assert_snapshot!(shown(&dropped), @"spec.schedulingGroup: Required value: the apiserver dropped the pod's link to its gang: it runs without the feature gate GenericWorkload, and the pod would start without the others");
    // The apiserver is not blamed for a webhook that it does not know.
    insta::assert_snapshot!(shown(&unseen), @"spec.schedulingGroup: Required value: Muster's mutating webhook was not called for the pod, which would start without the others: look whether its MutatingWebhookConfiguration exists and selects the pod");
}

/// What a refusal says.
fn refused(phase: Phase, kind: &'static Kind, object: &Value, cluster: &Snapshot) -> String {
    let Decision::Deny { errors, .. } = decide(phase, kind, None, object, cluster) else {
        panic!("admitted");
    };
    let shown: Vec<String> = errors.iter().map(ToString::to_string).collect();
    shown.join("\n")
}

#[test]
fn a_member_that_is_linked_elsewhere_is_refused_since_its_gang_would_wait_for_it() {
    let cluster = native(Dialect::V1_37);
    let mut theirs = job(&stored(&cluster), 0, 0);
    theirs["spec"]["template"]["spec"]["schedulingGroup"] = json!({"podGroupName": "theirs"});
    let shown = refused(Phase::Mutate, &job::KIND, &theirs, &cluster);
    insta::assert_snapshot!(shown, @"spec.template.spec.schedulingGroup: Forbidden: the pod belongs to the gang train-workers-0-0-dsl9h9hwpj, which would wait for it; remove this link, or ask for no gang on the workload");
    let mut pod = jobset::pod(&job(&stored(&cluster), 0, 0));
    pod["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] = json!("theirs");
    for phase in [Phase::Mutate, Phase::Validate] {
        let shown = refused(phase, &pods::KIND, &pod, &cluster);
        assert!(shown.starts_with("metadata.labels[scheduling.x-k8s.io/pod-group]: Forbidden"));
    }
}

#[test]
fn a_member_that_another_scheduler_would_bind_is_refused() {
    let cluster = Snapshot::assumed(SchedulerKind::VOLCANO, Dialect::V1_37);
    let job = mutated(&job::KIND, None, &job(&stored(&cluster), 0, 0), &cluster);
    let mut pod = jobset::pod(&job);
    assert_eq!(pod["spec"]["schedulerName"], "volcano");
    pod["spec"]["schedulerName"] = json!("default-scheduler");
    let shown = refused(Phase::Validate, &pods::KIND, &pod, &cluster);
    assert!(
        shown.starts_with("spec.schedulerName: Invalid value"),
        "{shown}"
    );
    assert!(!shown.contains("YuniKorn"), "{shown}");
    pod["spec"]["schedulerName"] = json!("yunikorn");
    let shown = refused(Phase::Validate, &pods::KIND, &pod, &cluster);
    let hint = "namespace.enableYuniKorn: \"false\"";
    assert!(shown.ends_with(hint), "{shown}");
    pod["spec"]["schedulerName"] = json!("volcano");
    pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = json!("wrong");
    let shown = refused(Phase::Validate, &pods::KIND, &pod, &cluster);
    assert!(shown.contains("group-name"), "{shown}");
}

#[test]
fn a_replica_that_restarts_alone_stays_with_what_it_shares() {
    let mut bundle =
        common::documents(&std::fs::read_to_string(common::fixtures("rules/bundle.yaml")).unwrap())
            .remove(0);
    bundle["metadata"]["annotations"]["muster.dev/scheduler"] = json!("volcano");
    let volcano = native(Dialect::V1_37);
    let stored_bundle = admit::create(&jobset::KIND, &bundle, &volcano)
        .unwrap()
        .object;
    let old = native(Dialect::V1_35);
    for (jobset, cluster, path) in [
        (
            stored_bundle,
            volcano,
            "/metadata/annotations/scheduling.k8s.io~1group-name",
        ),
        (stored(&old), old, "/spec/workloadRef/name"),
    ] {
        let first = jobset::pod(&job(&jobset, 0, 0));
        let mut again = first.clone();
        again["metadata"]["labels"]["jobset.sigs.k8s.io/job-restart-attempt"] = json!("1");
        let linked = |pod| {
            mutated(&pods::KIND, None, pod, &cluster)
                .pointer(path)
                .cloned()
        };
        assert!(linked(&first).is_some(), "{path}");
        assert_eq!(linked(&first), linked(&again));
    }
}

#[test]
fn a_child_without_identity_is_refused_with_what_is_missing() {
    let cluster = native(Dialect::V1_37);
    let mut job = job(&stored(&cluster), 0, 0);
    let labels = job["metadata"]["labels"].as_object_mut().unwrap();
    labels.remove("jobset.sigs.k8s.io/jobset-uid");
    labels.insert("jobset.sigs.k8s.io/job-index".into(), json!("one"));
    let Decision::Deny { errors, .. } = decide(Phase::Mutate, &job::KIND, None, &job, &cluster)
    else {
        panic!("admitted");
    };
    let shown: Vec<String> = errors.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(shown.join("\n"), @r#"
    metadata.labels[jobset.sigs.k8s.io/jobset-uid]: Required value: the gang's identity needs it; the JobSet controller, from v0.10.1 on, writes it
    metadata.labels[jobset.sigs.k8s.io/job-index]: Invalid value: "one": must be a whole number
    "#);
}

#[test]
fn a_job_of_a_jobset_that_muster_never_saw_runs_without_a_gang() {
    let cluster = native(Dialect::V1_37);
    let text = std::fs::read_to_string(common::fixtures(
        "rules/accepted-replicated-job-by-annotation.yaml",
    ));
    let jobset = &common::documents(&text.unwrap())[0];
    let job = job(jobset, 0, 0);
    let Decision::Allow { patch, warnings } =
        decide(Phase::Mutate, &job::KIND, None, &job, &cluster)
    else {
        panic!("refused");
    };
    assert!(patch.0.is_empty());
    assert_eq!(warnings.len(), 1);
}

/// The apiserver draws the name between the two phases, and selectors may ask for it.
#[test]
fn a_jobset_whose_name_is_drawn_keeps_the_stamps_that_it_got_before() {
    let cluster = Snapshot::assumed(SchedulerKind::YUNIKORN, Dialect::V1_37);
    let text = std::fs::read_to_string(common::fixtures("rules/near-and-apart-on-yunikorn.yaml"));
    let mut jobset = common::documents(&text.unwrap()).remove(0);
    let metadata = jobset["metadata"].as_object_mut().unwrap();
    metadata.remove("name");
    metadata.insert("generateName".into(), json!("train-"));
    let mut stamped = mutated(&jobset::KIND, None, &jobset, &cluster);
    stamped["metadata"]["name"] = json!("train-x7f2c");
    let decided = decide(Phase::Validate, &jobset::KIND, None, &stamped, &cluster);
    assert!(matches!(decided, Decision::Allow { .. }), "{decided:?}");
}
