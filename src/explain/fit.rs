//! Whether a gang fits now, and what is short where it does not: the answer of a count, as data.

use std::sync::Arc;

use super::nodes::Exclusion;
use crate::gang::ask::{Ask, PreemptionPolicy};
use crate::gang::quantity::Quantity;

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
    /// Where they may be, because they keep apart: too few places, or there is room beside that none of
    /// them may use.
    pub apart: Option<Places>,
    /// What is short on the eligible ones.
    pub short: Option<Short>,
    /// Eligible nodes that take too few pods more.
    pub full: usize,
    /// Why nobody's room would help.
    pub small: Option<Small>,
    /// Who has most of what is short, where all fit without the pods of others.
    pub holders: Vec<(String, Quantity)>,
    /// Whether those alone hold too little of it.
    pub others: bool,
    /// What lower priority would give; nothing where the members have no priority in common.
    pub preemption: Option<Preemption>,
}

/// Where pods may be that keep apart: each value of a label of nodes takes one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// The label.
    pub key: String,
    /// How many values have room.
    pub free: usize,
    /// How many there are.
    pub all: usize,
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
    /// The nodes that may be used have too little together: the pods that do not fit need so much.
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

/// The nodes that may be used would not hold the gang if others gave their room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Small {
    /// Not if they were empty.
    Empty {
        /// How many of those that are needed would fit.
        fits: u32,
        /// What the nodes have in all of what is short, where that says it.
        total: Option<Quantity>,
    },
    /// Not without the pods of other workloads: its own has some of the room.
    WithoutOthers {
        /// How many of those that are needed would fit.
        fits: u32,
    },
}

/// What it would help to take the room of pods of lower priority. Only what is counted: whether a
/// scheduler takes it, and from whom, is its own matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preemption {
    /// The priority of the members.
    pub priority: i32,
    /// The one of lower priority that has most of what is short, and its highest priority below.
    pub over: Option<(String, i32)>,
    /// How many would fit without all pods of lower priority.
    pub fits: u32,
    /// Whether the members may take it.
    pub policy: PreemptionPolicy,
}
