//! Two gangs that each fit alone, but not together: one runs, the other holds nothing.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use kube::ResourceExt as _;
use kube::api::{DeleteParams, ListParams};

use super::samples::{JOBSET, gang};
use crate::sandbox::Sandbox;

const REPETITIONS: usize = 50;
/// Pairs that run side by side, each in a namespace of its own.
const LANES: usize = 5;
/// One-CPU pods: two gangs of them do not fit on the four CPUs.
const PODS: usize = 3;

pub async fn of_two_gangs_one_runs_and_the_other_holds_nothing(sandbox: Sandbox) -> Result<()> {
    let lanes = (0..LANES).map(async |lane| {
        let name = format!("{}-lane-{lane}", sandbox.namespace);
        let lane = Sandbox::new(sandbox.cluster.clone(), &name).await?;
        // Two CPUs each: no gang fits on one node.
        lane.nodes(2, 2).await?;
        for number in 0..REPETITIONS / LANES {
            let outcome = compete(&lane, number).await;
            outcome.with_context(|| format!("{name}, repetition {number}"))?;
        }
        lane.clear().await
    });
    futures::future::try_join_all(lanes).await?;
    Ok(())
}

async fn compete(sandbox: &Sandbox, number: usize) -> Result<()> {
    let names = [format!("a{number}"), format!("b{number}")];
    let texts = names.each_ref().map(|name| gang(name, PODS as u32, "1"));
    // Created at once; who is first changes from one repetition to the next.
    let (first, second) = (number % 2, (number + 1) % 2);
    tokio::try_join!(sandbox.apply(&texts[first]), sandbox.apply(&texts[second]))?;
    sandbox
        .wait_for("all pods of both", async || {
            let pods = sandbox.pods().await?.len();
            ensure!(pods == 2 * PODS, "there are {pods}");
            Ok(())
        })
        .await?;
    let winner = sandbox
        .wait_for("one of them to run", async || running(sandbox).await)
        .await?;
    let loser = names.iter().find(|name| **name != winner).unwrap();
    // The scheduler has spoken about the loser too, and holds nothing for it.
    sandbox
        .wait_for("the verdict on the other", async || {
            let pods = sandbox.pods().await?;
            let waits = pods.iter().filter(|pod| {
                let status = pod.status.as_ref();
                let conditions = status.and_then(|status| status.conditions.as_ref());
                let mut conditions = conditions.into_iter().flatten();
                conditions.any(|c| c.type_ == "PodScheduled" && c.status == "False")
            });
            let waits = waits.count();
            ensure!(waits == PODS, "{waits} of {} pods wait", pods.len());
            Ok(())
        })
        .await?;
    ensure!(running(sandbox).await? == winner, "the winner has changed");

    remove(sandbox, &winner).await?;
    let next = sandbox
        .wait_for("the other to run after it", async || {
            let next = running(sandbox).await?;
            ensure!(next != winner, "{next} is still there");
            Ok(next)
        })
        .await?;
    ensure!(next == *loser, "{next} runs");
    remove(sandbox, loser).await?;
    sandbox
        .wait_for("the pods to go", async || {
            let pods = sandbox.pods().await?.len();
            ensure!(pods == 0, "{pods} are there");
            Ok(())
        })
        .await
}

/// The JobSet whose pods, all of them, are the only ones that have a node.
async fn running(sandbox: &Sandbox) -> Result<String> {
    let bound = sandbox.bound().await?;
    let owner = |pod: &String| pod.split('-').next().unwrap_or_default().to_owned();
    let owners: BTreeSet<String> = bound.keys().map(owner).collect();
    ensure!(owners.len() <= 1, "pods of both gangs are bound: {bound:?}");
    ensure!(bound.len() == PODS, "{} pods are bound", bound.len());
    owners.into_iter().next().context("nothing is bound")
}

async fn remove(sandbox: &Sandbox, name: &str) -> Result<()> {
    let jobsets = sandbox.api(JOBSET.0, JOBSET.1).await?;
    jobsets.delete(name, &DeleteParams::foreground()).await?;
    let left = jobsets.list(&ListParams::default()).await?;
    ensure!(left.iter().all(|jobset| {
        jobset.name_any() != name || jobset.metadata.deletion_timestamp.is_some()
    }));
    Ok(())
}
