//! What an update does to replicas of the old revision that are still there.

use super::facts::REMEDY;
use super::stamp::{Order, revision};
use super::view::{EXCLUSIVE_TOPOLOGY, LeaderWorkerSet};
use crate::gang::{FieldError, FieldPath, Stamp};
use crate::workload::{Template, Transition, Workload};

/// Compares a stored set, whose templates carry `stamp`, with what an update makes of it.
pub(crate) fn transition(
    new: &LeaderWorkerSet<'_>,
    old: &dyn Workload,
    stamp: &Stamp,
    template: Template,
) -> Transition {
    let order = revision(stamp).order;
    let mut transition = Transition {
        errors: dead_ends(new, old, stamp, order),
        warnings: Vec::new(),
    };
    match template {
        Template::Kept if transition.errors.is_empty() && order != new.order() => {
            let detail = format!("its gangs are made for the order that it has; {REMEDY}");
            transition.errors.push(policy_error(new, detail));
        }
        Template::Kept => {}
        Template::Replaced => transition.warnings.extend(shrinks(new, stamp)),
    }
    transition
}

/// What deadlocks replicas of the old revision that are recreated before the rollout reaches them:
/// LeaderWorkerSet (0.9) makes their workers by the new order, and they wait for all by their stamp.
fn dead_ends(
    new: &LeaderWorkerSet<'_>,
    old: &dyn Workload,
    stamp: &Stamp,
    order: Order,
) -> Vec<FieldError> {
    if order != Order::Together || stamp.size < 2 {
        return Vec::new();
    }
    let detail = "replicas that are recreated before the rollout reaches them would wait for \
                  workers that are not made; recreate the LeaderWorkerSet";
    let mut errors = Vec::new();
    if new.order() == Order::LeaderFirst {
        errors.push(policy_error(new, detail.to_owned()));
    }
    let exclusive = |set: &dyn Workload| set.meta().annotation(EXCLUSIVE_TOPOLOGY).is_some();
    if exclusive(new) && !exclusive(old) {
        let at = FieldPath::new("metadata").child("annotations");
        errors.push(FieldError::forbidden(at.key(EXCLUSIVE_TOPOLOGY), detail));
    }
    errors
}

fn policy_error(new: &LeaderWorkerSet<'_>, detail: String) -> FieldError {
    let at = FieldPath::new("spec").child("startupPolicy");
    let value = new.spec.startup_policy.as_deref().unwrap_or_default();
    FieldError::invalid(at, value, detail)
}

/// Up to 0.9 LeaderWorkerSet gives replicas of the old revision the new size when it recreates them.
fn shrinks(new: &LeaderWorkerSet<'_>, stamp: &Stamp) -> Option<String> {
    let (was, is) = (u64::from(stamp.size), new.size());
    (is < was).then(|| {
        format!(
            "a replica that is recreated before the rollout reaches it waits for {was} pods, and \
             LeaderWorkerSet up to 0.9 makes {is} of them"
        )
    })
}
