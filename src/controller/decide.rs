//! What to do about a workload: pure, from what is wanted and what is seen.

use std::collections::HashSet;
use std::time::Duration;

use kube::core::DynamicObject;

use super::bundles::missing_pods;
use super::bundles::partners::{self, Partner};
use super::gang_members::GangMembers;
use super::gang_objects::{self, GangObjects, InUse};
pub use super::gang_status::{GangStatus, State};
use super::gang_status::{count, status, stranded};
pub use super::kinds::Workload;
use super::kinds::{jobset, lws};
use super::observe::{PodPhase, SeenPod};
use crate::gang::{Gang, Owner, Plan, TimeoutAction};
use crate::scheduler::abilities::{NewRoom, QuorumChange};
use crate::scheduler::{Queue, Scheduler, Snapshot};
use crate::workload::view::Meta;

/// Everything that is known when a workload is looked at.
#[derive(Clone, Copy)]
pub struct Seen<'a> {
    pub workload: Workload<'a>,
    pub namespace: &'a str,
    /// Its members.
    pub pods: &'a [SeenPod],
    /// What Muster has made for it.
    pub made: &'a [DynamicObject],
    /// The JobSets that it names in `muster.dev/bundle-with`.
    pub partners: &'a [Partner],
}

/// What to do.
#[derive(Debug, Default)]
pub struct Actions {
    pub apply: Vec<DynamicObject>,
    pub delete: Vec<DynamicObject>,
    pub gangs: Vec<GangStatus>,
    /// Objects of gangs that wait, on a scheduler that does not notice new room by itself.
    pub sleepers: Vec<DynamicObject>,
    /// Why gangs that wait never start once a waiting member is deleted, if so.
    pub orphans: Option<&'static str>,
    /// The queue of gangs that wait.
    pub queue: Option<Queue>,
    /// Gangs are asked for, and the workload is suspended.
    pub suspended: bool,
    /// The workload goes on without a gang: it no longer asks for one, or has no replica.
    pub idle: bool,
    /// A gang that is asked for has no pod yet, and so is not among the gangs.
    pub unmade: bool,
    /// What was told of a gang that the scheduler does not hold together.
    pub broken: Option<String>,
    /// Why nothing is made, although a gang is asked for.
    pub refused: Option<String>,
    /// How long a gang may wait, and what happens then.
    pub timeout: Option<(Duration, TimeoutAction)>,
}

impl Actions {
    /// A better reason than the scheduler's own for every gang that waits.
    pub fn blame(&mut self, why: &str) {
        for gang in &mut self.gangs {
            if let State::Waiting(reason) = &mut gang.state {
                *reason = Some(why.to_owned());
            }
        }
    }
}

/// What is seen of a workload, by gang and by name.
pub struct Grouped<'a> {
    pub seen: Seen<'a>,
    pub members: GangMembers<'a>,
    pub made: GangObjects<'a>,
}

/// Decides what a workload needs.
pub fn decide(seen: &Seen<'_>, cluster: &Snapshot) -> Actions {
    let mut actions = Actions::default();
    let grouped = Grouped {
        seen: *seen,
        members: GangMembers::group(seen.pods),
        made: GangObjects::by_name(seen.made),
    };
    let wanted = match seen.workload {
        // Objects of a workload that is being deleted are left to the garbage collector.
        Workload::JobSet(jobset) if jobset.managed_by_other() || jobset.metadata.deleting() => {
            return actions;
        }
        Workload::LeaderWorkerSet(lws) if lws.metadata.deleting() => return actions,
        Workload::JobSet(jobset) => jobset::wanted(&grouped, jobset, cluster, &mut actions),
        Workload::LeaderWorkerSet(lws) => lws::wanted(&grouped, lws, cluster, &mut actions),
    };
    let kept: HashSet<&str> = wanted.iter().filter_map(name).collect();
    let used = InUse::by(seen.pods);
    let deletable = |object: &&DynamicObject| {
        let kept = name(object).is_some_and(|name| kept.contains(name));
        let going = object.metadata.deletion_timestamp.is_some();
        // Old gangs go when their pods are gone: a scheduler that loses a gang's object while its
        // pods wait would count them by themselves.
        !kept && !going && !used.contains(object)
    };
    actions.delete = seen.made.iter().filter(deletable).cloned().collect();
    actions.apply = wanted
        .into_iter()
        .map(gang_objects::with_hash)
        .filter(|object| !grouped.made.is_settled(object))
        .collect();
    actions
}

fn name(object: &DynamicObject) -> Option<&str> {
    object.metadata.name.as_deref()
}

/// Notes how gangs stand, and says which objects they need.
pub fn follow(
    grouped: &Grouped<'_>,
    backend: &dyn Scheduler,
    owner: &Owner,
    plan: &Plan,
    mut gangs: Vec<Gang<'_>>,
    actions: &mut Actions,
) -> Vec<DynamicObject> {
    let mut statuses = Vec::new();
    for gang in &mut gangs {
        let members = grouped.members.of(&gang.identity);
        let mut why = None;
        match backend.abilities().quorum_change {
            QuorumChange::Live => gang.shrink(count(members, PodPhase::Succeeded) as u64),
            QuorumChange::Never(reason) => why = stranded(gang, members, reason),
            QuorumChange::NotNeeded => {}
        }
        statuses.push(GangStatus {
            stranded: why,
            suspect: backend.suspect(),
            ..status(gang, members, &grouped.made)
        });
    }
    missing_pods::explain(&gangs, grouped.seen.partners, &mut statuses);
    let objects = partners::objects(grouped, plan, backend, owner, gangs, &mut statuses);
    actions.orphans = backend.orphans();
    if statuses.iter().any(GangStatus::waits) {
        actions.queue = backend.queue(plan);
    }
    if backend.abilities().new_room == NewRoom::WhenNudged {
        actions.sleepers.extend(sleepers(&statuses, &objects));
    }
    actions.gangs.extend(statuses);
    objects
}

fn sleepers(gangs: &[GangStatus], objects: &[DynamicObject]) -> Vec<DynamicObject> {
    let waiting = gangs.iter().filter(|gang| gang.waits());
    let waiting: HashSet<&str> = waiting.map(|gang| gang.name.as_str()).collect();
    let sleeps = |object: &&DynamicObject| name(object).is_some_and(|n| waiting.contains(n));
    objects.iter().filter(sleeps).cloned().collect()
}

/// The workload as owner of its objects.
pub(super) fn owner_as(
    (api_version, kind): (&'static str, &'static str),
    seen: &Seen<'_>,
    meta: &Meta<'_>,
) -> Owner {
    Owner {
        api_version,
        kind,
        namespace: seen.namespace.to_owned(),
        name: meta.name.as_deref().unwrap_or_default().to_owned(),
        uid: meta.uid.as_deref().unwrap_or_default().to_owned(),
    }
}
