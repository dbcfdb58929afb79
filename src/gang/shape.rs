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
    pub requests: ResourceList,
    pub node_selector: BTreeMap<String, String>,
    /// As they stand in the pod: few schedulers read them, and they may be large.
    pub tolerations: Option<Words>,
    pub affinity: Option<Words>,
    /// How the pods are to be spread.
    pub spread: Option<Words>,
    /// Their labels, as far as they are known.
    pub labels: BTreeMap<String, String>,
    /// What their controller writes of labels.
    pub written: Written,
    /// How their controller will keep them apart.
    pub apart: Option<Apart>,
    pub priority_class: Option<String>,
    pub scheduler_name: Option<String>,
    /// Whether scheduling gates hold the pods back.
    pub gated: bool,
}

/// Pods that their controller keeps apart by a label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Apart {
    pub key: &'static str,
    /// What asks for it.
    pub at: FieldPath,
    pub instead: &'static str,
}

/// Label keys that a controller writes, by the pods that have the same value. A placement that asks
/// for one means some pods of a gang or all of them, depending on that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Written {
    /// All pods of the workload, and no others.
    pub workload: &'static [&'static str],
    /// All pods of a gang.
    pub gang: &'static [&'static str],
    /// All pods of a Job.
    pub job: &'static [&'static str],
    /// One pod, or a few.
    pub pod: &'static [&'static str],
}

impl Written {
    /// What all pods of a gang have alike.
    pub fn shared(&self) -> impl Iterator<Item = &'static str> {
        self.workload.iter().chain(self.gang).copied()
    }
}
