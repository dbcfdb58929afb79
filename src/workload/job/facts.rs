//! What holds for every Job: its API, its labels, which keys may stand where on it, and how its pods
//! tell who they are.

use crate::gang::{
    Attempt, ControllerLabels, FieldError, Identity, Member, PartName, Round, Stamp,
};
use crate::workload::child::{Labels, Marked};
use crate::workload::facts::{
    ConditionList, FAILED_CREATE, Facts, GangFields, Kind, Links, Members, Prepared, Suspension,
    Watched,
};
use crate::workload::keys::{self, Labelled, Place};
use crate::workload::seen::LinkState;

/// `batch/v1` Job.
pub static KIND: Kind = Kind {
    group: "batch",
    version: "v1",
    name: "Job",
    plural: "jobs",
    short: &[],
};

/// The labels that Kubernetes writes on the pods of a Job, unless it has `manualSelector`.
pub(super) const JOB_NAME: &str = "batch.kubernetes.io/job-name";
pub(super) const JOB_UID: &str = "batch.kubernetes.io/controller-uid";

pub(super) const CONTROLLER_LABELS: ControllerLabels = ControllerLabels {
    workload: &[JOB_NAME, JOB_UID, "job-name", "controller-uid"],
    gang: &[keys::GANG],
    job: &[],
    pod: &["batch.kubernetes.io/job-completion-index"],
};

pub(crate) static FACTS: Facts = Facts {
    kind: &KIND,
    keys: &JOB,
    level: |_| KIND.name,
    suspension: Suspension::Field,
    gang_fields: GangFields::Fixed,
    watched: Watched::Labelled,
    // `conditions` of a Job is an atomic list: an apply of one would drop the others.
    conditions: ConditionList::Atomic,
    members: Members {
        name: JOB_NAME,
        uid: Some(JOB_UID),
        controller_labels: CONTROLLER_LABELS,
        prepare: |_| Prepared::Known,
        identify,
        link: |pod| match pod.label(keys::INDEX) {
            Some(_) => LinkState::Linked,
            None => LinkState::Missing,
        },
        links: Links::OnPods,
        plans: None,
        attempt: Some(|_| Some(0)),
        revisions: None,
        failures: &[FAILED_CREATE],
    },
    job_types: None,
    example: r#"{
        "metadata": {"name": "hello", "annotations": {"muster.dev/gang-mode": "Gang"}},
        "spec": {"parallelism": 4, "completions": 4, "template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "main", "image": "hello"}]
        }}}
    }"#,
};

pub(in crate::workload) const KNOBS: &[&str] = &[
    keys::GANG_MODE,
    keys::MIN_COUNT,
    keys::BUNDLE,
    keys::BUNDLE_WITH,
    keys::SCHEDULER,
    keys::QUEUE,
    keys::TIMEOUT,
    keys::TIMEOUT_ACTION,
    keys::STRICTNESS,
    keys::START_BARRIER,
];

/// The Job's own metadata.
static JOB: Place = Place {
    user: KNOBS,
    own: &[keys::ROUND, keys::REVIVING],
    labelled: Labelled::Workload,
    elsewhere: |key| match key {
        keys::START_BARRIER_TARGETS => Some("the pods of a Job wait for each other: remove it"),
        _ => None,
    },
    nearest: KNOBS,
};

/// The metadata of a Job whose pods declare a gang themselves.
pub(super) static DECLARED_BY_PODS: Place = Place {
    user: &[],
    own: &[],
    labelled: Labelled::No,
    elsewhere: |key| {
        let job = KNOBS.contains(&key);
        job.then_some(
            "the pods declare their gang themselves, by muster.dev/gang-name in spec.template.metadata; \
             remove one of them",
        )
    },
    nearest: KNOBS,
};

/// The metadata of its pod template.
pub(super) static TEMPLATE: Place = POD_TEMPLATE;

/// The same, for a maker of Jobs, which has its own place for the keys.
pub(in crate::workload) const POD_TEMPLATE: Place = Place {
    user: &[],
    own: &[keys::STAMP, keys::ROUND, keys::BARRIER_STAMP],
    labelled: Labelled::Gang,
    elsewhere: |key| {
        let job = KNOBS.contains(&key);
        job.then_some("put it on the Job's own metadata")
    },
    nearest: KNOBS,
};

/// Who a stamped pod is, by the labels of its Job.
fn identify(
    pod: &dyn Marked,
    namespace: &str,
    stamp: Stamp,
    round: Round,
) -> Result<Member, Vec<FieldError>> {
    let mut labels = Labels::of(pod);
    let part = labels.get(keys::GANG, "Muster");
    let workload = labels.get(JOB_NAME, "Kubernetes");
    let uid = labels.get(JOB_UID, "Kubernetes");
    let errors = labels.errors;
    if !errors.is_empty() {
        return Err(errors);
    }
    let identity = Identity {
        namespace: namespace.to_owned(),
        workload: workload.to_owned(),
        uid: uid.to_owned(),
        part: PartName::new(part),
        index: None,
        attempt: Attempt::default(),
        round,
        revision: None,
    };
    Ok(Member::new(identity, stamp))
}
