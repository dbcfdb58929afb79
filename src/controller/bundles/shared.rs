//! Bundles over several workloads whose gangs share one object.
//!
//! It is named after all of them, and so the same whatever becomes of one. The first of those that live
//! writes it, for all: it counts each gang that lives by itself, and is owned by all, so that it goes
//! with the last. A side that is deleted or ends drops out of it, and the others replace their pods. A side
//! that restarts, or comes back, is counted beside those that run: it starts all or nothing, and until it
//! does, a pod of theirs that is to be replaced waits with it.
//!
//! A pod that the object does not count is placed as soon as those that it counts are (Volcano 1.14). So
//! while a side is gone, and nobody waits for a node, the object also asks for a pod that never comes: the
//! pods of a side that comes back wait until it is counted. (Pods beyond a quorum may wait for a node for
//! long; only then can a side that comes back in that moment find the door open.)
//!
//! Pure.

use std::collections::HashSet;

use super::partners::{Partner, PartnerState, Present, itself};
use super::start::{Next, Others, Own, is_shared, too_many, waits};
use crate::gang::{Allies, Gang, Identity, PartName, Plan};
use crate::scheduler::Scheduler;

/// The part of a gang that has no pods.
const NOBODY: &str = "nobody";

pub(super) fn next(own: &Own<'_>, others: Others<'_>, most: usize) -> Next {
    let present = || others.present.iter();
    let references: Vec<_> = present()
        .flat_map(|(_, present, _)| present.references.iter().cloned())
        .collect();
    let gangs = present().flat_map(|(.., side)| side.gangs.iter().cloned());
    let mut allies = Allies {
        gangs: gangs.collect(),
        nobody: None,
    };
    if !others.missing.is_empty() {
        let closed = Allies {
            nobody: Some(nobody(own).name()),
            ..allies.clone()
        };
        // Also where all that were placed have gone, and were allowed to start without the missing one.
        let settled = |allies: &Allies| own.is_settled(own.objects(allies.clone(), &references));
        let begun = own.stands().started || others.started();
        if !begun && !settled(&allies) && !settled(&closed) {
            return waits(own.bundle, &others);
        }
        if !own.stands().waits && !present().any(|(.., side)| side.stands.waits) {
            allies = closed;
        }
    }
    if let Some(next) = too_many(own, &allies, most).or_else(|| too_large(own, &allies)) {
        return next;
    }
    let seen = &own.grouped.seen;
    let itself = itself(seen.workload, seen.namespace);
    let first = present().map(|(other, ..)| *other).min();
    match first.filter(|first| **first < itself) {
        Some(keeper) => Next::KeptBy(keeper.clone()),
        None => Next::Shares(allies, references),
    }
}

/// A gang of the bundle that no pod says it is in.
fn nobody(own: &Own<'_>) -> Identity {
    Identity {
        namespace: own.grouped.seen.namespace.to_owned(),
        workload: own.bundle.to_owned(),
        part: PartName::new(NOBODY),
        ..Identity::default()
    }
}

/// One object waits in one queue.
pub(super) fn same_queue(own: &Own<'_>, other: &Present) -> Result<(), String> {
    let queue = own.backend.queue(own.plan).map(|queue| queue.name);
    match (&other.queue, &queue) {
        (theirs, ours) if theirs == ours => Ok(()),
        (theirs, ours) => {
            let [theirs, ours] = [theirs, ours].map(|queue| queue.as_deref().unwrap_or_default());
            Err(format!(
                "it waits in the queue {theirs:?}, and this one in {ours:?}: they share one PodGroup"
            ))
        }
    }
}

fn too_large(own: &Own<'_>, allies: &Allies) -> Option<Next> {
    let quorums = own.gangs.iter().map(Gang::quorum);
    let quorums = quorums.chain(allies.gangs.iter().map(|ally| ally.quorum));
    let pods: u64 = quorums.map(u64::from).sum();
    // One may be asked for that never comes.
    (pods >= i32::MAX as u64).then(|| {
        let bundle = own.bundle;
        Next::Waits(format!(
            "the bundle {bundle:?} has {pods} pods in all its workloads, more than the scheduler can \
             count"
        ))
    })
}

/// The names of objects of a plan that others need too.
pub fn needed_by_others(
    plan: &Plan,
    backend: Option<&dyn Scheduler>,
    partners: &[Partner],
) -> HashSet<String> {
    let alive = |partner: &Partner| matches!(partner.state, PartnerState::Present(_));
    let needed = backend.is_some_and(is_shared) && partners.iter().any(alive);
    let Some(circle) = plan.policy.bundle_with.as_ref().filter(|_| needed) else {
        return HashSet::new();
    };
    let bundles = plan.parts.iter().filter_map(|part| part.bundle());
    let name = |bundle: &str| circle.value.name(bundle).into_string();
    bundles.map(|bundle| name(bundle.value.as_str())).collect()
}

/// Whether a gang has its object together with those of other workloads.
pub fn is_in_one(gang: &Gang<'_>, backend: &dyn Scheduler, partners: &[Partner]) -> bool {
    is_shared(backend) && gang.part.bundle().is_some() && !partners.is_empty()
}
