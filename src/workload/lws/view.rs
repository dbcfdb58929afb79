//! The fields of a LeaderWorkerSet that Muster reads (`leaderworkerset.x-k8s.io/v1`).

use serde::Deserialize;

use super::stamp::Order;
use crate::gang::FieldPath;
use crate::workload::declaration::Mode;
use crate::workload::keys;
use crate::workload::template::PodTemplate;
use crate::workload::view::{Given, Kept, Meta, Present, Text, or_default};

/// Workers are made only once the leader is on a node, and in its topology domain.
pub const EXCLUSIVE_TOPOLOGY: &str = "leaderworkerset.sigs.k8s.io/exclusive-topology";

/// Pods of a subgroup share a topology domain, and pods of others keep out of it.
pub const SUBGROUP_EXCLUSIVE_TOPOLOGY: &str =
    "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology";

/// The startup policies: all pods at once, or the workers once their leader is ready.
pub const LEADER_CREATED: &str = "LeaderCreated";
pub const LEADER_READY: &str = "LeaderReady";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct LeaderWorkerSet<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    pub metadata: Meta<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    pub spec: Spec<'a>,
    #[serde(deserialize_with = "or_default")]
    pub status: Status,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Status {
    pub replicas: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec<'a> {
    pub replicas: Option<i64>,
    #[serde(borrow)]
    pub startup_policy: Option<Text<'a>>,
    #[serde(borrow)]
    pub leader_worker_template: Kept<'a, LeaderWorkerTemplate<'a>>,
    /// LeaderWorkerSet's own gang scheduling (KEP-666).
    pub scheduling: Option<Present>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LeaderWorkerTemplate<'a> {
    pub size: Option<i64>,
    #[serde(borrow)]
    pub leader_template: Option<PodTemplate<'a>>,
    #[serde(borrow)]
    pub worker_template: Given<PodTemplate<'a>>,
}

impl LeaderWorkerSet<'_> {
    /// Pods of one replica. The schema's default and minimum are 1.
    pub fn size(&self) -> u64 {
        let size = self.spec.leader_worker_template.size.unwrap_or(1);
        u64::try_from(size).unwrap_or(0)
    }

    /// How many replicas, by the spec: a rollout may make more.
    pub fn replicas(&self) -> u64 {
        u64::try_from(self.spec.replicas.unwrap_or(1)).unwrap_or(0)
    }

    /// How many have a leader, by the status. Their pods need not be gangs.
    pub fn started_replicas(&self) -> u64 {
        u64::try_from(self.status.replicas.unwrap_or(0)).unwrap_or(0)
    }

    pub fn order(&self) -> Order {
        match self.spec.startup_policy.as_deref() {
            Some(LEADER_READY) if self.size() > 1 => Order::LeaderFirst,
            _ => Order::Together,
        }
    }

    /// Whether it asks for gangs itself.
    pub fn asks(&self) -> bool {
        let mode = self.metadata.annotation(keys::GANG_MODE);
        mode == Some(Mode::ReplicatedGang.as_str())
    }

    /// Whether the user ties its pods to a gang himself.
    pub fn is_linked(&self) -> bool {
        let path = FieldPath::default();
        self.templates()
            .any(|(_, template)| template.existing_link(&path).is_some())
    }

    /// The templates that pods are made from, by the field that holds each.
    pub fn templates(&self) -> impl Iterator<Item = (&'static str, &PodTemplate<'_>)> {
        let template = &self.spec.leader_worker_template;
        let leader = template.leader_template.as_ref();
        let leader = leader.map(|template| (LEADER_TEMPLATE, template));
        // A leader without a template of its own is made from the workers'.
        let workers = (self.size() > 1 || leader.is_none())
            .then_some((WORKER_TEMPLATE, &*template.worker_template));
        leader.into_iter().chain(workers)
    }
}

pub const LEADER_TEMPLATE: &str = "leaderTemplate";
pub const WORKER_TEMPLATE: &str = "workerTemplate";

/// `spec.leaderWorkerTemplate.<field>`
pub fn template_path(field: &str) -> FieldPath {
    let spec = FieldPath::new("spec").child("leaderWorkerTemplate");
    spec.child(field)
}
