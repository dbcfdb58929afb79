//! What a LeaderWorkerSet's stamp says of its revision, so that a replica's objects can be made from
//! its leader alone.
//!
//! The spec does not suffice: a rollout has replicas of two revisions, and one under a partition is
//! recreated from templates that the spec no longer has.

use serde::{Deserialize, Serialize};

use super::replica::{LEADER, REPLICA, WORKERS};
use crate::gang::resources::ResourceList;
use crate::gang::{FieldPath, Level, Located, Part, PartDraft, PartName, Plan, Policy, Role};
use crate::gang::{Shape, Stamp, Strictness};

/// The revision that a replica was stamped by.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RevisionStamp {
    pub(crate) order: Order,
    pub(crate) roles: Vec<Need>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) queue: Option<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub(crate) strictness: Strictness,
}

/// When the pods of a replica are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) enum Order {
    /// All at once: they are one gang.
    #[default]
    Together,
    /// The others once the leader is ready: the leader starts by itself, the others together.
    LeaderFirst,
}

/// What a role needs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Need {
    pub(crate) name: String,
    pub(crate) pods: u64,
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    pub(crate) requests: ResourceList,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) priority_class: Option<String>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The revision that a stamp is of.
pub(crate) fn revision(stamp: &Stamp) -> RevisionStamp {
    let words = stamp.workload.as_ref();
    words.and_then(|words| words.read()).unwrap_or_default()
}

/// The parts of a replica whose roles are those; two roles where it has an order.
pub(crate) fn drafts(
    order: Order,
    mut roles: Vec<Role>,
    min_count: Option<Located<i64>>,
    at: &FieldPath,
) -> Vec<PartDraft> {
    let draft = |name: &str, roles, later, min_count| PartDraft {
        name: PartName::new(name),
        level: Level::Replica,
        // However many there are: each is planned by itself, and their number may change.
        replicas: 1,
        roles,
        later,
        min_count,
        bundle: None,
        at: at.clone(),
    };
    match order {
        Order::Together => vec![draft(REPLICA, roles, Vec::new(), min_count)],
        Order::LeaderFirst => {
            let workers = roles.split_off(1.min(roles.len()));
            vec![
                draft(LEADER, roles, workers.clone(), None),
                draft(WORKERS, workers, Vec::new(), min_count),
            ]
        }
    }
}

/// What a stamp must say of a plan, so that its objects can be made from a pod alone.
pub(crate) fn of_plan(order: Order, plan: &Plan) -> RevisionStamp {
    let roles = plan.parts.iter().flat_map(Part::roles);
    let need = |role: &Role| Need {
        name: role.name.clone(),
        pods: role.pods,
        requests: role.shape.requests.clone(),
        priority_class: role.shape.priority_class.clone(),
    };
    let policy = &plan.policy;
    RevisionStamp {
        order,
        roles: roles.map(need).collect(),
        queue: policy.queue.as_ref().map(|queue| queue.value.clone()),
        strictness: policy
            .strictness
            .as_ref()
            .map(|s| s.value)
            .unwrap_or_default(),
    }
}

/// The plan that a replica was stamped by.
pub(crate) fn stamped_plan(stamp: &Stamp) -> Plan {
    let revision = revision(stamp);
    let at = FieldPath::default();
    let located = |value| Located::new(value, FieldPath::default());
    let role = |need: Need| Role {
        name: need.name,
        pods: need.pods,
        completions: need.pods,
        shape: Shape {
            requests: need.requests,
            priority_class: need.priority_class,
            ..Shape::default()
        },
        at: FieldPath::default(),
    };
    let roles = revision.roles.into_iter().map(role).collect();
    let min_count = match revision.order {
        Order::Together => Some(located(i64::from(stamp.quorum))),
        Order::LeaderFirst => None,
    };
    let drafts = drafts(revision.order, roles, min_count, &at);
    let parts = drafts.into_iter().filter_map(|draft| draft.build().ok()?);
    Plan {
        parts: parts.collect(),
        policy: Policy {
            queue: revision
                .queue
                .map(|queue| Located::new(queue, FieldPath::default())),
            strictness: Some(Located::new(revision.strictness, FieldPath::default())),
            ..Policy::default()
        },
        barrier: None,
    }
}
