//! Muster's own rollout, through the real Service: the lame duck serves while the Service forgets it.

use std::time::Duration;

use anyhow::{Result, ensure};

use crate::health::{PATIENCE, wait_for};
use crate::node::start::two_ready;
use crate::sandbox::Sandbox;
use crate::stream::Stream;

pub async fn a_rollout_of_muster_fails_no_creation(sandbox: Sandbox) -> Result<()> {
    let old = sandbox.replicas().await?;
    let stream = Stream::start(&sandbox).await?;
    let restart = "rollout restart deployment/muster --namespace=muster-system";
    let restart: Vec<&str> = restart.split_whitespace().collect();
    sandbox.operate(&restart).await?;
    two_ready(&sandbox.cluster.objects).await?;
    // The old ones go on for the seconds of their lame duck.
    wait_for("the old replicas to be gone", PATIENCE, async || {
        let now = sandbox.replicas().await?;
        ensure!(now.is_disjoint(&old), "there are {now:?}");
        Ok(())
    })
    .await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    stream.stop("a rollout of Muster").await?;
    Ok(())
}
