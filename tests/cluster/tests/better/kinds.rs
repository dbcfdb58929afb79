//! Gangs of a Job, of pods and of a JobSet in another namespace that start together on Koordinator.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams};

use super::super::lws::is_bound;
use super::super::matrix::cell::CHANCE;
use super::super::samples::jobset;
use crate::sandbox::Sandbox;

const BUNDLE: &str = "muster.dev/scheduler: koordinator, muster.dev/bundle: ring";

/// A Job of two pods.
fn job(with: &str) -> String {
    format!(
        "
apiVersion: batch/v1
kind: Job
metadata:
  name: prep
  annotations: {{muster.dev/gang-mode: Gang, {BUNDLE}, muster.dev/bundle-with: '{with}'}}
spec:
  parallelism: 2
  completions: 2
  template:
    spec:
      restartPolicy: Never
      containers: [{{name: main, image: train, resources: {{requests: {{cpu: '1'}}}}}}]
"
    )
}

/// A pod of the gang `ring`.
fn pod(number: u32, with: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Pod
metadata:
  name: ring-{number}
  annotations:
    muster.dev/gang-name: ring
    muster.dev/min-count: '2'
    muster.dev/bundle-with: '{with}'
    {}
spec:
  containers: [{{name: main, image: train, resources: {{requests: {{cpu: '1'}}}}}}]
",
        BUNDLE.replace(", ", "\n    ")
    )
}

/// Sees no pod of a namespace bound for a while.
async fn none_starts(sandbox: &Sandbox, pods: usize) -> Result<()> {
    sandbox
        .wait_for("the pods", async || {
            let there = sandbox.pods().await?.len();
            ensure!(there == pods, "there are {there}");
            Ok(())
        })
        .await?;
    let end = std::time::Instant::now() + CHANCE;
    while std::time::Instant::now() < end {
        let bound = sandbox.bound().await?;
        ensure!(bound.is_empty(), "{bound:?} are bound");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    Ok(())
}

pub async fn gangs_of_three_kinds_start_together(a: Sandbox) -> Result<()> {
    let b = Sandbox::new(a.cluster.clone(), &format!("{}-twin", a.namespace)).await?;
    let (home, away) = (&a.namespace, &b.namespace);
    a.nodes(1, 3).await?;
    b.nodes(1, 2).await?;
    // One side never comes: nothing starts, and the others say for whom they wait.
    a.apply(&job(&format!("Pod:ring, JobSet:{away}/train")))
        .await?;
    let with = format!("Job:prep, JobSet:{away}/train");
    a.apply(&pod(0, &with)).await?;
    a.apply(&pod(1, &with)).await?;
    none_starts(&a, 4).await?;
    let note = a.told_of("Job", "GangWaiting").await?;
    let missing = format!("waits for JobSet {away}/train: it does not exist, or");
    ensure!(note.contains(&missing), "{note}");
    let note = a.told_of("Pod", "GangWaiting").await?;
    ensure!(note.contains(&missing), "{note}");
    // All are there, and the Job and the pods are one CPU short.
    let annotations = format!(
        "muster.dev/gang-mode: Gang, {BUNDLE}, muster.dev/bundle-with: 'Job:{home}/prep, \
         Pod:{home}/ring'"
    );
    b.apply(&jobset("train", &annotations, 2, "1")).await?;
    none_starts(&a, 4).await?;
    none_starts(&b, 2).await?;
    a.nodes(1, 1).await?;
    a.all_bound(4).await?;
    b.all_bound(2).await?;
    // A side that has started goes on without the others: a pod of it is replaced.
    let deleted = a.kubectl(&["delete", "job", "prep", "--wait"], "").await?;
    ensure!(deleted.status.success());
    let pods: Api<Pod> = Api::namespaced(a.client(), home);
    pods.delete("ring-0", &DeleteParams::default()).await?;
    a.apply(&pod(2, &with)).await?;
    a.wait_for("the replacement to be bound", async || {
        let bound = is_bound(&pods.get("ring-2").await?);
        ensure!(bound, "it waits");
        Ok(())
    })
    .await?;
    b.clear().await
}
