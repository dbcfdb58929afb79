//! Who owns the gang of pods, and how it goes with them.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use kube::ResourceExt as _;

use super::super::lws::{is_bound, pod_group};
use super::{deployment, ring};
use crate::sandbox::Sandbox;

/// The scheduler decides within a second; in this time it had several chances.
const CHANCE: Duration = Duration::from_secs(4);

pub async fn the_gang_of_a_deployment_belongs_to_the_deployment(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 2).await?;
    let stored = sandbox.apply(&deployment(3, 3)).await?;
    let uid = stored[0].uid().context("it has no uid")?;
    sandbox.none_bound(3).await?;
    let owners = sandbox.owners_of_gang().await?;
    let found: Vec<(&str, &str)> = owners
        .iter()
        .map(|owner| (owner.kind.as_str(), owner.uid.as_str()))
        .collect();
    assert_eq!(found, [("Deployment", uid.as_str())]);
    sandbox.told_of("Deployment", "GangCreated").await?;
    let waits = sandbox.told_of("Deployment", "GangWaiting").await?;
    ensure!(waits.contains("0 of 3 pods placed, 3 needed"), "{waits}");
    sandbox.nodes(1, 1).await?;
    sandbox.all_bound(3).await?;
    sandbox.told_of("Deployment", "GangScheduled").await?;
    for pod in sandbox.pods().await? {
        ensure!(pod.finalizers().is_empty(), "{:?}", pod.finalizers());
    }
    let deployments = sandbox.api("apps/v1", "Deployment").await?;
    deployments.delete("serve", &Default::default()).await?;
    sandbox.gangs(0).await?;
    Ok(())
}

pub async fn a_deployment_that_grows_keeps_its_quorum_and_one_that_shrinks_goes_on(
    sandbox: Sandbox,
) -> Result<()> {
    sandbox.nodes(1, 5).await?;
    sandbox.apply(&deployment(3, 3)).await?;
    sandbox.all_bound(3).await?;
    let version = async || {
        let groups = sandbox.made("PodGroup").await?;
        ensure!(groups.len() == 1, "there are {}", groups.len());
        anyhow::Ok((groups[0].name_any(), groups[0].metadata.generation))
    };
    let before = version().await?;
    sandbox.scale_serve(5).await?;
    sandbox.all_bound(5).await?;
    sandbox.quorum(3).await?;
    // With a quorum, one that is lost is replaced and placed by itself.
    let lost = sandbox.pods().await?[0].name_any();
    sandbox.delete_ring(&[&lost]).await?;
    sandbox.serve_runs(5, 5).await?;
    sandbox.quorum(3).await?;
    assert_eq!(version().await?, before, "nothing was written");
    // What has started goes on with fewer than started together.
    sandbox.scale_serve(2).await?;
    sandbox.serve_runs(2, 2).await?;
    sandbox.quorum(2).await?;
    let lost = sandbox.pods().await?[0].name_any();
    sandbox.delete_ring(&[&lost]).await?;
    sandbox.serve_runs(2, 2).await?;
    sandbox.scale_serve(3).await?;
    sandbox.serve_runs(3, 3).await?;
    sandbox.quorum(3).await?;
    Ok(())
}

pub async fn a_gang_outlives_the_pods_that_own_it_and_goes_with_the_last(
    sandbox: Sandbox,
) -> Result<()> {
    sandbox.nodes(1, 4).await?;
    // The gang comes with the first pod, which therefore is its only owner.
    sandbox.apply(&ring(&["a"], 5)).await?;
    sandbox.gangs(1).await?;
    sandbox.apply(&ring(&["b", "c", "d", "e"], 5)).await?;
    let owners = sandbox.owners_of_gang().await?;
    let names: Vec<&str> = owners.iter().map(|owner| owner.name.as_str()).collect();
    assert_eq!(names, ["a"]);
    let group = sandbox.names("PodGroup").await?;
    sandbox.delete_ring(&["a"]).await?;
    sandbox
        .wait_for("others to own the gang", async || {
            let owners = sandbox.owners_of_gang().await?;
            let old = owners.iter().any(|owner| owner.name == "a");
            ensure!(!old && !owners.is_empty(), "{owners:?}");
            Ok(())
        })
        .await?;
    assert_eq!(sandbox.names("PodGroup").await?, group);
    // Complete again, and one CPU short.
    sandbox.apply(&ring(&["f"], 5)).await?;
    sandbox.stay_waiting(5).await?;
    sandbox.nodes(1, 1).await?;
    sandbox.all_bound(5).await?;
    for pod in sandbox.pods().await? {
        assert_eq!(pod_group(&pod).as_ref(), group.first());
        ensure!(pod.finalizers().is_empty(), "{:?}", pod.finalizers());
    }
    sandbox.delete_ring(&["b", "c", "d", "e"]).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(sandbox.names("PodGroup").await?, group, "f is still there");
    sandbox.delete_ring(&["f"]).await?;
    sandbox.gangs(0).await?;
    Ok(())
}

pub async fn a_pod_that_is_being_deleted_is_no_member(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 4).await?;
    sandbox.apply(&ring(&["a", "b"], 3)).await?;
    let dying = sandbox.pods().await?;
    let dying = dying.iter().find(|pod| pod.name_any() == "a");
    let dying = dying.context("no pod a")?;
    sandbox.hold(dying).await?;
    sandbox.delete_ring(&["a"]).await?;
    // With it there would be three.
    sandbox.apply(&ring(&["c"], 3)).await?;
    sandbox.stay_waiting(3).await?;
    let waits = sandbox.told_of("Pod", "GangWaiting").await?;
    ensure!(waits.contains("0 of 3 pods placed, 3 needed"), "{waits}");
    // The third that counts.
    sandbox.apply(&ring(&["d"], 3)).await?;
    let bound = sandbox.all_bound(3).await?;
    ensure!(!bound.contains_key("a"), "{bound:?}");
    sandbox.let_go(dying).await
}

impl Sandbox {
    /// Sees none of so many pods bound for a while.
    async fn stay_waiting(&self, count: usize) -> Result<()> {
        let end = Instant::now() + CHANCE;
        while Instant::now() < end {
            let pods = self.pods().await?;
            assert_eq!(pods.len(), count);
            let bound = pods.iter().filter(|pod| is_bound(pod)).count();
            ensure!(bound == 0, "{bound} are bound");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    /// Waits until there are so many pods, and so many of them run.
    async fn serve_runs(&self, running: usize, pods: usize) -> Result<()> {
        self.wait_for(&format!("{running} of {pods} pods to run"), async || {
            let mut live = self.pods().await?;
            live.retain(|pod| pod.metadata.deletion_timestamp.is_none());
            let bound = live.iter().filter(|pod| is_bound(pod)).count();
            ensure!(
                bound == running && live.len() == pods,
                "{bound} of {} run",
                live.len()
            );
            Ok(())
        })
        .await
    }
}
