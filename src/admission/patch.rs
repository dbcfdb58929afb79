//! JSON patches: the only place that turns marks into operations.
//!
//! A patch applies to exactly the object that was sent: missing parents are created first, keys
//! are escaped, what is already there is left out, and nothing is tested or replaced that the
//! object does not have. So a second run on the result is an empty patch.

use std::collections::{BTreeMap, BTreeSet};

use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, Patch, PatchOperation, RemoveOperation};
use serde_json::{Map, Value};

use crate::scheduler::Marks;
use crate::workload::template::PodSpec;
use crate::workload::view::{Entries, Meta};

/// A patch under construction.
#[derive(Debug, Clone, Default)]
pub(crate) struct PatchBuilder {
    /// Objects that are missing. Made once and before all else, however many entries go into them.
    missing: BTreeSet<Vec<String>>,
    operations: Vec<PatchOperation>,
    metadata: Vec<Metadata>,
}

/// The entries that one object's or template's metadata gets. Gathered until the end, so that a
/// missing parent is created once, with everything that goes into it.
#[derive(Debug, Clone)]
struct Metadata {
    base: Vec<String>,
    exists: bool,
    labels: Entering,
    annotations: Entering,
}

#[derive(Debug, Clone)]
struct Entering {
    exists: bool,
    entries: BTreeMap<String, String>,
}

impl PatchBuilder {
    pub(crate) fn finish(mut self) -> Patch {
        let operations = std::mem::take(&mut self.operations);
        // A path comes before all that are longer than it.
        for path in std::mem::take(&mut self.missing) {
            let path = path.iter().map(String::as_str);
            self.set(path, Value::Object(Map::new()));
        }
        self.operations.extend(operations);
        for metadata in std::mem::take(&mut self.metadata) {
            let base: Vec<&str> = metadata.base.iter().map(String::as_str).collect();
            if !metadata.exists {
                self.set(join(&base, &["metadata"]), Value::Object(Map::new()));
            }
            self.entries(&base, "labels", metadata.labels);
            self.entries(&base, "annotations", metadata.annotations);
        }
        Patch(self.operations)
    }

    /// Sets a member whose parent exists. (`add` replaces what is there.)
    pub(crate) fn set<'t>(&mut self, path: impl IntoIterator<Item = &'t str>, value: Value) {
        self.operations.push(PatchOperation::Add(AddOperation {
            path: PointerBuf::from_tokens(path),
            value,
        }));
    }

    /// Creates objects that are missing.
    pub(crate) fn create(&mut self, missing: &[Vec<String>]) {
        self.missing.extend(missing.iter().cloned());
    }

    /// Adds all of another patch of the same object.
    pub(crate) fn append(&mut self, other: Self) {
        self.missing.extend(other.missing);
        self.operations.extend(other.operations);
        for metadata in other.metadata {
            match self.metadata.iter_mut().find(|m| m.base == metadata.base) {
                Some(same) => {
                    same.labels.entries.extend(metadata.labels.entries);
                    same.annotations
                        .entries
                        .extend(metadata.annotations.entries);
                }
                None => self.metadata.push(metadata),
            }
        }
    }

    /// Writes labels and annotations under `base` (an object's or a template's path), as far as
    /// they are not there with that value.
    pub(crate) fn metadata(
        &mut self,
        base: &[&str],
        meta: Option<&Meta<'_>>,
        labels: &BTreeMap<&str, String>,
        annotations: &BTreeMap<&str, String>,
    ) {
        let current_labels = meta.and_then(|m| m.labels.as_ref());
        let current_annotations = meta.and_then(|m| m.annotations.as_ref());
        let missing_labels = missing(labels, current_labels);
        let missing_annotations = missing(annotations, current_annotations);
        if missing_labels.is_empty() && missing_annotations.is_empty() {
            return;
        }
        let known = self.metadata.iter().position(|m| m.base == base);
        let position = known.unwrap_or_else(|| {
            let entering = |current: Option<&Entries<'_>>| Entering {
                exists: current.is_some(),
                entries: BTreeMap::new(),
            };
            self.metadata.push(Metadata {
                base: base.iter().map(|&token| token.to_owned()).collect(),
                exists: meta.is_some_and(|meta| meta.present),
                labels: entering(current_labels),
                annotations: entering(current_annotations),
            });
            self.metadata.len() - 1
        });
        let metadata = &mut self.metadata[position];
        metadata.labels.entries.extend(missing_labels);
        metadata.annotations.entries.extend(missing_annotations);
    }

    fn entries(&mut self, base: &[&str], map: &str, entering: Entering) {
        let Entering { exists, entries } = entering;
        if !exists && !entries.is_empty() {
            let object = entries
                .into_iter()
                .map(|(key, value)| (key, Value::from(value)))
                .collect();
            self.set(join(base, &["metadata", map]), Value::Object(object));
            return;
        }
        for (key, value) in entries {
            self.set(join(base, &["metadata", map, &key]), Value::from(value));
        }
    }

    /// Removes a key that the object has.
    pub(crate) fn remove(&mut self, path: &[&str]) {
        self.operations
            .push(PatchOperation::Remove(RemoveOperation {
                path: PointerBuf::from_tokens(path.iter().copied()),
            }));
    }

    /// Writes the scheduler's name into the pod spec under `base`.
    pub(crate) fn scheduler_name(&mut self, base: &[&str], current: Option<&str>, marks: &Marks) {
        if let Some(name) = &marks.scheduler_name
            && current != Some(name)
        {
            let path = join(base, &["spec", "schedulerName"]);
            self.set(path, Value::from(name.as_str()));
        }
    }

    /// Writes a pod's marks under `base`: a pod's own path or that of a pod template.
    pub(crate) fn marks(
        &mut self,
        base: &[&str],
        meta: Option<&Meta<'_>>,
        spec: &PodSpec<'_>,
        marks: &Marks,
    ) {
        self.metadata(base, meta, &marks.labels, &marks.annotations);
        self.scheduler_name(base, spec.scheduler_name.as_deref(), marks);
        if let Some((field, value)) = &marks.link_field
            && !spec.has_field(field, value)
        {
            self.set(join(base, &["spec", field]), value.clone());
        }
        for (field, value) in &marks.fields {
            self.set(join(base, &["spec", field]), value.clone());
        }
    }
}

/// The wanted entries that are not there with that value.
fn missing(
    wanted: &BTreeMap<&str, String>,
    current: Option<&Entries<'_>>,
) -> Vec<(String, String)> {
    wanted
        .iter()
        .filter(|(key, value)| current.and_then(|c| c.text(key)) != Some(value))
        .map(|(key, value)| ((*key).to_owned(), value.clone()))
        .collect()
}

fn join<'p>(base: &[&'p str], rest: &[&'p str]) -> Vec<&'p str> {
    base.iter().chain(rest).copied().collect()
}
