//! A gang in a queue of Kueue's, on one kind of workload and one scheduler.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::core::DynamicObject;
use serde_json::Value;

use super::super::explain::Scheduler;
use super::super::lws::{is_bound, pod_group};
use super::super::samples::{JOBSET, jobset};
use super::POOL;
use crate::sandbox::Sandbox;

/// What Kueue suspends as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    JobSet,
    Job,
}

impl Kind {
    pub fn name(self) -> (&'static str, &'static str) {
        match self {
            Self::JobSet => JOBSET,
            Self::Job => ("batch/v1", "Job"),
        }
    }

    /// A gang of three pods of one CPU each, in the queue `team`.
    pub fn gang(self, name: &str, scheduler: Scheduler, labels: &str) -> String {
        let gang = format!(
            "muster.dev/gang-mode: Gang, muster.dev/scheduler: {}",
            scheduler.name()
        );
        let text = match self {
            Self::JobSet => jobset(name, &gang, 3, "1"),
            Self::Job => job(name, &gang, 3),
        };
        queued(&text, labels)
    }
}

/// A Job of one-CPU pods.
pub fn job(name: &str, annotations: &str, pods: u32) -> String {
    format!(
        "
apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
  annotations: {{{annotations}}}
spec:
  parallelism: {pods}
  completions: {pods}
  completionMode: Indexed
  template:
    spec:
      restartPolicy: Never
      containers: [{{name: main, image: train, resources: {{requests: {{cpu: '1'}}}}}}]
"
    )
}

/// A manifest with the label of the queue, and others.
pub fn queued(text: &str, labels: &str) -> String {
    let labels = format!("metadata:\n  labels: {{kueue.x-k8s.io/queue-name: team{labels}}}");
    text.replacen("metadata:", &labels, 1)
}

/// What Muster has written on a workload, by path; but for the round, which counts.
pub fn stamps(object: &Value) -> BTreeMap<String, Value> {
    fn walk(at: &str, value: &Value, found: &mut BTreeMap<String, Value>) {
        let fields = value.as_object().into_iter().flatten();
        for (key, value) in fields {
            let path = format!("{at}/{key}");
            let own = key.starts_with("muster.dev/") && key != "muster.dev/round";
            let fields = ["gangConfig", "groupSchedulingConfig", "schedulerName"];
            match own || fields.contains(&key.as_str()) {
                true => drop(found.insert(path, value.clone())),
                false => walk(&path, value, found),
            }
        }
        for (number, value) in value.as_array().into_iter().flatten().enumerate() {
            walk(&format!("{at}/{number}"), value, found);
        }
    }
    let mut found = BTreeMap::new();
    walk("/spec", &object["spec"], &mut found);
    walk("/metadata", &object["metadata"], &mut found);
    found
}

impl Sandbox {
    /// The workload as it is stored.
    pub async fn stored(&self, kind: Kind) -> Result<Value> {
        let workloads = self.api(kind.name().0, kind.name().1).await?;
        Ok(serde_json::to_value(workloads.get("train").await?)?)
    }

    /// The pods of a workload that are not about to go. A scheduler's placeholders are not among them.
    pub async fn pods_of(&self, name: &str) -> Result<Vec<Pod>> {
        let mut pods = self.pods().await?;
        pods.retain(|pod| {
            let own = pod.name_any().starts_with(&format!("{name}-"));
            own && pod.metadata.deletion_timestamp.is_none()
        });
        Ok(pods)
    }

    /// The uids of PodGroups, by name.
    pub async fn pod_groups(&self) -> Result<BTreeMap<String, String>> {
        let groups = self.made("PodGroup").await?.into_iter();
        let identity = |group: DynamicObject| Some((group.metadata.name?, group.metadata.uid?));
        Ok(groups.filter_map(identity).collect())
    }

    /// Waits until all of so many pods of a workload are on nodes of the pool, in one gang; which one it
    /// is. Natively a resumed gang has its old name, and a new object.
    pub async fn runs_as_a_gang(
        &self,
        name: &str,
        count: usize,
        scheduler: Scheduler,
    ) -> Result<String> {
        self.wait_for(
            &format!("{count} pods of {name} to be placed"),
            async || {
                let pods = self.pods_of(name).await?;
                let placed = pods.iter().filter(|pod| is_bound(pod)).count();
                ensure!(
                    pods.len() == count && placed == count,
                    "{placed} of {} are",
                    pods.len()
                );
                for pod in &pods {
                    let selector = pod.spec.as_ref().and_then(|s| s.node_selector.as_ref());
                    let pool = selector.and_then(|selector| selector.get(POOL));
                    ensure!(pool == Some(&self.namespace), "{selector:?}");
                }
                let gangs: BTreeSet<String> = pods
                    .iter()
                    .map(|pod| gang_of(pod, scheduler))
                    .collect::<Result<_>>()?;
                ensure!(gangs.len() == 1, "they are of {gangs:?}");
                let gang = gangs.into_iter().next().unwrap_or_default();
                if scheduler != Scheduler::Native {
                    return Ok(gang);
                }
                let mut groups = self.pod_groups().await?;
                let made = groups.remove(&gang);
                made.with_context(|| format!("{gang} is not among {groups:?}"))
            },
        )
        .await
    }
}

/// The gang that a pod is linked to. On YuniKorn it must say besides which nodes the room is to be on.
fn gang_of(pod: &Pod, scheduler: Scheduler) -> Result<String> {
    if scheduler == Scheduler::Native {
        return pod_group(pod).context("a pod has no link");
    }
    let groups = pod.annotations().get("yunikorn.apache.org/task-groups");
    let groups: Value = serde_json::from_str(groups.context("a pod has no task groups")?)?;
    let selector = &groups[0]["nodeSelector"][POOL];
    ensure!(selector.is_string(), "{groups}");
    let gang = pod.labels().get("yunikorn.apache.org/app-id");
    Ok(gang.context("a pod has no link")?.clone())
}
