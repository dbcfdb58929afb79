//! Restarts, suspension and replaced pods: who waits for whom.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams};
use serde_json::json;

use super::super::words::{group, jobset};
use super::waiter::{all_pass, nobody_passes};
use crate::sandbox::Sandbox;

const BARRIER: &str = "muster.dev/start-barrier: 120s";

pub async fn each_attempt_waits_for_its_own_pods(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 3).await?;
    let spec = "failurePolicy: {maxRestarts: 3}";
    let workers = group("workers", 1, 3, "");
    sandbox.apply(&jobset(BARRIER, spec, &[workers])).await?;
    let mut first = sandbox.waiters(3).await?;
    let (barrier, before) = (
        first[0].barrier.clone(),
        first
            .iter()
            .map(|waiter| waiter.pod.clone())
            .collect::<Vec<_>>(),
    );
    all_pass(&sandbox, &mut first).await?;
    sandbox.started(3).await?;
    // One pod fails, and JobSet restarts all of them; the new ones have room for two.
    let late = sandbox.fill(1).await?;
    sandbox.annotate(&before[0], "fake/outcome=fail").await?;
    let mut second = sandbox.waiters_but(&before, 2).await?;
    ensure!(second[0].barrier != barrier, "{barrier} is open already");
    nobody_passes(&mut second, Duration::from_secs(2)).await?;
    let mut others = before.clone();
    others.extend(second.iter().map(|waiter| waiter.pod.clone()));
    sandbox.make_room(late).await?;
    second.extend(sandbox.waiters_but(&others, 1).await?);
    all_pass(&sandbox, &mut second).await?;
    sandbox.started(3).await?;
    sandbox
        .wait_for("the old barrier to go", async || {
            let made = sandbox.barriers().await?;
            ensure!(made.len() == 1, "{made:?}");
            Ok(())
        })
        .await
}

pub async fn suspension_closes_and_a_resume_opens_anew(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 2).await?;
    let workers = group("workers", 1, 2, "");
    sandbox
        .apply(&jobset(BARRIER, "suspend: false", &[workers]))
        .await?;
    let mut first = sandbox.waiters(2).await?;
    let barrier = first[0].barrier.clone();
    let before: Vec<String> = first.iter().map(|waiter| waiter.pod.clone()).collect();
    all_pass(&sandbox, &mut first).await?;
    sandbox.started(2).await?;
    sandbox
        .patch_jobset(json!({"spec": {"suspend": true}}))
        .await?;
    sandbox
        .wait_for("the barrier to go", async || {
            let (made, pods) = (sandbox.barriers().await?, sandbox.pods().await?);
            ensure!(made.is_empty() && pods.is_empty(), "{made:?}");
            Ok(())
        })
        .await?;
    sandbox
        .patch_jobset(json!({"spec": {"suspend": false}}))
        .await?;
    let mut second = sandbox.waiters_but(&before, 2).await?;
    ensure!(second[0].barrier != barrier, "the same barrier");
    all_pass(&sandbox, &mut second).await?;
    sandbox.started(2).await?;
    Ok(())
}

/// Its pods stay at the barrier of the round before, and those of the other Job come in the next one: they
/// are members of one start all the same.
pub async fn a_job_that_has_not_seen_a_suspension_meets_the_others(sandbox: Sandbox) -> Result<()> {
    let kept = "object.metadata.name != 'train-driver-0' || !object.spec.suspend";
    sandbox.deny(("batch", "v1", "jobs"), kept).await?;
    // No room for the worker.
    sandbox.nodes(1, 1).await?;
    let driver = group("driver", 1, 1, "");
    let workers = group("workers", 1, 1, "").replace("cpu: '1'", "cpu: '2'");
    let groups = [driver, workers].map(|group| group.replace("backoffLimit: 0", "backoffLimit: 6"));
    sandbox
        .apply(&jobset(BARRIER, "suspend: false", &groups))
        .await?;
    let mut waiters = sandbox.waiters(1).await?;
    let (barrier, pod) = (waiters[0].barrier.clone(), waiters[0].pod.clone());
    ensure!(pod.starts_with("train-driver-0-"), "{pod} waits");
    let suspend = async |suspend: bool| {
        sandbox
            .patch_jobset(json!({"spec": {"suspend": suspend}}))
            .await
    };
    suspend(true).await?;
    sandbox
        .wait_for("the worker to go", async || {
            let pods = sandbox.pods().await?.len();
            if pods != 1 {
                // JobSet stops at the first Job that is refused, in any order, and then tries less and
                // less often.
                let now = format!("{:?}", Instant::now());
                let look = json!({"metadata": {"annotations": {"fake/look": now}}});
                sandbox.patch_jobset(look).await?;
            }
            ensure!(pods == 1, "there are {pods} pods");
            Ok(())
        })
        .await?;
    suspend(false).await?;
    sandbox.nodes(1, 2).await?;
    let worker = sandbox.waiters_but(std::slice::from_ref(&pod), 1).await?;
    ensure!(worker[0].barrier != barrier, "it is in the round before");
    ensure!(waiters[0].ended().is_none(), "{pod} has not waited");
    waiters.extend(worker);
    let mut known: Vec<String> = waiters.iter().map(|waiter| waiter.pod.clone()).collect();
    all_pass(&sandbox, &mut waiters).await?;
    sandbox.started(2).await?;
    let open = async || {
        let mut made = sandbox.barriers().await?;
        made.retain(|(_, says)| says == "started");
        ensure!(made.len() == 2, "{made:?}");
        anyhow::Ok(())
    };
    open().await?;
    // Whichever of them is replaced goes straight through, though it is the only one of its round.
    let pods: Api<Pod> = Api::namespaced(sandbox.client(), &sandbox.namespace);
    for pod in known.clone() {
        pods.delete(&pod, &DeleteParams::default()).await?;
        let mut replaced = sandbox.waiters_but(&known, 1).await?;
        known.push(replaced[0].pod.clone());
        let took = all_pass(&sandbox, &mut replaced).await?;
        ensure!(
            took < Duration::from_secs(4),
            "{pod} was replaced, and it took {took:?}"
        );
        sandbox.started(2).await?;
        open().await?;
    }
    Ok(())
}

/// A Job that is done does not run again, and nobody waits for it.
pub async fn a_resumed_workload_does_not_wait_for_what_is_done(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 2).await?;
    let workers = group("workers", 2, 1, "");
    sandbox
        .apply(&jobset(BARRIER, "suspend: false", &[workers]))
        .await?;
    let mut first = sandbox.waiters(2).await?;
    let before: Vec<String> = first.iter().map(|waiter| waiter.pod.clone()).collect();
    all_pass(&sandbox, &mut first).await?;
    sandbox.started(2).await?;
    sandbox.annotate(&before[0], "fake/outcome=succeed").await?;
    sandbox
        .wait_for("the first Job to end", async || {
            let pods = sandbox.pods().await?;
            let done = |pod: &&Pod| {
                pod.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Succeeded")
            };
            ensure!(pods.iter().filter(done).count() == 1, "it runs");
            Ok(())
        })
        .await?;
    sandbox
        .patch_jobset(json!({"spec": {"suspend": true}}))
        .await?;
    sandbox
        .wait_for("the barrier to go", async || {
            let made = sandbox.barriers().await?;
            ensure!(made.is_empty(), "{made:?}");
            Ok(())
        })
        .await?;
    sandbox
        .barrier_is(super::super::samples::JOBSET, "BarrierWaiting")
        .await?;
    sandbox
        .patch_jobset(json!({"spec": {"suspend": false}}))
        .await?;
    let mut second = sandbox.waiters_but(&before, 1).await?;
    all_pass(&sandbox, &mut second).await?;
    let note = sandbox
        .barrier_is(super::super::samples::JOBSET, "BarrierOpened")
        .await?;
    ensure!(note == "1 of 1 members have started", "{note}");
    Ok(())
}

/// After the barrier has opened nobody waits: neither a pod that is replaced nor, below, a Job that restarts
/// alone.
pub async fn a_replaced_pod_goes_straight_through(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 3).await?;
    let workers = group("workers", 1, 3, "").replace("backoffLimit: 0", "backoffLimit: 6");
    sandbox.apply(&jobset(BARRIER, "", &[workers])).await?;
    let mut waiters = sandbox.waiters(3).await?;
    let before: Vec<String> = waiters.iter().map(|waiter| waiter.pod.clone()).collect();
    all_pass(&sandbox, &mut waiters).await?;
    sandbox.started(3).await?;
    let pods: Api<Pod> = Api::namespaced(sandbox.client(), &sandbox.namespace);
    pods.delete(&before[0], &DeleteParams::default()).await?;
    let mut replaced = sandbox.waiters_but(&before, 1).await?;
    all_pass(&sandbox, &mut replaced).await?;
    sandbox.started(3).await?;
    Ok(())
}

/// The others run: whoever waited for them again would wait for ever.
pub async fn a_job_that_restarts_alone_goes_straight_through(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 4).await?;
    let spec = "failurePolicy: {maxRestarts: 1, rules: [{name: alone, action: RestartJob}]}";
    let workers = group("workers", 2, 2, "");
    sandbox.apply(&jobset(BARRIER, spec, &[workers])).await?;
    let mut first = sandbox.waiters(4).await?;
    let barrier = first[0].barrier.clone();
    let before: Vec<String> = first.iter().map(|waiter| waiter.pod.clone()).collect();
    all_pass(&sandbox, &mut first).await?;
    sandbox.started(4).await?;
    let (restarted, kept): (Vec<_>, Vec<_>) = before
        .iter()
        .partition(|pod| pod.starts_with("train-workers-1-"));
    // One that fails is enough: it takes the other one of its Job along.
    sandbox.annotate(restarted[0], "fake/outcome=fail").await?;
    let mut again = sandbox.waiters_but(&before, 2).await?;
    for waiter in &again {
        ensure!(waiter.barrier == barrier, "{} waits anew", waiter.pod);
    }
    // Told by a replica: no file is shown here.
    let took = all_pass(&sandbox, &mut again).await?;
    ensure!(took < Duration::from_secs(5), "they waited for {took:?}");
    sandbox.started(4).await?;
    let pods: Api<Pod> = Api::namespaced(sandbox.client(), &sandbox.namespace);
    for pod in kept {
        let pod = pods.get_opt(pod).await?;
        ensure!(pod.is_some(), "the other Job restarted too");
    }
    let made = sandbox.barriers().await?;
    ensure!(made.len() == 1 && made[0].0 == barrier, "{made:?}");
    Ok(())
}

impl Sandbox {
    /// Takes room away for so many one-CPU pods, with a pod of somebody else.
    pub(super) async fn fill(&self, cpus: u32) -> Result<String> {
        let name = format!("filler-{cpus}");
        let pod = format!(
            "
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  containers: [{{name: main, image: filler, resources: {{requests: {{cpu: '{cpus}'}}}}}}]
"
        );
        self.apply(&pod).await?;
        Ok(name)
    }

    pub(super) async fn make_room(&self, name: String) -> Result<()> {
        let pods: Api<Pod> = Api::namespaced(self.client(), &self.namespace);
        pods.delete(&name, &DeleteParams::default()).await?;
        Ok(())
    }
}
