//! The fields of a LeaderWorkerSet that Muster reads (`leaderworkerset.x-k8s.io/v1`).

use serde::Deserialize;

use super::stamp::Order;
use crate::gang::FieldPath;
use crate::workload::declaration::Mode;
use crate::workload::given::{Given, Kept, Present, or_default};
use crate::workload::keys;
use crate::workload::template::PodTemplate;
use crate::workload::view::{Meta, Text};

/// Workers are made only once the leader is on a node, and in its topology domain.
pub(crate) const EXCLUSIVE_TOPOLOGY: &str = "leaderworkerset.sigs.k8s.io/exclusive-topology";

/// Pods of a subgroup share a topology domain, and pods of others keep out of it.
pub(crate) const SUBGROUP_EXCLUSIVE_TOPOLOGY: &str =
    "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology";

/// The startup policies: all pods at once, or the workers once their leader is ready.
pub(crate) const LEADER_CREATED: &str = "LeaderCreated";
pub(crate) const LEADER_READY: &str = "LeaderReady";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct LeaderWorkerSet<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    pub(crate) metadata: Meta<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    pub(crate) spec: Spec<'a>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) status: Status,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Status {
    pub(crate) replicas: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Spec<'a> {
    pub(crate) replicas: Option<i64>,
    #[serde(borrow)]
    pub(crate) startup_policy: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) leader_worker_template: Kept<'a, LeaderWorkerTemplate<'a>>,
    /// LeaderWorkerSet's own gang scheduling (KEP-666).
    pub(crate) scheduling: Option<Present>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct LeaderWorkerTemplate<'a> {
    pub(crate) size: Option<i64>,
    #[serde(borrow)]
    pub(crate) leader_template: Option<PodTemplate<'a>>,
    #[serde(borrow)]
    pub(crate) worker_template: Given<PodTemplate<'a>>,
}

impl LeaderWorkerSet<'_> {
    /// Pods of one replica. The schema's default and minimum are 1.
    pub(crate) fn size(&self) -> u64 {
        let size = self.spec.leader_worker_template.size.unwrap_or(1);
        u64::try_from(size).unwrap_or(0)
    }

    /// How many replicas, by the spec: a rollout may make more.
    pub(crate) fn replicas(&self) -> u64 {
        u64::try_from(self.spec.replicas.unwrap_or(1)).unwrap_or(0)
    }

    /// How many have a leader, by the status. Their pods need not be gangs.
    pub(crate) fn started_replicas(&self) -> u64 {
        u64::try_from(self.status.replicas.unwrap_or(0)).unwrap_or(0)
    }

    pub(crate) fn order(&self) -> Order {
        match self.spec.startup_policy.as_deref() {
            Some(LEADER_READY) if self.size() > 1 => Order::LeaderFirst,
            _ => Order::Together,
        }
    }

    /// Whether it asks for gangs itself.
    pub(crate) fn asks(&self) -> bool {
        let mode = self.metadata.annotation(keys::GANG_MODE);
        mode == Some(Mode::ReplicatedGang.as_str())
    }

    /// Whether the user has written a link to a gang into its templates.
    pub(crate) fn is_linked(&self) -> bool {
        let path = FieldPath::default();
        self.templates()
            .any(|(_, template)| template.existing_link(&path).is_some())
    }

    /// The templates that pods are made from, by the field that holds each.
    pub(crate) fn templates(&self) -> impl Iterator<Item = (&'static str, &PodTemplate<'_>)> {
        let template = &self.spec.leader_worker_template;
        let leader = template.leader_template.as_ref();
        let leader = leader.map(|template| (LEADER_TEMPLATE, template));
        // A leader without a template of its own is made from the workers'.
        let workers = (self.size() > 1 || leader.is_none())
            .then_some((WORKER_TEMPLATE, &*template.worker_template));
        leader.into_iter().chain(workers)
    }
}

pub(crate) const LEADER_TEMPLATE: &str = "leaderTemplate";
pub(crate) const WORKER_TEMPLATE: &str = "workerTemplate";

/// `spec.leaderWorkerTemplate.<field>`
pub(crate) fn template_path(field: &str) -> FieldPath {
    let spec = FieldPath::new("spec").child("leaderWorkerTemplate");
    spec.child(field)
}
