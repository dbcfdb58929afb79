//! One cell: the life of a JobSet whose gangs never have quite enough room at first.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt as _;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::json;

use super::super::lws::is_bound;
use super::{Column, Row, table};
use crate::health::PATIENCE;
use crate::sandbox::Sandbox;

const PODS: usize = 6;
/// Every scheduler here decides within a second; in this time it had several chances.
pub const CHANCE: Duration = Duration::from_secs(4);
/// Keeps a pod dying until the test lets it go.
const HOLD: &str = "e2e.muster.dev/hold";
const ATTEMPT: &str = "jobset.sigs.k8s.io/restart-attempt";
const JOB: &str = "jobset.sigs.k8s.io/job-global-index";

pub async fn run(sandbox: Sandbox, column: Column, row: Row) -> Result<()> {
    let text = jobset(column, row);
    if let Some(reason) = column.refusal(row) {
        let output = sandbox.kubectl(&["apply", "-f", "-"], &text).await?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.code() == Some(1) && said.contains(reason),
            "{said}"
        );
        return table::note(column, row, "refused".to_owned());
    }
    // (a) One CPU short: of each gang, or of the gang.
    let room = match row {
        Row::Replica => 2,
        _ => PODS as u32 - 1,
    };
    sandbox.nodes(1, room).await?;
    sandbox.apply(&text).await?;
    sandbox.stays_unbound("0", PODS).await?;

    // (b) Room appears.
    let start = Instant::now();
    let late = sandbox.nodes(1, PODS as u32 - room).await?.remove(0);
    sandbox.runs("0").await?;
    let seconds = start.elapsed().as_secs_f64();

    // (c) The last Job's pods are long in dying, and `Recreate` recreates each Job by itself, so
    // both attempts have pods. There is room for the new ones: only the old could make a quorum
    // of them. Then the late node is closed, and all new ones are one CPU short again.
    let mut dying = sandbox.members("0").await?;
    dying.retain(|pod| pod.labels().get(JOB).map(String::as_str) == Some(row.last_job()));
    ensure!(!dying.is_empty() && dying.len() < PODS);
    for pod in &dying {
        sandbox.hold(pod).await?;
    }
    if row == Row::Replica || column == Column::Yunikorn {
        // The other replica's gang is complete without them; and YuniKorn would hold the late
        // node's room with a placeholder before it is closed.
        sandbox.cordon(&late).await?;
    }
    sandbox.fail_one(&dying).await?;
    sandbox.stays_unbound("1", PODS - dying.len()).await?;
    sandbox.cordon(&late).await?;
    for pod in &dying {
        sandbox.let_go(pod).await?;
    }
    sandbox.stays_unbound("1", PODS).await?;
    sandbox.uncordon(&late).await?;
    sandbox.runs("1").await?;

    // (d)
    let deleted = sandbox
        .kubectl(&["delete", "jobset", "train", "--wait"], "")
        .await?;
    ensure!(deleted.status.success());
    sandbox.left_nothing().await?;
    table::note(column, row, format!("{seconds:.1} s"))
}

/// A ReplicatedJob of one-CPU pods.
fn group(name: &str, replicas: u32, pods: u32, annotations: &str) -> String {
    format!(
        "
  - name: {name}
    replicas: {replicas}
    template:
      metadata: {{annotations: {{{annotations}}}}}
      spec:
        parallelism: {pods}
        completions: {pods}
        backoffLimit: 0
        template:
          spec:
            restartPolicy: Never
            containers: [{{name: main, image: train, resources: {{requests: {{cpu: '1'}}}}}}]"
    )
}

fn jobset(column: Column, row: Row) -> String {
    let gang = "muster.dev/gang-mode: Gang";
    let (whole, groups) = match row {
        Row::Whole => {
            let driver = group("driver", 1, 2, "");
            (gang, driver + &group("workers", 2, 2, ""))
        }
        Row::Group => ("", group("workers", 2, 3, gang)),
        Row::Replica => {
            let mode = "muster.dev/gang-mode: ReplicatedGang";
            ("", group("workers", 2, 3, mode))
        }
        _ => {
            let both = format!("{gang}, muster.dev/bundle: ring");
            let driver = group("driver", 1, 3, &both);
            ("", driver + &group("workers", 1, 3, &both))
        }
    };
    let comma = if whole.is_empty() { "" } else { ", " };
    format!(
        "
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: train
  annotations: {{muster.dev/scheduler: {}{comma}{whole}}}
spec:
  failurePolicy: {{maxRestarts: 1}}
  replicatedJobs: {groups}
",
        column.scheduler()
    )
}

impl Sandbox {
    /// The JobSet's pods of one attempt; YuniKorn's placeholders are not among them.
    pub async fn members(&self, attempt: &str) -> Result<Vec<Pod>> {
        let api: Api<Pod> = Api::namespaced(self.client(), &self.namespace);
        let own = ListParams::default().labels(&format!("{ATTEMPT}={attempt}"));
        Ok(api.list(&own).await?.items)
    }

    /// Waits until the attempt has its pods, and then sees none of them bound for a while.
    pub async fn stays_unbound(&self, attempt: &str, pods: usize) -> Result<()> {
        self.wait_for(&format!("{pods} pods of attempt {attempt}"), async || {
            let members = self.members(attempt).await?.len();
            ensure!(members == pods, "there are {members}");
            Ok(())
        })
        .await?;
        let end = Instant::now() + CHANCE;
        while Instant::now() < end {
            let members = self.members(attempt).await?;
            let bound = members.iter().filter(|pod| is_bound(pod)).count();
            ensure!(
                bound == 0,
                "{bound} of {} pods of attempt {attempt} are bound, and not all fit",
                members.len()
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    async fn runs(&self, attempt: &str) -> Result<()> {
        crate::health::wait_for("every member to be bound", PATIENCE, async || {
            let members = self.members(attempt).await?;
            let bound = members.iter().filter(|pod| is_bound(pod)).count();
            ensure!(bound == PODS, "{bound} of {} are", members.len());
            Ok(())
        })
        .await
    }

    pub async fn cordon(&self, node: &str) -> Result<()> {
        self.patch_node(node, json!({"spec": {"unschedulable": true}}))
            .await
    }

    pub async fn uncordon(&self, node: &str) -> Result<()> {
        self.patch_node(node, json!({"spec": {"unschedulable": false}}))
            .await
    }

    async fn patch_node(&self, node: &str, patch: serde_json::Value) -> Result<()> {
        let api: Api<Node> = Api::all(self.client());
        let params = PatchParams::default();
        api.patch(node, &params, &Patch::Merge(patch)).await?;
        Ok(())
    }

    pub async fn hold(&self, pod: &Pod) -> Result<()> {
        let mut finalizers = pod.finalizers().to_vec();
        finalizers.push(HOLD.to_owned());
        self.finalize(pod, finalizers).await
    }

    pub async fn let_go(&self, pod: &Pod) -> Result<()> {
        let api: Api<Pod> = Api::namespaced(self.client(), &self.namespace);
        let Some(pod) = api.get_opt(&pod.name_any()).await? else {
            return Ok(());
        };
        let mut finalizers = pod.finalizers().to_vec();
        finalizers.retain(|name| name != HOLD);
        self.finalize(&pod, finalizers).await
    }

    async fn finalize(&self, pod: &Pod, finalizers: Vec<String>) -> Result<()> {
        let api: Api<Pod> = Api::namespaced(self.client(), &self.namespace);
        let patch = Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
        api.patch(&pod.name_any(), &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    /// Fails a member that is not among those, and with it attempt 0.
    async fn fail_one(&self, spared: &[Pod]) -> Result<()> {
        let members = self.members("0").await?;
        let name = |pod: &Pod| pod.name_any();
        let other = members
            .iter()
            .find(|pod| !spared.iter().any(|s| name(s) == name(pod)));
        let Some(victim) = other else {
            anyhow::bail!("all members are spared");
        };
        let api: Api<Pod> = Api::namespaced(self.client(), &self.namespace);
        let patch = Patch::Merge(json!({"metadata": {"annotations": {"fake/outcome": "fail"}}}));
        api.patch(&name(victim), &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    /// Waits until the namespace holds no pod and no scheduler's object.
    pub async fn left_nothing(&self) -> Result<()> {
        let kinds = [
            ("scheduling.k8s.io/v1alpha1", "Workload"),
            ("scheduling.k8s.io/v1alpha2", "PodGroup"),
            ("scheduling.k8s.io/v1beta1", "PodGroup"),
            ("scheduling.k8s.io/v1beta1", "Workload"),
            ("scheduling.k8s.io/v1alpha3", "CompositePodGroup"),
            ("scheduling.volcano.sh/v1beta1", "PodGroup"),
            ("scheduling.x-k8s.io/v1alpha1", "PodGroup"),
            ("scheduling.sigs.k8s.io/v1alpha1", "PodGroup"),
            ("scheduling.run.ai/v2alpha2", "PodGroup"),
        ];
        self.wait_for("nothing to be left", async || {
            let pods = self.pods().await?.len();
            ensure!(pods == 0, "{pods} pods are left");
            for (version, kind) in kinds {
                // Not every cluster has every scheduler.
                let Ok(api) = self.api(version, kind).await else {
                    continue;
                };
                let left = api.list(&ListParams::default()).await?.items;
                let names: Vec<String> = left.iter().map(|object| object.name_any()).collect();
                ensure!(names.is_empty(), "{kind} of {version}: {names:?}");
            }
            Ok(())
        })
        .await
    }
}
