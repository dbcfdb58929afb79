//! Which scheduler a gang goes to: annotation, `schedulerName`, namespace, configuration, cluster,
//! each before the next; and one that is not there is refused.

use crate::common;

use std::sync::Arc;

use common::{Phase, admission};
use muster::cli::admit;
use muster::gang::SchedulerKind;
use muster::scheduler::{self, Namespaces, Snapshot};
use muster::workload::jobset;
use serde_json::{Value, json};

const NATIVE: SchedulerKind = SchedulerKind::NATIVE;
const VOLCANO: SchedulerKind = SchedulerKind::VOLCANO;
const COSCHEDULING: SchedulerKind = SchedulerKind::COSCHEDULING;
const KOORDINATOR: SchedulerKind = SchedulerKind::KOORDINATOR;
const KAI: SchedulerKind = SchedulerKind::KAI;

fn jobset() -> Value {
    json!({
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "train", "namespace": "ml",
            "annotations": {"muster.dev/gang-mode": "Gang"}},
        "spec": {"replicatedJobs": [{"name": "workers", "template": {"spec": {
            "parallelism": 2, "completions": 2,
            "template": {"spec": {"containers": [{"name": "main", "image": "train",
                "resources": {"requests": {"cpu": "1"}}}]}},
        }}}]},
    })
}

/// A cluster that somebody has looked at.
fn cluster(served: &[SchedulerKind]) -> Snapshot {
    let mut cluster = common::cluster();
    cluster.default = None;
    cluster.served.retain(|api| served.contains(&api.scheduler));
    cluster
}

/// The scheduler that is chosen, or why none is.
fn chosen(jobset: &Value, cluster: &Snapshot) -> Result<String, String> {
    let admitted = admit::create(&jobset::KIND, jobset, cluster).unwrap();
    match &admitted.errors[..] {
        [] => {
            let answer = &admitted.object["metadata"]["annotations"]["muster.dev/scheduler"];
            Ok(answer.as_str().unwrap().to_owned())
        }
        errors => Err(errors.iter().map(|e| format!("{e}\n")).collect()),
    }
}

#[test]
fn each_way_to_choose_comes_before_the_next() {
    let mut jobset = jobset();
    let mut all = cluster(&[NATIVE]);
    assert_eq!(chosen(&jobset, &all).as_deref(), Ok("native"), "discovery");
    all.served = cluster(&[NATIVE, VOLCANO, COSCHEDULING, KOORDINATOR, KAI]).served;
    all.default = Some(KOORDINATOR);
    assert_eq!(
        chosen(&jobset, &all).as_deref(),
        Ok("koordinator"),
        "default"
    );
    all.namespaces = [("ml".to_owned(), "kai".to_owned())].into();
    assert_eq!(chosen(&jobset, &all).as_deref(), Ok("kai"), "label");
    let pods = &mut jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"];
    pods["spec"]["schedulerName"] = json!("volcano");
    assert_eq!(chosen(&jobset, &all).as_deref(), Ok("volcano"), "name");
    // A profile of any name may have coscheduling; only the annotation can say so.
    let pods = &mut jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"];
    pods["spec"]["schedulerName"] = json!("mine");
    assert_eq!(chosen(&jobset, &all).unwrap_err().lines().count(), 1);
    jobset["metadata"]["annotations"]["muster.dev/scheduler"] = json!("coscheduling");
    assert_eq!(
        chosen(&jobset, &all).as_deref(),
        Ok("coscheduling"),
        "annotation"
    );
}

#[test]
fn where_several_are_served_and_none_is_named_they_are_listed() {
    let said = chosen(&jobset(), &cluster(&[NATIVE, VOLCANO, KAI])).unwrap_err();
    assert!(said.contains("(native, volcano, kai)"), "{said}");
    let said = chosen(&jobset(), &cluster(&[])).unwrap_err();
    assert!(said.contains("serves no scheduler"), "{said}");
}

#[test]
fn a_scheduler_that_is_not_there_is_refused_however_it_was_chosen() {
    let here = cluster(&[NATIVE, VOLCANO]);
    let expected = "metadata.annotations[muster.dev/scheduler]: Invalid value: \"kai\": the \
                    cluster does not serve kai's PodGroups: install kai first, or name a \
                    scheduler that is there (native, volcano, yunikorn)\n";
    let mut named = jobset();
    named["metadata"]["annotations"]["muster.dev/scheduler"] = json!("kai");
    assert_eq!(chosen(&named, &here).unwrap_err(), expected);
    let labelled = Snapshot {
        namespaces: [("ml".to_owned(), "kai".to_owned())].into(),
        ..here.clone()
    };
    assert_eq!(chosen(&jobset(), &labelled).unwrap_err(), expected);
    let configured = Snapshot {
        default: Some(KAI),
        ..here
    };
    assert_eq!(chosen(&jobset(), &configured).unwrap_err(), expected);
}

#[test]
fn what_needs_no_api_is_never_missing() {
    let mut jobset = jobset();
    jobset["metadata"]["annotations"]["muster.dev/scheduler"] = json!("yunikorn");
    let mut none = cluster(&[]);
    assert_eq!(chosen(&jobset, &none).as_deref(), Ok("yunikorn"));
    jobset["metadata"]["annotations"]["muster.dev/scheduler"] = json!("koordinator");
    assert!(chosen(&jobset, &none).is_err());
    none = none.with_variant(KOORDINATOR, "annotations");
    assert_eq!(chosen(&jobset, &none).as_deref(), Ok("koordinator"));
}

#[test]
fn without_a_cluster_nothing_is_missing() {
    for name in scheduler::names() {
        let mut jobset = jobset();
        jobset["metadata"]["annotations"]["muster.dev/scheduler"] = json!(name);
        assert_eq!(chosen(&jobset, &common::cluster()).as_deref(), Ok(name));
    }
}

/// The answer of the webhook to a JobSet that is created in the namespace `ml`.
fn answered(jobset: &Value, cluster: &Snapshot) -> Result<(), u16> {
    let review = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "u",
            "kind": {"group": jobset::KIND.group, "kind": jobset::KIND.name},
            "namespace": "ml",
            "operation": "CREATE",
            "object": jobset,
        },
    });
    let body = review.to_string();
    let answer = admission::answer(Phase::Mutate, body.as_bytes(), cluster);
    answer.map(|_| ()).map_err(|error| error.status())
}

#[test]
fn a_namespace_that_was_not_seen_yet_is_asked_for_again_and_never_guessed() {
    let seen = |names: &[&str]| {
        let names = names.iter().map(|name| ((*name).to_owned(), None));
        Namespaces::Seen(Arc::new(names.collect()))
    };
    let mut named = jobset();
    named["metadata"]["annotations"]["muster.dev/scheduler"] = json!("volcano");
    let mut foreign = jobset();
    foreign["spec"]["managedBy"] = json!("example.com/other");
    for (namespaces, expected) in [
        (Namespaces::Unlisted, Err(500)),
        (seen(&["web"]), Err(500)),
        (seen(&["web", "ml"]), Ok(())),
    ] {
        let cluster = Snapshot {
            namespaces,
            default: Some(NATIVE),
            ..cluster(&[NATIVE, VOLCANO])
        };
        assert_eq!(answered(&jobset(), &cluster), expected);
        // What does not depend on the label is answered.
        assert_eq!(answered(&named, &cluster), Ok(()));
        assert_eq!(answered(&foreign, &cluster), Ok(()));
        let checked = admit::create(&jobset::KIND, &jobset(), &cluster);
        assert_eq!(checked.is_ok(), expected.is_ok());
    }
}
