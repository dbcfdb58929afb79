//! How many members of a gang would fit now, what is short, which constraint excludes how many nodes,
//! and who has the rest.
//!
//! Counted as kube-scheduler counts: what bound pods request, not what they use. Of constraints between
//! pods only the anti-affinity of a gang's members to each other is counted; the rest (affinity, spread,
//! pods of others) is left to the scheduler's own words.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::place::{Kind, Placed, Taken, asked, of, places};
use super::{Kept, PODS, Room};
use crate::explain::fit::{Fit, How, Lacking, Preemption, Short, Small};
use crate::explain::nodes::{Exclusion, NodeRoom, exclusion};
use crate::gang::ask::{Ask, PreemptionPolicy};
use crate::gang::quantity::Quantity;

/// The largest holders that are named.
const HOLDERS: usize = 3;

/// Whose pods on nodes are no others' to a gang.
#[derive(Debug, Clone, Copy, Default)]
pub struct Own<'a> {
    /// How the holders of pods begin by which its scheduler keeps room for it.
    pub placeholders: Option<&'a str>,
    /// Its workload, as a holder. A part of it may be placed, and is not asked to go.
    pub workload: Option<&'a str>,
}

impl Room {
    /// Whether so many pods that ask for this fit now, of which `needed` must.
    pub fn fit(&self, asks: &[(Arc<Ask>, u32)], needed: u32, own: Own<'_>) -> Fit {
        let placeholders = own.placeholders;
        let is_own = |pod: &Kept| placeholders.is_some_and(|own| pod.holder.starts_with(own));
        let is_itself = |pod: &Kept| own.workload == Some(&*pod.holder);
        let is_other = |pod: &Kept| !is_own(pod) && !is_itself(pod);
        let taken = placeholders.map_or(Taken::ByAll, |_| Taken::Without(&is_own));
        let placed = self.place(asks, needed, taken);
        let mut fit = Fit {
            fits: placed.fits,
            needed,
            nodes: self.nodes.len(),
            lacking: None,
        };
        let Some(kind) = &placed.first else {
            return fit;
        };
        let lacking = fit.lacking.insert(Self::lacking(kind, &placed));
        let scarce = |short: &Short| !matches!(short.how, How::NoNodeSoLarge { .. });
        let short = lacking.short.as_ref().filter(|short| scarce(short));
        let Some(short) = short.filter(|_| placed.fits < needed) else {
            return fit;
        };
        // Who holds it, and at what priority, matters only where it would do.
        let alone = !self.pods.values().any(is_itself);
        let empty = match alone {
            true => self.place(asks, needed, Taken::ByNone),
            false => self.place(asks, needed, Taken::Without(&|pod| !is_itself(pod))),
        };
        if !empty.missing.is_empty() && empty.fits < needed {
            lacking.small = Some(match alone {
                true => Small::Empty {
                    fits: empty.fits,
                    total: too_small(kind, &short.resource, asks, needed),
                },
                false => Small::WithoutOthers { fits: empty.fits },
            });
            return fit;
        }
        lacking.holders = self.holders(&short.resource, &kind.may, is_other);
        let named = |pod: &Kept| {
            let mut holders = lacking.holders.iter();
            is_own(pod) || holders.any(|(name, _)| **name == *pod.holder)
        };
        lacking.others = lacking.holders.len() == HOLDERS
            && self.place(asks, needed, Taken::Without(&named)).fits < needed;
        let Some((priority, policy)) = rank(asks) else {
            return fit;
        };
        let below = |pod: &Kept| pod.priority < priority;
        let over = self.largest(&short.resource, &lacking.ask, |pod| {
            below(pod) && is_other(pod)
        });
        let fits = match over {
            Some(_) => {
                let given = |pod: &Kept| is_own(pod) || (below(pod) && is_other(pod));
                self.place(asks, needed, Taken::Without(&given)).fits
            }
            None => fit.fits,
        };
        lacking.preemption = Some(Preemption {
            priority,
            over,
            fits,
            policy,
        });
        fit
    }

    fn lacking(kind: &Kind<'_>, placed: &Placed<'_>) -> Lacking {
        let (ask, may) = (kind.ask, &kind.may);
        let mut lacking = Lacking {
            ask: Arc::clone(ask),
            eligible: may.len(),
            excluded: kind.excluded.clone().into_iter().collect(),
            left: kind.left,
            ..Lacking::default()
        };
        // A node that the selector wants is nearer to being used than one that it does not.
        lacking.excluded.sort_by_key(|(by, nodes)| {
            let unwanted = *by == Exclusion::Selector;
            (unwanted, std::cmp::Reverse(*nodes))
        });
        if may.is_empty() {
            return lacking;
        }
        lacking.short = too_large(kind);
        lacking.apart.clone_from(&kind.apart);
        if lacking.short.is_some() || lacking.apart.is_some() {
            return lacking;
        }
        lacking.short = too_little(kind, placed).or_else(|| scattered(kind, placed));
        // Room for all, but not for so many pods.
        let places = kind.total.get(PODS).map(places);
        if lacking.short.is_none() && places.is_some_and(|places| places < kind.count) {
            lacking.full = may.len();
        }
        lacking
    }

    /// Who of those has most of a resource on nodes that a pod may use, and how high the priority of
    /// these pods is at most.
    fn largest(
        &self,
        resource: &str,
        ask: &Ask,
        among: impl Fn(&Kept) -> bool,
    ) -> Option<(String, i32)> {
        let usable = |name: &Arc<str>| {
            let node = self.nodes.get(name);
            node.is_some_and(|node| exclusion(ask, name, node).is_none())
        };
        let mut known: HashMap<&Arc<str>, bool> = HashMap::new();
        let mut held: BTreeMap<&str, (Quantity, i32)> = BTreeMap::new();
        for pod in self.pods.values().filter(|pod| among(pod)) {
            let quantity = pod.requests.get(resource).unwrap_or(Quantity::ZERO);
            if quantity.is_zero() || !*known.entry(&pod.node).or_insert_with(|| usable(&pod.node)) {
                continue;
            }
            let of = held
                .entry(&pod.holder)
                .or_insert((Quantity::ZERO, i32::MIN));
            of.0 = of.0.checked_add(quantity).unwrap_or(of.0);
            of.1 = of.1.max(pod.priority);
        }
        let largest = held
            .into_iter()
            .max_by_key(|(_, (quantity, _))| *quantity)?;
        Some((largest.0.to_owned(), largest.1.1))
    }

    /// Who of those has most of a resource on these nodes.
    fn holders(
        &self,
        resource: &str,
        nodes: &[(&str, &NodeRoom)],
        among: impl Fn(&Kept) -> bool,
    ) -> Vec<(String, Quantity)> {
        let nodes: BTreeSet<&str> = nodes.iter().map(|(name, _)| *name).collect();
        let mut held: HashMap<&str, Quantity> = HashMap::new();
        for pod in self.pods.values().filter(|pod| among(pod)) {
            let Some(quantity) = pod.requests.get(resource) else {
                continue;
            };
            if !quantity.is_zero() && nodes.contains(&*pod.node) {
                let sum = held.entry(&pod.holder).or_insert(Quantity::ZERO);
                *sum = sum.checked_add(quantity).unwrap_or(*sum);
            }
        }
        let mut held: Vec<(String, Quantity)> = held
            .into_iter()
            .map(|(holder, quantity)| (holder.to_owned(), quantity))
            .collect();
        held.sort_by(|(a, x), (b, y)| y.cmp(x).then_with(|| a.cmp(b)));
        held.truncate(HOLDERS);
        held
    }
}

/// One pod asks for more than any node has.
fn too_large(kind: &Kind<'_>) -> Option<Short> {
    asked(kind.ask).find_map(|(resource, one)| {
        let nodes = kind.may.iter();
        let largest = nodes
            .map(|(_, node)| of(&node.allocatable, resource))
            .max()?;
        (one > largest).then(|| Short {
            resource: resource.to_owned(),
            how: How::NoNodeSoLarge { one, largest },
        })
    })
}

/// The resource that all nodes together have too little of, for the fewest pods; and what those need
/// that do not fit. That is more than the sums differ by: what is left on a node may hold no pod.
fn too_little(kind: &Kind<'_>, placed: &Placed<'_>) -> Option<Short> {
    let missing = placed.missing.first().map_or(0, |(_, missing)| *missing);
    let count = kind.count - kind.left + missing;
    let short = asked(kind.ask).filter(|(resource, one)| {
        let wanted = one.checked_mul(count);
        wanted.is_some_and(|wanted| wanted > of(&kind.total, resource))
    });
    let (resource, _) =
        short.min_by_key(|(resource, one)| of(&kind.total, resource).holds(*one))?;
    // Others that may use the same nodes need it there too.
    let same = placed
        .missing
        .iter()
        .filter(|(ask, _)| same_nodes(ask, kind.ask));
    let needs = same.map(|(ask, missing)| of(&ask.requests, resource).checked_mul(*missing));
    let needs = needs
        .flatten()
        .reduce(|a, b| a.checked_add(b).unwrap_or(a))?;
    Some(Short {
        resource: resource.to_owned(),
        how: How::By(needs),
    })
}

/// What the nodes of a kind have in all, where that is less than those ask for that may use them.
fn too_small(
    kind: &Kind<'_>,
    resource: &str,
    asks: &[(Arc<Ask>, u32)],
    needed: u32,
) -> Option<Quantity> {
    let sum = |all: Quantity, more: Quantity| all.checked_add(more);
    let same = asks.iter().filter(|(ask, _)| same_nodes(ask, kind.ask));
    let wanted = same.map(|(ask, count)| {
        let count = u64::from(needed.min(*count));
        of(&ask.requests, resource).checked_mul(count)
    });
    let wanted = wanted.flatten().try_fold(Quantity::ZERO, sum)?;
    let nodes = kind.may.iter();
    let total = nodes
        .map(|(_, node)| of(&node.allocatable, resource))
        .try_fold(Quantity::ZERO, sum)?;
    (wanted > total).then_some(total)
}

fn same_nodes(a: &Ask, b: &Ask) -> bool {
    (&a.node_selector, &a.terms, &a.tolerations) == (&b.node_selector, &b.terms, &b.tolerations)
}

/// Enough over all nodes together, and on no node enough for one more.
fn scattered(kind: &Kind<'_>, placed: &Placed<'_>) -> Option<Short> {
    let blocked = |resource: &str, one: Quantity| {
        let left = kind
            .may
            .iter()
            .filter_map(|(name, _)| placed.free.get(name));
        left.filter(|left| of(left, resource) < one).count()
    };
    let (resource, one) = asked(kind.ask).max_by_key(|(resource, one)| blocked(resource, *one))?;
    (blocked(resource, one) > 0).then(|| Short {
        resource: resource.to_owned(),
        how: How::Scattered { one },
    })
}

/// The priority and policy of all of them, where that is the same.
fn rank(asks: &[(Arc<Ask>, u32)]) -> Option<(i32, PreemptionPolicy)> {
    let mut ranks = asks.iter().map(|(ask, _)| (ask.priority, ask.preemption));
    let first = ranks.next()?;
    ranks.all(|rank| rank == first).then_some(first)
}
