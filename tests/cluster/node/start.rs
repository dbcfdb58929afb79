//! From nothing to a cluster with a real node, JobSet and Muster, both from their own manifests
//! as they stand.

use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::machine::{Machine, Runtime};
use super::settings::Sync;
use crate::components::Components;
use crate::control_plane::ControlPlane;
use crate::health::wait_for;
use crate::install::{BASE, NAMESPACE};
use crate::manifests::parse;
use crate::objects::Objects;
use crate::operators;
use crate::process::{Group, Process};
use crate::release::Release;

/// Images are there, so a pod takes seconds; the rest is for a machine that compiles beside.
const INSTALLED: Duration = Duration::from_secs(180);

const SAMPLE: &str = "
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: probe}
spec:
  replicatedJobs:
  - name: a
    template: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}
";

pub struct Started {
    pub plane: ControlPlane,
    pub objects: Objects,
    pub processes: Vec<Process>,
    pub machine: Machine,
}

pub async fn start(components: Arc<Components>, group: Arc<Group>, name: &str) -> Result<Started> {
    let start = Instant::now();
    let lap = |what: &str| println!("  {what}: {:.1} s", start.elapsed().as_secs_f64());
    let runtime = Runtime::start(&components, &group);
    let (parts, programs) = (Arc::clone(&components), Arc::clone(&group));
    let plane = ControlPlane::start_for_node(parts, programs, Release::V1_37, name);
    let (runtime, plane) = tokio::try_join!(runtime, plane)?;
    let objects = Objects::new(plane.client.clone());
    let manifests = fs::read(components.path("jobset.json")?)?;
    let manifests: Vec<Value> = serde_json::from_slice(&manifests)?;
    let installed = operators::install(manifests, "jobset-system", &objects).await;
    installed.context("cannot install JobSet")?;
    let (manager, scheduler, machine) = tokio::try_join!(
        plane.start_controller_manager(),
        plane.start_scheduler(),
        Machine::start(&plane, runtime),
    )?;
    lap("the node is Ready");

    // Beside each other, as when both are installed by one command.
    let muster = async {
        let _ = machine.installed.set(install(&plane, &objects).await?);
        lap("Muster's two replicas are Ready");
        Ok(())
    };
    let jobset = async {
        let sample = parse(SAMPLE)?;
        wait_for("JobSet to serve", INSTALLED, async || {
            objects.try_create(&sample[0], "default").await
        })
        .await?;
        lap("JobSet serves");
        Ok::<_, anyhow::Error>(())
    };
    tokio::try_join!(muster, jobset)?;
    machine.restart_kubelet(&plane, Sync::Default).await?;
    lap("the kubelet runs at its default interval");
    Ok(Started {
        plane,
        objects,
        processes: vec![scheduler, manager],
        machine,
    })
}

/// Installs Muster as the README does, and says how long it took until two replicas were Ready.
pub async fn install(plane: &ControlPlane, objects: &Objects) -> Result<Duration> {
    let start = Instant::now();
    apply_overlay(plane, BASE).await?;
    two_ready(objects).await?;
    Ok(start.elapsed())
}

/// What is in a folder of `manifests/`.
pub async fn apply_overlay(plane: &ControlPlane, overlay: &'static str) -> Result<()> {
    let mut command: Command = plane.components().program("kubectl")?;
    command
        .env("KUBECONFIG", &plane.kubeconfig)
        .args(["apply", "-k", overlay]);
    let output = tokio::task::spawn_blocking(move || command.output()).await??;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "kubectl apply -k {overlay}: {said}"
    );
    Ok(())
}

/// Waits until the Deployment has what its manifest asks for.
pub async fn two_ready(objects: &Objects) -> Result<()> {
    replicas_ready(objects, 2).await
}

/// The same, of another number.
pub async fn replicas_ready(objects: &Objects, replicas: usize) -> Result<()> {
    let deployments = objects.api("apps/v1", "Deployment", NAMESPACE).await?;
    let what = format!("{replicas} Ready replicas of Muster");
    wait_for(&what, INSTALLED, async || {
        let deployment = deployments.get("muster").await?;
        let status = &deployment.data["status"];
        let generation = deployment.metadata.generation;
        ensure!(status["observedGeneration"].as_i64() == generation, "new");
        for count in ["replicas", "readyReplicas", "updatedReplicas"] {
            ensure!(status[count] == replicas, "{count} is {}", status[count]);
        }
        Ok(())
    })
    .await
}
