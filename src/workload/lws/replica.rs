//! A replica: a leader and its workers, which are one gang, or two where the workers come later.
//!
//! Its pods carry no uid of their set, and a replica that is made anew keeps its name, its index
//! and its revision. What tells two lives of a replica apart is LeaderWorkerSet's group key: its
//! controller copies the leader's to the workers, and its webhook keeps one that is there. So
//! Muster gives each leader a key of its own when it is created, and a replica that is made anew
//! is a new gang, whatever pods of the old one are still dying.

use sha2::{Digest, Sha256};

use crate::gang::link::{LinkKey, LinkPlace, LinkWriter};
use crate::gang::{FieldError, FieldPath, Identity, Located, Member, Order, Plan, Policy};
use crate::gang::{
    Level, Need, Part, PartDraft, PartName, RevisionStamp, Role, SchedulerKind, Shape, Stamp,
    Written,
};
use crate::scheduler;
use crate::workload::keys;
use crate::workload::view::Meta;

pub const NAME: &str = "leaderworkerset.sigs.k8s.io/name";
pub const REVISION: &str = "leaderworkerset.sigs.k8s.io/template-revision-hash";
pub const GROUP_INDEX: &str = "leaderworkerset.sigs.k8s.io/group-index";
pub const GROUP_KEY: &str = "leaderworkerset.sigs.k8s.io/group-key";
pub const SUBGROUP_KEY: &str = "leaderworkerset.sigs.k8s.io/subgroup-key";
/// `0` on leaders, from the template; on workers LeaderWorkerSet's webhook writes it.
pub const WORKER_INDEX: &str = "leaderworkerset.sigs.k8s.io/worker-index";
/// On pods whose group key LeaderWorkerSet draws itself (KEP-898).
const GROUP_IDENTITY: &str = "leaderworkerset.sigs.k8s.io/group-identity";
/// On pods that LeaderWorkerSet gangs itself (KEP-666).
pub const OWN_GANG: &str = "leaderworkerset.sigs.k8s.io/workload-aware-scheduling";

/// The labels that LeaderWorkerSet (v0.9), StatefulSets and Muster write on pods.
pub const WRITTEN: Written = Written {
    workload: &[NAME],
    gang: &[GROUP_INDEX, GROUP_KEY, REVISION, keys::GANG],
    job: &[],
    pod: &[
        WORKER_INDEX,
        "leaderworkerset.sigs.k8s.io/subgroup-index",
        SUBGROUP_KEY,
        "apps.kubernetes.io/pod-index",
        "statefulset.kubernetes.io/pod-name",
    ],
};

/// The one part of a plan whose pods are all made at once; on templates and pods the value of
/// `muster.dev/gang`, also where a replica is two gangs.
pub const REPLICA: &str = PartName::REPLICA;
pub const LEADER: &str = "leader";
pub const WORKERS: &str = "workers";

/// The length of LeaderWorkerSet's own keys.
const KEY_LENGTH: usize = 40;

/// Whether a pod is of a LeaderWorkerSet.
pub fn is_member(meta: &Meta<'_>) -> bool {
    meta.label(NAME).is_some()
}

pub fn is_leader(meta: &Meta<'_>) -> bool {
    meta.label(WORKER_INDEX) == Some("0")
}

/// The scheduler that LeaderWorkerSet has ganged the pod on itself: there Muster stands aside, and on
/// another scheduler that link means nothing.
pub fn ganged_on(meta: &Meta<'_>) -> Option<SchedulerKind> {
    if meta.annotation(OWN_GANG).is_some() {
        // There the link is a field.
        let mut links = scheduler::links();
        return Some(links.find(|link| link.place == LinkPlace::Field)?.scheduler);
    }
    let theirs = [NAME, GROUP_INDEX, REVISION].map(|key| meta.label(key).unwrap_or_default());
    let theirs = theirs.join("-");
    let link = own_links().find(|link| meta.annotation(link.key) == Some(&theirs))?;
    Some(link.scheduler)
}

/// The annotations by which LeaderWorkerSet links the pods that it gangs itself.
pub fn own_links() -> impl Iterator<Item = LinkKey> {
    scheduler::links().filter(|link| {
        link.place == LinkPlace::Annotation && link.writer == LinkWriter::ControllersToo
    })
}

/// What tells this life of the replica from others: the key that the pod has, or a fresh one for a
/// leader that has none yet. A request's uid never comes twice.
pub fn key(meta: &Meta<'_>, request: &str) -> Option<String> {
    if let Some(key) = meta.label(GROUP_KEY) {
        return Some(key.to_owned());
    }
    if !is_leader(meta) || meta.annotation(GROUP_IDENTITY).is_some() {
        return None;
    }
    let mut hash = Sha256::new();
    hash.update(request);
    hash.update(meta.display_name());
    let digest = hash.finalize();
    let mut key: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    key.truncate(KEY_LENGTH);
    Some(key)
}

/// Whether LeaderWorkerSet's webhook has not seen the pod yet.
pub fn is_raw(meta: &Meta<'_>) -> bool {
    meta.label(GROUP_INDEX).is_none()
}

/// Which gang of a replica, in which of its lives.
pub fn identity(of: &Life<'_>, part: &str) -> Identity {
    Identity {
        namespace: of.namespace.to_owned(),
        workload: of.name.to_owned(),
        uid: of.key.to_owned(),
        part: PartName::new(part),
        // A key is an index too where groups have no numbers (KEP-898).
        index: of.index.parse().ok(),
        revision: Some(of.revision.to_owned()),
        ..Identity::default()
    }
}

/// One life of a replica.
#[derive(Debug, Clone, Copy)]
pub struct Life<'a> {
    pub namespace: &'a str,
    /// The LeaderWorkerSet's.
    pub name: &'a str,
    pub index: &'a str,
    pub revision: &'a str,
    pub key: &'a str,
}

/// Who a stamped pod is.
pub fn member(
    meta: &Meta<'_>,
    key: Option<&str>,
    namespace: &str,
    mut stamp: Stamp,
) -> Result<Member, Vec<FieldError>> {
    let mut errors = Vec::new();
    let mut label = |at: &'static str, value: Option<&'_ str>| {
        if value.is_none() {
            let labels = FieldPath::new("metadata").child("labels");
            let detail = "the gang's identity needs it; LeaderWorkerSet writes it, and its webhook \
                          must run before Muster's";
            errors.push(FieldError::required(labels.key(at), detail));
        }
        value.unwrap_or_default().to_owned()
    };
    let [name, index, revision] =
        [NAME, GROUP_INDEX, REVISION].map(|key| label(key, meta.label(key)));
    let key = label(GROUP_KEY, key);
    if !errors.is_empty() {
        return Err(errors);
    }
    let life = Life {
        namespace,
        name: &name,
        index: &index,
        revision: &revision,
        key: &key,
    };
    let role = if is_leader(meta) { LEADER } else { WORKERS };
    let order = stamp.revision.as_ref().map(|revision| revision.order);
    let part = match order.unwrap_or_default() {
        Order::Together => REPLICA,
        Order::LeaderFirst => {
            let others = stamp.size.saturating_sub(1);
            stamp.size = if role == LEADER { 1 } else { others };
            stamp.quorum = stamp.size;
            role
        }
    };
    let mut member = Member::new(identity(&life, part), stamp);
    member.role = Some(role);
    Ok(member)
}

/// The parts of a replica whose roles are those; two roles where it has an order.
pub fn drafts(
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
pub fn stamp_of(order: Order, plan: &Plan) -> RevisionStamp {
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
pub fn stamped_plan(stamp: &Stamp) -> Plan {
    let revision = stamp.revision.clone().unwrap_or_default();
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
