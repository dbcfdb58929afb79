//! What must be watched to say why the gangs of a workload wait. Pure but for asking whether it was seen.

use std::collections::BTreeSet;

use super::decide::{Actions, GangStatus, State};
use super::witness::{Need, Witnesses};
use crate::scheduler::{self, Queue};

/// What is needed to say why gangs wait; nothing where none does. The room matters only where all that
/// are needed exist: before that no scheduler looks for nodes. While a workload is suspended there are
/// no gangs, and what Kueue says is all that matters.
pub(super) fn of(actions: &Actions) -> BTreeSet<Need> {
    let open = |gang: &&GangStatus| gang.state != State::Scheduled;
    let open = || actions.gangs.iter().filter(open);
    let mut needs = BTreeSet::new();
    if actions.suspended.is_some() {
        needs.extend(actions.kueue.as_ref().map(|_| Need::Admission));
        return needs;
    }
    if actions.unmade || open().next().is_some() {
        needs.insert(Need::Refusals);
    }
    let whole = |gang: &GangStatus| gang.live >= gang.quorum as usize;
    if open().any(|gang| !gang.pending.is_empty() && whole(gang)) {
        needs.insert(Need::Room);
    }
    needs.extend(
        actions
            .queue
            .as_ref()
            .map(|queue| Need::Queues(queue.api_version)),
    );
    let speaks = |gang: &GangStatus| scheduler::tells(gang.scheduler).is_some();
    if open().any(|gang| gang.waits() && speaks(gang)) {
        needs.insert(Need::Words);
    }
    needs
}

/// Whether all was seen that must be, before it is said why a gang waits.
pub(super) fn are_met(gang: &GangStatus, queue: Option<&Queue>, witnesses: &Witnesses) -> bool {
    let speaks = scheduler::tells(gang.scheduler).is_some();
    witnesses.has_seen(first(gang))
        && queue.is_none_or(|queue| witnesses.knows(queue))
        && (!speaks || witnesses.has_seen(Need::Words))
}

/// Whether what must be seen is being looked at for the first time: soon it will have been.
pub(super) fn are_about_to_be_met(gang: &GangStatus, witnesses: &Witnesses) -> bool {
    witnesses.is_about_to_see(first(gang))
}

fn first(gang: &GangStatus) -> Need {
    match gang.evidence.lacks() {
        true => Need::Refusals,
        false => Need::Room,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::TABLE;

    fn gang(live: usize) -> GangStatus {
        let pending = (0..live).map(|pod| pod.to_string()).collect();
        GangStatus {
            state: match live {
                0 => State::Empty,
                _ => State::Waiting,
            },
            live,
            pending,
            ..GangStatus::example()
        }
    }

    fn of(gangs: Vec<GangStatus>) -> Vec<Need> {
        let actions = Actions {
            gangs,
            ..Actions::default()
        };
        super::of(&actions).into_iter().collect()
    }

    /// One whose pods are made once another has ended may wait for days.
    #[test]
    fn nodes_are_not_needed_before_all_pods_exist_that_must() {
        let refusals = [Need::Refusals];
        assert_eq!(of(vec![gang(0)]), refusals);
        assert_eq!(of(vec![gang(3)]), refusals);
        assert_eq!(of(vec![gang(0), gang(4)]), [Need::Refusals, Need::Room]);
        let placed = GangStatus {
            state: State::Scheduled,
            ..gang(4)
        };
        assert_eq!(of(vec![placed]), []);
    }

    #[test]
    fn events_of_a_scheduler_are_needed_where_it_says_something_there_alone() {
        for entry in TABLE {
            let waits = GangStatus {
                scheduler: entry.kind,
                ..gang(4)
            };
            let needed = of(vec![waits]).contains(&Need::Words);
            assert_eq!(needed, entry.tells.is_some(), "{}", entry.kind);
        }
    }
}
