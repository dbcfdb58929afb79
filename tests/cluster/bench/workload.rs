//! The JobSet of a benchmark, and its pods.

use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::json;

use super::PATIENCE;
use crate::health::wait_for;
use crate::sandbox::Sandbox;

const NODES: usize = 20;

/// All but one are of one role; the last one is held back.
pub fn workload(members: usize) -> String {
    let group = |role: &str, pods: usize, annotations: &str| {
        format!(
            "
  - name: {role}
    replicas: 1
    template:
      spec:
        parallelism: {pods}
        completions: {pods}
        template:
          metadata: {{annotations: {{{annotations}}}}}
          spec:
            restartPolicy: Never
            containers: [{{name: main, image: train}}]"
        )
    };
    format!(
        "
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: train
  annotations: {{muster.dev/start-barrier: 30m}}
spec:
  network: {{enableDNSHostnames: false}}
  replicatedJobs: {}{}
",
        group("crowd", members - 1, ""),
        group("last", 1, "fake/hold: 'true'")
    )
}

/// Nodes that take all of them.
pub async fn roomy(sandbox: &Sandbox) -> Result<()> {
    let api: Api<Node> = Api::all(sandbox.client());
    for name in sandbox.nodes(NODES, 64).await? {
        let room = json!({"cpu": "64", "memory": "256Gi", "pods": "1000"});
        let patch = json!({"status": {"capacity": room, "allocatable": room}});
        let params = PatchParams::default();
        api.patch_status(&name, &params, &Patch::Merge(patch))
            .await?;
    }
    Ok(())
}

/// All but the last wait.
pub async fn arrived(sandbox: &Sandbox, members: usize) -> Result<Vec<Pod>> {
    let api: Api<Pod> = Api::namespaced(sandbox.client(), &sandbox.namespace);
    wait_for("all pods to come", PATIENCE, async || {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let pods = api.list(&ListParams::default()).await?.items;
        let begun = |pod: &&Pod| {
            let status = pod.status.as_ref();
            status.is_some_and(|status| status.init_container_statuses.is_some())
        };
        let waiting = pods.iter().filter(begun).count();
        ensure!(
            waiting == members - 1 && pods.len() == members,
            "{waiting} of {}",
            pods.len()
        );
        Ok(pods)
    })
    .await
}

/// The last pod starts: written as a kubelet would.
pub async fn arrive(sandbox: &Sandbox, pod: &str) -> Result<()> {
    let api: Api<Pod> = Api::namespaced(sandbox.client(), &sandbox.namespace);
    let now = k8s_openapi::jiff::Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%SZ")
        .to_string();
    let status = json!({"status": {"initContainerStatuses": [{
        "name": "group-scheduling-init", "image": "muster", "imageID": "", "ready": false,
        "restartCount": 0, "started": true, "state": {"running": {"startedAt": now}},
    }]}});
    let params = PatchParams::default();
    api.patch_status(pod, &params, &Patch::Merge(status))
        .await?;
    Ok(())
}
