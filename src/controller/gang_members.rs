//! The pods of a workload, by the gang that they are members of.
//!
//! Grouped once for each look, so that a look costs what the workload has pods, and not its gangs
//! times its pods. Pure.

use std::collections::HashMap;

use crate::gang::{GangKey, Identity, Round};
use crate::workload::seen::{LinkState, PodPhase};
use crate::workload::{SeenPod, Workload, site};

/// Drops the pods that neither a seal nor the stored workload vouches for. A seal holds for a workload's
/// name, and pods may be found by its uid.
pub(super) fn keep_trusted(pods: &mut Vec<SeenPod>, workload: &dyn Workload) {
    let name = workload.meta().name.as_deref().unwrap_or_default();
    pods.retain(|pod| pod.gang.workload == name);
    // Nothing is read of the workload where all have seals, as they do but after the loss of a key.
    if pods.iter().any(|pod| pod.unsealed.is_some()) {
        let carried = site::carried(workload);
        pods.retain(|pod| pod.unsealed.is_none_or(|stamp| carried.contains(&stamp)));
    }
}

/// The members of each gang, of whatever round.
#[derive(Debug, Default)]
pub struct GangMembers<'a>(HashMap<GangKey<'a>, Vec<&'a SeenPod>>);

/// The members of one gang. Those of an earlier round are often still there: pods die slowly, and
/// pods that have finished are kept.
#[derive(Debug)]
pub struct Members<'a> {
    all: Vec<&'a SeenPod>,
    round: Round,
}

impl<'a> Members<'a> {
    /// Those that were made in the gang's round, also if they are being deleted.
    pub fn of_round(&self) -> impl Iterator<Item = &'a SeenPod> {
        let pods = self.all.iter().copied();
        pods.filter(|pod| pod.gang.round == self.round)
    }

    /// Those that count: of the gang's round, and not being deleted.
    pub fn now(&self) -> impl Iterator<Item = &'a SeenPod> {
        self.of_round().filter(|pod| !pod.going)
    }

    /// How many of those that count are in a phase.
    pub fn count(&self, phase: PodPhase) -> usize {
        self.now().filter(|pod| pod.phase == phase).count()
    }

    /// How many have finished in whatever round: no pod is made for them again.
    pub fn finished(&self) -> usize {
        let done = |pod: &&&SeenPod| pod.phase == PodPhase::Succeeded;
        self.all.iter().filter(done).count()
    }
}

impl<'a> GangMembers<'a> {
    pub fn group(pods: &'a [SeenPod]) -> Self {
        let mut members: HashMap<GangKey<'_>, Vec<&SeenPod>> = HashMap::new();
        for pod in pods.iter().filter(|pod| pod.link == LinkState::Linked) {
            members.entry(pod.gang.key()).or_default().push(pod);
        }
        Self(members)
    }

    /// The members of a gang; its identity tells the round that counts, also on a scheduler that
    /// does not tell rounds apart.
    pub fn of(&self, gang: &Identity) -> Members<'a> {
        Members {
            all: self.0.get(&gang.key()).cloned().unwrap_or_default(),
            round: gang.round,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::gang::{Attempt, PartName, StampHash};
    use crate::workload::Object;

    fn gang(index: Option<u32>, whole: u32, own: u32) -> Identity {
        Identity {
            part: PartName::new("workers"),
            index,
            attempt: Attempt { whole, own },
            ..Identity::default()
        }
    }

    fn pod(uid: &str, gang: Identity) -> SeenPod {
        SeenPod {
            uid: uid.to_owned(),
            gang: Arc::new(gang),
            ..SeenPod::example()
        }
    }

    #[test]
    fn pods_of_other_replicas_attempts_and_rounds_are_members_of_other_gangs() {
        let later = Identity {
            round: Round(1),
            ..gang(Some(0), 0, 0)
        };
        let pods = [
            pod("first", gang(Some(0), 0, 0)),
            pod("restarted", gang(Some(0), 0, 1)),
            pod("other", gang(Some(1), 0, 0)),
            pod("whole", gang(None, 0, 0)),
            pod("resumed", later),
        ];
        let members = GangMembers::group(&pods);
        let of = |index, whole, own| {
            let members = members.of(&gang(index, whole, own));
            let uids = members.now().map(|pod| pod.uid.as_str());
            uids.collect::<Vec<_>>()
        };
        assert_eq!(of(Some(0), 0, 0), ["first"]);
        assert_eq!(of(Some(0), 0, 1), ["restarted"]);
        assert_eq!(of(None, 0, 0), ["whole"]);
        assert!(of(Some(2), 0, 0).is_empty());
    }

    #[test]
    fn pods_that_muster_has_not_linked_are_members_of_nothing() {
        let unlinked = |link| SeenPod {
            link,
            ..SeenPod::example()
        };
        let pods = [LinkState::Elsewhere, LinkState::Missing].map(unlinked);
        assert!(
            GangMembers::group(&pods)
                .of(&pods[0].gang)
                .now()
                .next()
                .is_none()
        );
    }

    #[test]
    fn a_pod_is_a_member_by_its_seal_or_by_its_workload_and_of_no_workload_of_another_name() {
        let text = r#"{"metadata": {"name": "train"}, "spec": {"replicatedJobs": [{
            "name": "workers",
            "template": {"metadata": {
                "labels": {"muster.dev/gang": "workers"},
                "annotations": {"muster.dev/stamp": "{}"}
            }}
        }]}}"#;
        let object = Object::read(&crate::workload::jobset::KIND, text);
        let of = |workload: &str| Identity {
            workload: workload.to_owned(),
            ..gang(None, 0, 0)
        };
        let unsealed = |uid: &str, stamp: &str| SeenPod {
            unsealed: Some(StampHash::of("workers", stamp)),
            ..pod(uid, of("train"))
        };
        let mut pods = vec![
            pod("sealed", of("train")),
            pod("other", of("serve")),
            unsealed("carried", "{}"),
            unsealed("forged", r#"{"size":1}"#),
        ];
        keep_trusted(&mut pods, object.workload().unwrap());
        let uids: Vec<&str> = pods.iter().map(|pod| pod.uid.as_str()).collect();
        assert_eq!(uids, ["sealed", "carried"]);
    }
}
