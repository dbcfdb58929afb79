//! Annotations of a workload that Muster alone writes while it runs: from anybody else they are
//! taken back, and what a later webhook adds of them is refused.
//!
//! A round needs no such care: whatever an update says, the first phase writes the right one.

use std::collections::BTreeMap;

use super::PatchBuilder;
use crate::admission::{Phase, Review};
use crate::gang::{FieldError, FieldPath};
use crate::scheduler::Snapshot;
use crate::workload::{Workload, keys};

/// What a review may not add or change, unless Muster itself sent it. Whoever may edit a workload
/// may remove it.
const OWN: [&str; 1] = [keys::REVIVING];

/// Takes back what is not the sender's to write; in the second phase it is an error.
pub(crate) fn guard(
    phase: Phase,
    review: &Review<'_>,
    old: Option<&dyn Workload>,
    new: &dyn Workload,
    cluster: &Snapshot,
    patch: &mut PatchBuilder,
) -> Vec<FieldError> {
    let ours = cluster.own_user.is_some() && cluster.own_user.as_deref() == review.user();
    if ours {
        return Vec::new();
    }
    let mut errors = Vec::new();
    for key in OWN {
        let was = old.and_then(|old| old.meta().annotation(key));
        let is = new.meta().annotation(key);
        if is.is_none() || is == was {
            continue;
        }
        let path = ["metadata", "annotations", key];
        match (phase, was) {
            (Phase::Mutate, Some(was)) => {
                let entry = BTreeMap::from([(key, was.to_owned())]);
                patch.metadata(&[], Some(new.meta()), &BTreeMap::new(), &entry);
            }
            (Phase::Mutate, None) => patch.remove(&path),
            (Phase::Validate, _) => {
                let at = FieldPath::new("metadata").child("annotations").key(key);
                errors.push(FieldError::forbidden(
                    at,
                    "Muster alone writes this annotation; remove it",
                ));
            }
        }
    }
    errors
}
