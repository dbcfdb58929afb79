//! Admission as a whole apiserver does it: first it decodes the object strictly, then it calls Muster.
//!
//! Must not know a rule itself: [`super::schema`] knows the fields, [`super::admit`] calls admission.

use serde_json::Value;

use super::admit::{self, AdmitError, Admitted};
use super::schema;
use crate::gang::FieldError;
use crate::scheduler::Snapshot;
use crate::workload::Kind;

/// Creates an object, as far as decoding and admission go.
pub(super) fn create(
    kind: &'static Kind,
    object: &Value,
    cluster: &Snapshot,
) -> Result<Admitted, AdmitError> {
    let mut admitted = admit::create(kind, object, cluster)?;
    let unknown = schema::misfits(kind, object).unknown;
    // A custom resource is validated after its mutation, and Muster mends an unquoted `Off`.
    let wrong = schema::misfits(kind, &admitted.object).wrong;
    // Where admission says something of the same field, it knows better what was meant.
    let told = |error: &FieldError| {
        let mut said = admitted.errors.iter();
        said.any(|other| other.field == error.field)
    };
    let mut errors: Vec<FieldError> = unknown.into_iter().chain(wrong).collect();
    errors.retain(|error| !told(error));
    errors.append(&mut admitted.errors);
    admitted.errors = errors;
    Ok(admitted)
}
