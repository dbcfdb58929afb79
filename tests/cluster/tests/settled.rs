//! Two hundred gangs that run: Muster writes nothing more, and is small.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube::ResourceExt as _;
use kube::api::ListParams;

use super::samples::{JOBSET, events, gang, made, writes};
use crate::figures::Cost;
use crate::health::wait_for;
use crate::muster::Muster;
use crate::ports::Port;
use crate::process::Process;
use crate::sandbox::Sandbox;

const JOBSETS: usize = 10;
const REPLICAS: usize = 20;
const GANGS: usize = JOBSETS * REPLICAS;
const PODS: usize = 2;
/// MiB of resident memory of a debug build, most of which is code. docs/operating.md has what the release
/// build needs: `just bench-size` prints it.
const BUDGET: u64 = 56;
/// In this time nothing may be written.
const QUIET: Duration = Duration::from_secs(60);

const PATIENCE: Duration = Duration::from_secs(90);

/// Each replica is a gang.
fn replicated(name: &str) -> String {
    gang(name, PODS as u32, "10m")
        .replace("muster.dev/gang-mode: Gang", "")
        .replace("replicas: 1", &format!("replicas: {REPLICAS}"))
        .replace(
            "    template:\n      spec:",
            "    template:\n      metadata: \
             {annotations: {muster.dev/gang-mode: ReplicatedGang}}\n      spec:",
        )
}

type State = (BTreeMap<String, Option<String>>, u64);

/// Every JobSet, and every object and event of Muster's, with its version, and the apiserver's count of writes.
async fn state(sandbox: &Sandbox) -> Result<State> {
    let mut all = made(sandbox).await?;
    all.extend(events(sandbox).await?);
    let jobsets = sandbox.api(JOBSET.0, JOBSET.1).await?;
    all.extend(jobsets.list(&ListParams::default()).await?.items);
    let version = |o: kube::api::DynamicObject| (o.name_any(), o.resource_version());
    let versions = all.into_iter().map(version).collect();
    Ok((versions, writes(&sandbox.cluster).await?))
}

fn unchanged(before: &State, after: &State) -> Result<()> {
    let writes = after.1 - before.1;
    ensure!(writes == 0, "{writes} writes to scheduler objects");
    ensure!(after.0 == before.0, "objects or events have changed");
    Ok(())
}

fn is_small(process: &Process) -> Result<u64> {
    let memory = process.memory().context("its memory is not known")?;
    ensure!(memory < BUDGET, "Muster uses {memory} MiB");
    Ok(memory)
}

pub async fn two_hundred_settled_gangs_cost_no_write(sandbox: Sandbox) -> Result<()> {
    let cluster = sandbox.cluster.another("settled").await?;
    let port = Port::reserve()?;
    let number = port.number;
    let muster = Muster::install(&cluster, number).await?;
    let process = muster.start_at(&cluster.plane, "muster-0", port).await?;
    let sandbox = Sandbox::new(cluster.clone(), "settled").await?;
    sandbox.nodes(2, 64).await?;
    for number in 0..JOBSETS {
        sandbox
            .apply(&replicated(&format!("train{number}")))
            .await?;
    }
    wait_for("all gangs to run", PATIENCE, async || {
        let bound = sandbox.bound().await?.len();
        ensure!(bound == GANGS * PODS, "{bound} pods are bound");
        Ok(())
    })
    .await?;
    let settled = wait_for("Muster to have told of all", PATIENCE, async || {
        let before = state(&sandbox).await?;
        tokio::time::sleep(Duration::from_secs(3)).await;
        ensure!(state(&sandbox).await? == before, "it still writes");
        Ok(before)
    })
    .await?;
    let objects = made(&sandbox).await?.len();
    let events = events(&sandbox).await?.len();
    assert_eq!(settled.1, objects as u64, "one write per object");
    let memory = is_small(&process)?;
    println!("{GANGS} gangs: {objects} objects, {events} events, {memory} MiB");

    tokio::time::sleep(QUIET).await;
    unchanged(&settled, &state(&sandbox).await?)?;

    ensure!(process.stop(Duration::from_secs(10)).await?.success());
    let process = muster
        .start_at(&cluster.plane, "muster-0", Port::again(number)?)
        .await?;
    wait_for("the new process to lead", PATIENCE, async || {
        let log = std::fs::read_to_string(&process.log)?;
        // The log goes on where the old process ended.
        let led = log.matches("leading: this replica").count();
        ensure!(led == 2, "{led} times");
        Ok(())
    })
    .await?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    unchanged(&settled, &state(&sandbox).await?).context("after a restart")?;
    let after = is_small(&process)?;
    cluster.figures.cost(Cost {
        gangs: GANGS,
        writes: settled.1,
        memory: memory.max(after),
    });
    Ok(())
}
