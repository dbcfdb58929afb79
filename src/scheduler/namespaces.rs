//! The namespaces of the cluster: which ones Muster has seen, and which scheduler their labels name.
//!
//! A namespace that was not seen is never taken for one without a label: the choice of a scheduler is
//! written on the workload for good.

use std::collections::HashMap;
use std::sync::Arc;

/// What is known of namespaces.
#[derive(Debug, Clone)]
pub enum Namespaces {
    /// There is no cluster to look at. Every name is that of a namespace; these have the label
    /// `muster.dev/scheduler`.
    Assumed(HashMap<String, String>),
    /// The cluster's namespaces are not listed yet.
    Unlisted,
    /// All that exist, with the value of the label where they have it. Shared, because a snapshot is
    /// copied when something else changes.
    Seen(Arc<HashMap<String, Option<String>>>),
}

/// A namespace that may exist, but has not been seen yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotSeen;

impl Namespaces {
    /// The scheduler that a namespace's label names, if it has one.
    pub fn label(&self, namespace: &str) -> Result<Option<&str>, NotSeen> {
        match self {
            Self::Assumed(labels) => Ok(labels.get(namespace).map(String::as_str)),
            Self::Unlisted => Err(NotSeen),
            Self::Seen(all) => all.get(namespace).map(Option::as_deref).ok_or(NotSeen),
        }
    }

    /// Whether the label of a namespace is known, or that it has none.
    pub fn knows(&self, namespace: &str) -> bool {
        self.label(namespace).is_ok()
    }

    /// Whether all namespaces have been listed once.
    pub fn is_filled(&self) -> bool {
        !matches!(self, Self::Unlisted)
    }

    /// The same in a cluster that is watched: what was assumed without one counts no longer.
    #[must_use]
    pub fn watched(&self) -> Self {
        match self {
            Self::Assumed(_) | Self::Unlisted => Self::Unlisted,
            Self::Seen(all) => Self::Seen(Arc::clone(all)),
        }
    }
}

impl<const N: usize> From<[(String, String); N]> for Namespaces {
    fn from(labels: [(String, String); N]) -> Self {
        Self::Assumed(labels.into())
    }
}
