//! LeaderWorkerSets: read, resolve the scheduler, refuse or stamp.
//!
//! A change of `leaderWorkerTemplate` replaces every replica, so Muster never makes one: stamps are
//! written when the set is created, and later only together with a change of the user's own. What
//! an update drops of them is put back, and the template is then the stored one again.

mod stamps;

use std::collections::BTreeMap;

use serde_json::Value;

use super::judge::{Judged, choose};
use super::patch::PatchBuilder;
use super::{Decided, Decision, Patch, Phase, Review};
use crate::gang::{FieldError, FieldPath, Located, Order, Unasked};
use crate::scheduler::{self, Snapshot};
use crate::workload::keys::{self, Place};
use crate::workload::lws;
use crate::workload::lws::view::{EXCLUSIVE_TOPOLOGY, LeaderWorkerSet};
use stamps::{is_same, missing, put_back, stamp, take_back};

/// What an update may not change by itself.
const REMEDY: &str = "change leaderWorkerTemplate in the same update, which replaces every replica \
                      anyway, or create the LeaderWorkerSet anew";

/// Reads a LeaderWorkerSet that is stamped now, and holds its plan against its scheduler: the one
/// that was chosen for it before, unless it names another.
fn judge(
    lws: &LeaderWorkerSet<'_>,
    old: Option<&LeaderWorkerSet<'_>>,
    namespace: &str,
    cluster: &Snapshot,
    unasked: Unasked,
) -> Judged {
    let mut reading = lws::read(lws, unasked);
    let policy = &mut reading.plan.policy;
    let stored = old.and_then(|old| old.metadata.annotation(keys::SCHEDULER));
    if let (None, Some(stored)) = (lws.metadata.annotation(keys::SCHEDULER), stored) {
        let at = FieldPath::new("metadata").child("annotations");
        let at = at.key(keys::SCHEDULER);
        policy.scheduler = stored.parse().ok().map(|kind| Located::new(kind, at));
    }
    Judged::of(reading, |plan| choose(plan, namespace, cluster))
}

/// The same for one whose replicas keep what was stamped on them.
pub fn judge_stored(lws: &LeaderWorkerSet<'_>, namespace: &str, cluster: &Snapshot) -> Judged {
    judge_kept(lws, namespace, cluster, Unasked::Alone)
}

fn judge_kept(
    lws: &LeaderWorkerSet<'_>,
    namespace: &str,
    cluster: &Snapshot,
    unasked: Unasked,
) -> Judged {
    Judged::of(lws::read(lws, unasked), |plan| {
        let kept = lws.stamp().map(|stamp| scheduler::stamped(&stamp, cluster));
        match kept {
            Some(Ok(backend)) => Ok(backend),
            _ => choose(plan, namespace, cluster),
        }
    })
}

pub fn decide(
    phase: Phase,
    review: &Review<'_>,
    new: &LeaderWorkerSet<'_>,
    old: Option<&LeaderWorkerSet<'_>>,
    cluster: &Snapshot,
) -> Decided {
    if new.metadata.deleting() {
        return Decided::untouched();
    }
    let namespace = review.namespace();
    let mut unasked = unasked(cluster);
    let mut refused = Vec::new();
    let mut warnings = Vec::new();
    let mut stamped_before = None;
    if let Some(old) = old {
        let before = judge_stored(old, namespace, cluster);
        let kept = put_back(old, new, &before);
        let lost = lost_by_accident(review, old, new, cluster);
        if is_same(old, new, &kept) {
            let now = judge_kept(new, namespace, cluster, lost.unwrap_or_default());
            return keep(phase, old, new, before, now, kept);
        }
        unasked = lost.unwrap_or(unasked);
        stamped_before = old.stamp().is_some().then_some(before);
        refused = dead_ends(old, new);
        warnings.extend(shrinks(old, new));
    }
    let mut judged = judge(new, old, namespace, cluster, unasked);
    replace(&mut judged.errors, refused);
    judged.warnings.extend(warnings);
    if let (Some(old), None) = (old, judged.backend) {
        judged.warnings.extend(stamps::taken_back(old, new));
    }
    let gang = judged.gang();
    let mut patch = PatchBuilder::default();
    match phase {
        Phase::Mutate => {
            if let Some(before) = &stamped_before {
                take_back(&mut patch, new, before, &judged);
            }
            stamp(&mut patch, new, &judged);
        }
        Phase::Validate if judged.errors.is_empty() => judged.errors = missing(new, &judged),
        Phase::Validate => {}
    }
    finish(phase, judged.errors, judged.warnings, patch.finish()).about(gang)
}

fn finish(
    phase: Phase,
    errors: Vec<FieldError>,
    mut warnings: Vec<String>,
    patch: Patch,
) -> Decision {
    if phase == Phase::Mutate {
        // The second phase says them, on the final object.
        warnings.clear();
    }
    if errors.is_empty() {
        return Decision::allow(patch, warnings);
    }
    Decision::Deny { errors, warnings }
}

/// An update that leaves the template as it is: the gangs stay what they are.
fn keep(
    phase: Phase,
    old: &LeaderWorkerSet<'_>,
    new: &LeaderWorkerSet<'_>,
    before: Judged,
    mut now: Judged,
    mut patch: PatchBuilder,
) -> Decided {
    let gang = now.gang();
    // An error that the stored object already has must not hold up other updates.
    now.errors.retain(|error| !before.errors.contains(error));
    let stamped = old.stamp().is_some();
    if stamped {
        now.errors.extend(changed_knobs(old, new));
    }
    let dead_ends = dead_ends(old, new);
    if stamped && dead_ends.is_empty() && old.order() != new.order() {
        let detail = format!("its gangs are made for the order that it has; {REMEDY}");
        let at = FieldPath::new("spec").child("startupPolicy");
        let value = new.spec.startup_policy.as_deref().unwrap_or_default();
        now.errors.push(FieldError::invalid(at, value, detail));
    }
    replace(&mut now.errors, dead_ends);
    if !stamped && !now.plan.parts.is_empty() {
        now.warnings.push(
            "this LeaderWorkerSet was created without Muster, and its replicas are no gangs until \
             its leaderWorkerTemplate changes"
                .to_owned(),
        );
    }
    // `kubectl replace` drops what Muster wrote; the mode only where its loss is an accident.
    let mut own = BTreeMap::new();
    for key in [keys::SCHEDULER, keys::GANG_MODE] {
        let was = old.metadata.annotation(key);
        let accident = match key {
            keys::SCHEDULER => stamped,
            _ => !now.plan.parts.is_empty(),
        };
        if let (Some(was), None, true) = (was, new.metadata.annotation(key), accident) {
            own.insert(key, was.to_owned());
        }
    }
    patch.metadata(&[], Some(&new.metadata), &BTreeMap::new(), &own);
    if phase == Phase::Mutate && own.contains_key(keys::GANG_MODE) {
        now.errors.clear();
    }
    let patch = match phase {
        Phase::Mutate => patch.finish(),
        Phase::Validate => PatchBuilder::default().finish(),
    };
    finish(phase, now.errors, now.warnings, patch).about(gang)
}

/// What becomes of a set that says nothing of gangs, by configuration.
fn unasked(cluster: &Snapshot) -> Unasked {
    match cluster.ganged_unasked.contains(&lws::view::KIND) {
        true => Unasked::Ganged,
        false => Unasked::Alone,
    }
}

/// The mode was dropped and is to be put back: by a controller whose types do not know it, or where
/// every set is ganged and Muster itself had written it.
fn lost_by_accident(
    review: &Review<'_>,
    old: &LeaderWorkerSet<'_>,
    new: &LeaderWorkerSet<'_>,
    cluster: &Snapshot,
) -> Option<Unasked> {
    let dropped = old.asks() && new.metadata.annotation(keys::GANG_MODE).is_none();
    let all = unasked(cluster) == Unasked::Ganged;
    (dropped && (all || review.by_service_account())).then_some(Unasked::Ganged)
}

/// Adds errors that say more than others of the same field.
fn replace(errors: &mut Vec<FieldError>, better: Vec<FieldError>) {
    errors.retain(|error| better.iter().all(|other| other.field != error.field));
    errors.extend(better);
}

/// What deadlocks replicas of the old revision that are made anew before the rollout reaches them:
/// LeaderWorkerSet (0.9) makes their workers by the new order, and they wait for all by their stamp.
fn dead_ends(old: &LeaderWorkerSet<'_>, new: &LeaderWorkerSet<'_>) -> Vec<FieldError> {
    let order = old.stamp().and_then(|stamp| stamp.revision);
    if order.map(|revision| revision.order) != Some(Order::Together) || old.size() < 2 {
        return Vec::new();
    }
    let detail = "replicas that are made anew before the rollout reaches them would wait for \
                  workers that are not made; create the LeaderWorkerSet anew";
    let mut errors = Vec::new();
    if new.order() == Order::LeaderFirst {
        let at = FieldPath::new("spec").child("startupPolicy");
        let value = new.spec.startup_policy.as_deref().unwrap_or_default();
        errors.push(FieldError::invalid(at, value, detail));
    }
    let exclusive = |lws: &LeaderWorkerSet<'_>| {
        let key = lws.metadata.annotation(EXCLUSIVE_TOPOLOGY);
        key.is_some()
    };
    if exclusive(new) && !exclusive(old) {
        let at = FieldPath::new("metadata").child("annotations");
        errors.push(FieldError::forbidden(at.key(EXCLUSIVE_TOPOLOGY), detail));
    }
    errors
}

/// Up to 0.9 LeaderWorkerSet gives replicas of the old revision the new size when they are made anew.
fn shrinks(old: &LeaderWorkerSet<'_>, new: &LeaderWorkerSet<'_>) -> Option<String> {
    let stamped = old.stamp().is_some();
    (stamped && new.size() < old.size()).then(|| {
        format!(
            "a replica that is made anew before the rollout reaches it waits for {} pods, and \
             LeaderWorkerSet up to 0.9 makes {} of them",
            old.size(),
            new.size()
        )
    })
}

/// The `muster.dev/` annotations that differ, but for the timeouts and a dropped choice.
fn changed_knobs(old: &LeaderWorkerSet<'_>, new: &LeaderWorkerSet<'_>) -> Vec<FieldError> {
    let annotations = FieldPath::new("metadata").child("annotations");
    // A key that does not exist has its own error.
    let known = |key: &str| keys::check_annotation(Place::LeaderWorkerSet, &annotations, key);
    let ours = |key: &&str| {
        key.starts_with(keys::PREFIX) && !keys::is_mutable(key) && known(key).is_none()
    };
    let all = [old, new].into_iter();
    let all = all.flat_map(|lws| lws.metadata.annotations().map(|(key, _)| key));
    let mut all: Vec<&str> = all.filter(ours).collect();
    all.sort_unstable();
    all.dedup();
    let mut errors = Vec::new();
    for key in all {
        let (was, is) = (old.metadata.annotation(key), new.metadata.annotation(key));
        let dropped_choice = key == keys::SCHEDULER && is.is_none();
        if was != is && !dropped_choice {
            let before = was.map_or("was not set".to_owned(), |was| format!("was {was:?}"));
            let detail = format!("it {before}, and the replicas keep their gangs; {REMEDY}");
            let value = is.map_or(Value::Null, Value::from);
            errors.push(FieldError::invalid(annotations.key(key), value, detail));
        }
    }
    errors
}
