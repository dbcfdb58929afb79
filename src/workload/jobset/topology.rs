//! Exclusive topology and gangs.
//!
//! With `alpha.jobset.sigs.k8s.io/exclusive-topology`, JobSet's pod webhook refuses to create the
//! followers of a Job until its leader (index 0) is scheduled. A gang whose quorum is larger than
//! the pods that can exist before anything is bound never starts. The node-selector strategy has
//! no such rule.

use crate::gang::{FieldError, Level, Part};
use crate::workload::view::Meta;

use super::order::Order;
use super::view::{EXCLUSIVE_TOPOLOGY, JobSet, NODE_SELECTOR_STRATEGY, ReplicatedJob};

pub(crate) fn check(jobset: &JobSet<'_>, order: &Order<'_>, part: &Part) -> Option<FieldError> {
    let mut exclusive = 0;
    let mut creatable: u64 = 0;
    for role in part.roles() {
        let Some(position) = order.position(&role.name) else {
            continue;
        };
        let job = &jobset.spec.replicated_jobs[position];
        let leaders = match part.level() {
            Level::Replica => 1,
            Level::Whole | Level::Group => job.jobs(),
        };
        let pods = if holds_followers(&jobset.metadata, job) {
            exclusive += 1;
            role.pods.min(leaders)
        } else {
            role.pods
        };
        creatable = creatable.saturating_add(pods);
    }
    if exclusive == 0 || !part.waits_for_itself(creatable) {
        return None;
    }
    Some(FieldError::forbidden(
        part.at().clone(),
        format!(
            "the gang waits for {} pods, but with {EXCLUSIVE_TOPOLOGY} only {creatable} can exist \
             before a leader is scheduled; use the {NODE_SELECTOR_STRATEGY} strategy or a \
             muster.dev/min-count of at most {creatable}",
            part.quorum()
        ),
    ))
}

/// Whether the pods carry the annotation without the strategy. JobSet copies the strategy only from
/// the level that has the topology (`labelAndAnnotateObject`, v0.12).
pub(crate) fn holds_followers(jobset: &Meta<'_>, job: &ReplicatedJob<'_>) -> bool {
    let levels = [Some(jobset), job.template.metadata.as_ref()];
    let has = |meta: Option<&Meta<'_>>, key| meta.is_some_and(|m| m.annotation(key).is_some());
    let pods = job.template.spec.template.metadata.as_ref();
    let exclusive = |meta| has(meta, EXCLUSIVE_TOPOLOGY);
    let strategy = |meta| has(meta, NODE_SELECTOR_STRATEGY);
    let held = levels.into_iter().any(exclusive) || exclusive(pods);
    let free = levels.into_iter().any(|m| exclusive(m) && strategy(m)) || strategy(pods);
    held && !free
}
