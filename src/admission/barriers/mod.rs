//! The start barrier at admission: its container goes into the templates of a workload when that is
//! created, and each pod is told which barrier it waits at ([`pods`]).
//!
//! What is injected is part of what a user's object asks for: it goes in before the object is judged,
//! so that what the container asks for counts for the gang.

mod lists;
pub(super) mod pods;

use std::collections::BTreeMap;

use serde_json::Value;

use super::patch::PatchBuilder;
use super::review::Turn;
use super::stamps::{Pen, UnknownKey};
use super::{Decided, Operation, Patch, Phase, Review, Unanswerable};
use crate::barrier::container;
use crate::gang::barrier::{CLOCK_VOLUME, CONTAINER, VOLUME};
use crate::gang::seal::Verdict;
use crate::gang::{Barrier, FieldError, WaitContainer};
use crate::judge::Judged;
use crate::scheduler::Snapshot;
use crate::workload::child::Child;
use crate::workload::{Site, Workload, keys, site};
use lists::List;

/// What is sealed: a stamp of a barrier says no more than that there is one.
const STAMP: &str = r#"{"barrier":"start"}"#;

/// Whether a pod is created that waits at a barrier.
pub(super) fn waits(review: &Review<'_>, child: &Child<'_>) -> bool {
    let created = review.operation == Operation::Create && !child.meta.deleting();
    created && child.is_pod() && child.meta.label(keys::BARRIER).is_some()
}

/// Changes the object, and decides about what comes of it.
pub(super) fn decide_again(
    phase: Phase,
    review: &Review<'_>,
    first: Patch,
    cluster: &Snapshot,
) -> Result<Decided, Unanswerable> {
    let internal = |error: String| Unanswerable::Internal(error);
    if review.turn == Turn::Second {
        return Err(internal(
            "what a start barrier needs is still missing".to_owned(),
        ));
    }
    let mut body: Value = serde_json::from_slice(review.body)?;
    let object = body.pointer_mut("/request/object");
    let object = object.ok_or_else(|| internal("the request has lost its object".to_owned()))?;
    json_patch::patch(object, &first).map_err(|error| internal(error.to_string()))?;
    let body = serde_json::to_vec(&body)?;
    let mut changed = Review::parse(&body)?;
    changed.turn = Turn::Second;
    let Decided { decision, gang } = super::decide(phase, &changed, cluster)?;
    Ok(decision.after(first).about(gang))
}

/// What the templates of a new workload need for its barrier. What a copied manifest has of another
/// one's is replaced or taken out.
pub(super) fn created(
    workload: &dyn Workload,
    judged: &Judged,
    pen: Pen<'_>,
    settings: &WaitContainer,
) -> Patch {
    let mut patch = PatchBuilder::default();
    if !judged.errors.is_empty() {
        return patch.finish();
    }
    for site in workload.sites().iter().filter(|site| site.pods.is_some()) {
        match target(judged, site) {
            Some(barrier) => {
                inject(&mut patch, site, barrier, settings);
                stamp(&mut patch, workload, site, pen);
            }
            None => take_out(&mut patch, site),
        }
    }
    patch.finish()
}

/// The barrier that the pods of a template wait at.
fn target<'j>(judged: &'j Judged, site: &Site<'_>) -> Option<&'j Barrier> {
    let barrier = judged.plan.barrier.as_ref()?;
    (site.pods.is_some() && barrier.targets(site.role)).then_some(barrier)
}

/// Last of the init containers: what these load is not held up, and sidecars run by then.
fn inject(patch: &mut PatchBuilder, site: &Site<'_>, barrier: &Barrier, settings: &WaitContainer) {
    patch.create(&site.missing);
    let container = container::container(barrier, settings);
    List::containers(site).put_last(patch, site, container);
    let mut volumes = List::volumes(site);
    for volume in container::volumes() {
        volumes.put(patch, site, volume);
    }
}

fn stamp(patch: &mut PatchBuilder, workload: &dyn Workload, site: &Site<'_>, pen: Pen<'_>) {
    let bearer = pen.bearer(workload, keys::BARRIER);
    let is = site.annotation(keys::BARRIER_STAMP);
    let good = is.is_some_and(|text| pen.seals.check(&bearer, text) == Verdict::Good);
    let mut annotations = BTreeMap::new();
    if !good {
        annotations.insert(keys::BARRIER_STAMP, pen.seals.seal(&bearer, STAMP));
    }
    let labels = BTreeMap::from([(keys::BARRIER, site.role.to_owned())]);
    patch.metadata(&site.tokens(), site.meta, &labels, &annotations);
}

/// A template that no longer waits would wait for ever.
fn take_out(patch: &mut PatchBuilder, site: &Site<'_>) {
    let base = site.tokens();
    if site.label(keys::BARRIER).is_some() {
        patch.remove(&[&base[..], &["metadata", "labels", keys::BARRIER]].concat());
    }
    if site.annotation(keys::BARRIER_STAMP).is_none() {
        return;
    }
    patch.remove(&[&base[..], &["metadata", "annotations", keys::BARRIER_STAMP]].concat());
    List::containers(site).drop(patch, site, &[CONTAINER]);
    List::volumes(site).drop(patch, site, &[VOLUME, CLOCK_VOLUME]);
}

/// What an update drops of a stored workload's barrier, as it is stored: another version of Muster, or
/// another configuration, may have written it.
pub(super) fn put_back(old: &dyn Workload, new: &dyn Workload) -> Patch {
    let mut patch = PatchBuilder::default();
    let sites = new.sites();
    let sites = site::by_key(&sites);
    for was in old.sites() {
        let stamped = was.annotation(keys::BARRIER_STAMP);
        let (Some(stamp), Some(site)) = (stamped, sites.get(&was.key())) else {
            continue;
        };
        patch.create(&site.missing);
        for (was, mut is) in [
            (List::containers(&was), List::containers(site)),
            (List::volumes(&was), List::volumes(site)),
        ] {
            for name in [CONTAINER, VOLUME, CLOCK_VOLUME] {
                if let (Some(item), None) = (was.named(name), is.named(name)) {
                    is.put(&mut patch, site, item.clone());
                }
            }
        }
        let labels = BTreeMap::from([(keys::BARRIER, site.role.to_owned())]);
        let annotations = BTreeMap::from([(keys::BARRIER_STAMP, stamp.to_owned())]);
        patch.metadata(&site.tokens(), site.meta, &labels, &annotations);
    }
    patch.finish()
}

/// A template without the container would start its pods before the others. One error for each.
pub(super) fn missing(
    workload: &dyn Workload,
    judged: &Judged,
    pen: Pen<'_>,
) -> Result<Vec<FieldError>, UnknownKey> {
    let mut errors = Vec::new();
    for site in workload.sites() {
        if target(judged, &site).is_none() {
            continue;
        }
        let bearer = pen.bearer(workload, keys::BARRIER);
        let sealed = match site.annotation(keys::BARRIER_STAMP) {
            None => false,
            Some(text) => match pen.seals.check(&bearer, text) {
                Verdict::Good => true,
                Verdict::Unknown => return Err(UnknownKey),
                Verdict::Unsealed | Verdict::Broken => false,
            },
        };
        let volumes = List::volumes(&site);
        let there = List::containers(&site)
            .named(CONTAINER)
            .is_some_and(is_ours)
            && [VOLUME, CLOCK_VOLUME]
                .iter()
                .all(|name| volumes.named(name).is_some());
        if !sealed || !there || site.label(keys::BARRIER).is_none() {
            let at = site.at.child("spec").child("initContainers");
            errors.push(FieldError::required(
                at,
                format!(
                    "this template lacks the container {CONTAINER} of the start barrier, and its \
                     pods would not wait: a webhook changed it after Muster's mutating webhook"
                ),
            ));
        }
    }
    Ok(errors)
}

/// Whether a container waits. Its image may be another: registries are mirrored by webhooks.
fn is_ours(container: &Value) -> bool {
    container["command"][1] == "wait"
}
