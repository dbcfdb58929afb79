//! Koordinator counts gated pods as placed, says nothing of a gang that lacks pods, and at its
//! default gates tries a blocked gang without a pause.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::super::samples::jobset;
use crate::health::wait_for;
use crate::sandbox::Sandbox;
use crate::schedulers::{Kind, Retries};

const GANG: &str = "muster.dev/gang-mode: Gang, muster.dev/scheduler: koordinator";

pub async fn a_gang_with_a_scheduling_gate_is_refused(sandbox: Sandbox) -> Result<()> {
    let text = jobset("train", GANG, 4, "1").replace(
        "restartPolicy: Never",
        "restartPolicy: Never\n            schedulingGates: [{name: example.com/later}]",
    );
    let output = sandbox.kubectl(&["apply", "-f", "-"], &text).await?;
    let said = String::from_utf8_lossy(&output.stderr);
    let reason = "koordinator counts a gated pod as placed";
    ensure!(
        output.status.code() == Some(1) && said.contains(reason),
        "{said}"
    );
    Ok(())
}

/// The third pod is refused by an admission policy of the cluster's owner, as a quota would.
pub async fn a_gang_that_lacks_pods_is_told(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 4).await?;
    let expression = "!(has(object.metadata.generateName) \
                      && object.metadata.generateName.startsWith('train-workers-0-2-'))";
    sandbox.deny(("", "v1", "pods"), expression).await?;
    sandbox.apply(&jobset("train", GANG, 3, "1")).await?;
    let note = sandbox.told("GangWaiting").await?;
    let why = "2 of 3 pods exist; the others are refused by an admission policy";
    ensure!(note.contains(why), "{note}");
    ensure!(sandbox.bound().await?.is_empty());
    Ok(())
}

/// A gang that was once complete is none any more for Koordinator; a resumed one is a new gang.
pub async fn a_resumed_gang_is_all_or_nothing_again(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 3).await?;
    let late = sandbox.nodes(1, 1).await?.remove(0);
    sandbox.apply(&jobset("train", GANG, 4, "1")).await?;
    sandbox.all_bound(4).await?;
    sandbox.suspends(true).await?;
    ensure!(
        sandbox
            .kubectl(&["cordon", &late], "")
            .await?
            .status
            .success()
    );
    sandbox.suspends(false).await?;
    sandbox.none_bound(4).await?;
    let end = Instant::now() + Duration::from_secs(4);
    while Instant::now() < end {
        let bound = sandbox.bound().await?;
        ensure!(bound.is_empty(), "bound though not all fit: {bound:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let open = sandbox.kubectl(&["uncordon", &late], "").await?;
    ensure!(open.status.success());
    sandbox.all_bound(4).await?;
    Ok(())
}

const PODS: usize = 4;
const REPETITIONS: usize = 6;
/// Some hundred tries at its default gates, after each of which it could fall asleep.
const BLOCKED: Duration = Duration::from_secs(5);
const SOON: Duration = Duration::from_secs(5);

/// In a cluster of its own and one gang at a time: it tries a blocked gang without a pause, and counts
/// members whose rejection is still under way (1.8). So a gang may sleep, or start by halves: then
/// Muster says so, and another gang of the same JobSet starts.
pub async fn a_blocked_gang_starts_when_a_node_comes_at_default_gates(
    sandbox: Sandbox,
) -> Result<()> {
    let with = &[Kind::Koordinator(Retries::Default)];
    let cluster = sandbox.cluster.another_with("koordinator", with, &[]);
    let sandbox = Sandbox::new(cluster.await?, "koordinator").await?;
    sandbox.nodes(1, PODS as u32 - 1).await?;
    let (mut whole, mut slowest) = (0, Duration::ZERO);
    for number in 1..=REPETITIONS {
        sandbox
            .apply(&jobset("train", GANG, PODS as u32, "1"))
            .await?;
        sandbox.stays_blocked().await?;
        if number == REPETITIONS {
            sandbox.is_another_gang().await?;
            sandbox.stays_blocked().await?;
        }
        let start = Instant::now();
        let node = sandbox.nodes(1, 1).await?.remove(0);
        let soon = wait_for("the gang to be bound", SOON, async || {
            let bound = sandbox.bound().await?.len();
            ensure!(bound == PODS, "{bound} are bound");
            Ok(())
        });
        match soon.await {
            Ok(()) => {
                whole += 1;
                slowest = slowest.max(start.elapsed());
            }
            Err(_) => {
                sandbox.says_what_is_wrong().await?;
                sandbox.is_another_gang().await?;
                sandbox.all_bound(PODS).await?;
            }
        }
        let args = [
            "delete",
            "jobset",
            "train",
            "--wait",
            "--cascade=foreground",
        ];
        ensure!(sandbox.kubectl(&args, "").await?.status.success());
        let gone = sandbox.kubectl(&["delete", "node", &node], "").await?;
        ensure!(gone.status.success());
    }
    println!(
        "{whole} of {REPETITIONS} blocked gangs on Koordinator at its default gates were bound \
         within {:.1} s of the node",
        slowest.as_secs_f64()
    );
    ensure!(whole > 1, "only {whole} of {REPETITIONS} were whole");
    Ok(())
}

impl Sandbox {
    /// Gives the scheduler some hundred tries of a gang that does not fit.
    async fn stays_blocked(&self) -> Result<()> {
        self.wait_for("the pods", async || {
            let pods = self.pods().await?.len();
            ensure!(pods == PODS, "there are {pods}");
            Ok(())
        })
        .await?;
        tokio::time::sleep(BLOCKED).await;
        Ok(())
    }

    async fn says_what_is_wrong(&self) -> Result<()> {
        let jobsets = self.api("jobset.x-k8s.io/v1alpha2", "JobSet").await?;
        self.wait_for("a word on the gang that did not start", async || {
            let status = jobsets.get("train").await?.data["status"].clone();
            let conditions = status["conditions"].as_array().context("none yet")?;
            let told = conditions
                .iter()
                .any(|c| c["type"] == "muster.dev/GangScheduled" && c["status"] == "False");
            ensure!(told, "{status}");
            Ok(())
        })
        .await
    }

    /// The way out for a gang that does not start: another one, with other pods.
    async fn is_another_gang(&self) -> Result<()> {
        self.suspends(true).await?;
        self.suspends(false).await
    }

    /// Suspends the JobSet and sees its pods go, or resumes it.
    async fn suspends(&self, to: bool) -> Result<()> {
        self.patch_jobset(json!({"spec": {"suspend": to}})).await?;
        if !to {
            return Ok(());
        }
        self.wait_for("the pods to go", async || {
            let pods = self.pods().await?.len();
            ensure!(pods == 0, "{pods} are left");
            Ok(())
        })
        .await
    }
}
