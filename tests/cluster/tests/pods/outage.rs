//! Muster is stopped while the pods of a gang go.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::{deployment, ring};
use crate::muster::Muster;
use crate::ports::Port;
use crate::sandbox::Sandbox;

const ENOUGH: Duration = Duration::from_secs(10);

/// The Deployment is still there, so that the garbage collector leaves its gang alone.
pub async fn a_gang_that_ended_while_muster_was_down_leaves_nothing(
    sandbox: Sandbox,
) -> Result<()> {
    let cluster = sandbox.cluster.another("ended").await?;
    let port = Port::reserve()?;
    let number = port.number;
    let muster = Muster::install(&cluster, number).await?;
    let process = muster.start_at(&cluster.plane, "muster-0", port).await?;
    let sandbox = Sandbox::new(cluster.clone(), "ended").await?;
    let bare = Sandbox::new(cluster.clone(), "ended-bare").await?;
    sandbox.apply(&deployment(2, 2)).await?;
    bare.apply(&ring(&["a", "b"], 2)).await?;
    sandbox.gangs(1).await?;
    bare.gangs(1).await?;

    process.signal(rustix::process::Signal::KILL)?;
    process.stop(ENOUGH).await?;
    sandbox.scale_serve(0).await?;
    bare.delete_ring(&["a", "b"]).await?;
    for sandbox in [&sandbox, &bare] {
        sandbox
            .wait_for("the pods to go", async || {
                let left = sandbox.pods().await?.len();
                ensure!(left == 0, "{left} are left");
                Ok(())
            })
            .await?;
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(sandbox.names("PodGroup").await?.len(), 1);

    let _process = muster
        .start_at(&cluster.plane, "muster-0", Port::again(number)?)
        .await?;
    sandbox.gangs(0).await?;
    bare.gangs(0).await?;
    // It is a gang again when it comes back.
    sandbox.nodes(1, 1).await?;
    sandbox.scale_serve(2).await?;
    sandbox.none_bound(2).await?;
    sandbox.nodes(1, 1).await?;
    sandbox.all_bound(2).await?;
    Ok(())
}
