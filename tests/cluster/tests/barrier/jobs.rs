//! A Job that is suspended and resumed: its barrier closes, and opens anew. Up to Kubernetes 1.35 a resumed
//! Job has no new round, so its next pods wait at a barrier of the same name.

use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::super::lifecycle::{change_finalizers, hold, release};
use super::waiter::{Waiter, all_pass, nobody_passes};
use crate::fleet::Home;
use crate::runner::{Test, named};
use crate::sandbox::Sandbox;

const JOB: (&str, &str) = ("batch/v1", "Job");

/// In which round the pods come after a resume.
#[derive(Clone, Copy)]
enum Round {
    Next,
    Same,
}

pub fn all() -> Vec<Test> {
    let tests = [
        (Home::Main, Round::Next),
        (Home::Kubernetes1_35, Round::Same),
    ];
    let tests = tests.into_iter().flat_map(|(home, round)| {
        let which = match round {
            Round::Next => "in_the_next_round",
            Round::Same => "in_the_same_round",
        };
        let name = |test: &str| format!("barrier::jobs::{test}_{which}");
        let (done_name, ending_name) = (
            name("who_is_done_has_not_come"),
            name("it_closes_while_pods_end"),
        );
        [
            named(done_name, home, move |sandbox| done(sandbox, round)),
            named(ending_name, home, move |sandbox| ending(sandbox, round)),
        ]
    });
    tests.collect()
}

/// Two at a time, and six in all.
fn job(annotations: &str) -> String {
    format!(
        "
apiVersion: batch/v1
kind: Job
metadata:
  name: train
  annotations: {{muster.dev/start-barrier: 120s{annotations}}}
spec:
  parallelism: 2
  completions: 6
  suspend: false
  template:
    spec:
      restartPolicy: Never
      automountServiceAccountToken: false
      containers: [{{name: main, image: train, resources: {{requests: {{cpu: '1'}}}}}}]
"
    )
}

fn names(waiters: &[Waiter]) -> Vec<String> {
    waiters.iter().map(|waiter| waiter.pod.clone()).collect()
}

/// Pods that ended well before the suspension are no members of the barrier that has closed with it.
async fn done(sandbox: Sandbox, round: Round) -> Result<()> {
    sandbox.nodes(1, 2).await?;
    sandbox.apply(&job("")).await?;
    let mut first = sandbox.waiters(2).await?;
    let (barrier, mut known) = (first[0].barrier.clone(), names(&first));
    all_pass(&sandbox, &mut first).await?;
    sandbox.started(2).await?;
    let succeed = json!({"fake/outcome": "succeed"});
    sandbox.annotate_pods(succeed).await?;
    let mut next = sandbox.waiters_but(&known, 2).await?;
    known.extend(names(&next));
    all_pass(&sandbox, &mut next).await?;
    sandbox.started(2).await?;
    sandbox.suspend_job(true).await?;
    sandbox.has_closed(0).await?;
    // Room for one of the two that come.
    let late = sandbox.fill(1).await?;
    sandbox.suspend_job(false).await?;
    let mut resumed = sandbox.waiters_but(&known, 1).await?;
    known.extend(names(&resumed));
    is_in(&resumed[0], round, &barrier)?;
    nobody_passes(&mut resumed, Duration::from_secs(2)).await?;
    sandbox.make_room(late).await?;
    resumed.extend(sandbox.waiters_but(&known, 1).await?);
    all_pass(&sandbox, &mut resumed).await?;
    sandbox.started(2).await?;
    let note = sandbox.barrier_is(JOB, "BarrierOpened").await?;
    ensure!(note == "2 of 2 members have started", "{note}");
    Ok(())
}

/// The pods of a gang may take long to end, and the next ones come beside them.
async fn ending(sandbox: Sandbox, round: Round) -> Result<()> {
    sandbox.nodes(1, 4).await?;
    sandbox.apply(&job(", muster.dev/gang-mode: Gang")).await?;
    let mut first = sandbox.waiters(2).await?;
    let (barrier, known) = (first[0].barrier.clone(), names(&first));
    all_pass(&sandbox, &mut first).await?;
    sandbox.started(2).await?;
    change_finalizers(&sandbox, hold).await?;
    sandbox.suspend_job(true).await?;
    sandbox.has_closed(2).await?;
    sandbox.suspend_job(false).await?;
    let mut resumed = sandbox.waiters_but(&known, 2).await?;
    is_in(&resumed[0], round, &barrier)?;
    all_pass(&sandbox, &mut resumed).await?;
    let made = sandbox.barriers().await?;
    ensure!(made.len() == 1 && made[0].1 == "started", "{made:?}");
    change_finalizers(&sandbox, release).await?;
    sandbox.started(2).await
}

fn is_in(waiter: &Waiter, round: Round, before: &str) -> Result<()> {
    let same = matches!(round, Round::Same);
    let barrier = &waiter.barrier;
    ensure!((barrier == before) == same, "{barrier} after {before}");
    Ok(())
}

impl Sandbox {
    /// Waits until the barrier is closed, and the Job controller has seen the suspension: what is resumed
    /// earlier keeps its round everywhere. So many pods are still being deleted.
    async fn has_closed(&self, ending: usize) -> Result<()> {
        let jobs = self.api(JOB.0, JOB.1).await?;
        self.wait_for("the barrier to close", async || {
            let made = self.barriers().await?;
            ensure!(made.is_empty(), "{made:?}");
            let status = jobs.get("train").await?.data["status"].clone();
            let mut conditions = status["conditions"].as_array().into_iter().flatten();
            let suspended = conditions.any(|c| c["type"] == "Suspended" && c["status"] == "True");
            ensure!(suspended, "{status}");
            let pods = self.pods().await?;
            let phase = |pod: &Pod| pod.status.as_ref()?.phase.clone();
            let live = |pod: &&Pod| phase(pod).as_deref() != Some("Succeeded");
            let live: Vec<&Pod> = pods.iter().filter(live).collect();
            let going = |pod: &&&Pod| pod.metadata.deletion_timestamp.is_some();
            let going = live.iter().filter(going).count();
            ensure!(
                going == ending && live.len() == ending,
                "{going} of {}",
                live.len()
            );
            Ok(())
        })
        .await
    }
}
