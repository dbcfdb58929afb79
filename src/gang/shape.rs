//! What all pods of one template have in common, as far as a scheduler must know. No workload's
//! rules are here, and no scheduler's words.

use std::collections::BTreeMap;

use super::field::FieldPath;
use super::member::Words;
use super::resources::ResourceList;

/// The shape of a template's pods.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Shape {
    /// What kube-scheduler counts for one pod.
    pub(crate) requests: ResourceList,
    pub(crate) node_selector: BTreeMap<String, String>,
    /// As they stand in the pod: few schedulers read them, and they may be large.
    pub(crate) tolerations: Option<Words>,
    pub(crate) affinity: Option<Words>,
    /// How the pods are to be spread.
    pub(crate) spread: Option<Words>,
    /// Their labels, as far as they are known.
    pub(crate) labels: BTreeMap<String, String>,
    /// The labels that their controller writes.
    pub(crate) controller_labels: ControllerLabels,
    /// The label by which their controller keeps them apart.
    pub(crate) kept_apart: Option<KeptApart>,
    pub(crate) priority_class: Option<String>,
    pub(crate) scheduler_name: Option<String>,
    /// Whether scheduling gates hold the pods back.
    pub(crate) gated: bool,
}

/// Pods that their controller keeps apart by a label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeptApart {
    pub(crate) key: &'static str,
    /// The field that asks for it.
    pub(crate) at: FieldPath,
    pub(crate) instead: &'static str,
}

/// Label keys that a controller writes, by the pods that have the same value. A placement that asks
/// for one means some pods of a gang or all of them, depending on that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ControllerLabels {
    /// All pods of the workload, and no others.
    pub(crate) workload: &'static [&'static str],
    /// All pods of a gang.
    pub(crate) gang: &'static [&'static str],
    /// All pods of a Job.
    pub(crate) job: &'static [&'static str],
    /// One pod, or a few.
    pub(crate) pod: &'static [&'static str],
}

impl ControllerLabels {
    /// What all pods of a gang have alike.
    pub(crate) fn shared(&self) -> impl Iterator<Item = &'static str> {
        self.workload.iter().chain(self.gang).copied()
    }
}
