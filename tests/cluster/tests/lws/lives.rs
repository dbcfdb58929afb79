//! Replicas come, go, and are recreated.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use super::super::explain::world::quota;
use super::{LWS, lws};
use crate::sandbox::Sandbox;
use crate::schedulers::Kind;

pub async fn gangs_come_and_go_with_their_replicas(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 8).await?;
    sandbox.apply(&lws("", "replicas: 2", 2)).await?;
    let two = sandbox.replicas_run(2, 2).await?;
    sandbox.patch_lws(json!({"spec": {"replicas": 4}})).await?;
    let four = sandbox.replicas_run(4, 2).await?;
    ensure!(four.is_superset(&two), "{two:?} became {four:?}");
    sandbox.patch_lws(json!({"spec": {"replicas": 1}})).await?;
    let one = sandbox.replicas_run(1, 2).await?;
    ensure!(two.is_superset(&one), "{two:?} became {one:?}");
    // A condition says how they stand, beside LeaderWorkerSet's own.
    let sets = sandbox.api(LWS.0, LWS.1).await?;
    sandbox
        .wait_for("both conditions", async || {
            let status = sets.get("serve").await?.data["status"].clone();
            let conditions = status["conditions"].as_array().context("none yet")?;
            for kind in ["Available", "muster.dev/GangScheduled"] {
                let is = |c: &&Value| c["type"] == kind && c["status"] == "True";
                ensure!(conditions.iter().any(|c| is(&c)), "no {kind} in {status}");
            }
            Ok(())
        })
        .await?;
    // None is left, and it does not say that one is placed.
    sandbox.patch_lws(json!({"spec": {"replicas": 0}})).await?;
    sandbox.replicas_run(0, 2).await?;
    sandbox.condition_of((LWS, "serve"), "NoGang").await?;
    sandbox.patch_lws(json!({"spec": {"replicas": 1}})).await?;
    sandbox.replicas_run(1, 2).await?;
    sets.delete("serve", &DeleteParams::background()).await?;
    sandbox.replicas_run(0, 2).await?;
    Ok(())
}

pub async fn a_replica_that_cannot_be_made_is_missed(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 4).await?;
    sandbox.apply(&lws("", "replicas: 1", 2)).await?;
    sandbox.replicas_run(1, 2).await?;
    let serve = (LWS, "serve");
    sandbox.condition_of(serve, "GangScheduled").await?;
    let quotas = sandbox.fill_quota().await?;
    sandbox.patch_lws(json!({"spec": {"replicas": 2}})).await?;
    sandbox.condition_of(serve, "QuotaExceeded").await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    sandbox.condition_of(serve, "QuotaExceeded").await?;
    quotas.delete("full", &DeleteParams::default()).await?;
    sandbox.replicas_run(2, 2).await?;
    sandbox.condition_of(serve, "GangScheduled").await?;
    Ok(())
}

/// None of its pods exists that could tell since when its replicas are wanted.
pub async fn a_set_whose_pods_are_all_refused_says_why_and_times_out(
    sandbox: Sandbox,
) -> Result<()> {
    sandbox.nodes(1, 4).await?;
    let text = lws(", muster.dev/timeout: 6s", "replicas: 2", 2);
    let nobody = "serviceAccountName: nobody\n        containers:";
    let refused = text.replace("containers:", nobody);
    sandbox.apply(&refused).await?;
    let serve = (LWS, "serve");
    let message = sandbox.condition_of(serve, "ServiceAccountMissing").await?;
    ensure!(message.contains("\"nobody\" not found"), "{message}");
    let told = sandbox.told_of(LWS.1, "GangTimedOut").await?;
    ensure!(told.contains("waits longer than 6s"), "{told}");
    // It is still so when the StatefulSet's controller has tried a few times.
    sandbox.condition_of(serve, "ServiceAccountMissing").await?;
    let sets = sandbox.api(LWS.0, LWS.1).await?;
    sets.delete("serve", &DeleteParams::background()).await?;
    sandbox.replicas_run(0, 2).await?;
    // The same for a quota.
    quota(&sandbox, "pods", "0").await?;
    sandbox.apply(&text).await?;
    let message = sandbox.condition_of(serve, "QuotaExceeded").await?;
    ensure!(message.contains("exceeded quota: small"), "{message}");
    Ok(())
}

impl Sandbox {
    /// Lets no more pods in. Its status is written here, in place of the controller of quotas.
    async fn fill_quota(&self) -> Result<Api<DynamicObject>> {
        let quotas = self.api("v1", "ResourceQuota").await?;
        let hard = "{apiVersion: v1, kind: ResourceQuota, metadata: {name: full}, \
                    spec: {hard: {pods: '2'}}}";
        self.apply(hard).await?;
        let full = json!({"status": {"hard": {"pods": "2"}, "used": {"pods": "2"}}});
        let params = PatchParams::default();
        quotas
            .patch_status("full", &params, &Patch::Merge(full))
            .await?;
        self.wait_for("the quota to hold", async || {
            let pod = ["run", "probe", "--image=none"];
            if self.kubectl(&pod, "").await?.status.success() {
                self.delete_pod("probe").await?;
                bail!("it does not");
            }
            Ok(())
        })
        .await?;
        Ok(quotas)
    }
}

/// Upstream loses the PodGroup of a replica whose leader is deleted (lws#1054).
pub async fn a_replica_whose_leader_is_deleted_is_a_gang_again(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 3).await?;
    sandbox.apply(&lws("", "replicas: 1", 3)).await?;
    let mut seen = sandbox.replicas_run(1, 3).await?;
    for life in 1..=20 {
        sandbox.delete_pod("serve-0").await?;
        let names = sandbox
            .wait_for(&format!("life {life}"), async || {
                let names = sandbox.replicas_run(1, 3).await?;
                ensure!(names.is_disjoint(&seen), "{names:?} is not new");
                Ok(names)
            })
            .await?;
        seen.extend(names);
    }
    ensure!(seen.len() == 21, "{seen:?}");
    Ok(())
}

/// A worker that is lost takes its replica along, which is then a gang again.
pub async fn a_replica_that_loses_a_worker_is_recreated(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 6).await?;
    sandbox.apply(&lws("", "replicas: 2", 3)).await?;
    let before = sandbox.replicas_run(2, 3).await?;
    sandbox.delete_pod("serve-1-2").await?;
    sandbox
        .wait_for("one replica in a new gang", async || {
            let after = sandbox.replicas_run(2, 3).await?;
            let kept = after.intersection(&before).count();
            ensure!(kept == 1, "{kept} of {before:?} are left");
            Ok(())
        })
        .await
}

pub async fn a_subgrouped_replica_is_one_gang(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 4).await?;
    let text = lws("", "replicas: 1", 5).replace(
        "    size: 5",
        "    size: 5\n    subGroupPolicy: {subGroupSize: 2}",
    );
    sandbox.apply(&text).await?;
    sandbox.none_bound(5).await?;
    sandbox.nodes(1, 1).await?;
    sandbox.replicas_run(1, 5).await?;
    Ok(())
}

/// In a cluster of its own: what is counted is the room of all nodes.
pub async fn a_leader_that_comes_first_waits_for_room_for_its_replica(
    sandbox: Sandbox,
) -> Result<()> {
    let with = [Kind::Volcano, Kind::Coscheduling];
    let cluster = sandbox.cluster.another_with("leader-first", &with, &[]);
    let cluster = cluster.await?;
    for scheduler in ["volcano", "coscheduling"] {
        let sandbox = Sandbox::new(Arc::clone(&cluster), scheduler).await?;
        sandbox.nodes(1, 2).await?;
        let text = lws(
            &format!(", muster.dev/scheduler: {scheduler}"),
            "startupPolicy: LeaderReady",
            4,
        );
        sandbox.apply(&text).await?;
        sandbox
            .wait_for("the leader", async || {
                ensure!(sandbox.replica("0").await?.len() == 1);
                Ok(())
            })
            .await?;
        tokio::time::sleep(Duration::from_secs(4)).await;
        let bound = sandbox.bound().await?;
        ensure!(
            bound.is_empty(),
            "{scheduler}: there is no room for all of {bound:?}"
        );
        sandbox.nodes(1, 2).await?;
        sandbox.all_bound(4).await?;
        sandbox.clear().await?;
    }
    Ok(())
}
