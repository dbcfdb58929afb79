//! Marks: what a pod carries to belong to its gang.
//!
//! The only thing a backend says about pods. `admission::patch` alone turns marks into JSON patch
//! operations, for a pod or for any template.

use std::collections::BTreeMap;

use serde_json::Value;

/// Labels, annotations and fields of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Marks {
    /// Labels.
    pub(crate) labels: BTreeMap<&'static str, String>,
    /// Annotations.
    pub(crate) annotations: BTreeMap<&'static str, String>,
    /// The `schedulerName`, where the pod needs one.
    pub(crate) scheduler_name: Option<String>,
    /// The link, where it is a field of the pod's spec: its name and value.
    pub(crate) link_field: Option<(&'static str, Value)>,
    /// Other fields of the pod's spec that change.
    pub(crate) fields: BTreeMap<&'static str, Value>,
}

impl Marks {
    /// Whether there is nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// What its annotations take of the room that an object's have.
    pub fn annotations_size(&self) -> usize {
        let annotations = self.annotations.iter();
        annotations
            .map(|(key, value)| key.len() + value.len())
            .sum()
    }
}
