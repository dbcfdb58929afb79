//! Pods placed one by one where they fit: how many do, and what is left of them and of nodes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::{Kept, PODS, Room};
use crate::explain::nodes::{Exclusion, NodeRoom, exclusion};
use crate::gang::apart::Apart;
use crate::gang::ask::Ask;
use crate::gang::quantity::Quantity;
use crate::gang::resources::ResourceList;

/// Where pods were placed, one by one, and what is left of them.
pub(super) struct Placed<'a> {
    /// How many fit, of those that are needed.
    pub(super) fits: u32,
    /// Of those that are needed, how many of a kind do not fit; what is hardest to place first.
    pub(super) missing: Vec<(&'a Ask, u64)>,
    pub(super) first: Option<Kind<'a>>,
    /// What nodes have left after that.
    pub(super) free: HashMap<&'a str, ResourceList>,
}

/// The first kind of pods that do not all fit.
pub(super) struct Kind<'a> {
    pub(super) ask: &'a Arc<Ask>,
    pub(super) count: u64,
    pub(super) left: u64,
    /// The nodes that it may use.
    pub(super) may: Vec<(&'a str, &'a NodeRoom)>,
    /// What they had for it, together.
    pub(super) total: ResourceList,
    pub(super) excluded: BTreeMap<Exclusion, usize>,
    /// What keeps it from room that there is.
    pub(super) apart: Option<KeptApart>,
}

/// Room that pods may not use because others of their kind are near.
pub(super) struct KeptApart {
    /// The label of nodes of which each value takes one of them.
    pub(super) key: String,
    /// How many values took one.
    pub(super) places: usize,
    /// So many more would fit otherwise.
    pub(super) room: u64,
}

/// What of nodes counts as taken.
pub(super) enum Taken<'a> {
    /// What pods on them request.
    ByAll,
    /// The same without these pods.
    Without(&'a dyn Fn(&Kept) -> bool),
    /// Nothing: as if they were empty.
    ByNone,
}

impl Room {
    /// Places pods one by one where they fit.
    pub(super) fn place<'a>(
        &'a self,
        asks: &'a [(Arc<Ask>, u32)],
        needed: u32,
        taken: Taken<'_>,
    ) -> Placed<'a> {
        let (mut fits, mut missing, mut first) = (0, Vec::new(), None);
        let mut free: HashMap<&str, ResourceList> = HashMap::new();
        let untouched = |name: &str, node: &NodeRoom| match taken {
            Taken::ByNone => node.allocatable.clone(),
            Taken::ByAll | Taken::Without(_) => self.free(name, node),
        };
        if let Taken::Without(given) = taken {
            for pod in self.pods.values().filter(|pod| given(pod)) {
                if let Some(node) = self.nodes.get(&pod.node) {
                    let free = free
                        .entry(&pod.node)
                        .or_insert_with(|| untouched(&pod.node, node));
                    let _ = free.checked_add(&pod.requests);
                    free.add_units(PODS, 1);
                }
            }
        }
        let mut asks: Vec<&(Arc<Ask>, u32)> = asks.iter().collect();
        // What is hardest to place first.
        asks.sort_by(|(a, _), (b, _)| b.requests.cmp(&a.requests));
        for (ask, count) in asks {
            let count = u64::from(*count);
            let mut left = count;
            let mut may = Vec::new();
            let mut excluded: BTreeMap<Exclusion, usize> = BTreeMap::new();
            for (name, node) in &self.nodes {
                match exclusion(ask, name, node) {
                    Some(why) => *excluded.entry(why).or_default() += 1,
                    None => may.push((&**name, node)),
                }
            }
            may.sort_by_key(|(name, _)| *name);
            let mut total = ResourceList::new();
            let mut domains = ask.apart.first().map(Domains::of);
            for (name, node) in &may {
                let free = free.entry(name).or_insert_with(|| untouched(name, node));
                let _ = total.checked_add(free);
                let room = times(free, ask).min(left);
                let times = match &mut domains {
                    Some(domains) => domains.take(node, room),
                    None => room,
                };
                free.subtract_times(&ask.requests, times);
                free.subtract_units(PODS, times as i64);
                left -= times;
            }
            fits += count - left;
            if left > 0 {
                missing.push((&**ask, left));
                first.get_or_insert(Kind {
                    ask,
                    count,
                    left,
                    may,
                    total,
                    excluded,
                    apart: domains.and_then(Domains::kept),
                });
            }
        }
        let fits = u32::try_from(fits).unwrap_or(u32::MAX).min(needed);
        // More may wait than are needed.
        let mut needed = u64::from(needed - fits);
        for (_, left) in &mut missing {
            *left = needed.min(*left);
            needed -= *left;
        }
        Placed {
            fits,
            missing,
            first,
            free,
        }
    }
}

/// Of which values of a node's label pods that keep apart have taken one each. Where they keep apart by
/// several labels, the first is counted: no more fit than by that.
struct Domains<'a> {
    key: &'a str,
    taken: BTreeSet<&'a str>,
    room: u64,
}

impl<'a> Domains<'a> {
    fn of(apart: &'a Apart) -> Self {
        Self {
            key: &apart.key,
            taken: BTreeSet::new(),
            room: 0,
        }
    }

    /// How many of those that fit on a node may come to it.
    fn take(&mut self, node: &'a NodeRoom, fits: u64) -> u64 {
        // A node without the label is near no other.
        let Some(value) = node.labels.get(self.key).filter(|_| fits > 0) else {
            return fits;
        };
        let takes = u64::from(self.taken.insert(value));
        self.room = self.room.saturating_add(fits - takes);
        takes
    }

    fn kept(self) -> Option<KeptApart> {
        (self.room > 0).then(|| KeptApart {
            key: self.key.to_owned(),
            places: self.taken.len(),
            room: self.room,
        })
    }
}

/// What one pod asks, without what it asks nothing of.
pub(super) fn asked(ask: &Ask) -> impl Iterator<Item = (&str, Quantity)> {
    ask.requests.iter().filter(|(_, one)| !one.is_zero())
}

pub(super) fn of(list: &ResourceList, resource: &str) -> Quantity {
    list.get(resource).unwrap_or(Quantity::ZERO)
}

/// How often a pod fits into what a node has left.
fn times(free: &ResourceList, ask: &Ask) -> u64 {
    let by_resource = asked(ask).map(|(resource, one)| of(free, resource).holds(one));
    let places = free.get(PODS).map_or(u64::MAX, places);
    by_resource.min().unwrap_or(u64::MAX).min(places)
}

/// So many pods, as a node counts them.
pub(super) fn places(pods: Quantity) -> u64 {
    pods.holds(Quantity::from_units(1))
}
