//! Pods of different sizes that declare one gang, as a RayCluster's are: what the gang asks for is known
//! only once all of them are there, and until then all are taken to be like the first.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube::api::ListParams;

use super::super::matrix::CHANCE;
use crate::sandbox::Sandbox;

const SCHEDULERS: [&str; 4] = ["volcano", "coscheduling", "koordinator", "kai"];

/// Together six CPUs.
const GROWING: [u32; 4] = [1, 1, 1, 3];
const SHRINKING: [u32; 4] = [3, 1, 1, 1];

fn pod(scheduler: &str, number: usize, cpu: u32) -> String {
    format!(
        "
---
apiVersion: v1
kind: Pod
metadata:
  name: ring-{number}
  annotations:
    muster.dev/gang-name: ring
    muster.dev/min-count: '4'
    muster.dev/scheduler: {scheduler}
spec:
  containers: [{{name: main, image: ring, resources: {{requests: {{cpu: '{cpu}'}}}}}}]
"
    )
}

pub async fn pods_of_different_sizes_start_together(sandbox: Sandbox) -> Result<()> {
    let orders = [GROWING, SHRINKING];
    let all = SCHEDULERS
        .into_iter()
        .flat_map(|scheduler| orders.map(|sizes| (scheduler, sizes)));
    let lanes = all.enumerate().map(async |(number, (scheduler, sizes))| {
        let lane = lane(&sandbox, number).await?;
        let started = start_together(&lane, scheduler, sizes).await;
        started.with_context(|| format!("{sizes:?} on {scheduler}, in {}", lane.namespace))?;
        lane.clear().await
    });
    futures::future::try_join_all(lanes).await?;
    Ok(())
}

/// A namespace of its own, for one of several gangs side by side.
async fn lane(sandbox: &Sandbox, number: usize) -> Result<Sandbox> {
    let name = format!("{}-{number}", sandbox.namespace);
    Sandbox::new(sandbox.cluster.clone(), &name).await
}

async fn start_together(sandbox: &Sandbox, scheduler: &str, sizes: [u32; 4]) -> Result<()> {
    sandbox.nodes(1, 5).await?;
    for (number, cpu) in sizes.into_iter().enumerate() {
        sandbox.apply(&pod(scheduler, number, cpu)).await?;
        // The gang's object is made for those that are there.
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    tokio::time::sleep(CHANCE).await;
    let bound = sandbox.bound().await?;
    ensure!(bound.is_empty(), "{bound:?} are bound, and not all fit");
    // The others' objects do not say it.
    if scheduler == "volcano" {
        let api = sandbox
            .api("scheduling.volcano.sh/v1beta1", "PodGroup")
            .await?;
        let group = api.list(&ListParams::default()).await?.items.remove(0);
        let cpu = &group.data["spec"]["minResources"]["cpu"];
        ensure!(cpu == "6", "the gang asks for {cpu} CPUs");
    }
    // Whatever the order, the large one has room.
    sandbox.nodes(1, 3).await?;
    sandbox.all_bound(4).await?;
    Ok(())
}

/// One pod describes the others there.
pub async fn pods_of_different_sizes_are_refused_on_yunikorn(sandbox: Sandbox) -> Result<()> {
    sandbox.apply(&pod("yunikorn", 0, 1)).await?;
    sandbox.apply(&pod("yunikorn", 1, 1)).await?;
    let large = pod("yunikorn", 2, 3);
    let applied = sandbox.kubectl(&["apply", "--filename=-"], &large).await?;
    let said = String::from_utf8_lossy(&applied.stderr);
    ensure!(applied.status.code() == Some(1), "it was admitted: {said}");
    ensure!(said.contains("all pods of a gang say the same"), "{said}");
    Ok(())
}

/// As an autoscaler takes pods away and brings others: nobody makes those that are gone again.
pub async fn what_is_left_of_a_gang_grows_pod_by_pod(sandbox: Sandbox) -> Result<()> {
    let all = SCHEDULERS.into_iter().chain(["native", "yunikorn"]);
    let lanes = all.enumerate().map(async |(number, scheduler)| {
        let lane = lane(&sandbox, number).await?;
        let grown = grow_again(&lane, scheduler).await;
        grown.with_context(|| format!("on {scheduler}, in {}", lane.namespace))?;
        lane.clear().await
    });
    futures::future::try_join_all(lanes).await?;
    Ok(())
}

async fn grow_again(sandbox: &Sandbox, scheduler: &str) -> Result<()> {
    let come = async |numbers: std::ops::Range<usize>| {
        let pods: String = numbers.map(|number| pod(scheduler, number, 1)).collect();
        sandbox.apply(&pods).await
    };
    sandbox.nodes(1, 4).await?;
    come(0..4).await?;
    sandbox.all_bound(4).await?;
    for number in 0..2 {
        sandbox.delete_pod(&format!("ring-{number}")).await?;
    }
    sandbox
        .wait_for("two to be left", async || {
            let pods = sandbox.pods().await?.len();
            ensure!(pods == 2, "there are {pods}");
            Ok(())
        })
        .await?;
    come(4..5).await?;
    sandbox.all_bound(3).await?;
    Ok(())
}
