//! A workload in a queue of Kueue's, and why Kueue has not admitted it.

/// A workload in a queue of Kueue's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queued {
    /// The queue.
    pub queue: String,
    /// Why Kueue has not admitted it, in Kueue's words.
    pub says: Option<String>,
}

impl Queued {
    /// In the queue of this name; what Kueue says is not known yet.
    pub(super) fn in_queue(name: &str) -> Self {
        Self {
            queue: name.to_owned(),
            says: None,
        }
    }

    /// What is said of it while it is suspended. A label alone does not show who has suspended it.
    pub(crate) fn suspended(&self) -> String {
        let queue = &self.queue;
        match &self.says {
            Some(says) => format!("suspended by Kueue (queue {queue:?}): {says}"),
            None => format!("suspended: Kueue has not admitted it from the queue {queue:?}"),
        }
    }
}
