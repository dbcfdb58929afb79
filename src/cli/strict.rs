//! Admission as a whole apiserver does it: first it decodes the object strictly, then it calls Muster, then
//! it validates what is left.
//!
//! Must not know a rule itself: [`super::schema`] knows the fields, [`super::admit`] calls admission.

use serde_json::Value;

use super::admit::{self, AdmitError, Admitted};
use super::schema;
use crate::gang::{FieldError, FieldPath};
use crate::scheduler::Snapshot;
use crate::workload::Kind;

/// An object, and what to know of it.
pub(super) struct Checked {
    pub(super) admitted: Admitted,
    /// A field that it uses and only an extended CRD has.
    added: Option<FieldPath>,
}

/// Creates an object, as far as decoding and admission go.
pub(super) fn create(
    kind: &'static Kind,
    object: &Value,
    cluster: &Snapshot,
) -> Result<Checked, AdmitError> {
    let mut admitted = admit::create(kind, object, cluster)?;
    let sent = schema::misfits(kind, object);
    // What Muster's mutation fixes, such as an unquoted `Off`, is not wrong.
    let wrong = schema::misfits(kind, &admitted.object).wrong;
    // Where admission says something of the same field, it knows better what was meant.
    let told: Vec<String> = admitted.errors.iter().map(plain).collect();
    let mut errors: Vec<FieldError> = sent.unknown.into_iter().chain(wrong).collect();
    errors.retain(|error| !told.contains(&plain(error)));
    errors.append(&mut admitted.errors);
    admitted.errors = errors;
    Ok(Checked {
        admitted,
        added: sent.added.into_iter().next(),
    })
}

/// A field, whether or not the keys of maps stand in brackets.
fn plain(error: &FieldError) -> String {
    error.field.as_str().replace('[', ".").replace(']', "")
}

impl Checked {
    /// What to say of a field that only an extended CRD has.
    pub(super) fn extension(&self) -> Option<String> {
        let field = self.added.as_ref()?;
        Some(format!(
            "{field}: this field exists only after `muster crd extend`; without it kubectl refuses the \
             field as unknown"
        ))
    }
}
