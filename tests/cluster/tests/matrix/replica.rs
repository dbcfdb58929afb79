//! The cells of LeaderWorkerSets: two replicas of three pods, each a gang.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::DeleteParams;

use super::super::lws::{LWS, is_bound, lws};
use super::cell::CHANCE;
use super::{Column, Row, table};
use crate::health::PATIENCE;
use crate::sandbox::Sandbox;

const SIZE: usize = 3;

pub async fn run(sandbox: Sandbox, column: Column) -> Result<()> {
    // (a) One CPU short of each replica.
    sandbox.nodes(1, 2).await?;
    let scheduler = format!(", muster.dev/scheduler: {}", column.scheduler());
    sandbox.apply(&lws(&scheduler, "replicas: 2", 3)).await?;
    sandbox.stay_unbound("0", SIZE).await?;
    sandbox.stay_unbound("1", SIZE).await?;

    // (b) Room appears.
    let start = Instant::now();
    let late = sandbox.nodes(1, 4).await?.remove(0);
    sandbox.run_all("0", SIZE).await?;
    sandbox.run_all("1", SIZE).await?;
    let seconds = start.elapsed().as_secs_f64();

    // (c) A leader is deleted while its workers are long in dying. There is room for the new
    // leader: only the old workers could make a quorum of it. Then the late node is closed, and
    // the new replica is one CPU short again.
    let old = sandbox.replica("1").await?;
    let workers = || old.iter().filter(|pod| pod.name_any() != "serve-1");
    for pod in workers() {
        sandbox.hold(pod).await?;
    }
    if column == Column::Yunikorn {
        // It would hold the late node's room with a placeholder before it is closed.
        sandbox.cordon(&late).await?;
    }
    sandbox.delete_pod("serve-1").await?;
    // The old workers are marked one after the other.
    sandbox
        .wait_for("the new leader alone", async || {
            let new = sandbox.replica("1").await?;
            let is_old = |pod: &Pod| old.iter().any(|other| other.uid() == pod.uid());
            ensure!(new.len() == 1 && !is_old(&new[0]), "{} pods", new.len());
            Ok(())
        })
        .await?;
    sandbox.stay_unbound("1", 1).await?;
    sandbox.cordon(&late).await?;
    for pod in workers() {
        sandbox.let_go(pod).await?;
    }
    sandbox.stay_unbound("1", SIZE).await?;
    sandbox.uncordon(&late).await?;
    sandbox.run_all("1", SIZE).await?;

    // (d)
    end(&sandbox).await?;
    table::note(column, Row::LeaderWorkerSet, format!("{seconds:.1} s"))
}

/// The leader first, alone; its workers together.
pub async fn run_in_order(sandbox: Sandbox, column: Column) -> Result<()> {
    let scheduler = format!(", muster.dev/scheduler: {}", column.scheduler());
    let spec = "startupPolicy: LeaderReady";
    // Volcano and coscheduling count the room of the whole cluster, and here there is enough.
    sandbox.nodes_elsewhere(8).await?;
    sandbox.nodes(1, 2).await?;
    sandbox.apply(&lws(&scheduler, spec, 3)).await?;
    if column == Column::Yunikorn {
        // Its placeholders hold the room of the workers too.
        sandbox.stay_unbound("0", 1).await?;
    } else {
        sandbox.run_all("0", 1).await?;
        // (a) Both workers, and room for one.
        let end = Instant::now() + CHANCE;
        sandbox.exist("0", SIZE).await?;
        while Instant::now() < end {
            let bound = sandbox.replica("0").await?;
            let bound = bound.iter().filter(|pod| is_bound(pod)).count();
            ensure!(
                bound == 1,
                "{bound} pods are bound, and not all workers fit"
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    // (b)
    let start = Instant::now();
    sandbox.nodes(1, 1).await?;
    sandbox.run_all("0", SIZE).await?;
    let seconds = start.elapsed().as_secs_f64();
    // (d)
    end(&sandbox).await?;
    table::note(column, Row::LeaderReady, format!("{seconds:.1} s"))
}

async fn end(sandbox: &Sandbox) -> Result<()> {
    let sets = sandbox.api(LWS.0, LWS.1).await?;
    sets.delete("serve", &DeleteParams::background()).await?;
    sandbox.left_nothing().await
}

impl Sandbox {
    async fn exist(&self, group: &str, pods: usize) -> Result<()> {
        let what = format!("{pods} pods of replica {group}");
        crate::health::wait_for(&what, PATIENCE, async || {
            let found = self.replica(group).await?.len();
            ensure!(found == pods, "there are {found}");
            Ok(())
        })
        .await
    }

    /// Waits until a replica has its pods, and then sees none of them bound for a while.
    async fn stay_unbound(&self, group: &str, pods: usize) -> Result<()> {
        self.exist(group, pods).await?;
        let end = Instant::now() + CHANCE;
        while Instant::now() < end {
            let pods = self.replica(group).await?;
            let bound = pods.iter().filter(|pod| is_bound(pod)).count();
            ensure!(
                bound == 0,
                "{bound} of {} pods of replica {group} are bound, and not all fit",
                pods.len()
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    async fn run_all(&self, group: &str, pods: usize) -> Result<()> {
        let what = format!("replica {group} to be bound");
        crate::health::wait_for(&what, PATIENCE, async || {
            let found = self.replica(group).await?;
            let bound = found.iter().filter(|pod| is_bound(pod)).count();
            ensure!(bound >= pods, "{bound} of {} are", found.len());
            Ok(())
        })
        .await
    }
}
