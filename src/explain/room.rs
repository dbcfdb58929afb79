//! What the nodes have left: how many members of a gang would fit now, what is short, which constraint
//! excludes how many nodes, and who has the rest.
//!
//! Counted as kube-scheduler counts: what bound pods request, not what they use. Constraints between
//! pods (affinity, spread) are left to the scheduler's own words. Knows neither watches nor gangs.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::fit::{Fit, How, Lacking, Preemption, Short};
use super::nodes::{Exclusion, NodeRoom, exclusion};
use crate::gang::ask::{Ask, PreemptionPolicy};
use crate::gang::quantity::Quantity;
use crate::gang::resources::ResourceList;

/// Nodes and pods beyond these are not kept: what is said then counts a part of the cluster.
const MOST_NODES: usize = 20_000;
const MOST_PODS: usize = 400_000;

/// Of so many `schedulerName`s it is known that somebody answers.
const MOST_SCHEDULERS: usize = 64;
const LONGEST_NAME: usize = 253;

/// The largest holders that are named.
const HOLDERS: usize = 3;

const PODS: &str = "pods";

/// What a pod that is on a node takes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    pub(crate) node: String,
    pub(crate) requests: ResourceList,
    /// Whose it is: `namespace/workload`.
    pub(crate) holder: String,
    pub(crate) priority: i32,
    /// Whom it was placed by, as its `schedulerName` says.
    pub(crate) scheduler: String,
}

#[derive(Debug, Clone)]
struct Kept {
    node: Arc<str>,
    requests: Arc<ResourceList>,
    holder: Arc<str>,
    priority: i32,
}

/// The nodes of a cluster and what is left of them.
#[derive(Debug, Default)]
pub struct Room {
    nodes: HashMap<Arc<str>, NodeRoom>,
    used: HashMap<Arc<str>, ResourceList>,
    /// By uid.
    pods: HashMap<String, Kept>,
    /// Pods of one template ask for the same, and belong to the same.
    lists: BTreeSet<Arc<ResourceList>>,
    names: BTreeSet<Arc<str>>,
    /// The `schedulerName`s of pods that were seen on nodes.
    schedulers: BTreeSet<String>,
}

impl Room {
    /// A node came or changed.
    pub fn node(&mut self, name: &str, node: NodeRoom) {
        if self.nodes.len() < MOST_NODES || self.nodes.contains_key(name) {
            let name = self.name(name);
            self.nodes.insert(name, node);
        }
    }

    /// A node is gone.
    pub fn without_node(&mut self, name: &str) {
        self.nodes.remove(name);
    }

    /// A pod is on a node.
    pub fn pod(&mut self, uid: &str, held: Held) {
        self.without_pod(uid);
        if self.pods.len() >= MOST_PODS {
            return;
        }
        let (node, holder) = (self.name(&held.node), self.name(&held.holder));
        let requests = match self.lists.get(&held.requests) {
            Some(same) => Arc::clone(same),
            None => {
                let list = Arc::new(held.requests);
                self.lists.insert(Arc::clone(&list));
                list
            }
        };
        let used = self.used.entry(Arc::clone(&node)).or_default();
        // What no quantity can hold is more than any node has.
        let _ = used.checked_add(&requests);
        used.add_units(PODS, 1);
        let scheduler = held.scheduler;
        if self.schedulers.len() < MOST_SCHEDULERS && scheduler.len() <= LONGEST_NAME {
            self.schedulers.insert(scheduler);
        }
        let kept = Kept {
            node,
            requests,
            holder,
            priority: held.priority,
        };
        self.pods.insert(uid.to_owned(), kept);
    }

    /// A pod is gone, or done.
    pub fn without_pod(&mut self, uid: &str) {
        let Some(kept) = self.pods.remove(uid) else {
            return;
        };
        if let Some(used) = self.used.get_mut(&kept.node) {
            used.subtract(&kept.requests);
            used.subtract_units(PODS, 1);
        }
        // Names and lists that nobody has are given back now and then.
        if self.pods.len().is_power_of_two() {
            drop(kept);
            self.lists.retain(|list| Arc::strong_count(list) > 1);
            self.names.retain(|name| Arc::strong_count(name) > 1);
            let nodes = &self.nodes;
            self.used
                .retain(|node, used| nodes.contains_key(node) || used.has_any());
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// All pods are forgotten: a list brings them again.
    pub fn clear_pods(&mut self) {
        self.pods = HashMap::new();
        self.used = HashMap::new();
        self.lists = BTreeSet::new();
        self.schedulers = BTreeSet::new();
    }

    /// All nodes are forgotten: a list brings them again.
    pub fn clear_nodes(&mut self) {
        self.nodes = HashMap::new();
    }

    /// Whether a pod of this `schedulerName` was seen on a node: then somebody answers for it.
    pub fn answers(&self, scheduler: &str) -> bool {
        self.schedulers.contains(scheduler)
    }

    fn name(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.names.get(name) {
            return Arc::clone(known);
        }
        let name: Arc<str> = name.into();
        self.names.insert(Arc::clone(&name));
        name
    }

    fn free(&self, name: &str, node: &NodeRoom) -> ResourceList {
        let mut free = node.allocatable.clone();
        if let Some(used) = self.used.get(name) {
            free.subtract(used);
        }
        free
    }

    /// Whether so many pods that ask for this fit now, of which `needed` must. What pods take whose
    /// holder begins with `own` is kept for them.
    pub fn fit(&self, asks: &[(Arc<Ask>, u32)], needed: u32, own: Option<&str>) -> Fit {
        let is_own = |pod: &Kept| own.is_some_and(|own| pod.holder.starts_with(own));
        let given = own.map(|_| &is_own as &dyn Fn(&Kept) -> bool);
        let mut fit = self.place(asks, needed, given);
        let Some(lacking) = &mut fit.lacking else {
            return fit;
        };
        let scarce = |short: &Short| !matches!(short.how, How::NoNodeSoLarge { .. });
        let short = lacking.short.as_ref().filter(|short| scarce(short));
        let (Some(short), Some((priority, policy))) = (short, rank(asks)) else {
            return fit;
        };
        let below = |pod: &Kept| pod.priority < priority;
        let over = self.largest(&short.resource, &lacking.ask, |pod| {
            below(pod) && !is_own(pod)
        });
        let fits = match over {
            Some(_) => {
                let given = |pod: &Kept| is_own(pod) || below(pod);
                self.place(asks, needed, Some(&given)).fits
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

    /// Places pods one by one where they fit. What the pods take that are `given` counts as free.
    fn place(
        &self,
        asks: &[(Arc<Ask>, u32)],
        needed: u32,
        given: Option<&dyn Fn(&Kept) -> bool>,
    ) -> Fit {
        let mut fit = Fit {
            needed,
            nodes: self.nodes.len(),
            ..Fit::default()
        };
        let mut free: HashMap<&str, ResourceList> = HashMap::new();
        let given = given.map(|given| self.pods.values().filter(move |pod| given(pod)));
        for pod in given.into_iter().flatten() {
            if let Some(node) = self.nodes.get(&pod.node) {
                let free = free
                    .entry(&pod.node)
                    .or_insert_with(|| self.free(&pod.node, node));
                let _ = free.checked_add(&pod.requests);
                free.add_units(PODS, 1);
            }
        }
        let mut asks: Vec<&(Arc<Ask>, u32)> = asks.iter().collect();
        // What is hardest to place first.
        asks.sort_by(|(a, _), (b, _)| b.requests.cmp(&a.requests));
        for (ask, count) in asks {
            let mut left = u64::from(*count);
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
            for (name, node) in &may {
                let free = free.entry(name).or_insert_with(|| self.free(name, node));
                let _ = total.checked_add(free);
                let times = times(free, ask).min(left);
                free.subtract_times(&ask.requests, times);
                free.subtract_units(PODS, times as i64);
                left -= times;
                fit.fits += times as u32;
            }
            if left > 0 && fit.lacking.is_none() {
                fit.lacking = Some(self.lacking(ask, left, *count, &may, &total, excluded));
            }
        }
        fit.fits = fit.fits.min(needed);
        fit
    }

    fn lacking(
        &self,
        ask: &Arc<Ask>,
        left: u64,
        count: u32,
        may: &[(&str, &NodeRoom)],
        total: &ResourceList,
        excluded: BTreeMap<Exclusion, usize>,
    ) -> Lacking {
        let mut lacking = Lacking {
            ask: Arc::clone(ask),
            eligible: may.len(),
            excluded: excluded.into_iter().collect(),
            left,
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
        for (resource, one) in ask.requests.iter().filter(|(_, one)| !one.is_zero()) {
            let largest = may
                .iter()
                .map(|(_, node)| node.allocatable.get(resource).unwrap_or(Quantity::ZERO))
                .max()
                .unwrap_or(Quantity::ZERO);
            if one > largest {
                lacking.short = Some(Short {
                    resource: resource.to_owned(),
                    how: How::NoNodeSoLarge { one, largest },
                });
                return lacking;
            }
        }
        let mut worst: Option<(u64, Short)> = None;
        for (resource, one) in ask.requests.iter().filter(|(_, one)| !one.is_zero()) {
            let there = total.get(resource).unwrap_or(Quantity::ZERO);
            let Some(wanted) = one.checked_mul(u64::from(count)) else {
                continue;
            };
            let fits = there.holds(one);
            let how = match wanted > there {
                true => How::By(wanted.less(there)),
                false => continue,
            };
            if worst.as_ref().is_none_or(|(least, _)| fits < *least) {
                let resource = resource.to_owned();
                worst = Some((fits, Short { resource, how }));
            }
        }
        // Enough over all nodes together, and on no node enough for one.
        let spread = || {
            let tight = ask.requests.iter().filter(|(_, one)| !one.is_zero());
            let blocked = |resource: &str, one: Quantity| {
                let lacks = |(name, node): &&(&str, &NodeRoom)| {
                    let free = self.free(name, node);
                    free.get(resource).unwrap_or(Quantity::ZERO) < one
                };
                may.iter().filter(lacks).count()
            };
            let (resource, one) = tight.max_by_key(|(resource, one)| blocked(resource, *one))?;
            (blocked(resource, one) > 0).then(|| Short {
                resource: resource.to_owned(),
                how: How::Scattered { one },
            })
        };
        lacking.short = worst.map(|(_, short)| short).or_else(spread);
        // Room for all, but not for so many pods.
        let places = total.get(PODS);
        if lacking.short.is_none()
            && places.is_some_and(|places| places < Quantity::from_units(count.into()))
        {
            lacking.full = may.len();
        }
        if let Some(short) = &lacking.short {
            lacking.holders = self.holders(&short.resource, may);
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

    /// Who has most of a resource on these nodes.
    fn holders(&self, resource: &str, nodes: &[(&str, &NodeRoom)]) -> Vec<(String, Quantity)> {
        let nodes: BTreeSet<&str> = nodes.iter().map(|(name, _)| *name).collect();
        let mut held: HashMap<&str, Quantity> = HashMap::new();
        for pod in self.pods.values() {
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

/// The priority and policy of all of them, where that is the same.
fn rank(asks: &[(Arc<Ask>, u32)]) -> Option<(i32, PreemptionPolicy)> {
    let mut ranks = asks.iter().map(|(ask, _)| (ask.priority, ask.preemption));
    let first = ranks.next()?;
    ranks.all(|rank| rank == first).then_some(first)
}

/// How often a pod fits into what a node has left.
fn times(free: &ResourceList, ask: &Ask) -> u64 {
    let asked = ask.requests.iter().filter(|(_, one)| !one.is_zero());
    let by_resource = asked.map(|(resource, one)| {
        let free = free.get(resource).unwrap_or(Quantity::ZERO);
        free.holds(one)
    });
    let pods = free
        .get(PODS)
        .map_or(u64::MAX, |pods| pods.holds(Quantity::from_units(1)));
    by_resource.min().unwrap_or(u64::MAX).min(pods)
}
