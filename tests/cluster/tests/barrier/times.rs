//! Barriers that do not open in time: what the container, the events and the condition say.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::super::samples::JOBSET;
use super::super::words::{group, jobset};
use super::waiter::Waiter;
use crate::sandbox::Sandbox;

const BARRIER: &str = "muster.dev/start-barrier: 4s";

/// Two of three come. The third has no room, or no pod.
async fn in_vain(sandbox: &Sandbox, policy: &str) -> Result<Vec<Waiter>> {
    sandbox.nodes(1, 2).await?;
    let workers = group("workers", 1, 3, "").replace("restartPolicy: Never", policy);
    sandbox.apply(&jobset(BARRIER, "", &[workers])).await?;
    let start = Instant::now();
    let waiters = sandbox.waiters(2).await?;
    for waiter in &waiters {
        let code = waiter.ends().await?;
        ensure!(code == 1, "{} ended with {code}", waiter.pod);
        let message = waiter.message()?;
        let said = "did not open within 4s: 2 of 3 members have started; train-workers-0-";
        ensure!(message.contains(said), "{message}");
        ensure!(message.contains("is not placed: 0/"), "{message}");
    }
    ensure!(start.elapsed() > Duration::from_secs(3), "too early");
    let note = sandbox.told("BarrierTimedOut").await?;
    ensure!(note.contains("2 of 3 members have started"), "{note}");
    let message = sandbox.barrier_is(JOBSET, "BarrierTimedOut").await?;
    ensure!(message.contains("is not placed: 0/"), "{message}");
    Ok(waiters)
}

pub async fn a_pod_that_waits_in_vain_says_who_is_missing(sandbox: Sandbox) -> Result<()> {
    in_vain(&sandbox, "restartPolicy: Never").await?;
    let barriers = r#"muster_start_barriers_total{outcome="timed_out"}"#;
    sandbox.counted(barriers).await
}

/// With `OnFailure` kubelet restarts the container in place: its time is over, and stays over.
pub async fn a_restarted_container_does_not_wait_again(sandbox: Sandbox) -> Result<()> {
    let mut waiters = in_vain(&sandbox, "restartPolicy: OnFailure").await?;
    let waiter = &mut waiters[0];
    waiter.restart(&sandbox)?;
    let start = Instant::now();
    ensure!(waiter.ends().await? == 1);
    ensure!(
        start.elapsed() < Duration::from_millis(3900),
        "it waited {:?} again",
        start.elapsed()
    );
    // When the last one comes after all, those that are restarted join it. Their pods still say
    // that they wait, as KWOK restarts nothing.
    sandbox.nodes(1, 1).await?;
    let before: Vec<String> = waiters.iter().map(|waiter| waiter.pod.clone()).collect();
    let last = sandbox.waiters_but(&before, 1).await?;
    ensure!(last[0].ends().await? == 0);
    for waiter in &mut waiters {
        waiter.restart(&sandbox)?;
        let code = waiter.ends().await?;
        ensure!(code == 0, "{} ended with {code}", waiter.pod);
    }
    sandbox.barrier_is(JOBSET, "BarrierOpened").await?;
    Ok(())
}

pub async fn pods_that_do_not_exist_are_missed(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 2).await?;
    let index = "batch.kubernetes.io/job-completion-index";
    let others = format!("object.metadata.?labels[?'{index}'].orValue('') != '2'");
    sandbox.deny(("", "v1", "pods"), &others).await?;
    sandbox
        .apply(&jobset(BARRIER, "", &[group("workers", 1, 3, "")]))
        .await?;
    let waiters = sandbox.waiters(2).await?;
    ensure!(waiters[0].ends().await? == 1);
    let message = waiters[0].message()?;
    ensure!(message.contains("workers: 1 not created yet"), "{message}");
    Ok(())
}
