//! LeaderWorkerSets: each replica is a gang, in each of its lives.

pub mod lives;
pub mod neighbours;
pub mod rollouts;

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};

use crate::sandbox::Sandbox;

pub const LWS: (&str, &str) = ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet");
const GROUP: &str = "leaderworkerset.sigs.k8s.io/group-index";

/// Replicas of one-CPU pods.
pub fn lws(annotations: &str, spec: &str, size: u32) -> String {
    format!(
        "
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata:
  name: serve
  annotations: {{muster.dev/gang-mode: ReplicatedGang{annotations}}}
spec:
  {spec}
  leaderWorkerTemplate:
    size: {size}
    leaderTemplate:
      spec:
        containers: [{{name: leader, image: vllm, resources: {{requests: {{cpu: '1'}}}}}}]
    workerTemplate:
      spec:
        containers: [{{name: worker, image: vllm, resources: {{requests: {{cpu: '1'}}}}}}]
"
    )
}

impl Sandbox {
    /// The pods of one replica that are not being deleted.
    pub async fn replica(&self, group: &str) -> Result<Vec<Pod>> {
        let api: Api<Pod> = Api::namespaced(self.client(), &self.namespace);
        let own = ListParams::default().labels(&format!("{GROUP}={group}"));
        let mut pods = api.list(&own).await?.items;
        pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
        Ok(pods)
    }

    pub async fn patch_lws(&self, patch: serde_json::Value) -> Result<()> {
        let api = self.api(LWS.0, LWS.1).await?;
        let patch = Patch::Merge(patch);
        api.patch("serve", &PatchParams::default(), &patch).await?;
        Ok(())
    }

    pub async fn delete_pod(&self, name: &str) -> Result<()> {
        let api: Api<Pod> = Api::namespaced(self.client(), &self.namespace);
        api.delete(name, &DeleteParams::background()).await?;
        Ok(())
    }

    /// Waits until so many replicas of so many pods run, each in a PodGroup of its own, and no
    /// other PodGroup is left. Returns their names.
    pub async fn replicas_run(&self, replicas: usize, size: usize) -> Result<BTreeSet<String>> {
        self.wait_for(
            &format!("{replicas} replicas to run as gangs"),
            async || {
                let pods = self.pods().await?;
                let bound = pods.iter().filter(|pod| is_bound(pod)).count();
                ensure!(
                    pods.len() == replicas * size && bound == pods.len(),
                    "{bound} of {} pods are bound",
                    pods.len()
                );
                let linked: BTreeSet<String> = pods.iter().filter_map(pod_group).collect();
                let groups: BTreeSet<String> = self.names("PodGroup").await?.into_iter().collect();
                ensure!(
                    linked.len() == replicas && linked == groups,
                    "pods link to {linked:?}, there are {groups:?}"
                );
                Ok(groups)
            },
        )
        .await
    }
}

pub fn is_bound(pod: &Pod) -> bool {
    pod.spec.as_ref().is_some_and(|s| s.node_name.is_some())
}

pub fn pod_group(pod: &Pod) -> Option<String> {
    let group = pod.spec.as_ref()?.scheduling_group.as_ref()?;
    group.pod_group_name.clone()
}
