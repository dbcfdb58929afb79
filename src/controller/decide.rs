//! What to do about a workload: pure, from what is wanted and what is seen.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::core::DynamicObject;

use super::barriers;
use super::barriers::status::BarrierStatus;
use super::barriers::waiters::Waiter;
use super::bundles::partners::Partner;
use super::bundles::{missing_pods, shared, start};
use super::gang_members::{GangMembers, Members};
use super::gang_objects::{self, GangObjects, InUse};
pub use super::gang_status::{GangStatus, State};
use super::gang_status::{left, status, stranded};
use super::queued::Queued;
use crate::gang::{Gang, Owner, Part, PartnerRef, Plan, Round, SchedulerKind, TimeoutAction};
use crate::judge::{self, Judged};
use crate::scheduler::abilities::{NewRoom, QuorumChange};
use crate::scheduler::{self, Queue, Scheduler, Snapshot};
use crate::workload::facts::Watched;
use crate::workload::{Facts, Life, Origin, SeenPod, Start, Suspension, Unasked, Workload, site};

/// Everything that is known when a workload is looked at.
#[derive(Clone, Copy)]
pub struct Seen<'a> {
    /// Its parsed view.
    pub workload: &'a dyn Workload,
    /// Its namespace.
    pub namespace: &'a str,
    /// Its members.
    pub pods: &'a [SeenPod],
    /// Pods that say that they are members, and are not believed.
    pub strangers: &'a [SeenPod],
    /// What Muster has made for it.
    pub made: &'a [DynamicObject],
    /// The workloads that it names in `muster.dev/bundle-with`.
    pub partners: &'a [Partner],
    /// Who owns what is made for it, where it is no object itself.
    pub owner: Option<&'a Owner>,
    /// The pods at its start barrier.
    pub waiters: &'a [Waiter],
    /// What time it is.
    pub now: Timestamp,
}

impl<'a> Seen<'a> {
    /// Which object the workload is.
    pub fn origin(&self) -> Origin<'a> {
        let meta = self.workload.meta();
        Origin {
            namespace: self.namespace,
            name: meta.name.as_deref().unwrap_or_default(),
            uid: meta.uid.as_deref().unwrap_or_default(),
        }
    }
}

/// What to do.
#[derive(Debug, Default)]
pub struct Actions {
    /// Objects to create, and those that are to change.
    pub apply: Vec<DynamicObject>,
    /// Objects to delete.
    pub delete: Vec<DynamicObject>,
    /// Workloads that write an object which is for this one too.
    pub keepers: BTreeSet<PartnerRef>,
    /// How each gang stands.
    pub gangs: Vec<GangStatus>,
    /// Objects of gangs that wait, on a scheduler that does not notice new room by itself.
    pub sleepers: Vec<(SchedulerKind, DynamicObject)>,
    /// Why gangs that wait never start once a waiting member is deleted, if so. Muster suspends and
    /// resumes no workload of which this is not said.
    pub orphans: Option<&'static str>,
    /// The queue of gangs that wait.
    pub queue: Option<Queue>,
    /// Gangs are asked for, and the workload is suspended: its kind.
    pub suspended: Option<&'static str>,
    /// The workload goes on without a gang: it no longer asks for one, or has no replica.
    pub idle: bool,
    /// A gang that is asked for has no pod yet, and so is not among the gangs.
    pub unmade: bool,
    /// Who schedules the gangs that are asked for.
    pub scheduler: Option<SchedulerKind>,
    /// The quorum of the first gang that is asked for.
    pub first_quorum: u32,
    /// The workload has ended: its kind.
    pub finished: Option<&'static str>,
    /// Why it has failed, if so.
    pub failure: Option<String>,
    /// The workload was suspended now, because a gang waited too long: what to say.
    pub suspended_after: Option<String>,
    /// The queue of Kueue that the workload is in.
    pub kueue: Option<Queued>,
    /// What was told of a gang that the scheduler does not hold together.
    pub broken: Option<String>,
    /// Why nothing is made, although a gang is asked for.
    pub refused: Option<String>,
    /// How long a gang may wait, and what happens then.
    pub timeout: Option<(Duration, TimeoutAction)>,
    /// How long the workload has been wanted, where that is known: no gang has waited for longer.
    pub wanted_for: Option<Duration>,
    /// How its start barrier stands.
    pub barrier: Option<BarrierStatus>,
}

/// What is seen of a workload, by gang and by name.
pub struct Grouped<'a> {
    /// What is seen, as it came.
    pub seen: Seen<'a>,
    /// Its pods by gang.
    pub members: GangMembers<'a>,
    /// Its objects by name.
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
    let life = seen.workload.life();
    if matches!(life, Life::LeftAlone | Life::Deleting) {
        // Objects of a workload that is being deleted are left to the garbage collector.
        return actions;
    }
    let judged = judge::stored(seen.workload, seen.namespace, cluster, Unasked::NoGang);
    actions.timeout = timeout(seen.workload.facts(), &judged.plan);
    let suspended = life == Life::Suspended && !judged.plan.parts.is_empty();
    actions.suspended = suspended.then_some(seen.workload.facts().kind.name);
    let asked = !judged.plan.parts.is_empty();
    let kueue = seen
        .workload
        .meta()
        .label(crate::workload::keys::KUEUE_QUEUE);
    actions.kueue = kueue.map(Queued::in_queue);
    actions.finished = (asked && life == Life::Finished).then_some(seen.workload.facts().kind.name);
    actions.scheduler = judged.backend.map(|backend| backend.kind());
    actions.first_quorum = judged.plan.parts.first().map_or(0, Part::quorum);
    actions.orphans = orphans(seen.workload, life, &judged);
    let wanted = match life {
        Life::Live => {
            let mut wanted = wanted(&grouped, &judged, cluster, &mut actions);
            actions.barrier = barriers::look(seen, &judged);
            wanted.extend(barriers::wanted(seen, actions.barrier.as_ref()));
            wanted
        }
        _ => Vec::new(),
    };
    let needed = shared::needed_by_others(&judged.plan, judged.backend, seen.partners);
    let barriers = actions.barrier.iter().flat_map(BarrierStatus::starts);
    let mut barriers: Vec<String> = barriers.map(|start| start.name()).collect();
    if life == Life::Live {
        barriers.extend(barriers::open(seen, &judged));
    }
    if life == Life::Suspended {
        actions.barrier = barriers::suspended(seen, &judged);
    }
    let mut kept: HashSet<&str> = wanted.iter().filter_map(name).collect();
    kept.extend(barriers.iter().map(String::as_str));
    let facts = seen.workload.facts();
    let used = InUse::by(seen.pods.iter().chain(seen.strangers), |round| {
        let backend = judged.backend;
        backend.map_or(Round::default(), |b| judge::round(facts, b, round))
    });
    let deletable = |object: &&DynamicObject| {
        let kept = name(object).is_some_and(|n| kept.contains(n) || needed.contains(n));
        let going = object.metadata.deletion_timestamp.is_some();
        // Pods may end for long after a suspension, and a round may come again: what is open would let
        // its new pods through.
        let closes = life == Life::Suspended && barriers::is_one(object);
        // Old gangs go when their pods are gone: a scheduler that loses a gang's object while its
        // pods wait would count them by themselves.
        !kept && !going && (closes || !used.contains(object))
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

/// Why gangs that wait are lost with a member, where the workload has gangs of Muster's.
fn orphans(workload: &dyn Workload, life: Life, judged: &Judged) -> Option<&'static str> {
    let lives = matches!(life, Life::Live | Life::Suspended);
    let backend = judged.backend.filter(|_| lives)?;
    backend.orphans().filter(|_| site::is_stamped(workload))
}

/// How long a gang may wait, and what happens then.
fn timeout(facts: &Facts, plan: &Plan) -> Option<(Duration, TimeoutAction)> {
    let limit = plan.policy.timeout.as_ref()?.value;
    let action = plan.policy.timeout_action.as_ref();
    let action = action.map(|action| action.value).unwrap_or_default();
    Some(match facts.suspension {
        Suspension::Field => (limit, action),
        Suspension::None => (limit, TimeoutAction::default()),
    })
}

/// The objects that must exist now, and how each gang stands.
fn wanted(
    grouped: &Grouped<'_>,
    judged: &Judged,
    cluster: &Snapshot,
    actions: &mut Actions,
) -> Vec<DynamicObject> {
    let seen = &grouped.seen;
    let of = seen.origin();
    let owner = match seen.owner {
        Some(owner) => owner.clone(),
        None => judge::owner(seen.workload.facts(), &of),
    };
    let outlook = seen.workload.outlook(&judged.plan, &of, seen.pods);
    actions.refused = outlook.refused;
    actions.broken = outlook.broken;
    actions.idle = outlook.idle;
    actions.unmade = outlook.unmade;
    let mut objects = Vec::new();
    for start in &outlook.starts {
        match backend(seen.workload, start, judged, cluster) {
            Ok(backend) => {
                objects.extend(follow(grouped, backend, &owner, start, actions));
            }
            Err(why) => actions.refused = why.or(actions.refused.take()),
        }
    }
    // Where an object is shared, the gang of pods of two rounds has it once: for the later one.
    let mut named = HashSet::new();
    objects.reverse();
    objects.retain(|object| named.insert((object.types.clone(), object.metadata.name.clone())));
    objects.reverse();
    objects
}

/// The scheduler of a start; else why it has none, if a gang is asked for.
pub fn backend(
    workload: &dyn Workload,
    start: &Start<'_>,
    judged: &Judged,
    cluster: &Snapshot,
) -> Result<&'static dyn Scheduler, Option<String>> {
    if let Some(stamp) = &start.stamp {
        return scheduler::stamped(stamp, cluster).map_err(|error| Some(error.to_string()));
    }
    let error = || judged.errors.first().map(ToString::to_string);
    let backend = judged.backend.ok_or_else(error)?;
    if site::is_stamped(workload) {
        return Ok(backend);
    }
    let kind = workload.facts().kind.name;
    Err(Some(format!(
        "the {kind} was created without Muster and its pods carry no stamp: recreate it to run it \
         as a gang"
    )))
}

/// The gangs of a start, as its scheduler tells them apart.
pub fn gangs<'s>(facts: &Facts, start: &'s Start<'_>, backend: &dyn Scheduler) -> Vec<Gang<'s>> {
    let gangs = start.gangs.iter().map(|(part, identity)| {
        let mut identity = identity.clone();
        identity.round = judge::round(facts, backend, identity.round);
        Gang::new(&start.plan.parts[*part], identity)
    });
    gangs.collect()
}

/// Notes how gangs stand, and says which objects they need.
fn follow(
    grouped: &Grouped<'_>,
    backend: &dyn Scheduler,
    owner: &Owner,
    start: &Start<'_>,
    actions: &mut Actions,
) -> Vec<DynamicObject> {
    let facts = grouped.seen.workload.facts();
    let (plan, mut gangs) = (&*start.plan, gangs(facts, start, backend));
    let mut statuses = Vec::new();
    // The round of the start: a scheduler may not tell rounds apart, but their pods do.
    for (gang, (_, identity)) in gangs.iter_mut().zip(&start.gangs) {
        let members = grouped.members.of(identity);
        let mut why = None;
        match backend.abilities().quorum_change {
            QuorumChange::Live => gang.shrink(members.finished() as u64),
            QuorumChange::Never(reason) => why = stranded(gang, &members, reason),
            QuorumChange::NotNeeded => {}
        }
        let mut now = status(gang, &members, &grouped.made, backend);
        now.evidence.stranded = why;
        now.note_unlinked(&grouped.members.unlinked(identity));
        if now.live < now.quorum as usize && now.state != State::Scheduled {
            now.evidence.awaits = grouped.seen.workload.awaits(gang.part, now.live);
            now.ended = grouped.seen.workload.has_ended(gang.part);
        }
        if facts.watched == Watched::ByMembers {
            come_and_go(gang, &members, grouped, backend, &mut now);
        }
        statuses.push(now);
    }
    missing_pods::explain(&gangs, grouped.seen.partners, &mut statuses);
    let made = start::objects(grouped, plan, backend, owner, gangs, &mut statuses);
    let objects = made.objects;
    actions.keepers.extend(made.keepers);
    if statuses.iter().any(GangStatus::waits) {
        actions.queue = backend.queue(plan);
    }
    if backend.abilities().new_room == NewRoom::WhenNudged {
        let sleepers = sleepers(&statuses, &objects).into_iter();
        let sleepers = sleepers.map(|object| (backend.kind(), object));
        actions.sleepers.extend(sleepers);
    }
    actions.gangs.extend(statuses);
    objects
}

/// Of pods that come and go, fewer may be left than started together. One that comes then would wait for
/// others that nobody makes.
fn come_and_go(
    gang: &mut Gang<'_>,
    members: &Members<'_>,
    grouped: &Grouped<'_>,
    backend: &dyn Scheduler,
    status: &mut GangStatus,
) {
    let Some(left) = left(gang, members) else {
        return;
    };
    let fixed = matches!(backend.abilities().quorum_change, QuorumChange::Never(_));
    let shares = shared::is_in_one(gang, backend, grouped.seen.partners);
    let lowered = !fixed && (shares || !grouped.made.named(&status.name).is_empty());
    if lowered {
        gang.keep(left);
        status.quorum = gang.quorum();
    }
    if lowered || status.pending.is_empty() {
        status.state = State::Scheduled;
    }
}

fn sleepers(gangs: &[GangStatus], objects: &[DynamicObject]) -> Vec<DynamicObject> {
    let waiting = gangs.iter().filter(|gang| gang.waits());
    let waiting: HashSet<&str> = waiting.map(|gang| gang.name.as_str()).collect();
    let sleeps = |object: &&DynamicObject| name(object).is_some_and(|n| waiting.contains(n));
    objects.iter().filter(sleeps).cloned().collect()
}
