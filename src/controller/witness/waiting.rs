//! The workloads with gangs that wait, and what each needs watched to say why.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::gang::PartnerRef;
use crate::scheduler::TABLE;

/// What is needed to say why the gangs of a workload wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::controller) enum Need {
    /// What Kueue says: the workload is suspended.
    Admission,
    /// What controllers were refused.
    Refusals,
    /// The room on nodes: all its pods exist, and wait for one.
    Room,
    /// The queues of this group and version.
    Queues(&'static str),
    /// What its scheduler says in events alone.
    Words,
}

impl Need {
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let queues = TABLE.iter().filter_map(|entry| entry.queues);
        let queues = queues.map(Self::Queues);
        [Self::Admission, Self::Refusals, Self::Room, Self::Words]
            .into_iter()
            .chain(queues)
    }
}

/// Workloads with gangs that wait, by uid.
#[derive(Default)]
pub(super) struct Waiting {
    pub(super) all: HashMap<String, (PartnerRef, BTreeSet<Need>)>,
    /// How many workloads have a need.
    counts: BTreeMap<Need, usize>,
}

impl Waiting {
    pub(super) fn insert(&mut self, uid: &str, workload: PartnerRef, needs: BTreeSet<Need>) {
        self.remove(uid);
        for need in &needs {
            *self.counts.entry(*need).or_default() += 1;
        }
        self.all.insert(uid.to_owned(), (workload, needs));
    }

    pub(super) fn remove(&mut self, uid: &str) {
        let Some((_, needs)) = self.all.remove(uid) else {
            return;
        };
        for need in &needs {
            if let Some(count) = self.counts.get_mut(need) {
                *count -= 1;
            }
        }
    }

    pub(super) fn needs(&self, need: Need) -> usize {
        self.counts.get(&need).copied().unwrap_or_default()
    }
}
