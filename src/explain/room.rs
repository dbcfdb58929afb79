//! The nodes of a cluster, and what the pods on them take: kept as they come and go. What follows for a
//! gang is counted in `count`. Knows neither watches nor gangs.

mod count;
mod place;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::nodes::NodeRoom;
use crate::gang::resources::ResourceList;
pub use count::Own;

/// Nodes and pods beyond these are not kept: what is said then counts a part of the cluster.
const MOST_NODES: usize = 20_000;
const MOST_PODS: usize = 400_000;

/// With more nodes and pods than this a count takes more than a moment.
const LARGE: usize = 5_000;

/// Of so many `schedulerName`s it is known that somebody answers.
const MOST_SCHEDULERS: usize = 64;
const LONGEST_NAME: usize = 253;

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

impl Kept {
    fn is(&self, held: &Held) -> bool {
        *self.node == *held.node
            && *self.holder == *held.holder
            && self.priority == held.priority
            && *self.requests == held.requests
    }
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
    /// Grows with every change.
    version: u64,
}

impl Room {
    /// What was counted at the same version still holds.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// A node came or changed.
    pub fn node(&mut self, name: &str, node: NodeRoom) {
        // Its status is written all the time.
        if self.nodes.get(name) == Some(&node) {
            return;
        }
        self.version += 1;
        if self.nodes.len() < MOST_NODES || self.nodes.contains_key(name) {
            let name = self.name(name);
            self.nodes.insert(name, node);
        }
    }

    /// A node is gone.
    pub fn without_node(&mut self, name: &str) {
        self.version += 1;
        self.nodes.remove(name);
    }

    /// A pod is on a node.
    pub fn pod(&mut self, uid: &str, held: Held) {
        if self.pods.get(uid).is_some_and(|kept| kept.is(&held)) {
            return;
        }
        self.version += 1;
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
        self.version += 1;
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
        *self = Self {
            version: self.version + 1,
            ..Self::default()
        };
    }

    /// All pods are forgotten: a list brings them again.
    pub fn clear_pods(&mut self) {
        self.version += 1;
        self.pods = HashMap::new();
        self.used = HashMap::new();
        self.lists = BTreeSet::new();
        self.schedulers = BTreeSet::new();
    }

    /// All nodes are forgotten: a list brings them again.
    pub fn clear_nodes(&mut self) {
        self.version += 1;
        self.nodes = HashMap::new();
    }

    /// Whether a pod of this `schedulerName` was seen on a node: then somebody answers for it.
    pub fn answers(&self, scheduler: &str) -> bool {
        self.schedulers.contains(scheduler)
    }

    /// Whether a count takes more than a moment: milliseconds with 5,000 nodes and 50,000 pods.
    pub fn is_large(&self) -> bool {
        self.nodes.len() + self.pods.len() > LARGE
    }

    /// Whether pods of this holder may be on nodes; names are given up late.
    pub fn may_hold(&self, holder: &str) -> bool {
        self.names.contains(holder)
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
}
