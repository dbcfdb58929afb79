//! LeaderWorkerSets that were there before Muster, or have gangs of their own.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use kube::ResourceExt as _;
use kube::api::ListParams;
use serde_json::json;

use super::lws;
use crate::install::ALL_LEADERWORKERSETS;
use crate::muster::Muster;
use crate::ports::Port;
use crate::sandbox::Sandbox;

/// With every LeaderWorkerSet ganged by configuration, and one that was there before.
pub async fn installing_muster_rolls_no_replica(sandbox: Sandbox) -> Result<()> {
    let cluster = sandbox.cluster.another("before-muster").await?;
    let sandbox = Sandbox::new(Arc::clone(&cluster), "before").await?;
    sandbox.nodes(1, 16).await?;
    let plain = lws("", "replicas: 2", 2).replace("muster.dev/gang-mode: ReplicatedGang", "a: b");
    sandbox.apply(&plain).await?;
    sandbox.all_bound(4).await?;
    let before = uids(&sandbox).await?;

    let port = Port::reserve()?;
    let muster = Muster::install_from(ALL_LEADERWORKERSETS, &cluster, port.number).await?;
    let muster = muster.with("leaderworkersets", "all");
    let _process = muster.start_at(&cluster.plane, "muster-0", port).await?;
    sandbox
        .patch_lws(json!({"metadata": {"labels": {"team": "serving"}}, "spec": {"replicas": 3}}))
        .await?;
    sandbox.all_bound(6).await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let after = uids(&sandbox).await?;
    ensure!(after.is_superset(&before), "{before:?} became {after:?}");
    ensure!(sandbox.names("PodGroup").await?.is_empty());

    // A new one is ganged, one that says Off is not.
    sandbox.apply(&plain.replace("serve", "new")).await?;
    let off = lws("", "replicas: 1", 2).replace("ReplicatedGang", "'Off'");
    sandbox.apply(&off.replace("serve", "idle")).await?;
    sandbox.all_bound(12).await?;
    let names = sandbox.gangs(2).await?;
    ensure!(
        names.iter().all(|name| name.starts_with("new-replica-")),
        "{names:?}"
    );

    // And the old one with its next template.
    sandbox
        .patch_lws(json!({"spec": {"leaderWorkerTemplate": {"size": 3}}}))
        .await?;
    sandbox.gangs(5).await?;
    Ok(())
}

async fn uids(sandbox: &Sandbox) -> Result<BTreeSet<String>> {
    let pods = sandbox.pods().await?;
    Ok(pods.iter().filter_map(|pod| pod.uid()).collect())
}

pub async fn muster_stands_aside_where_lws_makes_the_gangs(sandbox: Sandbox) -> Result<()> {
    let cluster = sandbox.cluster.another_with_lws_gangs("lws-gangs").await?;
    let sandbox = Sandbox::new(cluster, "aside").await?;
    sandbox.nodes(1, 4).await?;
    let volcano = ", muster.dev/scheduler: volcano";
    sandbox.apply(&lws(volcano, "replicas: 2", 2)).await?;
    sandbox.all_bound(4).await?;
    let said = sandbox.told_of("LeaderWorkerSet", "GangRefused").await?;
    ensure!(said.contains("Muster leaves them alone"), "{said}");
    let groups = sandbox
        .api("scheduling.volcano.sh/v1beta1", "PodGroup")
        .await?;
    let groups = groups.list(&ListParams::default()).await?.items;
    let theirs = groups.iter().filter(|g| g.name_any().starts_with("serve-"));
    let names: Vec<String> = theirs.map(|group| group.name_any()).collect();
    ensure!(
        names.len() == 2 && !names[0].contains("replica"),
        "{names:?}"
    );
    Ok(())
}
