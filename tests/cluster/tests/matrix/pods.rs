//! The cells of pods that declare their gang themselves: bare, of a StatefulSet, and of a Deployment
//! whose revisions are one gang or one each. Each never has quite enough room at first, and begins
//! another life while pods of the last one are still dying.

use std::time::Instant;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;

use super::super::lws::is_bound;
use super::cell::CHANCE;
use super::{Column, Row, table};
use crate::health::PATIENCE;
use crate::sandbox::Sandbox;

const PODS: usize = 6;

/// The metadata and the spec of each pod.
fn pod(column: Column, indent: &str) -> String {
    let scheduler = column.scheduler();
    let lines = [
        "metadata:",
        "  labels: {app: train}",
        "  annotations:",
        "    muster.dev/gang-name: train",
        "    muster.dev/min-count: '6'",
        &format!("    muster.dev/scheduler: {scheduler}"),
        "spec:",
        "  containers: [{name: main, image: train, resources: {requests: {cpu: '1'}}}]",
    ];
    lines.map(|line| format!("{indent}{line}\n")).concat()
}

/// Six bare pods of a life.
fn bare(column: Column, life: &str) -> String {
    let one = |number| {
        let name = format!("  name: train-{life}-{number}\n");
        let pod = pod(column, "").replacen("metadata:\n", &format!("metadata:\n{name}"), 1);
        format!("---\napiVersion: v1\nkind: Pod\n{pod}")
    };
    (0..PODS).map(one).collect()
}

fn controller(column: Column, kind: &str, spec: &str) -> String {
    format!(
        "
apiVersion: apps/v1
kind: {kind}
metadata:
  name: train
spec:
  replicas: {PODS}
  selector: {{matchLabels: {{app: train}}}}
  {spec}
  template:
{}",
        pod(column, "    ")
    )
}

fn declaration(column: Column, row: Row) -> String {
    match row {
        Row::StatefulSet => {
            let spec = "serviceName: train\n  podManagementPolicy: Parallel";
            controller(column, "StatefulSet", spec)
        }
        Row::Deployment => {
            let spec = "strategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}";
            controller(column, "Deployment", spec)
        }
        Row::Revisions => controller(column, "Deployment", "strategy: {type: Recreate}"),
        _ => bare(column, "a"),
    }
}

pub async fn run(sandbox: Sandbox, column: Column, row: Row) -> Result<()> {
    // (a) One CPU short.
    sandbox.nodes(1, PODS as u32 - 1).await?;
    sandbox.apply(&declaration(column, row)).await?;
    sandbox.pods_wait(PODS).await?;

    // (b) Room appears.
    let start = Instant::now();
    let late = sandbox.nodes(1, 1).await?.remove(0);
    let old = sandbox.pods_run(PODS).await?;
    let seconds = start.elapsed().as_secs_f64();

    // (c) The next life.
    match row {
        Row::Deployment => sandbox.rolls_in_place().await?,
        Row::Revisions => {
            sandbox.cordon(&late).await?;
            sandbox.change_template().await?;
            sandbox.next_revision(&old).await?;
            sandbox.pods_wait(PODS).await?;
            sandbox.uncordon(&late).await?;
            sandbox.pods_run(PODS).await?;
        }
        _ => next_life(&sandbox, column, row, &old, &late).await?,
    }

    // (d)
    match row {
        Row::StatefulSet => sandbox.delete_train("statefulset").await?,
        Row::Deployment | Row::Revisions => sandbox.delete_train("deployment").await?,
        _ => {
            let api: Api<Pod> = Api::namespaced(sandbox.client(), &sandbox.namespace);
            let all = ListParams::default();
            api.delete_collection(&DeleteParams::default(), &all)
                .await?;
        }
    }
    sandbox.left_nothing().await?;
    table::note(column, row, format!("{seconds:.1} s"))
}

/// All pods go and come again while half of the old ones are still dying. There is room for the other
/// half: only the old could make a quorum of them. Then the late node is closed, and all new ones are
/// one CPU short again.
async fn next_life(
    sandbox: &Sandbox,
    column: Column,
    row: Row,
    old: &[Pod],
    late: &str,
) -> Result<()> {
    let mut old = old.to_vec();
    // A StatefulSet makes a pod of the same name only when the old one is gone.
    old.sort_by_key(Pod::name_any);
    let held = &old[PODS / 2..];
    for pod in held {
        sandbox.hold(pod).await?;
    }
    if column == Column::Yunikorn {
        // It would hold the late node's room with a placeholder before it is closed.
        sandbox.cordon(late).await?;
    }
    let come = match row {
        Row::StatefulSet => {
            sandbox.scale(0).await?;
            sandbox.all_go().await?;
            sandbox.scale(PODS).await?;
            PODS - held.len()
        }
        _ => {
            let api: Api<Pod> = Api::namespaced(sandbox.client(), &sandbox.namespace);
            for pod in &old {
                let params = DeleteParams::default();
                api.delete(&pod.name_any(), &params).await?;
            }
            sandbox.all_go().await?;
            sandbox.apply(&bare(column, "b")).await?;
            PODS
        }
    };
    sandbox.pods_wait(come).await?;
    sandbox.cordon(late).await?;
    for pod in held {
        sandbox.let_go(pod).await?;
    }
    sandbox.pods_wait(PODS).await?;
    sandbox.one_gang_is_left().await?;
    sandbox.uncordon(late).await?;
    sandbox.pods_run(PODS).await?;
    Ok(())
}

impl Sandbox {
    /// The pods of the gang that are not being deleted.
    async fn live_pods(&self) -> Result<Vec<Pod>> {
        let api: Api<Pod> = Api::namespaced(self.client(), &self.namespace);
        // YuniKorn's placeholders have labels of their own.
        let mut pods = api
            .list(&ListParams::default().labels("app=train"))
            .await?
            .items;
        pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
        pods.retain(|pod| {
            !pod.annotations()
                .contains_key("yunikorn.apache.org/placeholder")
        });
        Ok(pods)
    }

    async fn all_go(&self) -> Result<()> {
        self.wait_for("all pods to go", async || {
            let left = self.live_pods().await?.len();
            ensure!(left == 0, "{left} are left");
            Ok(())
        })
        .await
    }

    /// Waits until so many pods exist, and then sees none of them bound for a while.
    async fn pods_wait(&self, count: usize) -> Result<()> {
        self.wait_for("the pods", async || {
            let pods = self.live_pods().await?.len();
            ensure!(pods == count, "there are {pods}");
            Ok(())
        })
        .await?;
        let end = Instant::now() + CHANCE;
        while Instant::now() < end {
            let pods = self.live_pods().await?;
            let bound = pods.iter().filter(|pod| is_bound(pod)).map(Pod::name_any);
            let bound: Vec<String> = bound.collect();
            ensure!(bound.is_empty(), "{bound:?} are bound, and not all fit");
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        Ok(())
    }

    async fn pods_run(&self, count: usize) -> Result<Vec<Pod>> {
        crate::health::wait_for("every pod to be bound", PATIENCE, async || {
            let pods = self.live_pods().await?;
            let bound = pods.iter().filter(|pod| is_bound(pod)).count();
            ensure!(
                bound == count && pods.len() == count,
                "{bound} of {} are",
                pods.len()
            );
            Ok(pods)
        })
        .await
    }

    async fn scale(&self, replicas: usize) -> Result<()> {
        let replicas = format!("--replicas={replicas}");
        let scaled = self
            .kubectl(&["scale", "statefulset", "train", &replicas], "")
            .await?;
        let said = String::from_utf8_lossy(&scaled.stderr);
        ensure!(scaled.status.success(), "{said}");
        Ok(())
    }

    async fn delete_train(&self, kind: &str) -> Result<()> {
        let deleted = self
            .kubectl(&["delete", kind, "train", "--wait"], "")
            .await?;
        ensure!(deleted.status.success());
        Ok(())
    }

    async fn change_template(&self) -> Result<()> {
        let api = self.api("apps/v1", "Deployment").await?;
        let patch = json!({"spec": {"template": {"metadata": {"labels": {"version": "2"}}}}});
        api.patch("train", &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        Ok(())
    }

    /// Waits until none of the old pods is left among those that count.
    async fn next_revision(&self, old: &[Pod]) -> Result<()> {
        self.wait_for("the next revision", async || {
            let pods = self.live_pods().await?;
            let (new, before) = pods
                .iter()
                .partition::<Vec<&Pod>, _>(|pod| pod.labels().contains_key("version"));
            ensure!(
                before.is_empty(),
                "{} of {} are left",
                before.len(),
                old.len()
            );
            ensure!(new.len() == PODS, "there are {}", new.len());
            Ok(())
        })
        .await
    }

    /// A rollout pod by pod, with room for one more: old and new ones make the quorum together.
    async fn rolls_in_place(&self) -> Result<()> {
        self.nodes(1, 1).await?;
        self.change_template().await?;
        crate::health::wait_for("the rollout", PATIENCE, async || {
            let pods = self.live_pods().await?;
            let new = pods
                .iter()
                .filter(|pod| pod.labels().contains_key("version") && is_bound(pod));
            let new = new.count();
            ensure!(new == PODS && pods.len() == PODS, "{new} of {}", pods.len());
            Ok(())
        })
        .await?;
        self.one_gang_is_left().await
    }
}
