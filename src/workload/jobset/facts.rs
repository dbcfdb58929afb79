//! What holds for every JobSet: its API, its labels, which keys may stand where on it, and how its
//! Jobs and their pods tell who they are.

use crate::gang::{
    Attempt, ControllerLabels, FieldError, Identity, Level, Member, PartName, Round, Stamp,
};
use crate::workload::child::{Labels, Marked, label_path};
use crate::workload::facts::{
    ConditionList, FAILED_CREATE, Facts, GangFields, Kind, Links, Members, Prepared, Suspension,
    Watched,
};
use crate::workload::keys::{self, Labelled, Place};
use crate::workload::seen::LinkState;

/// `jobset.x-k8s.io` JobSet.
pub static KIND: Kind = Kind {
    group: "jobset.x-k8s.io",
    version: "v1alpha2",
    name: "JobSet",
    plural: "jobsets",
    short: &[],
};

pub(crate) const JOBSET_NAME: &str = "jobset.sigs.k8s.io/jobset-name";
pub(crate) const REPLICATED_JOB_NAME: &str = "jobset.sigs.k8s.io/replicatedjob-name";
pub(crate) const JOBSET_UID: &str = "jobset.sigs.k8s.io/jobset-uid";
pub(crate) const JOB_KEY: &str = "jobset.sigs.k8s.io/job-key";
pub(crate) const JOB_INDEX: &str = "jobset.sigs.k8s.io/job-index";
pub(crate) const ATTEMPT: &str = "jobset.sigs.k8s.io/restart-attempt";
/// Only with JobSet's gate RestartJob: restarts of this Job alone.
const OWN_ATTEMPT: &str = "jobset.sigs.k8s.io/job-restart-attempt";

/// The labels that JobSet (v0.12), Kubernetes' Jobs and Muster write on the pods of a JobSet.
pub(crate) const CONTROLLER_LABELS: ControllerLabels = ControllerLabels {
    workload: &[
        JOBSET_NAME,
        JOBSET_UID,
        "jobset.sigs.k8s.io/global-replicas",
        "jobset.sigs.k8s.io/coordinator",
    ],
    gang: &[ATTEMPT, keys::GANG],
    job: &[
        JOB_KEY,
        JOB_INDEX,
        OWN_ATTEMPT,
        "jobset.sigs.k8s.io/job-global-index",
        "jobset.sigs.k8s.io/job-group-index",
        "batch.kubernetes.io/job-name",
        "batch.kubernetes.io/controller-uid",
        "job-name",
        "controller-uid",
    ],
    pod: &["batch.kubernetes.io/job-completion-index"],
};

pub(crate) static FACTS: Facts = Facts {
    kind: &KIND,
    keys: &WORKLOAD,
    level: |level| match level {
        Level::Whole => KIND.name,
        Level::Group => "ReplicatedJob",
        Level::Replica => "Replica",
    },
    suspension: Suspension::Field,
    gang_fields: GangFields::Fixed,
    watched: Watched::All,
    conditions: ConditionList::Map,
    members: Members {
        name: JOBSET_NAME,
        uid: Some(JOBSET_UID),
        controller_labels: CONTROLLER_LABELS,
        prepare: |_| Prepared::Known,
        identify,
        // With its Job or by itself: without a link it is not admitted. Whoever sees the whole pod
        // looks.
        link: |_| LinkState::Linked,
        links: Links::InTemplates,
        plans: None,
        attempt: Some(|pod| pod.label(ATTEMPT)?.parse().ok()),
        revisions: None,
        // Of its Jobs, and its own (v0.12).
        failures: &[FAILED_CREATE, "JobCreationFailed"],
    },
    // JobSet up to 0.11 lacks `schedulingGroup`.
    example: r#"{
        "metadata": {"name": "hello", "annotations": {"muster.dev/gang-mode": "Gang"}},
        "spec": {"replicatedJobs": [{
            "name": "workers",
            "template": {"spec": {"parallelism": 4, "completions": 4, "template": {"spec": {
                "restartPolicy": "Never", "containers": [{"name": "main", "image": "hello"}]
            }}}}
        }]}
    }"#,
    job_types: Some("jobsets.jobset.x-k8s.io"),
};

const KNOBS: &[&str] = &[
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
    keys::START_BARRIER_TARGETS,
];

const GROUP_KNOBS: &[&str] = &[keys::GANG_MODE, keys::MIN_COUNT, keys::BUNDLE];

/// The JobSet's own metadata.
static WORKLOAD: Place = Place {
    user: KNOBS,
    own: &[keys::ROUND, keys::REVIVING],
    labelled: Labelled::No,
    elsewhere: |_| None,
    nearest: KNOBS,
};

/// A ReplicatedJob's `template.metadata`.
pub(crate) static GROUP: Place = Place {
    user: GROUP_KNOBS,
    own: &[keys::STAMP],
    labelled: Labelled::Gang,
    elsewhere: |key| {
        let workload = KNOBS.contains(&key);
        workload.then_some("it holds for all gangs: put it on the workload")
    },
    nearest: GROUP_KNOBS,
};

/// The metadata of a ReplicatedJob's pod template.
pub(crate) static POD_TEMPLATE: Place = Place {
    user: &[],
    own: &[keys::STAMP, keys::ROUND, keys::BARRIER_STAMP],
    labelled: Labelled::Gang,
    elsewhere: |key| {
        if GROUP_KNOBS.contains(&key) {
            Some("put it on the workload or in the ReplicatedJob's template.metadata")
        } else if KNOBS.contains(&key) {
            Some("put it on the workload's own metadata")
        } else {
            None
        }
    },
    nearest: GROUP_KNOBS,
};

/// Who a stamped Job or pod is, by the labels that JobSet writes on both.
fn identify(
    child: &dyn Marked,
    namespace: &str,
    stamp: Stamp,
    round: Round,
) -> Result<Member, Vec<FieldError>> {
    let mut labels = Labels::of(child);
    let part = labels.get(keys::GANG, "Muster");
    let workload = labels.get(JOBSET_NAME, "the JobSet controller");
    let uid = labels.get(JOBSET_UID, "the JobSet controller, from v0.10.1 on,");
    let index = labels.get(JOB_INDEX, "the JobSet controller");
    let whole = labels.get(ATTEMPT, "the JobSet controller");
    let mut errors = labels.errors;
    let own = child.label(OWN_ATTEMPT).unwrap_or("0");
    let mut number = |key: &str, text: &str| {
        text.parse::<u32>().unwrap_or_else(|_| {
            if !text.is_empty() {
                let detail = "must be a whole number";
                errors.push(FieldError::invalid(label_path(key), text, detail));
            }
            0
        })
    };
    let (index, whole) = (number(JOB_INDEX, index), number(ATTEMPT, whole));
    let own = number(OWN_ATTEMPT, own);
    if !errors.is_empty() {
        return Err(errors);
    }
    // Only a gang of one replica restarts with that replica; others keep their gang.
    let replica = stamp.level == Level::Replica;
    let identity = Identity {
        namespace: namespace.to_owned(),
        workload: workload.to_owned(),
        uid: uid.to_owned(),
        part: PartName::new(part),
        index: replica.then_some(index),
        attempt: Attempt {
            whole,
            own: if replica { own } else { 0 },
        },
        round,
        revision: None,
    };
    Ok(Member::new(identity, stamp))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gang::FieldPath;
    use crate::workload::keys::check_annotation;

    fn check(place: &Place, key: &str) -> Option<String> {
        check_annotation(place, &FieldPath::new("annotations"), key).map(|e| e.to_string())
    }

    #[test]
    fn known_keys_pass_where_they_belong() {
        assert_eq!(check(&WORKLOAD, keys::QUEUE), None);
        assert_eq!(check(&GROUP, keys::MIN_COUNT), None);
        assert_eq!(check(&POD_TEMPLATE, keys::STAMP), None);
        assert_eq!(check(&POD_TEMPLATE, "example.com/x"), None);
    }

    #[test]
    fn a_typo_gets_the_nearest_key() {
        insta::assert_snapshot!(
            check(&WORKLOAD, "muster.dev/gangmode").unwrap(),
            @r#"annotations[muster.dev/gangmode]: Unsupported value: "muster.dev/gangmode": unknown key, did you mean "muster.dev/gang-mode"?"#
        );
        insta::assert_snapshot!(
            check(&GROUP, "muster.dev/completely-different").unwrap(),
            @r#"annotations[muster.dev/completely-different]: Unsupported value: "muster.dev/completely-different": supported values: "muster.dev/gang-mode", "muster.dev/min-count", "muster.dev/bundle""#
        );
    }

    #[test]
    fn a_key_in_the_wrong_place_is_told_where_to_go() {
        insta::assert_snapshot!(
            check(&GROUP, keys::QUEUE).unwrap(),
            @"annotations[muster.dev/queue]: Forbidden: it holds for all gangs: put it on the workload"
        );
        assert!(check(&POD_TEMPLATE, keys::GANG_NAME).is_some());
    }
}
