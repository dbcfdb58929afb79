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

/// Coscheduling tries a gang again as soon as it has rejected it. For half of the time none of its pods says
/// why then, only that it was rejected with the others.
pub async fn a_gang_that_is_tried_again_and_again_keeps_its_cause(
    sandbox: Sandbox,
    seed: Seed,
) -> Result<()> {
    const LOOKS: usize = 20;
    let fact = seed.bring_about(&sandbox, Scheduler::Coscheduling).await?;
    told(&sandbox, seed, fact).await?;
    let jobsets = sandbox.api("jobset.x-k8s.io/v1alpha2", "JobSet").await?;
    for look in 0..LOOKS {
        let said = explained(&sandbox).await?;
        let first = format!("1. {}: ", seed.reason());
        ensure!(
            said.contains(&first),
            "look {look}: {first:?} is not in {said}"
        );
        let jobset = jobsets.get("train").await?;
        let conditions = jobset.data["status"]["conditions"].as_array().cloned();
        let mut conditions = conditions.unwrap_or_default().into_iter();
        let own = conditions.find(|c| c["type"] == seed.condition());
        let reason = own.as_ref().and_then(|own| own["reason"].as_str());
        ensure!(reason == Some(seed.reason()), "look {look}: {own:?}");
    }
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
