//! Whether a workload that is about to be stored carries its stamps.

use super::{Pen, Text, is_labelled, stampings};
use crate::gang::seal::{self, Verdict};
use crate::gang::{FieldError, FieldPath};
use crate::judge::Judged;
use crate::scheduler::Marks;
use crate::workload::{GangFields, Site, Workload, keys};

/// How closely stamps are looked at.
#[derive(Clone, Copy)]
pub(crate) enum Stamps<'a> {
    /// As they would be written now, with a seal.
    Exact(Pen<'a>),
    /// There, for the right part: a workload may have been scaled since it was stamped.
    Present,
}

/// A seal's key is not known here: another replica has just made it.
#[derive(Debug)]
pub(crate) struct UnknownKey;

/// A workload that is stored without its stamps would run without a gang. One error for each role.
pub(crate) fn missing(
    workload: &dyn Workload,
    judged: &Judged,
    how: Stamps<'_>,
) -> Result<Vec<FieldError>, UnknownKey> {
    let mut errors: Vec<FieldError> = Vec::new();
    errors.extend(unlabelled(workload, judged));
    let (mut first, mut told) = (None, None);
    let text = match how {
        Stamps::Exact(pen) => Text::Sealed(pen),
        Stamps::Present => Text::Empty,
    };
    for (site, marks) in stampings(workload, judged, text) {
        let Some(marks) = marks else {
            continue;
        };
        if first.as_ref().is_none_or(|(role, _)| *role != site.role) {
            let labels = site.at.child("metadata").child("labels");
            first = Some((site.role, labels.key(keys::GANG)));
        }
        if told != Some(site.role) && lacks(workload, &site, &marks, how)? {
            told = Some(site.role);
            let at = first.as_ref().map(|(_, at)| at.clone()).unwrap_or_default();
            errors.push(FieldError::required(at, lost(workload)));
        }
    }
    Ok(errors)
}

/// A workload that the reconciler cannot find has no objects, and its pods wait for ever.
fn unlabelled(workload: &dyn Workload, judged: &Judged) -> Option<FieldError> {
    let lacks = is_labelled(workload, judged) && workload.meta().label(keys::WORKLOAD).is_none();
    lacks.then(|| {
        let at = FieldPath::new("metadata").child("labels");
        let why = "Muster finds it by this label, and a webhook removed it after Muster's \
                   mutating webhook";
        FieldError::required(at.key(keys::WORKLOAD), why)
    })
}

fn lost(workload: &dyn Workload) -> String {
    let webhook = "a webhook changed it after Muster's mutating webhook";
    let kind = workload.facts().kind.name;
    let why = match workload.facts().gang_fields {
        GangFields::Fixed => format!(
            "it was not part of the gang when the {kind} was created, or {webhook}; recreate the \
             {kind}"
        ),
        GangFields::WithTemplate(_) => webhook.to_owned(),
    };
    format!("this template lacks the stamp of its gang, and its pods would start alone: {why}")
}

fn lacks(
    workload: &dyn Workload,
    site: &Site<'_>,
    marks: &Marks,
    how: Stamps<'_>,
) -> Result<bool, UnknownKey> {
    let label = |(key, value): (&&str, &String)| site.label(key) == Some(value);
    let annotation =
        |(key, value): (&&str, &String)| *key == keys::STAMP || site.annotation(key) == Some(value);
    let stamped = match how {
        Stamps::Exact(pen) => {
            marks.labels.iter().all(label)
                && marks.annotations.iter().all(annotation)
                && is_sealed(workload, site, marks, pen)?
        }
        // The outer label, by which children are selected, is immutable in the workload itself.
        Stamps::Present => {
            let gang = marks.labels.get_key_value(keys::GANG);
            let labelled = site.pods.is_none() || gang.is_some_and(label);
            site.annotation(keys::STAMP).is_some() && labelled
        }
    };
    let wanted = marks.scheduler_name.as_deref();
    let named = wanted.is_none() || wanted == site.scheduler_name();
    Ok(!stamped || !named)
}

/// Whether the stamp says what it should, and Muster sealed it. Not whether it is the same text:
/// replicas change to a new key one after the other.
fn is_sealed(
    workload: &dyn Workload,
    site: &Site<'_>,
    marks: &Marks,
    pen: Pen<'_>,
) -> Result<bool, UnknownKey> {
    let (wanted, gang) = (marks.annotations.get(keys::STAMP), site.label(keys::GANG));
    let (Some(wanted), Some(is), Some(gang)) = (wanted, site.annotation(keys::STAMP), gang) else {
        return Ok(false);
    };
    if is == wanted {
        return Ok(true);
    }
    if seal::content(is) != seal::content(wanted) {
        return Ok(false);
    }
    match pen.seals.check(&pen.bearer(workload, gang), is) {
        Verdict::Good => Ok(true),
        Verdict::Unsealed | Verdict::Broken => Ok(false),
        Verdict::Unknown => Err(UnknownKey),
    }
}
