//! Pods placed one by one where they fit: how many do, and what is left of them and of nodes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::{Kept, PODS, Room};
use crate::explain::fit::Places;
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
    pub(super) apart: Option<Places>,
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
    /// Places pods one by one where they fit. Where kinds are in each other's way, other orders are tried:
    /// a gang that fits in one of them is not said not to fit.
    pub(super) fn place<'a>(
        &'a self,
        asks: &'a [(Arc<Ask>, u32)],
        needed: u32,
        taken: Taken<'_>,
    ) -> Placed<'a> {
        let mut order: Vec<&(Arc<Ask>, u32)> = asks.iter().collect();
        // What is hardest to place first.
        order.sort_by(|(a, _), (b, _)| b.requests.cmp(&a.requests));
        let placed = self.place_in_order(&order, needed, &taken);
        if placed.fits == needed || order.len() < 2 {
            return placed;
        }
        // The smallest first: those may be all that is needed. Then those that may use fewest nodes.
        order.reverse();
        let smallest = order.clone();
        order.sort_by_cached_key(|(ask, _)| {
            let nodes = self.nodes.iter();
            nodes
                .filter(|(name, node)| exclusion(ask, name, node).is_none())
                .count()
        });
        let others = [smallest, order].into_iter();
        let mut others = others.map(|order| self.place_in_order(&order, needed, &taken));
        let all = others.find(|other| other.fits == needed);
        all.unwrap_or(placed)
    }

    fn place_in_order<'a>(
        &'a self,
        asks: &[&'a (Arc<Ask>, u32)],
        needed: u32,
        taken: &Taken<'_>,
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
                    apart: domains.and_then(|domains| domains.kept(count.min(u64::from(needed)))),
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
    all: BTreeSet<&'a str>,
    taken: BTreeSet<&'a str>,
    /// Whether there is room that none of them may use.
    spare: bool,
    /// Whether there are nodes without the label, which are near no other.
    beyond: bool,
}

impl<'a> Domains<'a> {
    fn of(apart: &'a Apart) -> Self {
        Self {
            key: &apart.key,
            all: BTreeSet::new(),
            taken: BTreeSet::new(),
            spare: false,
            beyond: false,
        }
    }

    /// How many of those that fit on a node may come to it.
    fn take(&mut self, node: &'a NodeRoom, fits: u64) -> u64 {
        let Some(value) = node.labels.get(self.key) else {
            self.beyond = true;
            return fits;
        };
        self.all.insert(value);
        let takes = u64::from(fits > 0 && self.taken.insert(value));
        self.spare |= fits > takes;
        takes
    }

    /// What keeps them from being placed, where so many are to be: too few places for all of them, or
    /// room that they may not use.
    fn kept(self, pods: u64) -> Option<Places> {
        let few = !self.beyond && (self.all.len() as u64) < pods;
        (few || self.spare).then(|| Places {
            key: self.key.to_owned(),
            free: self.taken.len(),
            all: self.all.len(),
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
