//! Objects that make workloads or pods, and are in no gang themselves: what they declare is refused
//! at their own apply where what they make would be refused, or would run without its gang.

use super::{Decided, Decision, Phase, Review, Unanswerable};
use crate::gang::FieldError;
use crate::judge;
use crate::scheduler::Snapshot;
use crate::workload::object::Maker;
use crate::workload::{Life, Unasked};

pub(super) fn decide(
    phase: Phase,
    review: &Review<'_>,
    new: &Maker<'_>,
    old: Option<&Maker<'_>>,
    cluster: &Snapshot,
) -> Result<Decided, Unanswerable> {
    // Nothing is written here.
    if phase == Phase::Mutate {
        return Ok(Decided::untouched());
    }
    let namespace = review.namespace();
    if new.template.is_some() && !cluster.namespaces.knows(namespace) {
        return Err(Unanswerable::NamespaceNotSeen(namespace.to_owned()));
    }
    let (mut errors, warnings) = judged(new, namespace, cluster);
    let before = old.map(|old| judged(old, namespace, cluster).0);
    super::workloads::forgive(&mut errors, &before.unwrap_or_default());
    let decision = match errors.is_empty() {
        true => Decision::allow(super::Patch(Vec::new()), warnings),
        false => Decision::Deny { errors, warnings },
    };
    Ok(decision.about(String::new()))
}

/// Everything that is wrong with what it declares, and what surprises.
fn judged(
    maker: &Maker<'_>,
    namespace: &str,
    cluster: &Snapshot,
) -> (Vec<FieldError>, Vec<String>) {
    let mut errors = maker.errors.clone();
    let Some((workload, at)) = &maker.template else {
        return (errors, Vec::new());
    };
    if workload.life() == Life::LeftAlone {
        return (errors, Vec::new());
    }
    let judged = judge::new(*workload, None, namespace, cluster, Unasked::NoGang);
    errors.extend(judged.errors.into_iter().map(|error| error.under(at)));
    let warnings = judged.warnings.into_iter();
    (
        errors,
        warnings.map(|warning| format!("{at}: {warning}")).collect(),
    )
}
