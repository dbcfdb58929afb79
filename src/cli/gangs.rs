//! The gangs that an admitted workload would have in a cluster, under stand-in names.

use serde_json::Value;

use super::admit::{self, Admitted, STAND_IN_UID};
use crate::admission::judge::Judged;
use crate::admission::object::{self, Kind, Object};
use crate::admission::{jobsets, lws as lws_admission};
use crate::gang::{Attempt, Gang, Owner, Part, Round};
use crate::scheduler::Snapshot;
use crate::workload::lws::children::{self, ReplicaRef};
use crate::workload::lws::replica;
use crate::workload::lws::view::LeaderWorkerSet;
use crate::workload::view::Meta;
use crate::workload::{jobset, lws};

/// The gangs of an admitted workload, with what is needed to make their objects.
pub struct Gangs<'p> {
    pub owner: &'p Owner,
    pub judged: &'p Judged,
    /// Those of each start: of the workload, or of a replica that starts by itself.
    pub starts: Vec<Vec<Gang<'p>>>,
    /// A pod of each start's roles, as it would be stored; none where pods come from Jobs.
    pub pods: Vec<Value>,
}

/// Plans an admitted workload and hands its gangs to `use_them`; `None` for other kinds and for
/// workloads that Muster leaves alone.
pub fn with_gangs<T>(
    admitted: &Admitted,
    cluster: &Snapshot,
    use_them: impl FnOnce(Gangs<'_>) -> T,
) -> Option<T> {
    let json = admitted.object.to_string();
    let owner = |api_version, kind, meta: &Meta<'_>| Owner {
        api_version,
        kind,
        namespace: admitted.namespace.clone(),
        name: stored_name(meta),
        uid: STAND_IN_UID.to_owned(),
    };
    match object::read(admitted.kind, &json).ok()? {
        Object::JobSet(jobset) if !jobset.managed_by_other() => {
            let judged = jobsets::judge_stored(&jobset, &admitted.namespace, cluster);
            let owner = owner(
                jobset::view::API_VERSION,
                jobset::view::KIND,
                &jobset.metadata,
            );
            let (attempt, round) = (Attempt::default(), Round::default());
            let starts = vec![judged.plan.gangs(&owner, attempt, round)];
            Some(use_them(Gangs {
                owner: &owner,
                judged: &judged,
                starts,
                pods: Vec::new(),
            }))
        }
        Object::LeaderWorkerSet(lws) => {
            let judged = lws_admission::judge_stored(&lws, &admitted.namespace, cluster);
            let owner = owner(lws::view::API_VERSION, lws::view::KIND, &lws.metadata);
            let (starts, pods) = replicas(admitted, &lws, &judged, &owner, cluster)?;
            Some(use_them(Gangs {
                owner: &owner,
                judged: &judged,
                starts,
                pods,
            }))
        }
        _ => None,
    }
}

/// The gangs of each replica, and its leader and first worker as they would be stored.
fn replicas<'p>(
    admitted: &Admitted,
    lws: &LeaderWorkerSet<'_>,
    judged: &'p Judged,
    owner: &Owner,
    cluster: &Snapshot,
) -> Option<(Vec<Vec<Gang<'p>>>, Vec<Value>)> {
    let (mut starts, mut pods) = (Vec::new(), Vec::new());
    if judged.plan.parts.is_empty() {
        return Some((starts, pods));
    }
    for index in 0..lws.replicas() {
        let replica = ReplicaRef {
            namespace: &admitted.namespace,
            name: &owner.name,
            index,
            revision: children::STAND_IN_REVISION,
        };
        let leader = children::leader(&admitted.object, replica);
        let leader = admit::create(Kind::Pod, &leader, cluster).ok()?.object;
        let life = replica::Life {
            namespace: replica.namespace,
            name: replica.name,
            index: &index.to_string(),
            revision: replica.revision,
            key: leader["metadata"]["labels"][replica::GROUP_KEY].as_str()?,
        };
        let gang = |part: &'p Part| {
            let identity = replica::identity(&life, part.name().as_str());
            Gang::new(part, identity)
        };
        starts.push(judged.plan.parts.iter().map(gang).collect());
        let worker = children::worker(&admitted.object, replica, &leader, 1);
        pods.push(leader);
        if lws.size() > 1 {
            pods.push(admit::create(Kind::Pod, &worker, cluster).ok()?.object);
        }
    }
    Some((starts, pods))
}

/// The name that the object would be stored under; a generated one gets a stand-in ending.
fn stored_name(meta: &Meta<'_>) -> String {
    let name = meta.display_name();
    let generated = meta.name.as_deref().unwrap_or_default().is_empty();
    if generated && !name.is_empty() {
        format!("{name}xxxxx")
    } else {
        name.to_owned()
    }
}
