//! The pods of a workload, by the gang that they are members of.
//!
//! Grouped once for each look, so that a look costs what the workload has pods, and not its gangs
//! times its pods. Pure.

use std::collections::{HashMap, HashSet};

use crate::gang::{GangKey, Identity, Round, StampHash};
use crate::workload::seen::{LinkState, PodPhase, Sealed};
use crate::workload::{SeenPod, Workload, site};

/// The pods of a workload, by what can be believed of them.
#[derive(Debug, Default)]
pub(super) struct Pods {
    /// Its members. One whose stamp is not stored anywhere has none: no object is made from it.
    pub(super) members: Vec<SeenPod>,
    /// Pods that say so and are none. What they seem to belong to is not deleted under them: a key may
    /// have been lost since they were admitted.
    pub(super) strangers: Vec<SeenPod>,
}

impl Pods {
    /// A member has a seal for the workload's name, or its stamp is stored with the workload or one of
    /// its revisions. A seal alone says that Muster was asked to stamp such a workload, and not that
    /// it was ever stored: what objects are made of must be.
    pub(super) fn sort(
        pods: Vec<SeenPod>,
        workload: &dyn Workload,
        revisions: &HashSet<StampHash>,
    ) -> Self {
        let name = workload.meta().name.as_deref().unwrap_or_default();
        // Nothing is read of the workload where nobody needs it.
        let needed = |pod: &SeenPod| pod.sealed == Sealed::No || pod.stamp.is_some();
        let carried = match pods.iter().any(needed) {
            true => site::carried(workload),
            false => HashSet::new(),
        };
        let stored =
            |pod: &SeenPod| carried.contains(&pod.stamped) || revisions.contains(&pod.stamped);
        let mut sorted = Self::default();
        for mut pod in pods {
            let known = pod.sealed == Sealed::Yes || stored(&pod);
            if !known || pod.gang.workload != name {
                sorted.strangers.push(pod);
                continue;
            }
            // A pod that declares its gang is what is stored.
            if pod.stamp.is_some() && pod.own.is_none() && !stored(&pod) {
                pod.stamp = None;
            }
            sorted.members.push(pod);
        }
        sorted
    }
}

/// The members of each gang, of whatever round.
#[derive(Debug, Default)]
pub struct GangMembers<'a> {
    linked: HashMap<GangKey<'a>, Vec<&'a SeenPod>>,
    /// Pods that would be members, and have lost their link or never had one.
    unlinked: HashMap<GangKey<'a>, Vec<&'a SeenPod>>,
}

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
        let mut members = Self::default();
        for pod in pods {
            let of = match pod.link {
                LinkState::Linked => &mut members.linked,
                LinkState::Missing => &mut members.unlinked,
                LinkState::Elsewhere => continue,
            };
            of.entry(pod.gang.key()).or_default().push(pod);
        }
        members
    }

    /// Pods that the gang lacks because they are not linked to it.
    pub fn unlinked(&self, gang: &Identity) -> Vec<&'a SeenPod> {
        let pods = self.unlinked.get(&gang.key()).into_iter().flatten();
        let counts =
            |pod: &&SeenPod| pod.gang.round == gang.round && !pod.going && pod.phase.is_live();
        pods.copied().filter(counts).collect()
    }

    /// The members of a gang; its identity tells the round that counts, also on a scheduler that
    /// does not tell rounds apart.
    pub fn of(&self, gang: &Identity) -> Members<'a> {
        Members {
            all: self.linked.get(&gang.key()).cloned().unwrap_or_default(),
            round: gang.round,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::gang::{Attempt, PartName, Stamp};
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
        let members = GangMembers::group(&pods);
        assert!(members.of(&pods[0].gang).now().next().is_none());
        assert_eq!(members.unlinked(&pods[0].gang).len(), 1);
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
        let stamped = |uid: &str, sealed, stamp: &str| SeenPod {
            sealed,
            stamped: StampHash::of("workers", stamp),
            ..pod(uid, of("train"))
        };
        let plans = |pod: SeenPod| SeenPod {
            stamp: Stamp::parse(r#"{"scheduler":"x","level":"Whole","size":1,"quorum":1}"#)
                .ok()
                .map(Arc::new),
            ..pod
        };
        let pods = vec![
            pod("sealed", of("train")),
            pod("other", of("serve")),
            stamped("carried", Sealed::No, "{}"),
            stamped("forged", Sealed::No, r#"{"size":1}"#),
            plans(stamped("stored", Sealed::Yes, "{}")),
            plans(stamped("revision", Sealed::Yes, r#"{"size":2}"#)),
            plans(stamped("asked-for", Sealed::Yes, r#"{"size":3}"#)),
        ];
        let revisions = HashSet::from([StampHash::of("workers", r#"{"size":2}"#)]);
        let sorted = Pods::sort(pods, object.workload().unwrap(), &revisions);
        let uids =
            |pods: &[SeenPod]| -> Vec<String> { pods.iter().map(|pod| pod.uid.clone()).collect() };
        let members = ["sealed", "carried", "stored", "revision", "asked-for"];
        assert_eq!(uids(&sorted.members), members);
        assert_eq!(uids(&sorted.strangers), ["other", "forged"]);
        let plans = sorted.members.iter().filter(|pod| pod.stamp.is_some());
        let plans: Vec<&str> = plans.map(|pod| pod.uid.as_str()).collect();
        assert_eq!(
            plans,
            ["stored", "revision"],
            "no object is made of what was never stored"
        );
    }
}
