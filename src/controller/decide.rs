//! What to do about a workload: pure, from what is wanted and what is seen.

use std::time::Duration;

use kube::core::DynamicObject;

use super::lacking;
use super::made;
use super::observe::{Phase, Pod};
use super::partners::{self, Partner};
use super::replicas;
pub use super::standing::{Standing, State};
use super::standing::{count, standing, strand};
use crate::admission::jobsets;
use crate::admission::judge::Judged;
use crate::gang::{Attempt, Gang, Level, Owner, Plan, TimeoutAction};
use crate::scheduler::abilities::{NewRoom, QuorumChange};
use crate::scheduler::{Queue, Scheduler, Snapshot};
use crate::workload::jobset::update;
use crate::workload::jobset::view::{API_VERSION, JobSet, KIND};
use crate::workload::keys;
use crate::workload::lws::view::LeaderWorkerSet;
use crate::workload::view::Meta;

/// A workload, as far as its gangs go.
#[derive(Debug, Clone, Copy)]
pub enum Workload<'a> {
    JobSet(&'a JobSet<'a>),
    LeaderWorkerSet(&'a LeaderWorkerSet<'a>),
}

/// Everything that is known when a workload is looked at.
#[derive(Clone, Copy)]
pub struct Seen<'a> {
    pub workload: Workload<'a>,
    pub namespace: &'a str,
    /// Its members.
    pub pods: &'a [Pod],
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
    pub gangs: Vec<Standing>,
    /// Objects of gangs that wait, on a scheduler that does not notice new room by itself.
    pub sleepers: Vec<DynamicObject>,
    /// Why gangs that wait never start once a waiting member is deleted, if so.
    pub orphans: Option<&'static str>,
    /// The queue of gangs that wait.
    pub queue: Option<Queue>,
    /// Gangs are asked for, and the workload is suspended.
    pub suspended: bool,
    /// The workload goes on, and has no gang now: none is asked for any more, or no replica.
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

/// Decides what a workload needs.
pub fn decide(seen: &Seen<'_>, cluster: &Snapshot) -> Actions {
    let mut actions = Actions::default();
    let wanted = match seen.workload {
        // Objects of a workload that is going away are its garbage collector's.
        Workload::JobSet(jobset) if jobset.managed_by_other() || jobset.metadata.deleting() => {
            return actions;
        }
        Workload::LeaderWorkerSet(lws) if lws.metadata.deleting() => return actions,
        Workload::JobSet(jobset) => wanted_of_jobset(seen, jobset, cluster, &mut actions),
        Workload::LeaderWorkerSet(lws) => replicas::wanted(seen, lws, cluster, &mut actions),
    };
    for object in seen.made {
        let name = object.metadata.name.as_deref();
        let kept = wanted.iter().any(|w| w.metadata.name.as_deref() == name);
        let going = object.metadata.deletion_timestamp.is_some();
        // Old gangs go when their pods are gone: a scheduler that loses a gang's object while its
        // pods wait would count them by themselves.
        if !kept && !going && !made::in_use(object, seen.pods) {
            actions.delete.push(object.clone());
        }
    }
    actions.apply = wanted
        .into_iter()
        .map(made::with_hash)
        .filter(|object| !made::is_settled(object, seen.made))
        .collect();
    actions
}

fn wanted_of_jobset(
    seen: &Seen<'_>,
    jobset: &JobSet<'_>,
    cluster: &Snapshot,
    actions: &mut Actions,
) -> Vec<DynamicObject> {
    let judged = jobsets::judge_stored(jobset, seen.namespace, cluster);
    let policy = &judged.plan.policy;
    let action = policy.timeout_action.as_ref().map(|action| action.value);
    let limit = policy.timeout.as_ref().map(|timeout| timeout.value);
    actions.timeout = limit.map(|limit| (limit, action.unwrap_or_default()));
    let ended = jobset.finished();
    actions.suspended = jobset.suspended() && !ended && !judged.plan.parts.is_empty();
    if ended || jobset.suspended() {
        Vec::new()
    } else {
        wanted(seen, jobset, &judged, actions)
    }
}

/// The objects that must exist now, and how each gang stands.
fn wanted(
    seen: &Seen<'_>,
    jobset: &JobSet<'_>,
    judged: &Judged,
    actions: &mut Actions,
) -> Vec<DynamicObject> {
    let Some(backend) = judged.backend else {
        actions.refused = judged.errors.first().map(ToString::to_string);
        return Vec::new();
    };
    if !is_stamped(jobset) {
        let reason = "the JobSet was created without Muster and its pods carry no stamp: create \
                      it anew to gang it";
        actions.refused = Some(reason.to_owned());
        return Vec::new();
    }
    let owner = owner(seen, jobset);
    let gangs = gangs(jobset, judged, backend, &owner);
    follow(seen, backend, &owner, &judged.plan, gangs, actions)
}

/// Notes how gangs stand, and says which objects they need.
pub fn follow(
    seen: &Seen<'_>,
    backend: &dyn Scheduler,
    owner: &Owner,
    plan: &Plan,
    mut gangs: Vec<Gang<'_>>,
    actions: &mut Actions,
) -> Vec<DynamicObject> {
    let mut standings = Vec::new();
    for gang in &mut gangs {
        let mine: Vec<&Pod> = seen
            .pods
            .iter()
            .filter(|pod| pod.belongs_to(&gang.identity))
            .collect();
        let mut stranded = None;
        match backend.abilities().quorum_change {
            QuorumChange::Live => gang.shrink(count(&mine, Phase::Succeeded) as u64),
            QuorumChange::Never(why) => stranded = strand(gang, &mine, why),
            QuorumChange::NotNeeded => {}
        }
        standings.push(Standing {
            stranded,
            suspect: backend.suspect(),
            ..standing(gang, &mine, seen.made, backend)
        });
    }
    lacking::tell(&gangs, seen.partners, &mut standings);
    let objects = partners::objects(seen, plan, backend, owner, gangs, &mut standings);
    actions.orphans = backend.orphans();
    if standings.iter().any(Standing::waits) {
        actions.queue = backend.queue(plan);
    }
    if backend.abilities().new_room == NewRoom::WhenNudged {
        actions.sleepers.extend(sleepers(&standings, &objects));
    }
    actions.gangs.extend(standings);
    objects
}

fn sleepers(gangs: &[Standing], objects: &[DynamicObject]) -> Vec<DynamicObject> {
    let waiting: Vec<&str> = gangs
        .iter()
        .filter(|gang| gang.waits())
        .map(|g| g.name.as_str())
        .collect();
    let named = |object: &&DynamicObject| {
        let name = object.metadata.name.as_deref();
        name.is_some_and(|name| waiting.contains(&name))
    };
    objects.iter().filter(named).cloned().collect()
}

/// The owner of a JobSet's gangs.
pub(super) fn owner(seen: &Seen<'_>, jobset: &JobSet<'_>) -> Owner {
    owner_as((API_VERSION, KIND), seen, &jobset.metadata)
}

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

/// The gangs of the JobSet's current start; each replica with its own restarts.
pub(super) fn gangs<'p>(
    jobset: &JobSet<'_>,
    judged: &'p Judged,
    backend: &dyn Scheduler,
    owner: &Owner,
) -> Vec<Gang<'p>> {
    let whole = jobset.status.restarts;
    let round = backend.round(update::round(&jobset.metadata));
    let mut gangs = judged.plan.gangs(owner, Attempt { whole, own: 0 }, round);
    for gang in &mut gangs {
        if let (Level::Replica, Some(index)) = (gang.part.level(), gang.identity.index) {
            let part = gang.identity.part.as_str();
            gang.identity.attempt.own = jobset.own_restarts(part, index);
        }
    }
    gangs
}

pub(super) fn is_stamped(jobset: &JobSet<'_>) -> bool {
    jobset.spec.replicated_jobs.iter().any(|job| {
        let meta = job.template.metadata.as_ref();
        meta.is_some_and(|m| m.annotation(keys::STAMP).is_some())
    })
}
