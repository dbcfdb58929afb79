//! The gangs of a LeaderWorkerSet: those of its replicas that live now, each by its own stamp.
//!
//! Pure, and not by the spec: a rollout has replicas of two revisions and more than the spec says,
//! and a replica under a partition is recreated from templates that the spec no longer has.

use kube::core::DynamicObject;

use crate::controller::decide::{Actions, Grouped, Seen, follow, owner_as};
use crate::controller::observe::{LinkedBy, PodPhase, ReplicaLife, SeenPod};
use crate::gang::{FieldPath, Gang, Part, Stamp};
use crate::scheduler::{self, Snapshot};
use crate::workload::declaration;
use crate::workload::lws::replica::{self, identity, stamped_plan};
use crate::workload::lws::view::{API_VERSION, KIND, LeaderWorkerSet};

/// The objects that must exist now, and how each gang stands.
pub fn wanted(
    grouped: &Grouped<'_>,
    lws: &LeaderWorkerSet<'_>,
    cluster: &Snapshot,
    actions: &mut Actions,
) -> Vec<DynamicObject> {
    let seen = &grouped.seen;
    let at = FieldPath::default();
    let policy = declaration::policy(&lws.metadata, &at, &mut Vec::new());
    let limit = policy.timeout.as_ref().map(|timeout| timeout.value);
    // It cannot be suspended.
    actions.timeout = limit.map(|limit| (limit, Default::default()));
    actions.refused = refused(seen, lws);
    let none = !lws.asks() || lws.replicas() == 0;
    actions.idle = none && seen.pods.iter().all(|pod| !pod.phase.is_live());
    let ganged = lws.asks() && lws.stamp().is_some();
    actions.unmade = ganged && lws.started_replicas() < lws.replicas();
    let owner = owner_as((API_VERSION, KIND), seen, &lws.metadata);
    let mut objects = Vec::new();
    let mut pods: Vec<&SeenPod> = seen.pods.iter().collect();
    pods.sort_by(|a, b| (index(a), key(a)).cmp(&(index(b), key(b))));
    for pods in pods.chunk_by(|a, b| key(a) == key(b)) {
        let Some((life, stamp)) = leader(pods) else {
            continue;
        };
        let backend = match scheduler::stamped(stamp, cluster) {
            Ok(backend) => backend,
            Err(error) => {
                actions.refused = Some(error.to_string());
                continue;
            }
        };
        let mut plan = stamped_plan(stamp);
        if pods.iter().any(|pod| is_placed_leader(pod)) {
            // Volcano (1.14) keeps what a running PodGroup does not use of its minResources from all
            // others, its own workers' PodGroup among them.
            plan.parts = plan.parts.into_iter().map(Part::started).collect();
        }
        plan.policy.timeout.clone_from(&policy.timeout);
        let of = replica::Life {
            namespace: seen.namespace,
            name: &owner.name,
            index: &life.index,
            revision: &life.revision,
            key: &life.key,
        };
        let parts = plan.parts.iter();
        let gangs = parts.map(|part| Gang::new(part, identity(&of, part.name().as_str())));
        let gangs = gangs.collect();
        objects.extend(follow(grouped, backend, &owner, &plan, gangs, actions));
    }
    objects
}

fn is_placed_leader(pod: &SeenPod) -> bool {
    let leads = pod.life.as_ref().is_some_and(|life| life.leader.is_some());
    leads && pod.phase == PodPhase::Bound
}

/// The number of a pod's replica, for people.
fn index(pod: &SeenPod) -> Option<u32> {
    pod.life.as_ref()?.index.parse().ok()
}

/// Which life of which replica a pod belongs to.
fn key(pod: &SeenPod) -> Option<&str> {
    pod.life.as_ref().map(|life| life.key.as_str())
}

/// The leader of a replica's life, while it lives. A replica whose leader is being deleted needs no new
/// object; what was made for it stays as long as its pods do.
fn leader<'a>(pods: &[&'a SeenPod]) -> Option<(&'a ReplicaLife, &'a Stamp)> {
    let mut leaders = pods.iter().filter(|pod| pod.phase.is_live() && !pod.going);
    leaders.find_map(|pod| {
        let life = pod.life.as_deref()?;
        let stamp = life.leader.as_ref()?;
        (life.linked == LinkedBy::Muster).then_some((life, stamp))
    })
}

/// Why a replica has no gang, although one is asked for.
fn refused(seen: &Seen<'_>, lws: &LeaderWorkerSet<'_>) -> Option<String> {
    let leaders = seen.pods.iter().filter(|pod| !pod.going);
    let leaders = leaders.filter_map(|pod| pod.life.as_ref());
    for life in leaders.filter(|life| life.leader.is_some()) {
        let reason = match life.linked {
            LinkedBy::Muster => continue,
            LinkedBy::Workload => {
                "LeaderWorkerSet makes the gangs of its replicas itself: Muster stands aside"
            }
            LinkedBy::Nobody => {
                "a replica was created while Muster's webhooks were not installed, and does not run as \
                 a gang: delete its leader to recreate it"
            }
        };
        return Some(reason.to_owned());
    }
    let unstamped = lws.asks() && lws.stamp().is_none() && !lws.is_linked();
    unstamped.then(|| {
        "the LeaderWorkerSet was created without Muster: its replicas do not run as gangs until \
         its leaderWorkerTemplate changes"
            .to_owned()
    })
}
