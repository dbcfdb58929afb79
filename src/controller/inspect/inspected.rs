//! A workload, and how its gangs stand: what is printed.

use super::progress::Progress;
use crate::controller::decide::{GangStatus, State};
use crate::controller::queued::Queued;
use crate::controller::report::condition;
use crate::gang::keys;
use crate::workload::Life;

/// How a gang is called that nothing made but its pods.
pub(super) const GANG: &str = "Gang";

/// How much of the cluster whoever looks may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sight {
    /// All that Muster looks at.
    Whole,
    /// Not nodes and the pods on them, or not events: Muster knows better why a gang waits.
    Partial,
    /// Not even the pods of gangs: only Muster knows how they stand.
    NoPods,
}

/// A workload, and how its gangs stand.
#[derive(Debug, Clone)]
pub struct Inspected {
    /// Its kind; of a gang that pods declare, that of what made them.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The name under which its pods declare their gang, where they do.
    pub declared: Option<String>,
    /// The label selector that finds its pods.
    pub pods: String,
    /// Whether its gangs are to live now.
    pub life: Life,
    /// Its gangs.
    pub gangs: Vec<GangStatus>,
    /// How far the members of each are.
    pub progress: Vec<Progress>,
    /// Why no gang is made, although one is asked for.
    pub refused: Option<String>,
    /// Why its pods cannot start together, although they are linked.
    pub broken: Option<String>,
    /// The queue of Kueue that it is in.
    pub kueue: Option<Queued>,
    /// What to type to resume it, where it is suspended and nobody but its users resumes it.
    pub resume: Option<String>,
    /// Who runs it in place of its kind's own controller.
    pub manager: Option<String>,
    /// How its start barrier stands while it lives, as its condition would say it: reason and message.
    pub barrier: Option<(String, String)>,
    /// Objects of its gangs that do not exist and should: kind and name.
    pub missing: Vec<String>,
    /// What stands where such an object should: a sentence each.
    pub foreign: Vec<String>,
    /// What its condition says: reason and message.
    pub told: Option<(String, String)>,
    /// How much could be looked at.
    pub sight: Sight,
    /// Why it has failed, where its own conditions say that.
    pub failed: Option<String>,
    /// What was looked at to say so.
    pub looked: Vec<String>,
    /// What is not known of it, also if everything could be looked at.
    pub unknown: Vec<String>,
}

impl Inspected {
    /// Its gangs, and how far each is.
    pub fn gangs(&self) -> impl Iterator<Item = (&GangStatus, Progress)> {
        let counted = self.progress.iter().copied();
        let counted = counted.chain(std::iter::repeat(Progress::default()));
        self.gangs.iter().zip(counted)
    }

    /// Why a gang waits by the workload's condition, reason and message, where that knows better than
    /// whoever looks. The message of one that waits begins with its name.
    pub fn told_of(&self, gang: &GangStatus) -> Option<(&str, &str)> {
        let (reason, message) = self.told.as_ref()?;
        let told = message.strip_prefix(&gang.name)?.strip_prefix(": ")?;
        let better = match self.sight {
            Sight::Whole => false,
            Sight::Partial => gang.state != State::Scheduled,
            Sight::NoPods => true,
        };
        (better && self.life == Life::Live).then_some((reason, told))
    }

    /// Why its main containers wait for each other, where they do: reason and message.
    pub fn at_barrier(&self) -> Option<(&str, &str)> {
        let (reason, message) = self.barrier.as_ref()?;
        (reason != condition::BARRIER_OPENED).then_some((reason, message))
    }

    /// Why its gangs are not made: nothing else counts while that is so.
    pub fn refusal(&self) -> Option<String> {
        let foreign = || (!self.foreign.is_empty()).then(|| self.foreign.join("; "));
        self.refused.clone().or_else(foreign)
    }

    /// The label selector that finds the pods of a gang. Those that declare theirs have no label of a
    /// part.
    pub fn pods_of(&self, gang: &GangStatus) -> String {
        let part = gang.part.as_ref().filter(|_| self.declared.is_none());
        match part {
            Some(part) => format!("{},{}={part}", self.pods, keys::GANG),
            None => self.pods.clone(),
        }
    }

    /// With the gangs of these names only.
    pub(super) fn only(mut self, names: &[String]) -> Self {
        let kept = |gang: &GangStatus| names.contains(&gang.name);
        let kept: Vec<bool> = self.gangs.iter().map(kept).collect();
        let mut keeps = kept.iter();
        self.progress.retain(|_| keeps.next() == Some(&true));
        let mut keeps = kept.iter();
        self.gangs.retain(|_| keeps.next() == Some(&true));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::super::example::example;
    use super::*;

    /// Else a next step would list the pods of other gangs too.
    #[test]
    fn the_pods_of_one_gang_are_found_by_the_labels_of_its_workload_and_part() {
        let gang = GangStatus {
            part: Some("workers".to_owned()),
            ..GangStatus::example()
        };
        let selector = example().pods_of(&gang);
        assert_eq!(selector, "example.com/name=train,muster.dev/gang=workers");
        let declared = Inspected {
            declared: Some("ring".to_owned()),
            pods: "muster.dev/gang-name=ring".to_owned(),
            ..example()
        };
        assert_eq!(declared.pods_of(&gang), "muster.dev/gang-name=ring");
    }

    #[test]
    fn only_the_gang_that_is_asked_for_is_kept_with_its_progress() {
        let gang = |name: &str| GangStatus {
            name: name.to_owned(),
            ..GangStatus::example()
        };
        let progress = |created| Progress {
            created,
            ..Progress::default()
        };
        let both = Inspected {
            gangs: vec![gang("a"), gang("b")],
            progress: vec![progress(1), progress(2)],
            ..example()
        };
        let one = both.only(&["b".to_owned(), "c".to_owned()]);
        assert_eq!((one.gangs.len(), one.gangs[0].name.as_str()), (1, "b"));
        assert_eq!(one.progress, [progress(2)]);
    }
}
