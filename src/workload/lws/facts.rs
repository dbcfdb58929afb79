//! What holds for every LeaderWorkerSet: its API, and which keys may stand where on it.

use crate::workload::facts::{
    ConditionList, FAILED_CREATE, Facts, GangFields, Kind, Links, Members, Suspension, Watched,
};
use crate::workload::keys::{self, Labelled, Place};

use super::replica;

/// `leaderworkerset.x-k8s.io` LeaderWorkerSet.
pub static KIND: Kind = Kind {
    group: "leaderworkerset.x-k8s.io",
    version: "v1",
    name: "LeaderWorkerSet",
    plural: "leaderworkersets",
    short: &["lws"],
};

pub(crate) static FACTS: Facts = Facts {
    kind: &KIND,
    keys: &SET,
    // A LeaderWorkerSet has only gangs of one replica.
    level: |_| "Replica",
    suspension: Suspension::None,
    gang_fields: GangFields::WithTemplate(REMEDY),
    watched: Watched::All,
    conditions: ConditionList::Map,
    members: Members {
        name: replica::NAME,
        // Its pods have no such label. Pods of an earlier set of the same name are being deleted.
        uid: None,
        controller_labels: replica::CONTROLLER_LABELS,
        prepare: replica::prepare,
        identify: replica::identify,
        link: replica::link,
        links: Links::OnPods,
        plans: Some(replica::LEADER),
        attempt: None,
        revisions: Some(replica::NAME),
        failures: &[FAILED_CREATE],
    },
    example: r#"{
        "metadata": {"name": "hello", "annotations": {"muster.dev/gang-mode": "ReplicatedGang"}},
        "spec": {"leaderWorkerTemplate": {"size": 4, "workerTemplate": {"spec": {
            "containers": [{"name": "main", "image": "hello"}]
        }}}}
    }"#,
    job_types: None,
};

/// What to do to change a field that an update must not change alone.
pub(crate) const REMEDY: &str = "change leaderWorkerTemplate in the same update, which replaces every \
                          replica anyway, or recreate the LeaderWorkerSet";

const KNOBS: &[&str] = &[
    keys::GANG_MODE,
    keys::MIN_COUNT,
    keys::SCHEDULER,
    keys::QUEUE,
    keys::TIMEOUT,
    keys::TIMEOUT_ACTION,
    keys::STRICTNESS,
];

/// The set's own metadata.
static SET: Place = Place {
    user: KNOBS,
    own: &[],
    labelled: Labelled::No,
    elsewhere: |key| match key {
        keys::BUNDLE | keys::BUNDLE_WITH => Some(
            "the replicas of a LeaderWorkerSet start, roll and restart one by one, and make no \
             bundle",
        ),
        keys::START_BARRIER | keys::START_BARRIER_TARGETS => {
            Some("a start barrier is for JobSets and Jobs")
        }
        _ => None,
    },
    nearest: KNOBS,
};

/// The metadata of its templates.
pub(crate) static TEMPLATE: Place = Place {
    user: &[],
    own: &[keys::STAMP],
    labelled: Labelled::Gang,
    elsewhere: |key| {
        let set = KNOBS.contains(&key);
        set.then_some("put it on the LeaderWorkerSet's own metadata")
    },
    nearest: KNOBS,
};
