//! What was looked at for all workloads, and what nobody has looked at: both are said with an answer.

use super::Inspector;
use crate::controller::decide::{GangStatus, State};
use crate::controller::witness::Need;
use crate::workload::Life;

impl Inspector {
    /// With what was looked at for all workloads.
    pub(super) fn and_around(&self, mut looked: Vec<String>) -> Vec<String> {
        if self.witnesses.has_seen(Need::Room) {
            looked.push("nodes and the pods on them".to_owned());
        }
        if self.witnesses.has_seen(Need::Refusals) {
            looked.push("what controllers were told when they created pods".to_owned());
        }
        looked
    }
}

/// What can be asked of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stands {
    /// Why a gang waits.
    Waits,
    /// Whether pods on nodes run.
    Placed,
    /// Nothing of pods: it has none.
    Still,
}

impl Stands {
    pub(super) fn of(life: Life, gangs: &[GangStatus]) -> Self {
        match gangs.iter().all(|gang| gang.state == State::Scheduled) {
            _ if life != Life::Live => Self::Still,
            true if !gangs.is_empty() => Self::Placed,
            _ => Self::Waits,
        }
    }
}

/// With what nobody has looked at.
pub(super) fn and_never(mut unknown: Vec<String>, stands: Stands) -> Vec<String> {
    let never = [
        "whether the scheduler preempts other pods, and which",
        "how pods affect each other (affinity, spread, volumes), beyond what the scheduler says",
        "whether pods on nodes start (images, volumes, start barriers)",
    ];
    let never = match stands {
        Stands::Waits => &never[..],
        Stands::Placed => &never[2..],
        Stands::Still => &[],
    };
    unknown.extend(never.iter().map(|&what| what.to_owned()));
    unknown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_asked_of_it_is_unknown() {
        let gang = |state| GangStatus {
            state,
            ..GangStatus::example()
        };
        let [waits, placed] = [State::Waiting, State::Scheduled].map(gang);
        let unknown = |life, gangs: &[GangStatus]| and_never(Vec::new(), Stands::of(life, gangs));
        assert_eq!(
            unknown(Life::Live, &[placed.clone(), waits.clone()]).len(),
            3
        );
        assert_eq!(unknown(Life::Live, &[]).len(), 3);
        let start = "whether pods on nodes start (images, volumes, start barriers)";
        assert_eq!(unknown(Life::Live, &[placed]), [start]);
        for life in [
            Life::Suspended,
            Life::Finished,
            Life::Deleting,
            Life::LeftAlone,
        ] {
            assert!(
                unknown(life, std::slice::from_ref(&waits)).is_empty(),
                "{life:?}"
            );
        }
    }
}
