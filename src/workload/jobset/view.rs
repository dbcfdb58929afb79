//! The fields of a JobSet that Muster reads (`jobset.x-k8s.io/v1alpha2`), and their paths.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::gang::FieldPath;
use crate::workload::declaration::SuspendedBy;
use crate::workload::given::{Given, Present, Several, optional, or_default};
use crate::workload::keys;
use crate::workload::template::{ExistingLink, PodTemplate};
use crate::workload::view::{Meta, Scalar, Text};

/// `spec.managedBy` of the stock controller; another value means that someone else acts.
const STOCK_CONTROLLER: &str = "jobset.sigs.k8s.io/jobset-controller";
pub(crate) const EXCLUSIVE_TOPOLOGY: &str = "alpha.jobset.sigs.k8s.io/exclusive-topology";
pub(crate) const NODE_SELECTOR_STRATEGY: &str = "alpha.jobset.sigs.k8s.io/node-selector";

/// ReplicatedJobs are written by hand, and each is a template of its own: real JobSets have a few.
/// Of this many, with their templates, an object of 1.5 MB has room for 1.5 KB each.
pub(super) const MAX_GROUPS: usize = 1000;

/// A ReplicatedJob follows one other or a few. Each edge is walked once for every bundle.
pub(super) const MAX_DEPENDENCIES: usize = 32;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct JobSet<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    pub(crate) metadata: Meta<'a>,
    #[serde(borrow)]
    pub(crate) spec: Given<Spec<'a>>,
    #[serde(borrow, deserialize_with = "or_default")]
    pub(crate) status: Status<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Status<'a> {
    #[serde(deserialize_with = "or_default")]
    pub(crate) restarts: u32,
    /// `Completed` or `Failed` once the JobSet has ended.
    #[serde(borrow)]
    pub(crate) terminal_state: Option<Text<'a>>,
    #[serde(borrow, deserialize_with = "or_default")]
    pub(crate) replicated_jobs_status: Several<GroupStatus<'a>, MAX_GROUPS>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct GroupStatus<'a> {
    #[serde(borrow)]
    pub(crate) name: Text<'a>,
    /// Restarts of single Jobs, by index; only with JobSet's gate RestartJob.
    #[serde(deserialize_with = "or_default")]
    pub(crate) job_restarts: Vec<u32>,
    /// How many of its Jobs are so far.
    #[serde(deserialize_with = "or_default")]
    pub(crate) ready: u64,
    #[serde(deserialize_with = "or_default")]
    pub(crate) succeeded: u64,
    #[serde(deserialize_with = "or_default")]
    pub(crate) failed: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Spec<'a> {
    #[serde(borrow)]
    pub(crate) gang_config: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) group_scheduling_config: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "or_default")]
    pub(crate) replicated_jobs: Several<ReplicatedJob<'a>, MAX_GROUPS>,
    #[serde(borrow)]
    pub(crate) startup_policy: Option<StartupPolicy<'a>>,
    pub(crate) suspend: Option<bool>,
    #[serde(borrow)]
    pub(crate) managed_by: Option<Text<'a>>,
    /// JobSet's own gang scheduling (KEP-969).
    pub(crate) scheduling: Option<Present>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct StartupPolicy<'a> {
    #[serde(borrow)]
    pub(crate) startup_policy_order: Option<Text<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ReplicatedJob<'a> {
    #[serde(borrow)]
    pub(crate) name: Text<'a>,
    #[serde(borrow)]
    pub(crate) gang_config: Option<&'a RawValue>,
    pub(crate) replicas: Option<i64>,
    #[serde(borrow, deserialize_with = "or_default")]
    pub(crate) depends_on: Several<DependsOn<'a>, MAX_DEPENDENCIES>,
    #[serde(borrow)]
    pub(crate) template: Given<JobTemplate<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct DependsOn<'a> {
    #[serde(borrow)]
    pub(crate) name: Text<'a>,
    /// `Ready` or `Complete`.
    #[serde(borrow)]
    pub(crate) status: Option<Text<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct JobTemplate<'a> {
    #[serde(borrow, deserialize_with = "optional")]
    pub(crate) metadata: Option<Meta<'a>>,
    #[serde(borrow)]
    pub(crate) spec: Given<JobSpec<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct JobSpec<'a> {
    pub(crate) parallelism: Option<i64>,
    pub(crate) completions: Option<i64>,
    #[serde(borrow)]
    pub(crate) completion_mode: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) template: Given<PodTemplate<'a>>,
}

/// The inside of a `gangConfig`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct GangConfig<'a> {
    #[serde(borrow)]
    pub(crate) gang_mode: Option<Scalar<'a>>,
}

impl JobSet<'_> {
    /// Whether another controller than JobSet's own runs this object (MultiKueue's manager).
    pub(crate) fn managed_by_other(&self) -> bool {
        let manager = self.spec.managed_by.as_deref();
        manager.is_some_and(|m| m != STOCK_CONTROLLER)
    }

    pub(crate) fn in_order(&self) -> bool {
        let policy = self.spec.startup_policy.as_ref();
        policy.and_then(|p| p.startup_policy_order.as_deref()) == Some("InOrder")
    }

    /// Whether the JobSet has ended, well or not.
    pub(crate) fn finished(&self) -> bool {
        let state = self.status.terminal_state.as_deref();
        state.is_some_and(|state| !state.is_empty())
    }

    /// Who suspends and resumes it.
    pub(crate) fn suspended_by(&self) -> SuspendedBy {
        match self.metadata.label(keys::KUEUE_QUEUE) {
            Some(_) => SuspendedBy::Kueue,
            None => SuspendedBy::Anybody,
        }
    }

    pub(crate) fn suspended(&self) -> bool {
        self.spec.suspend == Some(true)
    }
}

impl ReplicatedJob<'_> {
    /// Jobs of this group. The schema's default is 1 and its minimum 0.
    pub(crate) fn jobs(&self) -> u64 {
        u64::try_from(self.replicas.unwrap_or(1)).unwrap_or(0)
    }

    /// Pods that one Job runs at a time: `min(parallelism ?? 1, completions ?? parallelism)`.
    pub(crate) fn pods_per_job(&self) -> u64 {
        let spec = &self.template.spec;
        let parallelism = spec.parallelism.unwrap_or(1);
        let at_once = parallelism.min(spec.completions.unwrap_or(parallelism));
        u64::try_from(at_once).unwrap_or(0)
    }

    /// Pods that must succeed before one Job is done.
    pub(crate) fn completions_per_job(&self) -> u64 {
        let spec = &self.template.spec;
        let completions = spec.completions.or(spec.parallelism).unwrap_or(1);
        u64::try_from(completions).unwrap_or(0)
    }

    /// Pods of the whole group; saturates, since 2^63 pods are refused as too many anyway.
    pub(crate) fn pods(&self) -> u64 {
        self.jobs().saturating_mul(self.pods_per_job())
    }

    /// A link to a gang that is already in the pod template, its value, and where.
    pub(crate) fn existing_link(&self, at: &FieldPath) -> Option<ExistingLink> {
        let at = at.child("template").child("spec").child("template");
        self.template.spec.template.existing_link(&at)
    }
}
