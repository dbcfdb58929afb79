//! The cells of pods that declare their gang themselves: bare, of a StatefulSet, and of a Deployment
//! whose revisions are one gang or one each. Each never has quite enough room at first, and begins
//! another life while pods of the last one are still dying.

use std::time::Instant;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::super::lws::is_bound;
use super::{Column, Row, table};
use crate::sandbox::Sandbox;

pub const PODS: usize = 6;

/// The metadata and the spec of each pod.
fn pod(column: Column, row: Row, indent: &str) -> String {
    let scheduler = format!("muster.dev/scheduler: {}", column.scheduler());
    let declared = match row {
        Row::Dialect => [
            "gang.scheduling.koordinator.sh/name: train",
            "gang.scheduling.koordinator.sh/min-available: '6'",
            "gang.scheduling.koordinator.sh/waiting-time: 1h",
        ],
        _ => [
            "muster.dev/gang-name: train",
            "muster.dev/min-count: '6'",
            &scheduler,
        ],
    };
    let lines = [
        "metadata:",
        "  labels: {app: train}",
        &format!("  annotations: {{{}}}", declared.join(", ")),
        "spec:",
        "  containers: [{name: main, image: train, resources: {requests: {cpu: '1'}}}]",
    ];
    lines.map(|line| format!("{indent}{line}\n")).concat()
}

/// Six bare pods of a life.
fn bare(column: Column, row: Row, life: &str) -> String {
    let one = |number| {
        let name = format!("  name: train-{life}-{number}\n");
        let pod = pod(column, row, "").replacen("metadata:\n", &format!("metadata:\n{name}"), 1);
        format!("---\napiVersion: v1\nkind: Pod\n{pod}")
    };
    (0..PODS).map(one).collect()
}

fn controller(column: Column, row: Row, kind: &str, spec: &str) -> String {
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
        pod(column, row, "    ")
    )
}

fn declaration(column: Column, row: Row) -> String {
    match row {
        Row::StatefulSet => {
            let spec = "serviceName: train\n  podManagementPolicy: Parallel";
            controller(column, row, "StatefulSet", spec)
        }
        Row::Deployment => {
            let spec = "strategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}";
            controller(column, row, "Deployment", spec)
        }
        Row::Revisions => controller(column, row, "Deployment", "strategy: {type: Recreate}"),
        _ => bare(column, row, "a"),
    }
}

pub async fn run(sandbox: Sandbox, column: Column, row: Row) -> Result<()> {
    if row == Row::Dialect {
        sandbox.choose(column).await?;
    }
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
        _ if column.speaks(row) => next_life_of_its_own(&sandbox, column, &old, &late).await?,
        _ => next_life(&sandbox, column, row, &old, &late).await?,
    }

    // (d)
    match row {
        Row::StatefulSet => sandbox.delete_train("statefulset").await?,
        Row::Deployment | Row::Revisions => sandbox.delete_train("deployment").await?,
        _ => sandbox.delete_live().await?,
    }
    sandbox.left_nothing().await?;
    let mark = if column.speaks(row) { " \\*" } else { "" };
    table::note(column, row, format!("{seconds:.1} s{mark}"))
}

/// As the scheduler has it without Muster: while old pods are dying the new ones start in part. Once
/// the old are gone they are a gang again.
async fn next_life_of_its_own(
    sandbox: &Sandbox,
    column: Column,
    old: &[Pod],
    late: &str,
) -> Result<()> {
    let held = &old[..PODS / 2];
    for pod in held {
        sandbox.hold(pod).await?;
    }
    sandbox.delete_live().await?;
    sandbox.all_go().await?;
    sandbox.apply(&bare(column, Row::Dialect, "b")).await?;
    sandbox
        .wait_for("a part of the new pods to start", async || {
            let bound = sandbox.live_pods().await?;
            let bound = bound.iter().filter(|pod| is_bound(pod)).count();
            ensure!(bound == PODS - held.len(), "{bound} are bound");
            Ok(())
        })
        .await?;
    sandbox.delete_live().await?;
    for pod in held {
        sandbox.let_go(pod).await?;
    }
    sandbox
        .wait_for("all pods to be gone", async || {
            let left = sandbox.pods().await?.len();
            ensure!(left == 0, "{left} are left");
            Ok(())
        })
        .await?;
    sandbox.cordon(late).await?;
    sandbox.apply(&bare(column, Row::Dialect, "c")).await?;
    sandbox.pods_wait(PODS).await?;
    sandbox.uncordon(late).await?;
    sandbox.pods_run(PODS).await?;
    Ok(())
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
            sandbox.delete_live().await?;
            sandbox.all_go().await?;
            sandbox.apply(&bare(column, row, "b")).await?;
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
    /// Labels the namespace with the scheduler, and waits until Muster knows.
    async fn choose(&self, column: Column) -> Result<()> {
        let namespaces = self.api("v1", "Namespace").await?;
        let labels = json!({"muster.dev/scheduler": column.scheduler()});
        let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
        let params = PatchParams::default();
        namespaces.patch(&self.namespace, &params, &patch).await?;
        let probe = bare(column, Row::Dialect, "probe");
        let args = ["create", "--dry-run=server", "--filename=-"];
        self.wait_for("the namespace's scheduler", async || {
            let tried = self.kubectl(&args, &probe).await?;
            let said = String::from_utf8_lossy(&tried.stderr);
            ensure!(tried.status.success(), "{said}");
            Ok(())
        })
        .await
    }
}
