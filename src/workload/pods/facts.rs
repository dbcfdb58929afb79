//! What holds for every pod that declares its gang itself.

use crate::gang::{ControllerLabels, FieldError, Member, Round, Stamp};
use crate::workload::child::{Marked, label_path};
use crate::workload::facts::{
    ConditionList, FAILED_CREATE, Facts, GangFields, Kind, Links, Members, Prepared, Suspension,
    Watched,
};
use crate::workload::keys::{self, Labelled, Place};
use crate::workload::seen::LinkState;

/// `v1` Pod.
pub static KIND: Kind = Kind {
    group: "",
    version: "v1",
    name: "Pod",
    plural: "pods",
    short: &["po"],
};

/// The labels of Kubernetes' own controllers that differ from pod to pod, and Muster's own.
pub(super) const CONTROLLER_LABELS: ControllerLabels = ControllerLabels {
    workload: &[],
    gang: &[keys::GANG_NAME],
    job: &[],
    pod: &[
        "apps.kubernetes.io/pod-index",
        "statefulset.kubernetes.io/pod-name",
        "batch.kubernetes.io/job-completion-index",
    ],
};

pub(crate) static FACTS: Facts = Facts {
    kind: &KIND,
    keys: &POD,
    level: |_| "Pods",
    suspension: Suspension::None,
    gang_fields: GangFields::Fixed,
    watched: Watched::ByMembers,
    conditions: ConditionList::None,
    members: Members {
        name: keys::GANG_NAME,
        uid: None,
        controller_labels: CONTROLLER_LABELS,
        prepare: |_| Prepared::Known,
        identify: not_stamped,
        link,
        links: Links::OnPods,
        plans: None,
        attempt: None,
        revisions: None,
        // The last two are KubeRay's (v1.4), which makes pods itself.
        failures: &[
            FAILED_CREATE,
            "FailedToCreateHeadPod",
            "FailedToCreateWorkerPod",
        ],
    },
    job_types: None,
    example: r#"{
        "metadata": {"name": "hello", "annotations": {
            "muster.dev/gang-name": "hello", "muster.dev/min-count": "1"
        }},
        "spec": {"containers": []}
    }"#,
};

/// What a user may say of such a gang.
pub(in crate::workload) const KNOBS: &[&str] = &[
    keys::GANG_NAME,
    keys::MIN_COUNT,
    keys::REVISION_LABEL,
    keys::SCHEDULER,
    keys::QUEUE,
    keys::TIMEOUT,
    keys::STRICTNESS,
    keys::BUNDLE,
    keys::BUNDLE_WITH,
];

/// The metadata of the pod, or of its template.
pub(in crate::workload) static POD: Place = Place {
    user: KNOBS,
    own: &[keys::STAMP, keys::ROUND],
    labelled: Labelled::GangName,
    elsewhere: |key| match key {
        keys::GANG_MODE => Some(
            "pods have no modes: their gang is declared with muster.dev/gang-name and \
             muster.dev/min-count",
        ),
        keys::TIMEOUT_ACTION => Some("pods cannot be suspended: a gang of them keeps waiting"),
        keys::START_BARRIER | keys::START_BARRIER_TARGETS => {
            Some("a start barrier is for JobSets and Jobs")
        }
        _ => None,
    },
    nearest: KNOBS,
};

/// Whether Muster has linked it.
pub(super) fn link(pod: &dyn Marked) -> LinkState {
    match pod.label(keys::INDEX) {
        Some(_) => LinkState::Linked,
        None => LinkState::Missing,
    }
}

/// A pod that declares its gang has no part in a gang of another workload, and so no such stamp.
fn not_stamped(_: &dyn Marked, _: &str, _: Stamp, _: Round) -> Result<Member, Vec<FieldError>> {
    let detail = "a pod that declares its gang by itself is in no gang of another workload";
    Err(vec![FieldError::forbidden(
        label_path(keys::GANG_NAME),
        detail,
    )])
}
