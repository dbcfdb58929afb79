//! A queue that is an object of the cluster.

use kube::core::DynamicObject;

/// A queue, and how to see that nothing starts from it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Queue {
    /// The group and version of the queue object.
    pub(crate) api_version: &'static str,
    /// The name of the queue object.
    pub(crate) name: String,
    /// The `status.state` of a queue from which gangs start, where queues have a state.
    pub(crate) open: Option<&'static str>,
}

impl Queue {
    /// What is wrong with the queue as it was found.
    pub(crate) fn trouble(&self, found: &DynamicObject) -> Option<String> {
        let (name, open) = (&self.name, self.open?);
        let state = found.data["status"]["state"].as_str()?;
        (state != open).then(|| format!("queue {name:?} is {}", state.to_lowercase()))
    }
}
