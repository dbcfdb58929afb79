//! The gangs of a LeaderWorkerSet: those of its replicas that live now, each by its own stamp.
//!
//! Not by the spec: a rollout has replicas of two revisions and more than the spec says, and a
//! replica under a partition is recreated from templates that the spec no longer has.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::replica::LEADER;
use super::stamp::stamped_plan;
use super::view::LeaderWorkerSet;
use crate::gang::{Part, Plan};
use crate::workload::seen::{LinkState, PodPhase};
use crate::workload::site::is_stamped;
use crate::workload::{Origin, Outlook, SeenPod, Start};

/// What can be said of the set's replicas.
pub(crate) fn outlook<'p>(
    lws: &LeaderWorkerSet<'_>,
    plan: &Plan,
    of: &Origin<'_>,
    pods: &[SeenPod],
) -> Outlook<'p> {
    let none = !lws.asks() || lws.replicas() == 0;
    let ganged = lws.asks() && is_stamped(lws);
    // In the order of their numbers, for people; each generation of a replica by its key.
    let mut replicas: BTreeMap<(Option<u32>, &str), Vec<&SeenPod>> = BTreeMap::new();
    for pod in pods {
        let replica = (pod.gang.index, pod.gang.uid.as_str());
        replicas.entry(replica).or_default().push(pod);
    }
    Outlook {
        starts: replicas
            .values()
            .filter_map(|pods| start(pods, plan, of))
            .collect(),
        idle: none && pods.iter().all(|pod| !pod.phase.is_live()),
        unmade: ganged && lws.started_replicas() < lws.replicas(),
        refused: refused(lws, pods),
        broken: None,
    }
}

/// The gangs of one generation of a replica while its leader lives. One whose leader is going needs
/// nothing new; what was made for it stays while its pods do.
fn start<'p>(pods: &[&SeenPod], spec: &Plan, of: &Origin<'_>) -> Option<Start<'p>> {
    let mut leaders = pods.iter().filter(|pod| pod.phase.is_live() && !pod.going);
    let leader = leaders.find(|pod| leads(pod) && pod.link == LinkState::Linked)?;
    let stamp = leader.stamp.clone()?;
    let mut plan = stamped_plan(&stamp);
    if pods
        .iter()
        .any(|pod| leads(pod) && pod.phase == PodPhase::Bound)
    {
        // Volcano (1.14) keeps what a running PodGroup does not use of its minResources from all
        // others, its own workers' PodGroup among them.
        plan.parts = plan.parts.into_iter().map(Part::started).collect();
    }
    // The timeout alone may change while a gang lives.
    plan.policy.timeout.clone_from(&spec.policy.timeout);
    let parts = plan.parts.iter().enumerate();
    let gangs = parts.map(|(position, part)| {
        let mut identity = leader.gang.of(part.name().as_str(), leader.gang.index);
        of.name.clone_into(&mut identity.workload);
        (position, identity)
    });
    Some(Start {
        gangs: gangs.collect(),
        plan: Cow::Owned(plan),
        stamp: Some(stamp),
    })
}

fn leads(pod: &SeenPod) -> bool {
    pod.role == Some(LEADER)
}

/// Why a replica has no gang, although one is asked for.
fn refused(lws: &LeaderWorkerSet<'_>, pods: &[SeenPod]) -> Option<String> {
    for leader in pods.iter().filter(|pod| !pod.going && leads(pod)) {
        let reason = match leader.link {
            LinkState::Linked => continue,
            LinkState::Elsewhere => {
                "LeaderWorkerSet makes the gangs of its replicas itself: Muster leaves them alone"
            }
            LinkState::Missing => {
                "a replica was created while Muster's webhooks were not called, and does not run \
                 as a gang: delete its leader to recreate it"
            }
        };
        return Some(reason.to_owned());
    }
    let unstamped = lws.asks() && !is_stamped(lws) && !lws.is_linked();
    unstamped.then(|| {
        "the LeaderWorkerSet was created without Muster: its replicas do not run as gangs until \
         its leaderWorkerTemplate changes"
            .to_owned()
    })
}
