//! What kubelet makes of a barrier that does not open in time.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;

use super::{INIT, late, status};
use crate::sandbox::Sandbox;

/// What kubelet says of a container that has failed; nothing while it has not.
pub(in crate::tests::node) fn said(pod: &Pod) -> Option<(i32, String)> {
    let own = status(pod, INIT)?;
    let states = [own.state.as_ref(), own.last_state.as_ref()];
    let ended = states
        .into_iter()
        .flatten()
        .find_map(|state| state.terminated.as_ref())?;
    Some((own.restart_count, ended.message.clone().unwrap_or_default()))
}

async fn times_out(sandbox: &Sandbox, policy: &str, restarts: i32) -> Result<()> {
    let barrier = "muster.dev/start-barrier: 6s";
    let jobset =
        late(sandbox, barrier, policy, &["now"], "").replace("backoffLimit: 0", "backoffLimit: 20");
    sandbox.apply(&jobset).await?;
    let said = sandbox
        .wait_for("a container to give up", async || {
            let pods = sandbox.pods().await?;
            let mut all = pods.iter().filter_map(said);
            all.find(|(count, _)| *count >= restarts)
                .context("all wait")
        })
        .await?;
    let message = said.1;
    let expected = "did not open within 6s: 3 of 4 members have started";
    ensure!(message.contains(expected), "{message}");
    ensure!(message.contains("is not placed: 0/1 nodes"), "{message}");
    let note = sandbox.told("BarrierTimedOut").await?;
    ensure!(note.contains("3 of 4 members have started"), "{note}");
    Ok(())
}

pub async fn a_pod_that_gives_up_fails_with_the_reason(sandbox: Sandbox) -> Result<()> {
    times_out(&sandbox, "Never", 0).await
}

/// Kubelet restarts it in place: the second time it does not wait six seconds again.
pub async fn a_container_that_is_restarted_fails_at_once(sandbox: Sandbox) -> Result<()> {
    // After the second restart, what kubelet remembers is the first one's run.
    times_out(&sandbox, "OnFailure", 2).await?;
    let pods = sandbox.pods().await?;
    let mut restarted = pods.iter().filter_map(|pod| {
        let own = status(pod, INIT).filter(|own| own.restart_count > 1)?;
        let states = [own.state.as_ref(), own.last_state.as_ref()];
        let ended = states
            .into_iter()
            .flatten()
            .find_map(|state| state.terminated.as_ref())?;
        let (start, end) = (ended.started_at.as_ref()?.0, ended.finished_at.as_ref()?.0);
        Some(end.as_second() - start.as_second())
    });
    let took = restarted.next().context("nobody was restarted")?;
    ensure!(took <= 4, "it waited {took} s again");
    Ok(())
}
