//! The pods of a workload, by the gang that they are members of.
//!
//! Grouped once for each look, so that a look costs what the workload has pods, and not its gangs
//! times its pods. Pure.

use std::collections::HashMap;

use super::observe::{LinkedBy, SeenPod};
use crate::gang::Identity;
use crate::workload::lws::replica;

/// The members of each gang, by the part's name or the key of the replica's life, and then by what
/// else the pods of one gang have in common.
#[derive(Debug, Default)]
pub struct GangMembers<'a>(HashMap<&'a str, HashMap<Key, Vec<&'a SeenPod>>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    Attempt {
        index: u32,
        whole: u32,
        /// Only a gang of one replica restarts with that replica.
        own: Option<u32>,
    },
    Life(Pods),
}

/// Which pods of a replica's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Pods {
    All,
    Leader,
    Workers,
}

impl<'a> GangMembers<'a> {
    pub fn group(pods: &'a [SeenPod]) -> Self {
        let mut members: HashMap<&str, HashMap<Key, Vec<&SeenPod>>> = HashMap::new();
        for pod in pods {
            let Some((name, keys)) = keys(pod) else {
                continue;
            };
            let gangs = members.entry(name).or_default();
            for key in keys {
                gangs.entry(key).or_default().push(pod);
            }
        }
        Self(members)
    }

    pub fn of(&self, gang: &Identity) -> &[&'a SeenPod] {
        let (name, key) = key(gang);
        let gangs = self.0.get(name);
        gangs
            .and_then(|gangs| gangs.get(&key))
            .map_or(&[], Vec::as_slice)
    }
}

/// The gangs that a pod can be a member of: of a replica or of more, of a role or of all roles.
fn keys(pod: &SeenPod) -> Option<(&str, [Key; 2])> {
    let Some(life) = &pod.life else {
        let key = |own| Key::Attempt {
            index: pod.index,
            whole: pod.attempt.whole,
            own,
        };
        return Some((&pod.part, [key(None), key(Some(pod.attempt.own))]));
    };
    let role = match life.leader {
        Some(_) => Pods::Leader,
        None => Pods::Workers,
    };
    let keys = [Pods::All, role].map(Key::Life);
    (life.linked == LinkedBy::Muster).then_some((&life.key, keys))
}

fn key(gang: &Identity) -> (&str, Key) {
    // Gangs that are told apart by revision live and die replica by replica.
    if gang.revision.is_some() {
        let pods = match gang.part.as_str() {
            replica::LEADER => Pods::Leader,
            replica::WORKERS => Pods::Workers,
            _ => Pods::All,
        };
        return (&gang.uid, Key::Life(pods));
    }
    let key = Key::Attempt {
        index: gang.index.unwrap_or(0),
        whole: gang.attempt.whole,
        own: gang.index.map(|_| gang.attempt.own),
    };
    (gang.part.as_str(), key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::observe::{PodPhase, ReplicaLife};
    use crate::gang::{Attempt, PartName};

    fn pod(index: u32, whole: u32, own: u32) -> SeenPod {
        SeenPod {
            uid: format!("{index}-{whole}-{own}"),
            part: "workers".to_owned(),
            index,
            attempt: Attempt { whole, own },
            ..SeenPod::example(PodPhase::Pending)
        }
    }

    #[test]
    fn a_restart_of_one_replica_counts_only_where_the_replica_is_the_gang() {
        let pods = [pod(0, 0, 0), pod(0, 0, 1), pod(1, 0, 0), pod(0, 1, 0)];
        let members = GangMembers::group(&pods);
        let of = |index: Option<u32>, whole: u32, own: u32| {
            let gang = Identity {
                part: PartName::new("workers"),
                index,
                attempt: Attempt { whole, own },
                ..Identity::default()
            };
            let uids = members.of(&gang).iter().map(|pod| pod.uid.as_str());
            uids.collect::<Vec<_>>()
        };
        assert_eq!(of(Some(0), 0, 1), ["0-0-1"]);
        assert_eq!(of(Some(1), 0, 0), ["1-0-0"]);
        assert_eq!(of(None, 0, 0), ["0-0-0", "0-0-1"]);
        assert_eq!(of(None, 1, 0), ["0-1-0"]);
        assert!(of(Some(2), 0, 0).is_empty());
    }

    #[test]
    fn a_replicas_leader_and_workers_are_told_apart_and_unlinked_pods_are_members_of_nothing() {
        let stamp = r#"{"scheduler":"volcano","level":"Replica","size":2,"quorum":2}"#;
        let pod = |uid: &str, leads: bool, linked: LinkedBy| SeenPod {
            uid: uid.to_owned(),
            life: Some(Box::new(ReplicaLife {
                key: "k".to_owned(),
                index: "0".to_owned(),
                revision: "r".to_owned(),
                leader: leads.then(|| crate::gang::Stamp::parse(stamp).unwrap()),
                linked,
            })),
            ..SeenPod::example(PodPhase::Pending)
        };
        let pods = [
            pod("leader", true, LinkedBy::Muster),
            pod("worker", false, LinkedBy::Muster),
            pod("other", false, LinkedBy::Workload),
            pod("unlinked", false, LinkedBy::Nobody),
        ];
        let members = GangMembers::group(&pods);
        let of = |part: &str, key: &str| {
            let gang = Identity {
                part: PartName::new(part),
                uid: key.to_owned(),
                revision: Some("r".to_owned()),
                ..Identity::default()
            };
            let uids = members.of(&gang).iter().map(|pod| pod.uid.as_str());
            uids.collect::<Vec<_>>()
        };
        assert_eq!(of(replica::REPLICA, "k"), ["leader", "worker"]);
        assert_eq!(of(replica::LEADER, "k"), ["leader"]);
        assert_eq!(of(replica::WORKERS, "k"), ["worker"]);
        assert!(of(replica::REPLICA, "another").is_empty());
    }
}
