//! Whose stamps are good although their seal is not known: those that the stored workload carries too.
//!
//! A key can be lost, and a cluster restored from a backup without it. Then the workload itself
//! vouches for the stamps of its children, as it stands in the cluster. Here is what was found; who
//! looks is somebody else.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::reference::WorkloadRef;
use super::seal::StampHash;

/// A workload that is said to be the owner of a child.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Carrier {
    /// Its kind.
    pub kind: &'static str,
    /// Its namespace and name.
    pub workload: WorkloadRef,
}

/// The stamps of a workload's stored templates.
pub type Carried = Arc<HashSet<StampHash>>;

/// What stored workloads say of stamps.
#[derive(Debug, Clone, Default)]
pub enum Vouched {
    /// There is no cluster to ask.
    #[default]
    Nobody,
    /// What was asked.
    Asked(Arc<Asked>),
}

/// The workloads that were asked.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// What they carry. A word for a stamp holds for long: most workloads are never changed.
    pub carried: HashMap<Carrier, Carried>,
    /// Those whose word against a stamp holds too: they were asked a moment ago.
    pub lately: HashSet<Carrier>,
}

/// What is known of one stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    /// The stored workload carries it.
    Carried,
    /// It does not, or there is no such workload.
    Denied,
    /// The workload was not asked, or too long ago to say no.
    NotAsked,
}

impl Vouched {
    pub(crate) fn of(&self, carrier: &Carrier, stamp: StampHash) -> Word {
        let asked = match self {
            Self::Nobody => return Word::Denied,
            Self::Asked(asked) => asked,
        };
        let carried = asked.carried.get(carrier);
        if carried.is_some_and(|carried| carried.contains(&stamp)) {
            Word::Carried
        } else if asked.lately.contains(carrier) {
            Word::Denied
        } else {
            Word::NotAsked
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_vouches_for_what_it_carries_once_it_was_asked() {
        let carrier = |name| Carrier {
            kind: "Thing",
            workload: WorkloadRef::new("ml", name),
        };
        let (good, other) = (StampHash::of("a", "{}"), StampHash::of("b", "{}"));
        let carried = |name| (carrier(name), Arc::new(HashSet::from([good])));
        let vouched = Vouched::Asked(Arc::new(Asked {
            carried: HashMap::from([carried("train"), carried("long-ago")]),
            lately: HashSet::from([carrier("train")]),
        }));
        assert_eq!(vouched.of(&carrier("train"), good), Word::Carried);
        assert_eq!(vouched.of(&carrier("train"), other), Word::Denied);
        assert_eq!(vouched.of(&carrier("serve"), good), Word::NotAsked);
        assert_eq!(vouched.of(&carrier("long-ago"), good), Word::Carried);
        assert_eq!(vouched.of(&carrier("long-ago"), other), Word::NotAsked);
        assert_eq!(Vouched::Nobody.of(&carrier("train"), good), Word::Denied);
    }
}
