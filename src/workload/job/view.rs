//! The fields of a Job that Muster reads (`batch/v1`).

use serde::{Deserialize, Deserializer};

use super::KIND;
use crate::workload::child;
use crate::workload::declaration::SuspendedBy;
use crate::workload::given::{Given, Present, Several, or_default};
use crate::workload::keys::{self, Place};
use crate::workload::template::{PodTemplate, filled_in};
use crate::workload::view::{Meta, Text};

/// `spec.managedBy` of Kubernetes' own controller; another value means that someone else acts.
const STOCK_CONTROLLER: &str = "kubernetes.io/job-controller";

/// A Job has a handful.
const MAX_CONDITIONS: usize = 32;

/// A Job.
#[derive(Debug, Default)]
pub struct Job<'a> {
    pub(super) metadata: Meta<'a>,
    pub(super) spec: Given<Spec<'a>>,
    pub(super) status: Status<'a>,
    /// Where the keys belong that stand in its pod template, if it is a template itself.
    pub(in crate::workload) pods_place: Option<&'static Place>,
}

/// A Job as it is sent.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Sent<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    metadata: Meta<'a>,
    #[serde(borrow)]
    spec: Given<Spec<'a>>,
    #[serde(borrow, deserialize_with = "or_default")]
    status: Status<'a>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Job<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut sent = Sent::deserialize(deserializer)?;
        take_back(&mut sent.metadata);
        Ok(Self {
            metadata: sent.metadata,
            spec: sent.spec,
            status: sent.status,
            pods_place: None,
        })
    }
}

/// Takes the label of a gang's pods from a Job that has those of its own pods: Kubernetes gives a Job
/// whose last label is removed the labels of its pod template. It is still no child of a workload.
fn take_back(meta: &mut Meta<'_>) {
    if child::parent(meta).is_some_and(|facts| *facts.kind == KIND)
        && let Some(labels) = &mut meta.labels
    {
        labels.remove(keys::GANG);
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Spec<'a> {
    pub(super) parallelism: Option<i64>,
    pub(super) completions: Option<i64>,
    pub(super) suspend: Option<bool>,
    pub(super) manual_selector: Option<bool>,
    #[serde(borrow)]
    pub(super) managed_by: Option<Text<'a>>,
    /// Kubernetes' own gangs of Jobs (1.37, gate WorkloadWithJob).
    pub(super) scheduling: Option<Present>,
    #[serde(borrow, deserialize_with = "filled_in")]
    pub(super) template: Given<PodTemplate<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Status<'a> {
    pub(super) start_time: Option<Present>,
    #[serde(deserialize_with = "or_default")]
    pub(super) active: i64,
    #[serde(deserialize_with = "or_default")]
    pub(super) succeeded: i64,
    #[serde(deserialize_with = "or_default")]
    pub(super) failed: i64,
    #[serde(borrow, deserialize_with = "or_default")]
    conditions: Several<Condition<'a>, MAX_CONDITIONS>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Condition<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow)]
    status: Text<'a>,
}

impl Job<'_> {
    /// Whether another controller than Kubernetes' own runs it (MultiKueue's manager).
    pub(super) fn managed_by_other(&self) -> bool {
        let manager = self.spec.managed_by.as_deref();
        manager.is_some_and(|manager| manager != STOCK_CONTROLLER)
    }

    /// Whether it has ended, well or not.
    pub(super) fn finished(&self) -> bool {
        let ended = |condition: &Condition<'_>| {
            matches!(&*condition.kind, "Complete" | "Failed") && &*condition.status == "True"
        };
        self.status.conditions.iter().any(ended)
    }

    pub(super) fn suspended(&self) -> bool {
        self.spec.suspend == Some(true)
    }

    /// Who suspends and resumes it.
    pub(super) fn suspended_by(&self) -> SuspendedBy {
        match self.metadata.label(keys::KUEUE_QUEUE) {
            Some(_) => SuspendedBy::Kueue,
            None => SuspendedBy::Anybody,
        }
    }

    /// Whether it was admitted as a gang before.
    pub(super) fn is_stamped(&self) -> bool {
        let pods = self.spec.template.metadata.as_ref();
        pods.is_some_and(|meta| meta.annotation(keys::STAMP).is_some())
    }

    /// How many pods run at a time, unless fewer are left to do.
    pub(super) fn parallelism(&self) -> i64 {
        self.spec.parallelism.unwrap_or(1)
    }

    /// Pods that run at a time at the start. A work queue (no `completions`) starts all of them.
    pub(super) fn pods(&self) -> u64 {
        let parallelism = self.parallelism();
        let at_once = parallelism.min(self.spec.completions.unwrap_or(parallelism));
        u64::try_from(at_once).unwrap_or(0)
    }

    /// Pods that must succeed. In a work queue one that succeeds ends it, and no pod is made after.
    pub(super) fn completions(&self) -> u64 {
        let completions = self.spec.completions.unwrap_or(self.parallelism());
        u64::try_from(completions).unwrap_or(0)
    }
}
