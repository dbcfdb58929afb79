//! Beside Kueue, which decides by quota when a workload may start, and Muster that its pods then start
//! together.

mod gang;
mod lives;
mod updates;

use anyhow::{Context, Result, ensure};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::explain::Scheduler;
use super::explain::world::patch_node;
use crate::fleet::Home;
use crate::runner::{Test, named, test_in};
use crate::sandbox::Sandbox;
use gang::Kind;

/// What Kueue's flavor adds to the node selectors of pods.
const POOL: &str = "example.com/pool";
const QUEUE: (&str, &str) = ("kueue.x-k8s.io/v1beta2", "ClusterQueue");

pub fn all() -> Vec<Test> {
    let mut tests = Vec::new();
    for scheduler in [Scheduler::Native, Scheduler::Yunikorn] {
        for kind in [Kind::JobSet, Kind::Job] {
            let name = format!(
                "kueue::a_{}_on_{}_is_admitted_preempted_and_admitted_again_as_a_gang",
                kind.name().1.to_lowercase(),
                scheduler.name()
            );
            tests.push(named(name, Home::Kueue, move |sandbox| {
                lives::is_admitted_preempted_and_admitted_again(sandbox, kind, scheduler)
            }));
        }
    }
    tests.extend([
        test_in(
            Home::Kueue,
            updates::gang_fields_that_kueue_drops_are_put_back,
        ),
        test_in(
            Home::Kueue,
            lives::a_job_that_is_admitted_in_part_is_a_smaller_gang,
        ),
        test_in(
            Home::Kueue,
            lives::a_leaderworkerset_starts_as_gangs_once_it_is_admitted,
        ),
        test_in(Home::Kueue, lives::a_queue_that_does_not_exist_is_told),
    ]);
    tests
}

impl Sandbox {
    /// A queue `team` of this namespace, with that many CPUs on nodes of the pool. Whoever has the higher
    /// priority goes first.
    pub async fn kueue(&self, cpu: u32) -> Result<()> {
        let name = &self.namespace;
        let queue = format!(
            "
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {{name: {name}}}
spec: {{nodeLabels: {{{POOL}: {name}}}}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {{name: {name}}}
spec:
  namespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: {name}}}}}
  preemption: {{withinClusterQueue: LowerPriority}}
  resourceGroups:
  - coveredResources: [cpu, memory]
    flavors:
    - name: {name}
      resources: [{{name: cpu, nominalQuota: '{cpu}'}}, {{name: memory, nominalQuota: 64Gi}}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: WorkloadPriorityClass
metadata: {{name: {name}}}
value: 1000
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {{name: team}}
spec: {{clusterQueue: {name}}}
"
        );
        self.apply(&queue).await?;
        Ok(())
    }

    async fn patch_queue(&self, spec: Value) -> Result<()> {
        let queues = self.api(QUEUE.0, QUEUE.1).await?;
        let patch = Patch::Merge(json!({"spec": spec}));
        let params = PatchParams::default();
        queues.patch(&self.namespace, &params, &patch).await?;
        Ok(())
    }

    /// Gives the queue so many CPUs.
    async fn quota(&self, cpu: u32) -> Result<()> {
        let resources = json!([
            {"name": "cpu", "nominalQuota": cpu.to_string()},
            {"name": "memory", "nominalQuota": "64Gi"},
        ]);
        let flavors = json!([{"name": self.namespace, "resources": resources}]);
        let groups = json!([{"coveredResources": ["cpu", "memory"], "flavors": flavors}]);
        self.patch_queue(json!({"resourceGroups": groups})).await
    }

    /// Adds a node of the pool.
    async fn pool(&self, cpu: u32) -> Result<String> {
        let node = self.nodes(1, cpu).await?.remove(0);
        let labels = json!({"metadata": {"labels": {POOL: self.namespace}}});
        patch_node(self, &node, labels).await?;
        Ok(node)
    }

    /// Waits until the condition of a workload says that Kueue has suspended it, and why.
    async fn suspended_by_kueue(&self, kind: Kind, why: &str) -> Result<String> {
        let workloads = self.api(kind.name().0, kind.name().1).await?;
        self.wait_for("Kueue's words", async || {
            let status = workloads.get("train").await?.data["status"].clone();
            let mut conditions = status["conditions"].as_array().into_iter().flatten();
            let found = conditions.find(|c| c["type"] == "muster.dev/GangScheduled");
            let found = found.context("not yet")?;
            let message = found["message"].as_str().unwrap_or_default();
            let said = message.contains("is suspended by Kueue (queue \"team\"): ");
            ensure!(found["reason"] == "GangSuspended", "it is {found}");
            ensure!(said && message.contains(why), "it says {message}");
            Ok(message.to_owned())
        })
        .await
    }
}
