//! How far the members of a gang are: what the reconciler does not need, and people ask for. Pure.

use std::collections::{HashMap, HashSet};

use crate::controller::decide::GangStatus;
use crate::gang::{Identity, Round};
use crate::workload::SeenPod;
use crate::workload::seen::{LinkState, PodPhase};

/// Members of a gang in its last round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Those that exist, and those that have finished well.
    pub created: usize,
    /// Those on nodes, and those that have finished well.
    pub placed: usize,
    /// Those that run.
    pub running: usize,
    /// Those that have finished well.
    pub done: usize,
}

/// The names that the gang of a pod may have: a scheduler may not tell rounds apart.
pub(super) fn names(gang: &Identity) -> [String; 2] {
    let first = Identity {
        round: Round::default(),
        ..gang.clone()
    };
    [gang.name().into_string(), first.name().into_string()]
}

/// How far each gang is.
pub(super) fn count(
    gangs: &[GangStatus],
    pods: &[SeenPod],
    running: &HashSet<String>,
) -> Vec<Progress> {
    let mut members: HashMap<String, Vec<&SeenPod>> = HashMap::new();
    let mut known: HashMap<&Identity, [String; 2]> = HashMap::new();
    for pod in pods
        .iter()
        .filter(|pod| pod.link == LinkState::Linked && !pod.going)
    {
        let [own, first] = known.entry(&*pod.gang).or_insert_with(|| names(&pod.gang));
        members.entry(own.clone()).or_default().push(pod);
        if own != first {
            members.entry(first.clone()).or_default().push(pod);
        }
    }
    let of = |gang: &GangStatus| {
        let members = members.get(&gang.name).map_or(&[][..], Vec::as_slice);
        let last = members.iter().map(|pod| pod.gang.round).max();
        let mut progress = Progress::default();
        for pod in members.iter().filter(|pod| Some(pod.gang.round) == last) {
            let done = pod.phase == PodPhase::Succeeded;
            let bound = pod.phase == PodPhase::Bound;
            progress.created += usize::from(done || pod.phase.is_live());
            progress.placed += usize::from(done || bound);
            progress.running += usize::from(bound && running.contains(&pod.uid));
            progress.done += usize::from(done);
        }
        progress
    };
    gangs.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn members_are_counted_in_the_last_round_of_their_gang() {
        let identity = Identity {
            workload: "train".to_owned(),
            uid: "4d1c".to_owned(),
            ..Identity::default()
        };
        let pod = |uid: &str, round: u32, phase| SeenPod {
            uid: uid.to_owned(),
            gang: Arc::new(Identity {
                round: Round(round),
                ..identity.clone()
            }),
            phase,
            ..SeenPod::example()
        };
        let unlinked = SeenPod {
            link: LinkState::Missing,
            ..pod("unlinked", 1, PodPhase::Pending)
        };
        let pods = [
            pod("earlier", 0, PodPhase::Succeeded),
            pod("waits", 1, PodPhase::Pending),
            pod("starts", 1, PodPhase::Bound),
            pod("runs", 1, PodPhase::Bound),
            pod("done", 1, PodPhase::Succeeded),
            pod("failed", 1, PodPhase::Failed),
            unlinked,
        ];
        let running = HashSet::from(["runs".to_owned(), "unlinked".to_owned()]);
        let now = Progress {
            created: 4,
            placed: 3,
            running: 1,
            done: 1,
        };
        let [own, first] = names(&pods[1].gang);
        assert_ne!(own, first);
        for (name, expected) in [
            (own, now),
            // Where the scheduler does not tell rounds apart.
            (first, now),
            ("other".to_owned(), Progress::default()),
        ] {
            let gang = GangStatus {
                name: name.clone(),
                ..GangStatus::example()
            };
            assert_eq!(count(&[gang], &pods, &running), [expected], "{name}");
        }
    }
}
