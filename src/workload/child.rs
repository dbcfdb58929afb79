//! Children of a stamped workload: Jobs and pods that carry a stamp and need a link.
//!
//! A child's admission is a function of the child alone. JobSet writes uid, index and attempt as
//! labels on its Jobs and their pods; the stamp says the rest.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::gang::link::{LinkKey, LinkPlace};
use crate::gang::resources::{Container, containers, pod_requests};
use crate::gang::{Attempt, FieldError, FieldPath, Identity, Level, Member, PartName, Round};
use crate::gang::{Shape, Stamp, Written};
use crate::scheduler;

use super::lws::replica;
use super::view::{Meta, Text, or_default};
use super::{keys, template};

pub const JOBSET_NAME: &str = "jobset.sigs.k8s.io/jobset-name";
pub const REPLICATED_JOB_NAME: &str = "jobset.sigs.k8s.io/replicatedjob-name";
pub const JOBSET_UID: &str = "jobset.sigs.k8s.io/jobset-uid";
pub const JOB_KEY: &str = "jobset.sigs.k8s.io/job-key";
const JOB_INDEX: &str = "jobset.sigs.k8s.io/job-index";
pub const ATTEMPT: &str = "jobset.sigs.k8s.io/restart-attempt";
/// Only with JobSet's gate RestartJob: restarts of this Job alone.
pub const OWN_ATTEMPT: &str = "jobset.sigs.k8s.io/job-restart-attempt";

/// The labels that JobSet (v0.12), Kubernetes' Jobs and Muster write on the pods of a JobSet.
pub const WRITTEN: Written = Written {
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

/// A Job, as far as its link goes.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Job<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    pub metadata: Meta<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    pub spec: JobSpec<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct JobSpec<'a> {
    pub suspend: Option<bool>,
    #[serde(borrow, deserialize_with = "or_default")]
    pub template: PodTemplate<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodTemplate<'a> {
    #[serde(borrow)]
    pub metadata: Option<Meta<'a>>,
    #[serde(borrow, deserialize_with = "or_default")]
    pub spec: PodSpec<'a>,
}

/// A pod, as far as its link goes.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Pod<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    pub metadata: Meta<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    pub spec: PodSpec<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec<'a> {
    #[serde(borrow)]
    pub scheduler_name: Option<Text<'a>>,
    #[serde(borrow)]
    scheduling_group: Option<&'a RawValue>,
    #[serde(borrow)]
    workload_ref: Option<&'a RawValue>,
    // The rest is the pod's shape, read only where a link repeats it.
    #[serde(borrow)]
    node_selector: Option<&'a RawValue>,
    #[serde(borrow)]
    tolerations: Option<&'a RawValue>,
    #[serde(borrow)]
    affinity: Option<&'a RawValue>,
    #[serde(borrow)]
    topology_spread_constraints: Option<&'a RawValue>,
    #[serde(borrow)]
    containers: Option<&'a RawValue>,
    #[serde(borrow)]
    init_containers: Option<&'a RawValue>,
    #[serde(borrow)]
    overhead: Option<&'a RawValue>,
    #[serde(borrow)]
    resources: Option<&'a RawValue>,
}

impl PodSpec<'_> {
    /// A link that stands in this field.
    pub fn link_field(&self, field: &str) -> Option<&RawValue> {
        match field {
            "schedulingGroup" => self.scheduling_group,
            "workloadRef" => self.workload_ref,
            _ => None,
        }
    }

    /// What the pod asks of a node. The apiserver has not checked it yet, and will: what cannot be
    /// read counts as nothing.
    pub fn shape(&self, meta: &Meta<'_>) -> Shape {
        let pod = template::PodSpec {
            node_selector: read(self.node_selector),
            tolerations: self.tolerations,
            affinity: self.affinity,
            topology_spread_constraints: self.topology_spread_constraints,
            containers: read_containers(self.containers),
            init_containers: read_containers(self.init_containers),
            overhead: read(self.overhead),
            resources: read(self.resources),
            ..template::PodSpec::default()
        };
        let requests = pod_requests(&pod.resources()).unwrap_or_default();
        let labels = meta.owned_labels();
        Shape {
            written: match labels.contains_key(replica::NAME) {
                true => replica::WRITTEN,
                false => WRITTEN,
            },
            labels,
            ..pod.shape(requests)
        }
    }
}

fn read<T: DeserializeOwned + Default>(raw: Option<&RawValue>) -> T {
    template::parse(raw).unwrap_or_default()
}

fn read_containers<'a>(raw: Option<&'a RawValue>) -> Vec<Container<'a>> {
    let raw = raw.map(|raw| containers(&mut serde_json::Deserializer::from_str(raw.get())));
    raw.and_then(Result::ok).unwrap_or_default()
}

/// Any link that a pod or template already has.
pub fn existing_link(meta: Option<&Meta<'_>>, spec: &PodSpec<'_>) -> Option<LinkKey> {
    scheduler::links().find(|link| match link.place {
        LinkPlace::Label => meta.is_some_and(|m| m.label(link.key).is_some()),
        LinkPlace::Annotation => meta.is_some_and(|m| m.annotation(link.key).is_some()),
        LinkPlace::Field => spec.link_field(link.key).is_some(),
    })
}

/// Whether the object carries Muster's label at all.
pub fn is_stamped(meta: &Meta<'_>) -> bool {
    meta.label(keys::GANG).is_some()
}

/// Reads who a stamped child is, in the given round of its gang.
pub fn member(
    meta: &Meta<'_>,
    namespace: &str,
    stamp: Stamp,
    round: Round,
) -> Result<Member, Vec<FieldError>> {
    let mut errors = Vec::new();
    let mut label = |key: &'static str, from: &str| {
        let text = meta.label(key);
        if text.is_none() {
            let detail = format!("the gang's identity needs it; {from} writes it");
            errors.push(FieldError::required(labels().key(key), detail));
        }
        text.unwrap_or_default()
    };
    let part = label(keys::GANG, "Muster");
    let workload = label(JOBSET_NAME, "the JobSet controller");
    let uid = label(JOBSET_UID, "the JobSet controller, from v0.10.1 on,");
    let index = label(JOB_INDEX, "the JobSet controller");
    let whole = label(ATTEMPT, "the JobSet controller");
    let own = meta.label(OWN_ATTEMPT).unwrap_or("0");
    let mut number = |key: &str, text: &str| {
        text.parse::<u32>().unwrap_or_else(|_| {
            if !text.is_empty() {
                let detail = "must be a whole number";
                errors.push(FieldError::invalid(labels().key(key), text, detail));
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

fn labels() -> FieldPath {
    FieldPath::new("metadata").child("labels")
}

/// Where the stamp stands.
pub fn stamp_path() -> FieldPath {
    let annotations = FieldPath::new("metadata").child("annotations");
    annotations.key(keys::STAMP)
}

/// Reads the stamp that a child carries.
pub fn stamp(meta: &Meta<'_>) -> Result<Stamp, FieldError> {
    let Some(text) = meta.annotation(keys::STAMP) else {
        return Err(FieldError::required(
            stamp_path(),
            "an object with the label muster.dev/gang must carry the stamp that Muster writes \
             into its workload's templates; remove the label, or ask for a gang on the workload",
        ));
    };
    Stamp::parse(text).map_err(|error| FieldError::invalid(stamp_path(), text, error.to_string()))
}
