//! Start barriers: KWOK runs the pods, and their init container is the real `muster wait`, with what the
//! pod was told at admission, against the real apiserver and the real replicas.

mod door;
pub mod jobs;
pub mod lives;
pub mod outage;
pub mod schedulers;
pub mod times;
pub mod waiter;
mod writes;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use kube::api::ListParams;
use serde_json::json;

use super::words::{group, jobset};
use crate::sandbox::Sandbox;
use waiter::{all_pass, nobody_passes};

const CONFIG_MAP: (&str, &str) = ("v1", "ConfigMap");

/// A JobSet whose driver and workers wait for each other, and an auxiliary that does not.
fn with_bystander() -> String {
    let annotations = "muster.dev/start-barrier: 60s, \
                       muster.dev/start-barrier-targets: 'driver,workers'";
    jobset(
        annotations,
        "",
        &[
            group("driver", 1, 1, ""),
            group("workers", 2, 2, ""),
            group("auxiliary", 1, 1, ""),
        ],
    )
}

impl Sandbox {
    /// The names of what Muster has made for barriers, and what each says.
    async fn barriers(&self) -> Result<Vec<(String, String)>> {
        let api = self.api(CONFIG_MAP.0, CONFIG_MAP.1).await?;
        let selected = ListParams::default().labels("muster.dev/barrier");
        let made = api.list(&selected).await?.items;
        let says = |object: kube::api::DynamicObject| {
            let data = object.data["data"].as_object().cloned().unwrap_or_default();
            let keys: Vec<String> = data.keys().cloned().collect();
            (object.metadata.name.unwrap_or_default(), keys.join(","))
        };
        Ok(made.into_iter().map(says).collect())
    }

    /// Waits until the workload's condition of its barrier has that reason.
    pub async fn barrier_is(&self, kind: (&str, &str), reason: &str) -> Result<String> {
        let api = self.api(kind.0, kind.1).await?;
        self.wait_for(&format!("the barrier to be {reason}"), async || {
            let status = api.get("train").await?.data["status"].clone();
            let mut conditions = status["conditions"].as_array().into_iter().flatten();
            let found = conditions.find(|c| c["type"] == "muster.dev/StartBarrier");
            let found = found.context("there is no condition")?;
            ensure!(found["reason"] == reason, "it is {found}");
            Ok(found["message"].as_str().unwrap_or_default().to_owned())
        })
        .await
    }
}

pub async fn main_containers_start_when_the_last_target_has_come(sandbox: Sandbox) -> Result<()> {
    let written = sandbox.watch_barriers().await?;
    // Room for four of the five that wait, and for the bystander.
    sandbox.nodes(1, 5).await?;
    sandbox.apply(&with_bystander()).await?;
    sandbox
        .wait_for("the bystander to run", async || {
            let pods = sandbox.pods().await?;
            let runs = |pod: &&k8s_openapi::api::core::v1::Pod| {
                pod.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Running")
            };
            let running: Vec<_> = pods.iter().filter(runs).collect();
            ensure!(running.len() == 1, "{} run", running.len());
            let spec = running[0].spec.as_ref().context("it has no spec")?;
            ensure!(spec.init_containers.is_none(), "the bystander waits too");
            Ok(())
        })
        .await?;
    let mut waiters = sandbox.waiters(4).await?;
    nobody_passes(&mut waiters, Duration::from_secs(2)).await?;
    ensure!(sandbox.barriers().await?.is_empty(), "it is open already");
    sandbox.nodes(1, 1).await?;
    let before: Vec<String> = waiters.iter().map(|waiter| waiter.pod.clone()).collect();
    let last = sandbox.waiters_but(&before, 1).await?;
    let start = Instant::now();
    waiters.extend(last);
    all_pass(&sandbox, &mut waiters).await?;
    println!(
        "5 of 5 went on {:?} after the last one had come",
        start.elapsed()
    );
    let barriers = r#"muster_start_barriers_total{outcome="opened"}"#;
    sandbox.counted(barriers).await?;
    let made = sandbox.barriers().await?;
    ensure!(made.len() == 1 && made[0].1 == "started", "{made:?}");
    sandbox.is_owned_by_the_jobset(&made[0].0).await?;
    let note = sandbox.told("BarrierOpened").await?;
    ensure!(note == "5 of 5 members have started", "{note}");
    sandbox
        .barrier_is(super::samples::JOBSET, "BarrierOpened")
        .await?;
    sandbox.started(6).await?;
    sandbox
        .annotate_pods(json!({"fake/outcome": "succeed"}))
        .await?;
    // One write opened it, and nothing was written after that.
    let once = format!("{0} ADDED, {0} DELETED", made[0].0);
    sandbox
        .wait_for("nothing to be left", async || {
            let left = sandbox.barriers().await?;
            ensure!(left.is_empty(), "{left:?} is left");
            let written = written.seen();
            ensure!(written == once, "{written}");
            Ok(())
        })
        .await
}

/// A gang and a barrier: bound together, and started together.
pub async fn a_gang_waits_at_its_barrier_too(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 2).await?;
    let annotations = "muster.dev/gang-mode: Gang, muster.dev/start-barrier: 60s";
    sandbox
        .apply(&jobset(annotations, "", &[group("workers", 1, 3, "")]))
        .await?;
    sandbox.none_bound(3).await?;
    sandbox.nodes(1, 1).await?;
    let mut waiters = sandbox.waiters(3).await?;
    all_pass(&sandbox, &mut waiters).await?;
    sandbox.started(3).await?;
    Ok(())
}

pub async fn the_pods_of_a_job_wait_for_each_other(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 2).await?;
    let job = "
apiVersion: batch/v1
kind: Job
metadata:
  generateName: train-
  name: train
  annotations: {muster.dev/start-barrier: 60s}
spec:
  parallelism: 3
  completions: 3
  template:
    spec:
      restartPolicy: Never
      automountServiceAccountToken: false
      initContainers: [{name: load, image: load}]
      containers: [{name: main, image: train, resources: {requests: {cpu: '1'}}}]
";
    sandbox.apply(job).await?;
    let mut waiters = sandbox.waiters(2).await?;
    nobody_passes(&mut waiters, Duration::from_secs(1)).await?;
    sandbox.nodes(1, 1).await?;
    let before: Vec<String> = waiters.iter().map(|waiter| waiter.pod.clone()).collect();
    waiters.extend(sandbox.waiters_but(&before, 1).await?);
    all_pass(&sandbox, &mut waiters).await?;
    sandbox
        .barrier_is(("batch/v1", "Job"), "BarrierOpened")
        .await?;
    let pods = sandbox.pods().await?;
    let last = |pod: &k8s_openapi::api::core::v1::Pod| {
        let containers = pod.spec.as_ref()?.init_containers.as_ref()?;
        Some(containers.last()?.name.clone())
    };
    let lasts: Vec<_> = pods.iter().filter_map(last).collect();
    ensure!(lasts == ["group-scheduling-init"; 3], "{lasts:?}");
    Ok(())
}

/// Whoever may create pods must not open a barrier that they do not belong to.
pub async fn a_pod_that_pretends_to_wait_is_refused(sandbox: Sandbox) -> Result<()> {
    let pod = "
apiVersion: v1
kind: Pod
metadata:
  name: stranger
  labels:
    muster.dev/barrier: workers
    batch.kubernetes.io/job-name: train
    batch.kubernetes.io/controller-uid: 8f2d2d52-3a0e-4d4f-9a44-6a4c4f6d3b7e
  annotations: {muster.dev/barrier-stamp: '{\"barrier\":\"start\"}'}
spec:
  containers: [{name: main, image: train}]
";
    let output = sandbox.kubectl(&["apply", "--filename=-"], pod).await?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(!output.status.success(), "it is admitted");
    ensure!(
        said.contains("Muster has not written this for a pod"),
        "{said}"
    );
    Ok(())
}

/// A quota or a policy: the condition must not say that it is open.
pub async fn a_barrier_whose_configmap_is_refused_says_so(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 2).await?;
    let named = "!object.metadata.name.startsWith('train-barrier')";
    sandbox.deny(("", "v1", "configmaps"), named).await?;
    let annotations = "muster.dev/start-barrier: 60s";
    sandbox
        .apply(&jobset(annotations, "", &[group("workers", 1, 2, "")]))
        .await?;
    let mut waiters = sandbox.waiters(2).await?;
    let message = sandbox
        .barrier_is(super::samples::JOBSET, "BarrierRefused")
        .await?;
    ensure!(
        message.starts_with("the start barrier does not open: ConfigMap train-barrier-0-"),
        "{message}"
    );
    sandbox.told("BarrierRefused").await?;
    nobody_passes(&mut waiters, Duration::from_millis(500)).await
}

/// The name is derived, and so it may be a user's by chance or on purpose.
pub async fn a_users_own_configmap_is_never_overwritten(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 2).await?;
    let annotations = "muster.dev/start-barrier: 300s";
    sandbox
        .apply(&jobset(annotations, "", &[group("workers", 1, 3, "")]))
        .await?;
    let mut waiters = sandbox.waiters(2).await?;
    let name = waiters[0].barrier.clone();
    let own = format!(
        "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}}}, data: {{mine: 'true'}}}}"
    );
    let before = sandbox.apply(&own).await?.remove(0);
    sandbox.nodes(1, 1).await?;
    let others: Vec<String> = waiters.iter().map(|waiter| waiter.pod.clone()).collect();
    waiters.extend(sandbox.waiters_but(&others, 1).await?);
    let message = sandbox
        .barrier_is(super::samples::JOBSET, "BarrierRefused")
        .await?;
    let said = format!("ConfigMap {name} exists and was not made by Muster: it is left alone");
    ensure!(message.contains(&said), "{message}");
    nobody_passes(&mut waiters, Duration::from_secs(2)).await?;
    let config_maps = sandbox.api(CONFIG_MAP.0, CONFIG_MAP.1).await?;
    let now = config_maps.get(&name).await?;
    ensure!(
        now.metadata.resource_version == before.metadata.resource_version,
        "it was written to: {now:?}"
    );
    ensure!(now.data == before.data, "{:?}", now.data);
    // Once it is out of the way the barrier opens.
    config_maps.delete(&name, &Default::default()).await?;
    all_pass(&sandbox, &mut waiters).await?;
    Ok(())
}
