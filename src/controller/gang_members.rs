//! The pods of a workload, by the gang that they are members of.
//!
//! Grouped once for each look, so that a look costs what the workload has pods, and not its gangs
//! times its pods. Pure.

use std::collections::HashMap;

use crate::gang::{GangKey, Identity};
use crate::workload::SeenPod;
use crate::workload::seen::LinkState;

/// The members of each gang, of whatever round.
#[derive(Debug, Default)]
pub struct GangMembers<'a>(HashMap<GangKey<'a>, Vec<&'a SeenPod>>);

impl<'a> GangMembers<'a> {
    pub fn group(pods: &'a [SeenPod]) -> Self {
        let mut members: HashMap<GangKey<'_>, Vec<&SeenPod>> = HashMap::new();
        for pod in pods.iter().filter(|pod| pod.link == LinkState::Linked) {
            members.entry(pod.gang.key()).or_default().push(pod);
        }
        Self(members)
    }

    pub fn of(&self, gang: &Identity) -> Vec<&'a SeenPod> {
        self.0.get(&gang.key()).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::gang::{Attempt, PartName, Round};

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
    fn pods_of_other_replicas_and_attempts_are_members_of_other_gangs() {
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
            let uids = members.of(&gang(index, whole, own)).into_iter();
            uids.map(|pod| pod.uid.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(of(Some(0), 0, 0), ["first", "resumed"]);
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
        assert!(GangMembers::group(&pods).of(&pods[0].gang).is_empty());
    }
}
