//! What a gang lives through under Kueue: it waits for quota, is admitted, preempted and admitted again.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;

use super::super::explain::Scheduler;
use super::super::lws::{is_bound, lws};
use super::gang::{Kind, job, queued, stamps};
use crate::sandbox::Sandbox;

/// A scheduler that binds pods one by one would have done so by then.
const CHANCE: Duration = Duration::from_secs(2);

/// From Kueue's words to Muster's: a watch, a look and a write, on a busy machine.
const AT_ONCE: Duration = Duration::from_secs(10);

const WORKLOAD: (&str, &str) = ("kueue.x-k8s.io/v1beta2", "Workload");
const LOCAL_QUEUE: (&str, &str) = ("kueue.x-k8s.io/v1beta2", "LocalQueue");

pub async fn is_admitted_preempted_and_admitted_again(
    sandbox: Sandbox,
    kind: Kind,
    scheduler: Scheduler,
) -> Result<()> {
    sandbox.kueue(2).await?;
    sandbox.pool(2).await?;
    // Room for all that Kueue has not given.
    sandbox.nodes(1, 8).await?;
    sandbox.apply(&kind.gang("train", scheduler, "")).await?;
    let before = sandbox.stored(kind).await?;
    ensure!(
        before["spec"]["suspend"] == true,
        "Kueue has not suspended it"
    );
    sandbox
        .suspended_by_kueue(kind, "insufficient quota for cpu")
        .await?;
    ensure!(sandbox.pods().await?.is_empty(), "it has pods");
    sandbox.gangs(0).await?;

    // Admitted, and still all or nothing: the room of the pool is not the quota.
    sandbox.quota(3).await?;
    sandbox.waits_whole(3).await?;
    sandbox.pool(1).await?;
    let first = sandbox.runs_as_a_gang("train", 3, scheduler).await?;
    let running = sandbox.stored(kind).await?;
    ensure!(round(&running) == "1", "it is {}", round(&running));
    assert_eq!(
        stamps(&running),
        stamps(&before),
        "Kueue's update lost something"
    );

    let priority = format!(", kueue.x-k8s.io/priority-class: {}", sandbox.namespace);
    sandbox
        .apply(&kind.gang("important", scheduler, &priority))
        .await?;
    let other = sandbox.runs_as_a_gang("important", 3, scheduler).await?;
    ensure!(other != first, "both are {first}");
    sandbox
        .suspended_by_kueue(kind, "evicted (Preempted)")
        .await?;
    sandbox
        .wait_for("the preempted gang to go", async || {
            let pods = sandbox.pods_of("train").await?.len();
            let gangs = sandbox.pod_groups().await?;
            ensure!(pods == 0, "{pods} pods are left");
            ensure!(!gangs.values().any(|g| *g == first), "{gangs:?} exist");
            Ok(())
        })
        .await?;
    let preempted = sandbox.stored(kind).await?;
    assert_eq!(
        stamps(&preempted),
        stamps(&before),
        "Kueue's update lost something"
    );

    let workloads = sandbox.api(kind.name().0, kind.name().1).await?;
    let params = DeleteParams::background();
    workloads.delete("important", &params).await?;
    let second = sandbox.runs_as_a_gang("train", 3, scheduler).await?;
    ensure!(second != first, "it is {first} again");
    let running = sandbox.stored(kind).await?;
    ensure!(round(&running) == "2", "it is {}", round(&running));
    assert_eq!(
        stamps(&running),
        stamps(&before),
        "Kueue's update lost something"
    );
    sandbox
        .condition_of((kind.name(), "train"), "GangScheduled")
        .await?;
    Ok(())
}

fn round(workload: &serde_json::Value) -> &str {
    let round = &workload["metadata"]["annotations"]["muster.dev/round"];
    round.as_str().unwrap_or("0")
}

pub async fn a_job_that_is_admitted_in_part_is_a_smaller_gang(sandbox: Sandbox) -> Result<()> {
    sandbox.kueue(2).await?;
    sandbox.pool(1).await?;
    let annotations = "muster.dev/gang-mode: Gang, muster.dev/scheduler: native, \
        kueue.x-k8s.io/job-min-parallelism: '2'";
    sandbox
        .apply(&queued(&job("train", annotations, 4), ""))
        .await?;
    sandbox.waits_whole(2).await?;
    sandbox.gangs(1).await?;
    sandbox.quorum(2).await?;
    sandbox.pool(1).await?;
    sandbox
        .runs_as_a_gang("train", 2, Scheduler::Native)
        .await?;
    Ok(())
}

/// Kueue does not suspend it, but holds its pods back by a scheduling gate.
pub async fn a_leaderworkerset_starts_as_gangs_once_it_is_admitted(sandbox: Sandbox) -> Result<()> {
    sandbox.kueue(2).await?;
    sandbox.pool(2).await?;
    sandbox.nodes(1, 8).await?;
    let text = lws(", muster.dev/scheduler: native", "replicas: 1", 3);
    sandbox.apply(&queued(&text, "")).await?;
    let lws = (super::super::lws::LWS, "serve");
    let said = sandbox.condition_of(lws, "SchedulingGated").await?;
    ensure!(said.contains("3 pods are held back"), "{said}");
    sandbox.quota(3).await?;
    sandbox.pool(1).await?;
    sandbox.replicas_run(1, 3).await?;
    sandbox
        .runs_as_a_gang("serve", 3, Scheduler::Native)
        .await?;
    Ok(())
}

pub async fn a_queue_that_does_not_exist_is_told(sandbox: Sandbox) -> Result<()> {
    let text = Kind::JobSet.gang("train", Scheduler::Native, "");
    sandbox.apply(&text).await?;
    sandbox
        .suspended_by_kueue(Kind::JobSet, "LocalQueue team doesn't exist")
        .await?;
    sandbox.kueue(2).await?;
    sandbox
        .tells_at_once_what_kueue_says("insufficient quota for cpu")
        .await?;
    // Not of the ClusterQueue: Kueue (0.19.2) asks one cache whether that is active when another shows
    // that it is stopped. Where the first is behind, it says nothing, and does not look again.
    let queues = sandbox.api(LOCAL_QUEUE.0, LOCAL_QUEUE.1).await?;
    let stopped = Patch::Merge(json!({"spec": {"stopPolicy": "Hold"}}));
    let params = PatchParams::default();
    queues.patch("team", &params, &stopped).await?;
    sandbox
        .tells_at_once_what_kueue_says("LocalQueue team is inactive")
        .await
}

impl Sandbox {
    /// Waits until Kueue says that of the JobSet, and sees Muster tell it at once.
    async fn tells_at_once_what_kueue_says(&self, why: &str) -> Result<()> {
        let workloads = self.api(WORKLOAD.0, WORKLOAD.1).await?;
        self.wait_for("Kueue to say it", async || {
            let all = workloads.list(&ListParams::default()).await?.items;
            let conditions = all
                .iter()
                .flat_map(|w| w.data["status"]["conditions"].as_array());
            let mut quota = conditions
                .flatten()
                .filter(|c| c["type"] == "QuotaReserved");
            let said = quota.next().context("nothing yet")?["message"].clone();
            ensure!(
                said.as_str().is_some_and(|m| m.contains(why)),
                "it says {said}"
            );
            Ok(())
        })
        .await?;
        let start = Instant::now();
        self.suspended_by_kueue(Kind::JobSet, why).await?;
        let waited = start.elapsed();
        ensure!(waited < AT_ONCE, "told after {waited:?}");
        Ok(())
    }

    /// Waits until so many pods exist, and sees that none of them gets a node.
    async fn waits_whole(&self, count: usize) -> Result<()> {
        self.wait_for(&format!("{count} pods"), async || {
            let pods = self.pods_of("train").await?.len();
            ensure!(pods == count, "there are {pods}");
            Ok(())
        })
        .await?;
        let end = Instant::now() + CHANCE;
        while Instant::now() < end {
            let pods = self.pods_of("train").await?;
            let bound = pods.iter().filter(|pod| is_bound(pod)).count();
            ensure!(bound == 0, "{bound} of {} pods are bound", pods.len());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }
}
