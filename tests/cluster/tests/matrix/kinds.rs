//! The cells of a bundle of two kinds: a JobSet and a Job that start together or not at all, and again
//! when both are suspended and resumed.

use std::time::Instant;

use anyhow::{Result, ensure};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::super::samples::jobset;
use super::cell::CHANCE;
use super::{Column, Row, table};
use crate::health::PATIENCE;
use crate::sandbox::Sandbox;

const PODS: usize = 6;

fn both(column: Column) -> String {
    let bundle = |with: &str| {
        format!(
            "muster.dev/gang-mode: Gang, muster.dev/scheduler: {}, muster.dev/bundle: ring, \
             muster.dev/bundle-with: {with}",
            column.scheduler()
        )
    };
    format!(
        "
apiVersion: batch/v1
kind: Job
metadata:
  name: prep
  annotations: {{{}}}
spec:
  parallelism: 3
  completions: 3
  template:
    spec:
      restartPolicy: Never
      containers: [{{name: main, image: train, resources: {{requests: {{cpu: '1'}}}}}}]
---{}",
        bundle("'JobSet:train'"),
        jobset("train", &bundle("'Job:prep'"), 3, "1")
    )
}

pub async fn run(sandbox: Sandbox, column: Column) -> Result<()> {
    let text = both(column);
    if let Some(reason) = column.refusal(Row::Kinds) {
        let output = sandbox.kubectl(&["apply", "-f", "-"], &text).await?;
        let said = String::from_utf8_lossy(&output.stderr);
        let refused = said.matches(reason).count();
        ensure!(output.status.code() == Some(1) && refused == 2, "{said}");
        return table::note(column, Row::Kinds, "refused".to_owned());
    }
    // (a) One CPU short.
    sandbox.nodes(1, PODS as u32 - 1).await?;
    sandbox.apply(&text).await?;
    sandbox.neither_starts().await?;

    // (b) Room appears.
    let start = Instant::now();
    let late = sandbox.nodes(1, 1).await?.remove(0);
    sandbox.both_start().await?;
    let seconds = start.elapsed().as_secs_f64();

    // (c) Both begin again, one CPU short.
    sandbox.cordon(&late).await?;
    sandbox.suspend_both(true).await?;
    sandbox
        .wait_for("all pods to go", async || {
            let left = sandbox.pods().await?.len();
            ensure!(left == 0, "{left} are left");
            Ok(())
        })
        .await?;
    sandbox.suspend_both(false).await?;
    sandbox.neither_starts().await?;
    sandbox.uncordon(&late).await?;
    sandbox.both_start().await?;

    // (d)
    for (kind, name) in [("jobset", "train"), ("job", "prep")] {
        let deleted = sandbox
            .kubectl(&["delete", kind, name, "--wait"], "")
            .await?;
        ensure!(deleted.status.success());
    }
    sandbox.left_nothing().await?;
    table::note(column, Row::Kinds, format!("{seconds:.1} s"))
}

impl Sandbox {
    async fn suspend_both(&self, suspend: bool) -> Result<()> {
        let patch = Patch::Merge(json!({"spec": {"suspend": suspend}}));
        let kinds = [
            ("jobset.x-k8s.io/v1alpha2", "JobSet", "train"),
            ("batch/v1", "Job", "prep"),
        ];
        for (version, kind, name) in kinds {
            let api = self.api(version, kind).await?;
            api.patch(name, &PatchParams::default(), &patch).await?;
        }
        Ok(())
    }

    async fn neither_starts(&self) -> Result<()> {
        self.wait_for("all pods", async || {
            let pods = self.pods().await?.len();
            ensure!(pods == PODS, "there are {pods}");
            Ok(())
        })
        .await?;
        let end = Instant::now() + CHANCE;
        while Instant::now() < end {
            let bound = self.bound().await?;
            ensure!(bound.is_empty(), "{bound:?} are bound, and not all fit");
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        Ok(())
    }

    async fn both_start(&self) -> Result<()> {
        crate::health::wait_for("every pod to be bound", PATIENCE, async || {
            let bound = self.bound().await?.len();
            ensure!(bound == PODS, "{bound} are");
            Ok(())
        })
        .await
    }
}
