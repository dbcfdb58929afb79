//! How a gang stands: how many of its members exist, and how many are on nodes. Pure.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::core::{DynamicObject, ObjectMeta};

use super::gang_members::Members;
use super::gang_objects::GangObjects;
use crate::explain::{Cause, Evidence};
use crate::gang::ask::PreemptionPolicy;
use crate::gang::{Ask, Gang, SchedulerKind};
use crate::scheduler::Scheduler;
use crate::scheduler::abilities::Support;
use crate::workload::SeenPod;
use crate::workload::seen::{Ailment, PodPhase};

/// How a gang stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// No member of this round exists yet.
    Empty,
    /// Fewer than a quorum are on nodes.
    Waiting,
    /// A quorum of its members is on nodes, or done.
    Scheduled,
}

/// One gang and how it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GangStatus {
    /// The gang's name.
    pub name: String,
    /// The part of its workload that it is, as its pods are labelled.
    pub part: Option<String>,
    /// The replica of its part that it is, where each is a gang.
    pub replica: Option<u32>,
    /// The templates that its pods come from.
    pub roles: Vec<String>,
    /// Whose gang it is.
    pub scheduler: SchedulerKind,
    /// How it stands.
    pub state: State,
    /// Pods of it have ended, and none is made in their place.
    pub ended: bool,
    /// How many members are on nodes.
    pub bound: usize,
    /// How many are needed.
    pub quorum: u32,
    /// How many there are to be.
    pub size: u32,
    /// Members of this round that exist and are neither done nor being deleted.
    pub live: usize,
    /// What to look at when the scheduler places a part of it.
    pub suspect: &'static str,
    /// What is known of why it waits.
    pub evidence: Evidence,
    /// Why it waits, what must be mended first first; nothing before that was looked into.
    pub causes: Vec<Cause>,
    /// It is looked into so much later; what was told of it stays until then.
    pub explained_in: Option<Duration>,
    /// Members on nodes that cannot pull an image: no scheduler can mend that.
    pub imageless: usize,
    /// The uids of members that wait for a node.
    pub pending: BTreeSet<String>,
    /// How long the gang's object has existed; where it has none, its oldest pod.
    pub age: Option<Duration>,
    /// How long ago its last pod came.
    pub newest: Option<Duration>,
    /// How long a member has waited for a node. Not the gang's age: its pods may come late, as those
    /// of a ReplicatedJob that depends on another, and a gang that has run may wait again.
    pub waited: Option<Duration>,
    /// Members of it that wait are older than the last resume of its workload.
    pub outlives_resume: bool,
}

impl GangStatus {
    /// Whether members of it wait for a node.
    pub fn waits(&self) -> bool {
        self.state == State::Waiting
    }

    /// Whether it has no pod, and its controller waits for nothing before it makes some.
    pub(super) fn is_missed(&self) -> bool {
        self.state == State::Empty && self.evidence.awaits.is_none() && !self.ended
    }
}

impl GangStatus {
    /// Pods that it lacks because they are not linked to it. While they wait for a node, it waits.
    pub(super) fn note_unlinked(&mut self, pods: &[&SeenPod]) {
        self.evidence.unlinked = pods.len();
        let pending = |pod: &&SeenPod| pod.phase == PodPhase::Pending;
        let pods = pods.iter().copied();
        if self.state == State::Empty && pods.clone().any(|pod| pending(&pod)) {
            self.state = State::Waiting;
            self.evidence.quorum = self.quorum;
            self.waited = pods_age(pods.filter(pending));
            self.age = self.age.or(self.waited);
        }
    }

    /// A gang that is wanted and has no pod that could say which one it is.
    pub(super) fn unmade(workload: &str, quorum: u32, scheduler: SchedulerKind) -> Self {
        Self {
            name: workload.to_owned(),
            part: None,
            replica: None,
            roles: Vec::new(),
            scheduler,
            state: State::Empty,
            ended: false,
            bound: 0,
            quorum,
            size: quorum,
            live: 0,
            suspect: "",
            evidence: Evidence::default(),
            causes: Vec::new(),
            explained_in: None,
            imageless: 0,
            pending: BTreeSet::new(),
            age: None,
            newest: None,
            waited: None,
            outlives_resume: false,
        }
    }
}

#[cfg(test)]
impl GangStatus {
    /// A gang of four that has no pod yet.
    pub fn example() -> Self {
        Self::unmade("train-all-0", 4, crate::scheduler::TABLE[0].kind)
    }
}

/// A pending member whose gang can never have its quorum again, because others have finished.
pub(super) fn stranded(gang: &Gang<'_>, members: &Members<'_>, why: &str) -> Option<String> {
    let done = members.finished();
    let waiting = members.count(PodPhase::Pending);
    let live = members.count(PodPhase::Bound) + waiting;
    let quorum = gang.quorum();
    let stranded = done > 0 && waiting > 0 && live < quorum as usize;
    stranded.then(|| {
        format!(
            "{waiting} pod(s) never start: {done} member(s) have finished, and the quorum of \
             {quorum} cannot be lowered: {why}"
        )
    })
}

/// How many are left of a gang that has started, where fewer of its pods exist than its quorum. Only the
/// scheduler places pods, and it places none of a gang that never had a quorum.
pub(super) fn left(gang: &Gang<'_>, members: &Members<'_>) -> Option<NonZeroU32> {
    let bound = members.count(PodPhase::Bound);
    let live = bound + members.count(PodPhase::Pending);
    let few = live < gang.part.quorum() as usize;
    NonZeroU32::new(u32::try_from(bound).ok()?).filter(|_| few)
}

/// How many members must be on nodes or done in this round: what finished in an earlier one is not
/// made again.
fn needed(gang: &Gang<'_>, members: &Members<'_>) -> u64 {
    let before = members.finished() - members.count(PodPhase::Succeeded);
    let left = gang.part.completions().saturating_sub(before as u64);
    u64::from(gang.part.quorum()).min(left)
}

/// How a gang stands by its members and the objects that exist for its workload.
pub(super) fn status(
    gang: &Gang<'_>,
    members: &Members<'_>,
    made: &GangObjects<'_>,
    backend: &dyn Scheduler,
) -> GangStatus {
    let name = gang.name().into_string();
    let bound = members.count(PodPhase::Bound);
    let placed = bound + members.count(PodPhase::Succeeded);
    let object = made.named(&name).first();
    let state = if members.now().next().is_none() {
        State::Empty
    } else if placed as u64 >= needed(gang, members) {
        State::Scheduled
    } else {
        State::Waiting
    };
    let live = members.now().filter(|pod| pod.phase.is_live()).count();
    let pending = |pod: &&SeenPod| pod.phase == PodPhase::Pending;
    GangStatus {
        name,
        part: Some(gang.part.name().as_str().to_owned()),
        replica: gang.identity.index,
        roles: gang.part.roles().iter().map(|r| r.name.clone()).collect(),
        scheduler: backend.kind(),
        ended: false,
        bound,
        quorum: gang.quorum(),
        size: gang.part.size(),
        live,
        suspect: backend.suspect(),
        evidence: match state {
            State::Waiting => evidence(gang, members, object, backend),
            State::Empty | State::Scheduled => Evidence::default(),
        },
        causes: Vec::new(),
        explained_in: None,
        imageless: members
            .now()
            .filter(|pod| pod.ailment == Some(Ailment::NoImage))
            .count(),
        waited: pods_age(members.now().filter(pending)),
        outlives_resume: false,
        newest: members.now().filter_map(|pod| pod.created).max().map(since),
        // Also those that are being deleted: a member is lost when it is gone.
        pending: members
            .of_round()
            .filter(pending)
            .map(|pod| pod.uid.clone())
            .collect(),
        age: object
            .and_then(|object| age(&object.metadata))
            .or_else(|| pods_age(members.of_round())),
        state,
    }
}

/// What its members and its object say of a gang that waits.
fn evidence(
    gang: &Gang<'_>,
    members: &Members<'_>,
    object: Option<&&DynamicObject>,
    backend: &dyn Scheduler,
) -> Evidence {
    let mut known = Evidence {
        quorum: gang.quorum(),
        live: members.now().filter(|pod| pod.phase.is_live()).count(),
        said: object.and_then(|object| backend.reason(object)),
        queue: object.and_then(|object| backend.queue_trouble(object)),
        placeholders: backend.placeholders(gang.name().as_str()),
        ..Evidence::default()
    };
    let heeded = backend.abilities().preemption_policy == Support::Yes;
    let pending = |pod: &&SeenPod| pod.phase == PodPhase::Pending;
    for pod in members.now().filter(pending) {
        let ask = pod.ask.as_ref().map(|ask| match ask.preemption {
            PreemptionPolicy::Never if !heeded => Arc::new(Ask {
                preemption: PreemptionPolicy::Lower,
                ..Ask::clone(ask)
            }),
            _ => Arc::clone(ask),
        });
        known.note(pod.unscheduled.as_ref(), ask.as_ref());
    }
    known
}

/// How long an object has existed.
pub(super) fn age(meta: &ObjectMeta) -> Option<Duration> {
    let created = meta.creation_timestamp.as_ref()?.0;
    Some(since(created))
}

fn pods_age<'a>(pods: impl Iterator<Item = &'a SeenPod>) -> Option<Duration> {
    pods.filter_map(|pod| pod.created).min().map(since)
}

fn since(time: Timestamp) -> Duration {
    let age = Timestamp::now().duration_since(time);
    Duration::try_from(age).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::gang_members::GangMembers;
    use super::*;
    use crate::gang::{FieldPath, Identity, Level, Part, PartDraft, PartName, Role, Shape};

    /// A gang that needs four.
    fn part() -> Part {
        let at = FieldPath::default();
        let pods = Role {
            name: "pods".to_owned(),
            pods: 4,
            completions: 4,
            shape: Shape::default(),
            at: at.clone(),
        };
        let draft = PartDraft {
            name: PartName::whole(),
            level: Level::Whole,
            replicas: 1,
            roles: vec![pods],
            later: Vec::new(),
            min_count: None,
            bundle: None,
            at,
        };
        draft.build().unwrap().unwrap()
    }

    #[test]
    fn only_a_gang_that_has_started_may_be_smaller_than_its_quorum() {
        let (part, identity) = (part(), Identity::default());
        let gang = Gang::new(&part, identity.clone());
        let left = |bound: usize, pending: usize| {
            let pod = |phase| SeenPod {
                gang: Arc::new(identity.clone()),
                phase,
                ..SeenPod::example()
            };
            let mut pods = vec![pod(PodPhase::Bound); bound];
            pods.extend(vec![pod(PodPhase::Pending); pending]);
            let members = GangMembers::group(&pods);
            left(&gang, &members.of(&identity)).map(NonZeroU32::get)
        };
        assert_eq!(left(0, 3), None, "it waits for the fourth");
        assert_eq!(left(1, 3), None, "it is being placed");
        assert_eq!(left(2, 0), Some(2));
        assert_eq!(left(2, 1), Some(2), "one that comes waits for nobody");
        assert_eq!(left(4, 1), None);
    }
}
