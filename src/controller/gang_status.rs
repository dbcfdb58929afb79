//! How a gang stands: how many of its members exist, and how many are on nodes. Pure.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::core::ObjectMeta;

use super::gang_objects::GangObjects;
use crate::gang::Gang;
use crate::scheduler::Scheduler;
use crate::workload::SeenPod;
use crate::workload::seen::PodPhase;

/// How a gang stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// No member exists yet.
    Empty,
    /// Fewer than a quorum are on nodes; why, as far as the scheduler says.
    Waiting(Option<String>),
    Scheduled,
}

/// One gang and how it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GangStatus {
    pub name: String,
    pub state: State,
    pub bound: usize,
    pub quorum: u32,
    pub size: u32,
    /// Members that exist and are not done.
    pub live: usize,
    /// What to look at when the scheduler places a part of it.
    pub suspect: &'static str,
    /// Why a replacement waits for members that have finished, where the quorum cannot be lowered.
    pub stranded: Option<String>,
    /// The uids of members that wait for a node.
    pub pending: BTreeSet<String>,
    /// How long the gang's object has existed; where it has none, its oldest pod.
    pub age: Option<Duration>,
    /// How long a member has waited for a node. Not the gang's age: its pods may come late, as those
    /// of a ReplicatedJob that depends on another, and a gang that has run may wait again.
    pub waited: Option<Duration>,
}

impl GangStatus {
    pub fn waits(&self) -> bool {
        matches!(self.state, State::Waiting(_))
    }
}

#[cfg(test)]
impl GangStatus {
    /// A gang of four that has no pod yet.
    pub fn example() -> Self {
        Self {
            name: "train-all-0".to_owned(),
            state: State::Empty,
            bound: 0,
            quorum: 4,
            size: 4,
            live: 0,
            suspect: "",
            stranded: None,
            pending: BTreeSet::new(),
            age: None,
            waited: None,
        }
    }
}

pub fn count(pods: &[&SeenPod], phase: PodPhase) -> usize {
    pods.iter().filter(|pod| pod.phase == phase).count()
}

/// A pending member whose gang can never have its quorum again, because others have finished.
pub fn stranded(gang: &Gang<'_>, pods: &[&SeenPod], why: &str) -> Option<String> {
    let done = count(pods, PodPhase::Succeeded);
    let waiting = count(pods, PodPhase::Pending);
    let live = count(pods, PodPhase::Bound) + waiting;
    let quorum = gang.quorum();
    let stranded = done > 0 && waiting > 0 && live < quorum as usize;
    stranded.then(|| {
        format!(
            "{waiting} pod(s) never start: {done} member(s) have finished, and the quorum of \
             {quorum} cannot be lowered: {why}"
        )
    })
}

/// How a gang stands by its members and the objects that exist for its workload.
pub fn status(
    gang: &Gang<'_>,
    members: &[&SeenPod],
    made: &GangObjects<'_>,
    backend: &dyn Scheduler,
) -> GangStatus {
    let name = gang.name().into_string();
    let bound = count(members, PodPhase::Bound);
    let done = count(members, PodPhase::Succeeded);
    let object = made.named(&name).first();
    let state = if members.is_empty() {
        State::Empty
    } else if bound + done >= gang.quorum() as usize {
        State::Scheduled
    } else {
        let own = object.and_then(|object| backend.reason(object));
        let pods = || members.iter().find_map(|pod| pod.unscheduled.clone());
        State::Waiting(own.or_else(pods))
    };
    let mut pending = members.to_vec();
    pending.retain(|pod| pod.phase == PodPhase::Pending);
    // A pod that is being deleted may be of an earlier round.
    let mut waiting = pending.clone();
    waiting.retain(|pod| !pod.going);
    GangStatus {
        name,
        state,
        bound,
        quorum: gang.quorum(),
        size: gang.part.size(),
        live: members.iter().filter(|pod| pod.phase.is_live()).count(),
        suspect: backend.suspect(),
        stranded: None,
        waited: pods_age(&waiting),
        pending: pending.iter().map(|pod| pod.uid.clone()).collect(),
        age: object
            .and_then(|object| age(&object.metadata))
            .or_else(|| pods_age(members)),
    }
}

/// How long an object has existed.
pub fn age(meta: &ObjectMeta) -> Option<Duration> {
    let created = meta.creation_timestamp.as_ref()?.0;
    Some(since(created))
}

fn pods_age(pods: &[&SeenPod]) -> Option<Duration> {
    pods.iter().filter_map(|pod| pod.created).min().map(since)
}

fn since(time: Timestamp) -> Duration {
    let age = Timestamp::now().duration_since(time);
    Duration::try_from(age).unwrap_or_default()
}
