//! What is said of workloads that live on after they waited, or that somebody else runs.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::json;

use super::gang::Gang;
use super::world::quota;
use super::{Scheduler, Seed, explained, told};
use crate::sandbox::Sandbox;

const LIMIT: Duration = Duration::from_secs(8);
/// When a pod was created is known to the second.
const SECOND: Duration = Duration::from_secs(1);

/// Events outlive what they tell of by an hour, and one that is told again keeps the time of the first.
pub async fn an_old_refusal_does_not_time_out_a_resumed_gang(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 2).await?;
    quota(&sandbox, "pods", "2").await?;
    let limit = "muster.dev/timeout: 8s, muster.dev/timeout-action: Suspend";
    let gang = Gang::on(Scheduler::Native).annotated(limit);
    gang.apply(&sandbox).await?;
    told(&sandbox, Seed::Quota, Instant::now()).await?;
    let message = sandbox.condition("GangTimedOut").await?;
    ensure!(message.contains("to resume it: kubectl patch"), "{message}");
    // Refused as before, and so by the same event.
    let resumed = Instant::now();
    let resume = json!({"spec": {"suspend": false}});
    sandbox.patch_jobset(resume.clone()).await?;
    sandbox.condition("QuotaExceeded").await?;
    sandbox.condition("GangTimedOut").await?;
    let waited = resumed.elapsed();
    ensure!(waited >= LIMIT - SECOND, "suspended again after {waited:?}");
    // Not refused any more: what was refused is no part of this wait.
    quota(&sandbox, "pods", "9").await?;
    let resumed = Instant::now();
    sandbox.patch_jobset(resume).await?;
    sandbox.condition("InsufficientResources").await?;
    sandbox.condition("GangTimedOut").await?;
    let waited = resumed.elapsed();
    ensure!(
        waited >= LIMIT - SECOND,
        "suspended a third time after {waited:?}"
    );
    Ok(())
}

/// Each pod that a Job could not create has another name, and so an event of its own: the time runs since
/// the first. The controller tries again after 1, 2, 4 and 8 seconds.
pub async fn refused_pods_of_other_names_time_out_since_the_first(sandbox: Sandbox) -> Result<()> {
    /// After it the controller has tried four times.
    const LIMIT: Duration = Duration::from_secs(12);
    /// For the controllers, and to tell it.
    const SOON: Duration = Duration::from_secs(5);
    sandbox.nodes(1, 4).await?;
    quota(&sandbox, "pods", "0").await?;
    let limit = "muster.dev/timeout: 12s, muster.dev/timeout-action: Suspend";
    let gang = Gang::on(Scheduler::Native).annotated(limit);
    let applied = gang.apply(&sandbox).await?;
    let in_time = async |wanted: Instant, what: &str| {
        sandbox.condition("QuotaExceeded").await?;
        sandbox.condition("GangTimedOut").await?;
        let waited = wanted.elapsed();
        println!("a timeout of {LIMIT:?} after {waited:?}, {what}");
        let within = LIMIT - SECOND..LIMIT + SOON;
        ensure!(within.contains(&waited), "{what} after {waited:?}");
        Ok(())
    };
    in_time(applied, "created").await?;
    // At once, so that the gang's object may still be there. What was refused before does not count.
    let resumed = Instant::now();
    let resume = json!({"spec": {"suspend": false}});
    sandbox.patch_jobset(resume).await?;
    in_time(resumed, "resumed").await
}

/// Its status is written by whoever runs it, so that there is no condition: `muster explain` says it.
pub async fn what_another_controller_runs_is_left_to_it(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 4).await?;
    let gang = Gang::on(Scheduler::Native).managed_by("kueue.x-k8s.io/multikueue");
    gang.suspended().queued("team").apply(&sandbox).await?;
    let said = explained(&sandbox).await?;
    let who = "kueue.x-k8s.io/multikueue runs it (spec.managedBy), so Muster leaves it alone";
    ensure!(said.contains(who), "{said}");
    Ok(())
}
