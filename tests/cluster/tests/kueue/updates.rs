//! Kueue's types know no gang fields. Where it writes a list anew, they are lost; Muster puts them back.

use std::fs;
use std::process::Command;

use anyhow::{Result, ensure};
use serde_json::json;

use super::super::explain::Scheduler;
use super::super::words::{group, jobset};
use super::gang::{Kind, queued, stamps};
use crate::manifests::parse;
use crate::sandbox::Sandbox;

/// A JobSet whose fields say what its gangs are.
fn by_fields() -> String {
    let workers = group("workers", 1, 3, "    gangConfig: {gangMode: Gang}");
    let timeout =
        "groupSchedulingConfig: {timeoutAfterSeconds: 600, targetReplicatedJobs: [workers]}";
    queued(
        &jobset("muster.dev/scheduler: native", timeout, &[workers]),
        "",
    )
}

pub async fn gang_fields_that_kueue_drops_are_put_back(sandbox: Sandbox) -> Result<()> {
    extend(&sandbox).await?;
    sandbox.kueue(2).await?;
    sandbox.pool(3).await?;
    sandbox.apply(&by_fields()).await?;
    let before = sandbox.stored(Kind::JobSet).await?;
    let written = stamps(&before);
    for field in [
        "/spec/groupSchedulingConfig",
        "/spec/replicatedJobs/0/gangConfig",
    ] {
        ensure!(written.contains_key(field), "{field} is not in {written:?}");
    }
    sandbox
        .suspended_by_kueue(Kind::JobSet, "insufficient quota for cpu")
        .await?;
    // Started with node selectors, stopped without them, and started again.
    sandbox.quota(3).await?;
    let first = sandbox
        .runs_as_a_gang("train", 3, Scheduler::Native)
        .await?;
    assert_eq!(stamps(&sandbox.stored(Kind::JobSet).await?), written);
    sandbox
        .patch_queue(json!({"stopPolicy": "HoldAndDrain"}))
        .await?;
    sandbox
        .suspended_by_kueue(Kind::JobSet, "evicted (ClusterQueueStopped)")
        .await?;
    sandbox.gangs(0).await?;
    assert_eq!(stamps(&sandbox.stored(Kind::JobSet).await?), written);
    sandbox.patch_queue(json!({"stopPolicy": "None"})).await?;
    let second = sandbox
        .runs_as_a_gang("train", 3, Scheduler::Native)
        .await?;
    ensure!(first != second, "it is {first} again");
    assert_eq!(stamps(&sandbox.stored(Kind::JobSet).await?), written);
    // It did drop them: it was told so.
    let log = fs::read_to_string(sandbox.cluster.log("kueue")?)?;
    let told = "spec.replicatedJobs[0].gangConfig: dropped by \
        system:serviceaccount:kueue-system:kueue-controller-manager, and put back";
    ensure!(log.contains(told), "Kueue was not told {told:?}");
    Ok(())
}

/// Adds the fields to the CRD, and waits until they are served.
async fn extend(sandbox: &Sandbox) -> Result<()> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_muster"));
    command
        .args(["crd", "extend"])
        .env("KUBECONFIG", &sandbox.cluster.plane.kubeconfig);
    let output = tokio::task::spawn_blocking(move || command.output()).await??;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{said}");
    let jobset = parse(&by_fields())?.remove(0);
    sandbox
        .wait_for("the fields to be served", async || {
            let objects = &sandbox.cluster.objects;
            let stored = objects.try_create(&jobset, &sandbox.namespace).await?;
            let mode = &stored.data["spec"]["replicatedJobs"][0]["gangConfig"]["gangMode"];
            ensure!(mode == "Gang", "they are pruned");
            Ok(())
        })
        .await
}
