//! Workloads with a gang that are created one after the other while something else happens. No
//! creation may fail, by the client's count and by the apiserver's own.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use kube::ResourceExt as _;
use kube::api::{ListParams, PostParams};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet, spawn_local};
use tokio::time::{MissedTickBehavior, interval};

use crate::calls::Calls;
use crate::health::{PATIENCE, wait_for};
use crate::sandbox::Sandbox;

/// From one creation to the next.
const EVERY: Duration = Duration::from_millis(100);

/// A stream that nobody stops ends by itself.
const LONGEST: Duration = Duration::from_secs(1200);

/// Creations that are under way.
pub struct Stream {
    sandbox: Sandbox,
    before: Calls,
    stop: oneshot::Sender<()>,
    task: JoinHandle<Tally>,
}

/// What came of them.
#[derive(Debug, Default)]
pub struct Tally {
    pub created: usize,
    pub slowest: Duration,
    failures: Vec<String>,
}

impl Stream {
    /// Begins: Jobs and JobSets in turn, suspended, so that they need no room. JobSet makes a Job of each
    /// of its own, which Muster is asked about too.
    pub async fn start(sandbox: &Sandbox) -> Result<Stream> {
        let before = Calls::of(&sandbox.cluster.plane.client).await?;
        let (stop, stopped) = oneshot::channel();
        let task = spawn_local(create(sandbox.clone(), stopped));
        Ok(Stream {
            sandbox: sandbox.clone(),
            before,
            stop,
            task,
        })
    }

    /// Ends it; an error if anything failed, or if a JobSet has not got its Job.
    pub async fn stop(self, what: &str) -> Result<Tally> {
        let _ = self.stop.send(());
        let tally = self.task.await?;
        let failures = &tally.failures;
        ensure!(
            failures.is_empty(),
            "{} of {} creations failed, the first: {}",
            failures.len(),
            tally.created + failures.len(),
            failures[0]
        );
        ensure!(tally.created > 0, "nothing was created");
        self.sandbox.all_jobs(tally.created).await?;
        let calls = Calls::of(&self.sandbox.cluster.plane.client).await?;
        let failed = calls.failed - self.before.failed;
        ensure!(failed == 0, "the apiserver counts {failed} failed calls");
        println!(
            "{what}: {} workloads with a gang created, {} calls of Muster, none failed; the slowest \
             took {:.2} s",
            tally.created,
            calls.made - self.before.made,
            tally.slowest.as_secs_f64()
        );
        Ok(tally)
    }
}

impl Sandbox {
    /// Waits until each JobSet of a stream has its Job.
    async fn all_jobs(&self, created: usize) -> Result<()> {
        let jobs = self.api("batch/v1", "Job").await?;
        wait_for("the Jobs of all JobSets", PATIENCE, async || {
            let found = jobs.list(&ListParams::default()).await?;
            let names: BTreeSet<String> = found.iter().map(|job| job.name_any()).collect();
            let missing = (0..created).find(|number| !names.contains(&job_of(*number)));
            ensure!(
                missing.is_none(),
                "{} is missing",
                job_of(missing.unwrap_or(0))
            );
            Ok(())
        })
        .await
    }
}

async fn create(sandbox: Sandbox, mut stopped: oneshot::Receiver<()>) -> Tally {
    let start = Instant::now();
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut tally, mut running) = (Tally::default(), JoinSet::new());
    let mut number = 0;
    while start.elapsed() < LONGEST {
        tokio::select! {
            _ = &mut stopped => break,
            _ = ticks.tick() => {
                running.spawn_local(one(sandbox.clone(), number));
                number += 1;
            }
            Some(done) = running.join_next() => tally.count(done.context("it panicked")),
        }
    }
    while let Some(done) = running.join_next().await {
        tally.count(done.context("it panicked"));
    }
    tally
}

impl Tally {
    fn count(&mut self, done: Result<Result<Duration>>) {
        match done.and_then(|done| done) {
            Ok(took) => {
                self.created += 1;
                self.slowest = self.slowest.max(took);
            }
            Err(error) => self.failures.push(format!("{error:#}")),
        }
    }
}

async fn one(sandbox: Sandbox, number: usize) -> Result<Duration> {
    let (version, kind, object) = workload(number);
    let api = sandbox.api(version, kind).await?;
    let object = serde_json::from_value(object)?;
    let start = Instant::now();
    let created = api.create(&PostParams::default(), &object).await;
    created.with_context(|| format!("{kind} {number}"))?;
    Ok(start.elapsed())
}

/// The Job of each workload, whether it is one or has one.
fn job_of(number: usize) -> String {
    match number % 2 {
        0 => format!("stream-{number}"),
        _ => format!("stream-{number}-w-0"),
    }
}

fn workload(number: usize) -> (&'static str, &'static str, Value) {
    let metadata = json!({
        "name": format!("stream-{number}"),
        "annotations": {"muster.dev/gang-mode": "Gang"},
    });
    let container = json!({"name": "main", "image": "train"});
    let pod = json!({"spec": {"restartPolicy": "Never", "containers": [container]}});
    let job = json!({"parallelism": 2, "completions": 2, "template": pod});
    if number.is_multiple_of(2) {
        let mut spec = job;
        spec["suspend"] = json!(true);
        let (version, kind) = ("batch/v1", "Job");
        let job = json!({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec});
        return (version, kind, job);
    }
    let groups = json!([{"name": "w", "replicas": 1, "template": {"spec": job}}]);
    let (version, kind) = ("jobset.x-k8s.io/v1alpha2", "JobSet");
    let jobset = json!({
        "apiVersion": version,
        "kind": kind,
        "metadata": metadata,
        "spec": {"suspend": true, "replicatedJobs": groups},
    });
    (version, kind, jobset)
}
