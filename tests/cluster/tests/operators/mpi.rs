//! MPIJobs of the MPI operator: the workers are its own pods, the launcher is a pod of a Job of it.

use anyhow::{Result, ensure};
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::super::lws::pod_group;
use super::{gang, origins};
use crate::sandbox::Sandbox;

const MPIJOB: (&str, &str) = ("kubeflow.org/v2beta1", "MPIJob");

/// A launcher and two workers of one CPU each; `launcher` and `worker` are more annotations.
fn mpijob(spec: &str, launcher: &str, worker: &str) -> String {
    format!(
        "
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {{name: pi}}
spec:
  {spec}
  mpiReplicaSpecs:
    Launcher:
      replicas: 1
      template:
        metadata: {{annotations: {{example.com/role: launcher{launcher}}}}}
        spec:
          containers:
          - {{name: main, image: pi, command: [mpirun], resources: {{requests: {{cpu: '1'}}}}}}
    Worker:
      replicas: 2
      template:
        metadata: {{annotations: {{example.com/role: worker{worker}}}}}
        spec:
          containers: [{{name: main, image: pi, resources: {{requests: {{cpu: '1'}}}}}}]
"
    )
}

const LATE: &str = "launcherCreationPolicy: WaitForWorkersReady";

const ALL: [&str; 3] = ["launcher of Job", "worker of MPIJob", "worker of MPIJob"];

pub async fn an_mpijob_gets_its_launcher_and_its_workers(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 8).await?;
    sandbox.apply(&mpijob("", "", "")).await?;
    assert_eq!(origins(&sandbox.all_ready(3).await?)?, ALL);
    assert!(sandbox.names("PodGroup").await?.is_empty());
    Ok(())
}

pub async fn the_launcher_and_the_workers_of_an_mpijob_are_one_gang(
    sandbox: Sandbox,
) -> Result<()> {
    sandbox.nodes(1, 2).await?;
    let job = sandbox
        .apply(&mpijob("", &gang(3), &gang(3)))
        .await?
        .remove(0);
    sandbox.none_bound(3).await?;
    // The launcher's own controller is a Job of the MPIJob.
    sandbox.one_gang(3, &job).await?;
    let note = sandbox.told_of("MPIJob", "GangWaiting").await?;
    ensure!(note.contains("0 of 3 pods placed, 3 needed"), "{note}");
    sandbox.nodes(1, 1).await?;
    assert_eq!(origins(&sandbox.all_ready(3).await?)?, ALL);
    sandbox.one_gang(3, &job).await?;
    sandbox.told_of("MPIJob", "GangScheduled").await?;
    sandbox.leaves_nothing("mpijob", "pi").await
}

/// No launcher is made before all workers are ready: it cannot be counted, and joins their gang.
pub async fn a_launcher_that_waits_for_its_workers_joins_their_gang(
    sandbox: Sandbox,
) -> Result<()> {
    sandbox.nodes(1, 1).await?;
    let job = mpijob(LATE, &gang(2), &gang(2));
    let job = sandbox.apply(&job).await?.remove(0);
    sandbox.none_bound(2).await?;
    assert_eq!(origins(&sandbox.pods().await?)?, ALL[1..]);
    let before = sandbox.one_gang(2, &job).await?;
    sandbox.nodes(1, 2).await?;
    let pods = sandbox.all_ready(3).await?;
    assert_eq!(origins(&pods)?, ALL);
    let after = sandbox.one_gang(2, &job).await?;
    assert_eq!(after.uid(), before.uid(), "the launcher begins no gang");
    for pod in pods {
        assert_eq!(pod_group(&pod), before.metadata.name, "{}", pod.name_any());
    }
    sandbox.leaves_nothing("mpijob", "pi").await
}

pub async fn a_launcher_that_is_counted_too_early_is_missed(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 8).await?;
    sandbox.apply(&mpijob(LATE, &gang(3), &gang(3))).await?;
    let note = sandbox.told_of("MPIJob", "GangWaiting").await?;
    ensure!(note.contains("only 2 of 3 pods exist"), "{note}");
    Ok(())
}

pub async fn a_resumed_mpijob_is_a_gang_again(sandbox: Sandbox) -> Result<()> {
    let late = sandbox.nodes(2, 2).await?.remove(0);
    let job = sandbox
        .apply(&mpijob("", &gang(3), &gang(3)))
        .await?
        .remove(0);
    sandbox.all_ready(3).await?;
    let before = sandbox.one_gang(3, &job).await?;
    sandbox.suspend_mpijob(true).await?;
    sandbox.left_nothing().await?;
    sandbox.cordon(&late).await?;
    sandbox.suspend_mpijob(false).await?;
    sandbox.none_bound(3).await?;
    let after = sandbox.one_gang(3, &job).await?;
    assert_ne!(after.uid(), before.uid());
    sandbox.uncordon(&late).await?;
    assert_eq!(origins(&sandbox.all_ready(3).await?)?, ALL);
    sandbox.leaves_nothing("mpijob", "pi").await
}

pub async fn the_mpi_operator_says_why_a_pod_is_refused(sandbox: Sandbox) -> Result<()> {
    let uncounted = ", muster.dev/gang-name: ring";
    sandbox.apply(&mpijob("", &gang(3), uncounted)).await?;
    let note = sandbox.told_of("MPIJob", "MPIJobFailed").await?;
    let why = "muster.dev/min-count]: Required value";
    ensure!(note.contains(why), "{note}");

    let disagreeing = mpijob("", &gang(2), &gang(3)).replacen("name: pi", "name: pie", 1);
    sandbox.apply(&disagreeing).await?;
    let note = sandbox.told_of("Job", "FailedCreate").await?;
    let why = "the gang \"ring\" stands with \"3\", set by the pod \"pie-worker-0\"";
    ensure!(note.contains(why), "{note}");
    Ok(())
}

impl Sandbox {
    async fn suspend_mpijob(&self, suspend: bool) -> Result<()> {
        let api = self.api(MPIJOB.0, MPIJOB.1).await?;
        let patch = Patch::Merge(json!({"spec": {"runPolicy": {"suspend": suspend}}}));
        api.patch("pi", &PatchParams::default(), &patch).await?;
        Ok(())
    }
}
