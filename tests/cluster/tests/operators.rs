//! Operators of other projects on fake nodes, by themselves: no gang, and nothing of Muster's.
//!
//! What they promise here is what Muster builds on: the pods of their workloads come, with the
//! annotations of their templates.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

use crate::sandbox::Sandbox;

/// The mark on a template that every pod of it must bear.
const MARK: &str = "example.com/role";

const MPIJOB: &str = "
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: pi}
spec:
  mpiReplicaSpecs:
    Launcher:
      replicas: 1
      template:
        metadata: {annotations: {example.com/role: launcher}}
        spec: {containers: [{name: main, image: pi, command: [mpirun, pi]}]}
    Worker:
      replicas: 2
      template:
        metadata: {annotations: {example.com/role: worker}}
        spec:
          containers: [{name: main, image: pi, resources: {requests: {cpu: '1'}}}]
";

const RAYCLUSTER: &str = "
apiVersion: ray.io/v1
kind: RayCluster
metadata: {name: ray}
spec:
  rayVersion: 2.46.0
  headGroupSpec:
    rayStartParams: {}
    template:
      metadata: {annotations: {example.com/role: head}}
      spec:
        containers: [{name: ray, image: ray, resources: {requests: {cpu: '1', memory: 1Gi}}}]
  workerGroupSpecs:
  - groupName: small
    replicas: 2
    minReplicas: 0
    maxReplicas: 8
    rayStartParams: {}
    template:
      metadata: {annotations: {example.com/role: small}}
      spec:
        containers: [{name: ray, image: ray, resources: {requests: {cpu: '1', memory: 1Gi}}}]
  - groupName: large
    replicas: 1
    minReplicas: 0
    maxReplicas: 8
    rayStartParams: {}
    template:
      metadata: {annotations: {example.com/role: large}}
      spec:
        containers: [{name: ray, image: ray, resources: {requests: {cpu: '2', memory: 1Gi}}}]
";

/// Waits until so many pods run and are ready, and returns them.
async fn all_run(sandbox: &Sandbox, count: usize) -> Result<Vec<Pod>> {
    sandbox
        .wait_for(&format!("{count} pods that are ready"), async || {
            let pods = sandbox.pods().await?;
            let ready = pods.iter().filter(|pod| is_ready(pod)).count();
            ensure!(
                ready == count && pods.len() == count,
                "{ready} of {}",
                pods.len()
            );
            Ok(pods)
        })
        .await
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// The mark of each pod, and the kind of object that controls it.
fn origins(pods: &[Pod]) -> Result<Vec<String>> {
    let origin = |pod: &Pod| {
        let mark = pod.annotations().get(MARK);
        let mark = mark.with_context(|| format!("{} bears no mark", pod.name_any()))?;
        let mut owners = pod.owner_references().iter();
        let controller = owners.find(|owner| owner.controller == Some(true));
        let kind = &controller.context("a pod of nobody")?.kind;
        Ok(format!("{mark} of {kind}"))
    };
    let mut origins: Vec<String> = pods.iter().map(origin).collect::<Result<_>>()?;
    origins.sort();
    Ok(origins)
}

pub async fn an_mpijob_gets_its_launcher_and_its_workers(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 8).await?;
    sandbox.apply(MPIJOB).await?;
    let pods = all_run(&sandbox, 3).await?;
    let expected = ["launcher of Job", "worker of MPIJob", "worker of MPIJob"];
    assert_eq!(origins(&pods)?, expected);
    Ok(())
}

pub async fn a_raycluster_gets_its_head_and_its_worker_groups(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 8).await?;
    sandbox.apply(RAYCLUSTER).await?;
    let pods = all_run(&sandbox, 4).await?;
    let expected = ["head", "large", "small", "small"].map(|role| format!("{role} of RayCluster"));
    assert_eq!(origins(&pods)?, expected);
    let clusters = sandbox.api("ray.io/v1", "RayCluster").await?;
    sandbox
        .wait_for("the RayCluster to be ready", async || {
            let state = clusters.get("ray").await?.data["status"]["state"].take();
            ensure!(state == "ready", "its state is {state}");
            Ok(())
        })
        .await
}
