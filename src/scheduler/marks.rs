//! Marks: what a pod carries to belong to its gang.
//!
//! The only thing a backend says about pods. `admission::patch` alone turns marks into JSON patch
//! operations, for a pod or for any template.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::gang::link;

/// Labels, annotations and fields of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Marks {
    pub labels: BTreeMap<&'static str, String>,
    pub annotations: BTreeMap<&'static str, String>,
    pub scheduler_name: Option<String>,
    pub native: Option<NativeLink>,
    /// Other fields of the pod's spec that change.
    pub fields: BTreeMap<&'static str, Value>,
}

/// The link of Kubernetes' own gangs: a field of the pod's spec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NativeLink {
    /// Kubernetes 1.36 and later.
    SchedulingGroup { pod_group_name: String },
    /// Kubernetes 1.35.
    WorkloadRef {
        name: String,
        pod_group: String,
        replica_key: Option<String>,
    },
}

impl NativeLink {
    /// The field of the pod's spec.
    pub fn field(&self) -> &'static str {
        match self {
            Self::SchedulingGroup { .. } => link::SCHEDULING_GROUP.key,
            Self::WorkloadRef { .. } => link::WORKLOAD_REF.key,
        }
    }

    pub fn to_value(&self) -> Value {
        match self {
            Self::SchedulingGroup { pod_group_name } => json!({"podGroupName": pod_group_name}),
            Self::WorkloadRef {
                name,
                pod_group,
                replica_key: None,
            } => json!({"name": name, "podGroup": pod_group}),
            Self::WorkloadRef {
                name,
                pod_group,
                replica_key: Some(key),
            } => json!({"name": name, "podGroup": pod_group, "podGroupReplicaKey": key}),
        }
    }
}
