//! Queues: what keeps gangs from starting from one, as its object or the scheduler says.

use kube::core::DynamicObject;
use serde::Deserialize as _;
use serde_json::Value;

use crate::gang::quantity::Quantity;
use crate::gang::resources::ResourceList;

/// A limit of zero is none for these (Volcano 1.14); of other resources nothing may be used then.
const UNLIMITED_AT_ZERO: [&str; 2] = ["cpu", "memory"];

/// A queue that is an object of the cluster, and how to see that nothing starts from it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Queue {
    /// The group and version of the queue object.
    pub(crate) api_version: &'static str,
    /// The name of the queue object.
    pub(crate) name: String,
    /// The `status.state` of a queue from which gangs start, where queues have a state.
    pub(crate) open: Option<&'static str>,
    /// Where its object says how much it holds, where nobody else says that it is full.
    pub(crate) bounds: Option<Bounds>,
}

/// Where a queue's object says how much it may hold and how much is in use: JSON pointers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Bounds {
    pub(crate) limit: &'static str,
    pub(crate) used: &'static str,
}

/// Why a gang does not start from its queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueTrouble {
    /// The queue.
    pub queue: String,
    /// What kubectl calls such objects, where it is one.
    pub resource: Option<String>,
    /// What is wrong.
    pub wrong: Wrong,
}

/// What is wrong with a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wrong {
    /// It does not exist.
    Absent,
    /// It is in this state, from which nothing starts.
    NotOpen(String),
    /// It has too little left; of what, where that is said.
    Full(Option<Full>),
}

/// What a queue has too little of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Full {
    /// The resource.
    pub resource: String,
    /// What is asked for.
    pub asked: Quantity,
    /// What there is.
    pub left: Left,
}

/// What a queue has left of a resource, and for whom it is too little.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// It is too little for the gang.
    ForGang {
        /// What the queue may hold.
        limit: Quantity,
        /// What is in use.
        used: Quantity,
    },
    /// So much, too little for one pod more; nothing else is known.
    ForOnePod(Quantity),
}

impl Queue {
    /// The group of the queue object, and its version.
    pub(crate) fn group_version(&self) -> (&'static str, &'static str) {
        self.api_version.split_once('/').unwrap_or_default()
    }

    /// What is wrong with the queue as it was found, for a gang that still needs so much.
    pub(crate) fn trouble(
        &self,
        found: Option<&DynamicObject>,
        needed: &ResourceList,
    ) -> Option<QueueTrouble> {
        let wrong = match found {
            None => Wrong::Absent,
            Some(found) => {
                let state = found.data["status"]["state"].as_str();
                let closed = self.open.zip(state).filter(|(open, state)| open != state);
                match closed {
                    Some((_, state)) => Wrong::NotOpen(state.to_lowercase()),
                    None => Wrong::Full(Some(self.bounds?.full(&found.data, needed)?)),
                }
            }
        };
        Some(QueueTrouble {
            queue: self.name.clone(),
            resource: Some(format!("queues.{}", self.group_version().0)),
            wrong,
        })
    }
}

impl Bounds {
    /// The first resource of which too little is left for so much more.
    pub(super) fn full(self, found: &Value, needed: &ResourceList) -> Option<Full> {
        let (limits, used) = (list(found, self.limit), list(found, self.used));
        needed.iter().find_map(|(resource, asked)| {
            let limit = limits.get(resource)?;
            let none = limit.is_zero() && UNLIMITED_AT_ZERO.contains(&resource);
            if none || limit < Quantity::ZERO {
                return None;
            }
            let used = used.get(resource).unwrap_or(Quantity::ZERO);
            let more = used.checked_add(asked)? > limit;
            (more && !asked.is_zero()).then(|| Full {
                resource: resource.to_owned(),
                asked,
                left: Left::ForGang { limit, used },
            })
        })
    }
}

/// A list of resources within an object; what cannot be read is nothing.
pub(super) fn list(object: &Value, pointer: &str) -> ResourceList {
    let found = object.pointer(pointer);
    let found = found.and_then(|found| ResourceList::deserialize(found).ok());
    found.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn queue() -> Queue {
        Queue {
            api_version: "example.com/v1",
            name: "team".to_owned(),
            open: None,
            bounds: Some(Bounds {
                limit: "/spec/capability",
                used: "/status/allocated",
            }),
        }
    }

    #[test]
    fn a_queue_is_full_where_what_is_used_and_what_is_needed_exceed_its_limit() {
        let full = |capability: Value, allocated: Value, needed: Value| {
            let found = json!({"metadata": {"name": "team"}, "spec": {"capability": capability},
                "status": {"allocated": allocated}});
            let found = serde_json::from_value(found).unwrap();
            let needed = list(&json!({"needed": needed}), "/needed");
            let trouble = queue().trouble(Some(&found), &needed)?;
            match trouble.wrong {
                Wrong::Full(full) => full.map(|full| full.resource),
                other => panic!("{other:?}"),
            }
        };
        let three = json!({"cpu": "3", "memory": "1Gi"});
        let cpu = Some("cpu".to_owned());
        assert_eq!(
            full(json!({"cpu": 4}), json!({"cpu": "2"}), three.clone()),
            cpu
        );
        assert_eq!(full(json!({"cpu": "2"}), json!({}), three.clone()), cpu);
        assert_eq!(
            full(json!({"cpu": "5"}), json!({"cpu": "2"}), three.clone()),
            None
        );
        assert_eq!(full(json!({"cpu": "0"}), json!({}), three.clone()), None);
        assert_eq!(full(json!({"cpu": "-1m"}), json!({}), three.clone()), None);
        let gpu = json!({"example.com/gpu": "1"});
        let none = full(json!({"example.com/gpu": "0"}), json!({}), gpu);
        assert_eq!(none.as_deref(), Some("example.com/gpu"));
        assert_eq!(full(json!({}), json!({"cpu": "9"}), three), None);
    }

    #[test]
    fn a_queue_that_does_not_exist_is_told_with_what_kubectl_calls_it() {
        let trouble = queue().trouble(None, &ResourceList::default()).unwrap();
        assert_eq!(trouble.wrong, Wrong::Absent);
        assert_eq!(trouble.resource.as_deref(), Some("queues.example.com"));
    }
}
