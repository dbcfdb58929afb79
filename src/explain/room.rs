//! What the nodes have left: how many members of a gang would fit now, what is short, which constraint
//! excludes how many nodes, and who has the rest.
//!
//! Counted as kube-scheduler counts: what bound pods request, not what they use. Constraints between
//! pods (affinity, spread) are left to the scheduler's own words. Knows neither watches nor gangs.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::gang::ask::{Ask, Expression, NodeTerm, Toleration};
use crate::gang::quantity::Quantity;
use crate::gang::resources::ResourceList;

/// Nodes and pods beyond these are not kept: what is said then counts a part of the cluster.
const MOST_NODES: usize = 20_000;
const MOST_PODS: usize = 400_000;

/// The largest holders that are named.
const HOLDERS: usize = 3;

const PODS: &str = "pods";

/// A node, as far as placing needs it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeRoom {
    pub(crate) allocatable: ResourceList,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) taints: Vec<Taint>,
    pub(crate) cordoned: bool,
}

/// A taint of a node that keeps pods away.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct Taint {
    pub(crate) key: String,
    pub(crate) value: String,
    pub(crate) effect: String,
}

/// What a pod that is on a node takes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    pub(crate) node: String,
    pub(crate) requests: ResourceList,
    /// Whose it is: `namespace/workload`.
    pub(crate) holder: String,
}

#[derive(Debug, Clone)]
struct Kept {
    node: Arc<str>,
    requests: Arc<ResourceList>,
    holder: Arc<str>,
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
        let kept = Kept {
            node,
            requests,
            holder,
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
    }

    /// All nodes are forgotten: a list brings them again.
    pub fn clear_nodes(&mut self) {
        self.nodes = HashMap::new();
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
        let mut fit = Fit {
            needed,
            nodes: self.nodes.len(),
            ..Fit::default()
        };
        let mut free: HashMap<&str, ResourceList> = HashMap::new();
        let kept = own.map(|own| {
            self.pods
                .values()
                .filter(move |pod| pod.holder.starts_with(own))
        });
        for pod in kept.into_iter().flatten() {
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

/// Why a node is out of the question for a pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exclusion {
    /// Its node selector or affinity.
    Selector,
    /// A taint that it does not tolerate.
    Taint(String),
    /// The node takes no pods.
    Cordoned,
}

/// What is known of the members that do not fit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fit {
    /// How many of those that are needed fit now.
    pub fits: u32,
    /// How many are needed.
    pub needed: u32,
    /// Nodes of the cluster.
    pub nodes: usize,
    /// Of the first that do not fit.
    pub lacking: Option<Lacking>,
}

/// Why pods of one kind do not all fit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lacking {
    /// What one of them asks.
    pub ask: Arc<Ask>,
    /// How many of them do not fit.
    pub left: u64,
    /// Nodes that no constraint excludes.
    pub eligible: usize,
    /// The others, by what excludes most of those that the selector wants.
    pub excluded: Vec<(Exclusion, usize)>,
    /// What is short on the eligible ones.
    pub short: Option<Short>,
    /// Eligible nodes that take too few pods more.
    pub full: usize,
    /// Who has most of what is short.
    pub holders: Vec<(String, Quantity)>,
}

/// A resource of which there is too little.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Short {
    /// The resource.
    pub resource: String,
    /// How.
    pub how: How,
}

/// How a resource is short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum How {
    /// So much is missing over all nodes that may be used.
    By(Quantity),
    /// One pod asks for more than any node has when it is empty.
    NoNodeSoLarge {
        /// What one pod asks.
        one: Quantity,
        /// What the largest node has.
        largest: Quantity,
    },
    /// Enough is free over all, and on no node enough for one more.
    Scattered {
        /// What one pod asks.
        one: Quantity,
    },
}

fn exclusion(ask: &Ask, name: &str, node: &NodeRoom) -> Option<Exclusion> {
    let selected = ask
        .node_selector
        .iter()
        .all(|(key, value)| node.labels.get(key) == Some(value));
    let terms = &ask.terms;
    let affine = terms.is_empty() || terms.iter().any(|term| holds(term, name, node));
    if !selected || !affine {
        return Some(Exclusion::Selector);
    }
    let keeps_away = |taint: &&Taint| taint.effect != "PreferNoSchedule";
    let mut taints = node.taints.iter().filter(keeps_away);
    // Cordoning a node taints it too, a moment later.
    let cordon = "node.kubernetes.io/unschedulable";
    let tolerated = |taint: &Taint| ask.tolerations.iter().any(|t| tolerates(t, taint));
    let cordoning = Taint {
        key: cordon.to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    };
    if node.cordoned && !tolerated(&cordoning) {
        return Some(Exclusion::Cordoned);
    }
    let taint = taints.find(|taint| !tolerated(taint))?;
    Some(Exclusion::Taint(match taint.value.as_str() {
        "" => taint.key.clone(),
        value => format!("{}={value}", taint.key),
    }))
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let effect = toleration.effect.is_empty() || toleration.effect == taint.effect;
    let key = toleration.key.is_empty() || toleration.key == taint.key;
    let value = match toleration.operator.as_str() {
        "Exists" => true,
        _ => toleration.value == taint.value && !toleration.key.is_empty(),
    };
    effect && key && value
}

fn holds(term: &NodeTerm, name: &str, node: &NodeRoom) -> bool {
    let label = |e: &Expression| node.labels.get(&e.key).map(String::as_str);
    let empty = term.match_expressions.is_empty() && term.match_fields.is_empty();
    let labels = term.match_expressions.iter().all(|e| matches(e, label(e)));
    let fields = term.match_fields.iter().all(|e| matches(e, Some(name)));
    !empty && labels && fields
}

fn matches(expression: &Expression, value: Option<&str>) -> bool {
    let among = |value: &str| expression.values.iter().any(|v| v == value);
    let number = |text: &str| text.parse::<i64>().ok();
    let compared = |less: bool| {
        let wanted = expression.values.first().and_then(|v| number(v));
        value
            .and_then(number)
            .zip(wanted)
            .is_some_and(|(is, than)| match less {
                true => is < than,
                false => is > than,
            })
    };
    match expression.operator.as_str() {
        "In" => value.is_some_and(among),
        "NotIn" => !value.is_some_and(among),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Lt" => compared(true),
        "Gt" => compared(false),
        // One that is not known yet excludes nothing here: the scheduler says what it does.
        _ => true,
    }
}
