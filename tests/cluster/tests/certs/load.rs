//! A stream of workloads with a gang, by dry run: each goes through all of admission, and nothing is
//! stored.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use kube::api::{Api, DynamicObject, PostParams};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::{JoinHandle, JoinSet};

use crate::install::{jobset, pod_template};
use crate::objects::Objects;

/// Ten a second.
const INTERVAL: Duration = Duration::from_millis(100);
const AT_ONCE: usize = 20;

/// How long the apiserver may go on with configurations that have changed: it watches them.
const HEARD: Duration = Duration::from_secs(1);

/// A JobSet with a gang.
pub fn ganged() -> Value {
    let mut object = jobset("ganged");
    object["metadata"]["annotations"] = json!({"muster.dev/gang-mode": "Gang"});
    object
}

fn ganged_job() -> Value {
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "ganged", "annotations": {"muster.dev/gang-mode": "Gang"}},
        "spec": {"parallelism": 2, "completions": 2, "template": pod_template()},
    })
}

type Sample = (Api<DynamicObject>, DynamicObject);

/// JobSets and Jobs that are created in turn until it is told to end.
pub struct Load {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Vec<Call>>,
}

impl Load {
    /// In the namespace `default`.
    pub async fn start(objects: &Objects) -> Result<Load> {
        let mut samples = Vec::new();
        for object in [ganged(), ganged_job()] {
            let object: DynamicObject = serde_json::from_value(object)?;
            let types = object.types.as_ref().context("no kind")?;
            let api = objects.api(&types.api_version, &types.kind, "default");
            samples.push((api.await?, object));
        }
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(stream(samples, stopped));
        Ok(Load { stop, task })
    }

    pub async fn end(self) -> Result<Calls> {
        let _ = self.stop.send(());
        Ok(Calls(self.task.await?))
    }
}

async fn stream(samples: Vec<Sample>, mut stopped: oneshot::Receiver<()>) -> Vec<Call> {
    let slots = Arc::new(Semaphore::new(AT_ONCE));
    let mut running = JoinSet::new();
    let mut ticks = tokio::time::interval(INTERVAL);
    for (api, object) in samples.iter().cycle() {
        tokio::select! {
            _ = ticks.tick() => {}
            _ = &mut stopped => break,
        }
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
            break;
        };
        let (api, object) = (api.clone(), object.clone());
        running.spawn(async move {
            let call = Call::of(&api, &object).await;
            drop(slot);
            call
        });
    }
    running.join_all().await
}

struct Call {
    begun: Instant,
    ended: Instant,
    error: Option<String>,
}

impl Call {
    async fn of(api: &Api<DynamicObject>, object: &DynamicObject) -> Call {
        let params = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let begun = Instant::now();
        let created = api.create(&params, object).await;
        let ended = Instant::now();
        let error = match created {
            Err(kube::Error::Api(status)) => Some(status.message),
            Err(error) => Some(format!("{error:#}")),
            // It was not only let through.
            Ok(created) if is_stamped(&created) => None,
            Ok(_) => Some("it was admitted without a stamp".to_owned()),
        };
        Call {
            begun,
            ended,
            error,
        }
    }
}

fn is_stamped(created: &DynamicObject) -> bool {
    let annotations = created.metadata.annotations.as_ref();
    annotations.is_some_and(|all| all.contains_key("muster.dev/scheduler"))
}

/// What became of a stream.
pub struct Calls(Vec<Call>);

impl Calls {
    /// Those that failed, and those that failed for want of the bundle while somebody had taken it away:
    /// from then until it was back, and the apiserver had heard of it.
    pub fn failures(&self, wiped: &[(Instant, Instant)]) -> (Vec<&str>, Vec<&str>) {
        let (mut own, mut theirs) = (Vec::new(), Vec::new());
        for call in &self.0 {
            let Some(error) = &call.error else { continue };
            let overlaps =
                |(from, to): &(Instant, Instant)| call.ended >= *from && call.begun <= *to + HEARD;
            // Without a bundle the apiserver does not know who signed; anything else is a fault.
            let untrusted = error.contains("x509: ");
            match untrusted && wiped.iter().any(overlaps) {
                true => theirs.push(error.as_str()),
                false => own.push(error.as_str()),
            }
        }
        (own, theirs)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }
}

impl fmt::Display for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut times: Vec<Duration> = self.0.iter().map(|c| c.ended - c.begun).collect();
        times.sort_unstable();
        let at = |hundredths: usize| {
            let place = (times.len() * hundredths / 100).min(times.len().saturating_sub(1));
            times.get(place).map_or(0, Duration::as_millis)
        };
        let count = times.len();
        write!(
            f,
            "{count} admissions, half of them within {} ms, 99 % within {} ms, all within {} ms",
            at(50),
            at(99),
            at(100)
        )
    }
}
