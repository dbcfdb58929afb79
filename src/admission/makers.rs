//! Objects that make workloads or pods, and are in no gang themselves: what they declare is refused
//! at their own apply where what they make would be refused, or would run without its gang.

use std::collections::BTreeMap;

use super::patch::PatchBuilder;
use super::{Decided, Decision, Phase, Review, Unanswerable};
use crate::gang::FieldError;
use crate::judge;
use crate::scheduler::Snapshot;
use crate::workload::object::{Made, Maker};
use crate::workload::{Life, Unasked};

pub(super) fn decide(
    phase: Phase,
    review: &Review<'_>,
    new: &Maker<'_>,
    old: Option<&Maker<'_>>,
    cluster: &Snapshot,
) -> Result<Decided, Unanswerable> {
    if phase == Phase::Mutate {
        return Ok(mark(new, old));
    }
    let namespace = review.namespace();
    if new.template.is_some() && !cluster.namespaces.knows(namespace) {
        return Err(Unanswerable::NamespaceNotSeen(namespace.to_owned()));
    }
    let (mut errors, mut warnings) = judged(new, namespace, cluster);
    let before = old.map(|old| judged(old, namespace, cluster).0);
    super::workloads::forgive(&mut errors, &before.unwrap_or_default());
    match old {
        None => errors.extend(new.at_create.iter().cloned()),
        Some(old) => {
            errors.extend(changed(old, new));
            errors.extend(turned(old, new));
            warnings.extend(new.at_create.iter().map(ToString::to_string));
        }
    }
    let decision = match errors.is_empty() {
        true => Decision::allow(super::Patch(Vec::new()), warnings),
        false => Decision::Deny { errors, warnings },
    };
    Ok(decision.about(String::new()))
}

/// Writes what the template must say, as it was decided when the object was created.
fn mark(new: &Maker<'_>, old: Option<&Maker<'_>>) -> Decided {
    let Some(mark) = &new.mark else {
        return Decided::untouched();
    };
    let wanted = match old.and_then(|old| old.mark.as_ref()) {
        Some(old) => old.written(),
        None => mark.value,
    };
    let mut patch = PatchBuilder::default();
    match (wanted, mark.written()) {
        (Some(value), _) => {
            let entry = BTreeMap::from([(mark.key, value.to_owned())]);
            patch.metadata(mark.path, mark.meta, &BTreeMap::new(), &entry);
        }
        (None, Some(_)) => {
            let path = [mark.path, &["metadata", "annotations", mark.key]].concat();
            patch.remove(&path);
        }
        (None, None) => {}
    }
    Decision::allow(patch.finish(), Vec::new()).about(String::new())
}

/// What old and new pods must agree on, and an update changes.
fn changed(old: &Maker<'_>, new: &Maker<'_>) -> Vec<FieldError> {
    let (before, after) = match (&old.fixed, &new.fixed) {
        (Some(before), Some(after)) => (before, after),
        (None, Some(after)) if old.template.is_none() => {
            let detail = "its pods run without a gang, and new ones would wait for others that are not \
                          made before one of them runs: recreate it to make a gang of them";
            let at = after.fields.keys().next().cloned().unwrap_or_default();
            return vec![FieldError::forbidden(at, detail)];
        }
        _ => return Vec::new(),
    };
    let fields = before.fields.keys().chain(after.fields.keys());
    let mut fields: Vec<_> = fields
        .filter(|field| before.fields.get(*field) != after.fields.get(*field))
        .collect();
    fields.dedup();
    let error = |field: &crate::gang::FieldPath| FieldError::forbidden(field.clone(), after.why);
    fields.into_iter().map(error).collect()
}

/// Whether pods start together by revision is decided when the object is created: an update under which
/// that would wait for itself is refused.
fn turned(old: &Maker<'_>, new: &Maker<'_>) -> Option<FieldError> {
    let (old, new) = (old.mark.as_ref()?, new.mark.as_ref()?);
    let written = old.written()?;
    let at = crate::gang::FieldPath::new("spec").child("strategy");
    new.value.is_none().then(|| {
        let detail = format!(
            "each revision is a gang of its own ({} is {written:?}), and a rollout that surges by \
             fewer pods than the quorum would wait for itself; let it surge by the quorum, use \
             Recreate, or recreate the object",
            old.key
        );
        FieldError::forbidden(at, detail)
    })
}

/// Everything that is wrong with what it declares, and what surprises.
fn judged(
    maker: &Maker<'_>,
    namespace: &str,
    cluster: &Snapshot,
) -> (Vec<FieldError>, Vec<String>) {
    let mut errors = maker.errors.clone();
    let mut warnings = maker.warnings.clone();
    let Some(made) = &maker.template else {
        return (errors, warnings);
    };
    let workload = made.workload();
    if workload.life() == Life::LeftAlone {
        return (errors, warnings);
    }
    let judged = judge::new(workload, None, namespace, cluster, Unasked::NoGang);
    let under = |error: FieldError| match made {
        Made::Workload(_, at) => error.under(at),
        Made::Pods(_) => error,
    };
    errors.extend(judged.errors.into_iter().map(under));
    let said = judged.warnings.into_iter();
    warnings.extend(said.map(|warning| match made.at() {
        Some(at) => format!("{at}: {warning}"),
        None => warning,
    }));
    (errors, warnings)
}
