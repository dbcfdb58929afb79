//! What rolls replicas, and what does not.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube::ResourceExt as _;
use serde_json::json;

use super::lws;
use crate::sandbox::Sandbox;

/// A replica more than the spec says is made first, and is a gang too, or the rollout would stick.
pub async fn a_rollout_with_a_surge_gangs_every_revision(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 4).await?;
    let rollout = "replicas: 2\n  rolloutStrategy: {type: RollingUpdate, \
                   rollingUpdateConfiguration: {maxSurge: 1, maxUnavailable: 0}}";
    sandbox.apply(&lws("", rollout, 2)).await?;
    let before = sandbox.replicas_run(2, 2).await?;
    new_image(&sandbox).await?;
    // The surge has no room yet, so that it stays long enough to be seen.
    sandbox
        .wait_for("a surge", async || {
            let surge = sandbox.replica("2").await?.len();
            ensure!(surge == 2, "it has {surge} pods");
            Ok(())
        })
        .await?;
    ensure!(sandbox.bound().await?.len() == 4, "the surge has no room");
    sandbox.nodes(1, 2).await?;
    let after = sandbox
        .wait_for("the new revision alone", async || {
            let names = sandbox.replicas_run(2, 2).await?;
            ensure!(names.is_disjoint(&before), "still {before:?}");
            Ok(names)
        })
        .await?;
    ensure!(after.len() == 2);
    Ok(())
}

/// Replicas below the partition keep their revision, also when they are recreated.
pub async fn under_a_partition_two_revisions_live_side_by_side(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 6).await?;
    let rollout = "replicas: 2\n  rolloutStrategy: {type: RollingUpdate, \
                   rollingUpdateConfiguration: {partition: 1}}";
    sandbox.apply(&lws("", rollout, 2)).await?;
    let before = sandbox.replicas_run(2, 2).await?;
    new_image(&sandbox).await?;
    let (old, new) = sandbox
        .wait_for("one replica of the new revision", async || {
            let names = sandbox.replicas_run(2, 2).await?;
            let kept = names.intersection(&before).count();
            ensure!(kept == 1, "{before:?} became {names:?}");
            Ok((
                revision(&sandbox, "0").await?,
                revision(&sandbox, "1").await?,
            ))
        })
        .await?;
    ensure!(old != new, "both are {old}");
    sandbox.delete_pod("serve-0").await?;
    sandbox
        .wait_for("the old replica to be recreated", async || {
            let names = sandbox.replicas_run(2, 2).await?;
            ensure!(names.is_disjoint(&before), "{before:?} became {names:?}");
            Ok(())
        })
        .await?;
    let again = revision(&sandbox, "0").await?;
    ensure!(again == old, "{old} became {again}");
    Ok(())
}

/// The revision in the labels of the PodGroup of a replica.
async fn revision(sandbox: &Sandbox, index: &str) -> Result<String> {
    let groups = sandbox.made("PodGroup").await?;
    let is = |label: &str| {
        groups.iter().find(|g| {
            g.labels()
                .get("muster.dev/index")
                .is_some_and(|i| i == label)
        })
    };
    let group = is(index).context("no such PodGroup")?;
    let revision = group.labels().get("muster.dev/revision");
    revision.cloned().context("no revision")
}

/// The same manifest again, a replace that drops what Muster wrote, a scale: none is a rollout.
pub async fn an_update_that_changes_no_template_rolls_nothing(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 4).await?;
    let text = lws("", "replicas: 2", 2);
    let output = sandbox.kubectl(&["apply", "-f", "-"], &text).await?;
    ensure!(output.status.success());
    let before = sandbox.replicas_run(2, 2).await?;
    for command in ["apply", "replace"] {
        let timed = text.replace("ReplicatedGang", "ReplicatedGang, muster.dev/timeout: 5m");
        let output = sandbox.kubectl(&[command, "-f", "-"], &timed).await?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "{command}: {said}");
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    let after = sandbox.replicas_run(2, 2).await?;
    ensure!(before == after, "{before:?} became {after:?}");
    let refused = text.replace("ReplicatedGang", "'Off'");
    let output = sandbox.kubectl(&["apply", "-f", "-"], &refused).await?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        said.contains("change leaderWorkerTemplate in the same update"),
        "{said}"
    );
    Ok(())
}

/// Another template, and so another revision.
async fn new_image(sandbox: &Sandbox) -> Result<()> {
    let image =
        json!([{"name": "worker", "image": "vllm:2", "resources": {"requests": {"cpu": "1"}}}]);
    sandbox
        .patch_lws(json!({"spec": {"leaderWorkerTemplate": {"workerTemplate": {"spec": {"containers": image}}}}}))
        .await
}
