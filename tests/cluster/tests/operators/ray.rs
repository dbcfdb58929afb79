//! RayClusters of KubeRay: a head and groups of workers, all of them its own pods.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::super::explain::world::quota;
use super::super::lws::{is_bound, pod_group};
use super::{gang, origins};
use crate::sandbox::{Sandbox, refused};

const RAYCLUSTER: (&str, &str) = ("ray.io/v1", "RayCluster");

fn group(name: &str, replicas: u32, cpu: u32, annotations: &str) -> String {
    format!(
        "
  - groupName: {name}
    replicas: {replicas}
    minReplicas: 0
    maxReplicas: 8
    rayStartParams: {{}}
    template:
      metadata: {{annotations: {{example.com/role: {name}{annotations}}}}}
      spec:
        containers:
        - {{name: ray, image: ray, resources: {{requests: {{cpu: '{cpu}', memory: 1Gi}}}}}}"
    )
}

/// A head of one CPU, two small workers of one and a large one of two; the last has annotations of its
/// own.
fn raycluster(annotations: &str, large: &str) -> String {
    format!(
        "
apiVersion: ray.io/v1
kind: RayCluster
metadata: {{name: ray}}
spec:
  rayVersion: 2.46.0
  headGroupSpec:
    rayStartParams: {{}}
    template:
      metadata: {{annotations: {{example.com/role: head{annotations}}}}}
      spec:
        containers: [{{name: ray, image: ray, resources: {{requests: {{cpu: '1', memory: 1Gi}}}}}}]
  workerGroupSpecs: {}{}
",
        group("small", 2, 1, annotations),
        group("large", 1, 2, large),
    )
}

fn all() -> [String; 4] {
    ["head", "large", "small", "small"].map(|role| format!("{role} of RayCluster"))
}

pub async fn a_raycluster_gets_its_head_and_its_worker_groups(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 8).await?;
    sandbox.apply(&raycluster("", "")).await?;
    assert_eq!(origins(&sandbox.all_ready(4).await?)?, all());
    assert!(sandbox.names("PodGroup").await?.is_empty());
    sandbox.raycluster_is("ready").await
}

/// Workers that are added once it runs, by a user or by Ray's autoscaler, are placed one by one.
pub async fn a_raycluster_starts_as_a_gang_and_grows_pod_by_pod(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 4).await?;
    let cluster = sandbox
        .apply(&raycluster(&gang(4), &gang(4)))
        .await?
        .remove(0);
    sandbox.none_bound(4).await?;
    let before = sandbox.one_gang(4, &cluster).await?;
    sandbox.told_of("RayCluster", "GangWaiting").await?;
    sandbox.nodes(1, 2).await?;
    assert_eq!(origins(&sandbox.all_ready(4).await?)?, all());
    sandbox.told_of("RayCluster", "GangScheduled").await?;

    // One CPU is left.
    sandbox.scale_small(4).await?;
    sandbox
        .wait_for("one more to run, and one to wait", async || {
            let pods = sandbox.pods().await?;
            let bound = pods.iter().filter(|pod| is_bound(pod)).count();
            let refused = pods.iter().filter(|pod| refused(pod)).count();
            let pods = pods.len();
            ensure!(
                (bound, refused) == (5, 1),
                "{bound} of {pods} run, {refused} are refused"
            );
            Ok(())
        })
        .await?;
    for pod in sandbox.pods().await? {
        assert_eq!(pod_group(&pod), before.metadata.name, "{}", pod.name_any());
    }
    let after = sandbox.one_gang(4, &cluster).await?;
    assert_eq!(after.uid(), before.uid(), "the same gang");
    sandbox.nodes(1, 1).await?;
    sandbox.all_ready(6).await?;
    sandbox.leaves_nothing("raycluster", "ray").await
}

/// KubeRay tells it in words of its own.
pub async fn a_raycluster_whose_workers_are_refused_says_by_whom(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 8).await?;
    quota(&sandbox, "pods", "2").await?;
    sandbox.apply(&raycluster(&gang(4), &gang(4))).await?;
    let note = sandbox.told_of("RayCluster", "GangWaiting").await?;
    let why = "2 of 4 pods exist; the others are refused by a ResourceQuota: exceeded quota: small";
    ensure!(note.contains(why), "{note}");
    Ok(())
}

/// As Ray's autoscaler does it with workers that have nothing to do.
pub async fn a_raycluster_that_has_shrunk_below_its_quorum_grows_again(
    sandbox: Sandbox,
) -> Result<()> {
    sandbox.nodes(1, 5).await?;
    sandbox.apply(&raycluster(&gang(4), &gang(4))).await?;
    sandbox.all_ready(4).await?;
    sandbox.scale_small(0).await?;
    sandbox.all_ready(2).await?;
    sandbox.scale_small(1).await?;
    sandbox.all_ready(3).await?;
    Ok(())
}

/// As a RayService makes them from one template when it is upgraded.
pub async fn each_of_two_rayclusters_alike_is_a_gang(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 9).await?;
    let each = gang(4) + ", muster.dev/revision-label: ray.io/cluster";
    let text = raycluster(&each, &each);
    sandbox.apply(&text).await?;
    sandbox.all_ready(4).await?;
    let next = text.replacen("name: ray", "name: next", 1);
    sandbox.apply(&next).await?;
    let (old, new): (Vec<Pod>, Vec<Pod>) = sandbox
        .wait_for("the pods of the second to wait", async || {
            let pods = sandbox.pods().await?;
            let waiting = pods.iter().filter(|pod| refused(pod)).count();
            ensure!(
                pods.len() == 8 && waiting == 4,
                "{waiting} of {}",
                pods.len()
            );
            Ok(pods.into_iter().partition(is_bound))
        })
        .await?;
    let gangs = |pods: &[Pod]| pods.iter().filter_map(pod_group).collect::<BTreeSet<_>>();
    let (old, new) = (gangs(&old), gangs(&new));
    ensure!(
        old.len() == 1 && new.len() == 1 && old != new,
        "{old:?} and {new:?}"
    );
    // The scheduler does not move small ones to make room for the large one.
    sandbox.nodes(1, 2).await?;
    sandbox.all_ready(8).await?;
    Ok(())
}

pub async fn a_resumed_raycluster_is_a_gang_again(sandbox: Sandbox) -> Result<()> {
    let late = sandbox.nodes(2, 3).await?.remove(0);
    let cluster = raycluster(&gang(4), &gang(4));
    let cluster = sandbox.apply(&cluster).await?.remove(0);
    sandbox.all_ready(4).await?;
    let before = sandbox.one_gang(4, &cluster).await?;
    sandbox.suspend_raycluster(true).await?;
    // KubeRay goes on only when it has seen that all pods are gone.
    sandbox.raycluster_is("suspended").await?;
    sandbox.left_nothing().await?;
    sandbox.cordon(&late).await?;
    sandbox.suspend_raycluster(false).await?;
    sandbox.raycluster_makes(4).await?;
    sandbox.none_bound(4).await?;
    let after = sandbox.one_gang(4, &cluster).await?;
    assert_ne!(after.uid(), before.uid());
    sandbox.uncordon(&late).await?;
    assert_eq!(origins(&sandbox.all_ready(4).await?)?, all());
    Ok(())
}

pub async fn kuberay_says_why_a_pod_is_refused(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 8).await?;
    sandbox.apply(&raycluster(&gang(4), &gang(3))).await?;
    let note = sandbox
        .told_of("RayCluster", "FailedToCreateWorkerPod")
        .await?;
    let why = "the gang \"ring\" stands with \"4\"";
    ensure!(note.contains(why), "{note}");
    let note = sandbox.told_of("RayCluster", "GangWaiting").await?;
    ensure!(note.contains("3 of 4 pods exist"), "{note}");
    ensure!(sandbox.bound().await?.is_empty());
    Ok(())
}

impl Sandbox {
    /// KubeRay (1.4) sometimes overlooks a resume that comes right after the suspension, until the
    /// RayCluster changes again.
    async fn raycluster_makes(&self, pods: usize) -> Result<()> {
        for touch in 0..10 {
            for _ in 0..10 {
                if self.pods().await?.len() == pods {
                    return Ok(());
                }
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
            let touched = format!("e2e.muster.dev/touched={touch}");
            let args = ["annotate", "--overwrite", "raycluster", "ray", &touched];
            self.kubectl(&args, "").await?;
        }
        bail!("KubeRay makes no pods")
    }

    async fn raycluster_is(&self, expected: &str) -> Result<()> {
        let api = self.api(RAYCLUSTER.0, RAYCLUSTER.1).await?;
        self.wait_for(&format!("the RayCluster to be {expected}"), async || {
            let state = api.get("ray").await?.data["status"]["state"].take();
            ensure!(state == expected, "its state is {state}");
            Ok(())
        })
        .await
    }

    async fn suspend_raycluster(&self, suspend: bool) -> Result<()> {
        let api = self.api(RAYCLUSTER.0, RAYCLUSTER.1).await?;
        let patch = Patch::Merge(json!({"spec": {"suspend": suspend}}));
        api.patch("ray", &PatchParams::default(), &patch).await?;
        Ok(())
    }

    async fn scale_small(&self, replicas: u32) -> Result<()> {
        let api = self.api(RAYCLUSTER.0, RAYCLUSTER.1).await?;
        let path = "/spec/workerGroupSpecs/0/replicas";
        let patch = json!([{"op": "replace", "path": path, "value": replicas}]);
        let patch = Patch::Json::<()>(serde_json::from_value(patch)?);
        api.patch("ray", &PatchParams::default(), &patch).await?;
        Ok(())
    }
}
