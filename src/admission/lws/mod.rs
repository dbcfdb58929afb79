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
use crate::gang::{FieldError, FieldPath, Located, Unasked};
use crate::scheduler::{self, Snapshot};
use crate::workload::keys;
use crate::workload::lws;
use crate::workload::lws::view::LeaderWorkerSet;
use stamps::{is_same, missing, put_back, stamp, stored_stamp};

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
) -> Judged {
    let mut reading = lws::read(lws, cluster.leader_worker_sets);
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
    Judged::of(lws::read(lws, Unasked::Alone), |plan| {
        let kept = stored_stamp(lws).map(|stamp| scheduler::stamped(&stamp, cluster));
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
    if let Some(old) = old {
        let before = judge_stored(old, namespace, cluster);
        let kept = put_back(old, new, &before);
        if is_same(old, new, &kept) {
            let now = judge_stored(new, namespace, cluster);
            return keep(phase, old, new, before, now, kept);
        }
    }
    let mut judged = judge(new, old, namespace, cluster);
    let gang = judged.gang();
    let mut patch = PatchBuilder::default();
    match phase {
        Phase::Mutate => stamp(&mut patch, new, &judged),
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
    now.errors.extend(changed_knobs(old, new));
    let stamped = stored_stamp(old).is_some();
    if stamped && old.order() != new.order() {
        let detail = format!("its gangs are made for the order that it has; {REMEDY}");
        let at = FieldPath::new("spec").child("startupPolicy");
        let value = new.spec.startup_policy.as_deref().unwrap_or_default();
        now.errors.push(FieldError::invalid(at, value, detail));
    }
    if !stamped && !now.plan.parts.is_empty() {
        now.warnings.push(
            "this LeaderWorkerSet was created without Muster, and its replicas are no gangs until \
             its leaderWorkerTemplate changes"
                .to_owned(),
        );
    }
    // `kubectl replace` drops what Muster wrote.
    let scheduler = old.metadata.annotation(keys::SCHEDULER);
    if let (Some(scheduler), None) = (scheduler, new.metadata.annotation(keys::SCHEDULER)) {
        let choice = BTreeMap::from([(keys::SCHEDULER, scheduler.to_owned())]);
        patch.metadata(&[], Some(&new.metadata), &BTreeMap::new(), &choice);
    }
    let patch = match phase {
        Phase::Mutate => patch.finish(),
        Phase::Validate => PatchBuilder::default().finish(),
    };
    finish(phase, now.errors, now.warnings, patch).about(gang)
}

/// The `muster.dev/` annotations that differ, but for the timeouts and a dropped choice.
fn changed_knobs(old: &LeaderWorkerSet<'_>, new: &LeaderWorkerSet<'_>) -> Vec<FieldError> {
    let ours = |key: &&str| key.starts_with(keys::PREFIX) && !keys::is_mutable(key);
    let all = [old, new].into_iter();
    let all = all.flat_map(|lws| lws.metadata.annotations().map(|(key, _)| key));
    let mut all: Vec<&str> = all.filter(ours).collect();
    all.sort_unstable();
    all.dedup();
    let annotations = FieldPath::new("metadata").child("annotations");
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
