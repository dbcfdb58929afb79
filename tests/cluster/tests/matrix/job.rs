//! The cells of Jobs: a gang that never has quite enough room at first, and again when it is resumed.

use std::time::Instant;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::json;

use super::super::lws::is_bound;
use super::cell::CHANCE;
use super::{Column, Row, table};
use crate::health::PATIENCE;
use crate::sandbox::Sandbox;

const PODS: usize = 6;

fn job(column: Column) -> String {
    format!(
        "
apiVersion: batch/v1
kind: Job
metadata:
  name: train
  annotations:
    muster.dev/gang-mode: Gang
    muster.dev/scheduler: {}
spec:
  parallelism: {PODS}
  completions: {PODS}
  completionMode: Indexed
  template:
    spec:
      restartPolicy: Never
      containers: [{{name: main, image: train, resources: {{requests: {{cpu: '1'}}}}}}]
",
        column.scheduler()
    )
}

pub async fn run(sandbox: Sandbox, column: Column) -> Result<()> {
    // (a) One CPU short.
    sandbox.nodes(1, PODS as u32 - 1).await?;
    sandbox.apply(&job(column)).await?;
    sandbox.job_waits().await?;

    // (b) Room appears.
    let start = Instant::now();
    let late = sandbox.nodes(1, 1).await?.remove(0);
    let old = sandbox.job_runs().await?;
    let seconds = start.elapsed().as_secs_f64();

    // (c) Suspended and resumed while half of its old pods are still dying. There is room for the
    // other half: only the old could make a quorum of them. Then the late node is closed, and all
    // new ones are one CPU short again.
    let held = match column {
        // Its template cannot change once it has run, and the gang goes on under its name.
        Column::Native1_35 => &[],
        _ => &old[..PODS / 2],
    };
    for pod in held {
        sandbox.hold(pod).await?;
    }
    if held.is_empty() || column == Column::Yunikorn {
        // YuniKorn would hold the late node's room with a placeholder before it is closed.
        sandbox.cordon(&late).await?;
    }
    sandbox.suspend_job(true).await?;
    sandbox
        .wait_for("the Job to be suspended", async || {
            let jobs = sandbox.api("batch/v1", "Job").await?;
            let status = &jobs.get("train").await?.data["status"];
            let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
            let suspended =
                |c: &serde_json::Value| c["type"] == "Suspended" && c["status"] == "True";
            let gone = sandbox.job_pods().await?.is_empty();
            ensure!(conditions.iter().any(suspended) && gone, "{status}");
            Ok(())
        })
        .await?;
    sandbox.suspend_job(false).await?;
    sandbox.job_waits().await?;
    sandbox.cordon(&late).await?;
    for pod in held {
        sandbox.let_go(pod).await?;
    }
    if !held.is_empty() {
        sandbox.job_waits().await?;
        sandbox.one_gang_is_left().await?;
    }
    sandbox.uncordon(&late).await?;
    sandbox.job_runs().await?;

    // (d)
    let deleted = sandbox
        .kubectl(&["delete", "job", "train", "--wait"], "")
        .await?;
    ensure!(deleted.status.success());
    sandbox.left_nothing().await?;
    table::note(column, Row::Job, format!("{seconds:.1} s"))
}

impl Sandbox {
    /// The Job's pods that are not being deleted.
    async fn job_pods(&self) -> Result<Vec<Pod>> {
        let api: Api<Pod> = Api::namespaced(self.client(), &self.namespace);
        let own = ListParams::default().labels("batch.kubernetes.io/job-name=train");
        let mut pods = api.list(&own).await?.items;
        pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
        Ok(pods)
    }

    pub async fn suspend_job(&self, suspend: bool) -> Result<()> {
        let jobs = self.api("batch/v1", "Job").await?;
        let patch = Patch::Merge(json!({"spec": {"suspend": suspend}}));
        jobs.patch("train", &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Waits until the Job has its pods, and then sees none of them bound for a while.
    async fn job_waits(&self) -> Result<()> {
        self.wait_for("the Job's pods", async || {
            let pods = self.job_pods().await?.len();
            ensure!(pods == PODS, "there are {pods}");
            Ok(())
        })
        .await?;
        let end = Instant::now() + CHANCE;
        while Instant::now() < end {
            let pods = self.job_pods().await?;
            let bound: Vec<String> = pods
                .iter()
                .filter(|pod| is_bound(pod))
                .map(Pod::name_any)
                .collect();
            ensure!(bound.is_empty(), "{bound:?} are bound, and not all fit");
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        Ok(())
    }

    /// The objects of the last round go with its pods.
    pub async fn one_gang_is_left(&self) -> Result<()> {
        let kinds = [
            ("scheduling.k8s.io/v1beta1", "PodGroup"),
            ("scheduling.volcano.sh/v1beta1", "PodGroup"),
            ("scheduling.x-k8s.io/v1alpha1", "PodGroup"),
            ("scheduling.sigs.k8s.io/v1alpha1", "PodGroup"),
            ("scheduling.run.ai/v2alpha2", "PodGroup"),
        ];
        self.wait_for("the last round's objects to go", async || {
            for (version, kind) in kinds {
                let Ok(api) = self.api(version, kind).await else {
                    continue;
                };
                let ours = ListParams::default().labels("app.kubernetes.io/managed-by=muster");
                let left = api.list(&ours).await?.items.len();
                ensure!(left <= 1, "{left} of {version} are left");
            }
            Ok(())
        })
        .await
    }

    async fn job_runs(&self) -> Result<Vec<Pod>> {
        crate::health::wait_for("every pod of the Job to be bound", PATIENCE, async || {
            let pods = self.job_pods().await?;
            let bound = pods.iter().filter(|pod| is_bound(pod)).count();
            ensure!(bound == PODS, "{bound} of {} are", pods.len());
            Ok(pods)
        })
        .await
    }
}
