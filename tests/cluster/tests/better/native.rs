//! Half of the gates: kube-scheduler binds a part of a gang and says that it is scheduled.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::super::samples::gang;
use crate::release::Release;
use crate::sandbox::Sandbox;

pub async fn a_gang_that_the_scheduler_does_not_hold_together_is_told(
    sandbox: Sandbox,
) -> Result<()> {
    let cluster = sandbox
        .cluster
        .another_release(Release::V1_36HalfOn, "half-on");
    let sandbox = Sandbox::new(cluster.await?, "half-on").await?;
    sandbox.nodes(1, 3).await?;
    sandbox.apply(&gang("train", 4, "1")).await?;
    let note = sandbox.told("GangBroken").await?;
    let missing = "look whether kube-scheduler runs with the feature gates GenericWorkload and GangScheduling";
    ensure!(
        note.contains("3 pods are placed without the others"),
        "{note}"
    );
    ensure!(note.contains(missing), "{note}");
    // The condition says it too, and does not take it back.
    ensure!(sandbox.condition("GangBroken").await? == note);
    tokio::time::sleep(Duration::from_secs(3)).await;
    ensure!(sandbox.condition("GangBroken").await? == note);
    sandbox.nodes(1, 1).await?;
    sandbox.condition("GangScheduled").await?;
    Ok(())
}
