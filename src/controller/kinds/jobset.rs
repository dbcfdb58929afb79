//! The gangs of a JobSet: those of its current start, from its spec and its status.

use std::collections::HashMap;

use kube::core::DynamicObject;

use crate::admission::jobsets;
use crate::admission::judge::Judged;
use crate::controller::decide::{Actions, Grouped, Seen, follow, owner_as};
use crate::gang::{Attempt, Gang, Level, Owner};
use crate::scheduler::{Scheduler, Snapshot};
use crate::workload::jobset::update;
use crate::workload::jobset::view::{API_VERSION, JobSet, KIND};
use crate::workload::keys;

/// The objects that must exist now, and how each gang stands.
pub fn wanted(
    grouped: &Grouped<'_>,
    jobset: &JobSet<'_>,
    cluster: &Snapshot,
    actions: &mut Actions,
) -> Vec<DynamicObject> {
    let judged = jobsets::judge_stored(jobset, grouped.seen.namespace, cluster);
    let policy = &judged.plan.policy;
    let action = policy.timeout_action.as_ref().map(|action| action.value);
    let limit = policy.timeout.as_ref().map(|timeout| timeout.value);
    actions.timeout = limit.map(|limit| (limit, action.unwrap_or_default()));
    let ended = jobset.finished();
    actions.suspended = jobset.suspended() && !ended && !judged.plan.parts.is_empty();
    if ended || jobset.suspended() {
        Vec::new()
    } else {
        live(grouped, jobset, &judged, actions)
    }
}

/// The same for a JobSet that neither is suspended nor has ended.
fn live(
    grouped: &Grouped<'_>,
    jobset: &JobSet<'_>,
    judged: &Judged,
    actions: &mut Actions,
) -> Vec<DynamicObject> {
    let Some(backend) = judged.backend else {
        actions.refused = judged.errors.first().map(ToString::to_string);
        return Vec::new();
    };
    if !is_stamped(jobset) {
        let reason = "the JobSet was created without Muster and its pods carry no stamp: recreate \
                      it to run it as a gang";
        actions.refused = Some(reason.to_owned());
        return Vec::new();
    }
    let owner = owner(&grouped.seen, jobset);
    let gangs = gangs(jobset, judged, backend, &owner);
    follow(grouped, backend, &owner, &judged.plan, gangs, actions)
}

/// The owner of a JobSet's gangs.
pub fn owner(seen: &Seen<'_>, jobset: &JobSet<'_>) -> Owner {
    owner_as((API_VERSION, KIND), seen, &jobset.metadata)
}

/// The gangs of the JobSet's current start; each replica with its own restarts.
pub fn gangs<'p>(
    jobset: &JobSet<'_>,
    judged: &'p Judged,
    backend: &dyn Scheduler,
    owner: &Owner,
) -> Vec<Gang<'p>> {
    let whole = jobset.status.restarts;
    let round = backend.round(update::round(&jobset.metadata));
    let mut gangs = judged.plan.gangs(owner, Attempt { whole, own: 0 }, round);
    let groups = jobset.status.replicated_jobs_status.iter();
    let restarts: HashMap<&str, &[u32]> = groups
        .map(|group| (&*group.name, &*group.job_restarts))
        .collect();
    for gang in &mut gangs {
        if let (Level::Replica, Some(index)) = (gang.part.level(), gang.identity.index) {
            let part = restarts.get(gang.identity.part.as_str());
            let own = part.and_then(|restarts| restarts.get(index as usize));
            gang.identity.attempt.own = own.copied().unwrap_or(0);
        }
    }
    gangs
}

pub fn is_stamped(jobset: &JobSet<'_>) -> bool {
    jobset.spec.replicated_jobs.iter().any(|job| {
        let meta = job.template.metadata.as_ref();
        meta.is_some_and(|m| m.annotation(keys::STAMP).is_some())
    })
}
