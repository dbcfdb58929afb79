//! Gangs that several themes use, and how Muster's part in them is read.

use anyhow::Result;
use hyper::Request;
use kube::api::{DynamicObject, ListParams};

use crate::cluster::Cluster;
use crate::sandbox::Sandbox;

pub const JOBSET: (&str, &str) = ("jobset.x-k8s.io/v1alpha2", "JobSet");
const SCHEDULING: &str = "scheduling.k8s.io/v1beta1";

/// A JobSet of one ReplicatedJob; its annotations make it a gang, or not.
pub fn jobset(name: &str, annotations: &str, pods: u32, cpu: &str) -> String {
    format!(
        "
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: {name}
  annotations: {{{annotations}}}
spec:
  suspend: false
  replicatedJobs:
  - name: workers
    replicas: 1
    template:
      spec:
        parallelism: {pods}
        completions: {pods}
        backoffLimit: 6
        template:
          spec:
            restartPolicy: Never
            containers: [{{name: main, image: train, resources: {{requests: {{cpu: '{cpu}'}}}}}}]
"
    )
}

/// A JobSet that is one gang.
pub fn gang(name: &str, pods: u32, cpu: &str) -> String {
    jobset(name, "muster.dev/gang-mode: Gang", pods, cpu)
}

/// What Muster has made in a namespace.
pub async fn made(sandbox: &Sandbox) -> Result<Vec<DynamicObject>> {
    let mut all = Vec::new();
    for kind in ["Workload", "PodGroup"] {
        let api = sandbox.api(SCHEDULING, kind).await?;
        all.extend(api.list(&ListParams::default()).await?.items);
    }
    Ok(all)
}

pub async fn events(sandbox: &Sandbox) -> Result<Vec<DynamicObject>> {
    let api = sandbox.api("events.k8s.io/v1", "Event").await?;
    let mut all = api.list(&ListParams::default()).await?.items;
    all.retain(|event| event.data["reportingController"] == "muster");
    Ok(all)
}

/// Writes to scheduler objects, which only Muster makes on a cluster of its own, by the apiserver's
/// own count: applies and deletions. Events are compared by themselves.
pub async fn writes(cluster: &Cluster) -> Result<u64> {
    let request = Request::get("/metrics").body(Vec::new())?;
    let text = cluster.plane.client.request_text(request).await?;
    let mut sum = 0.0;
    for line in text.lines() {
        let ours = line.starts_with("apiserver_request_total{")
            && (line.contains("resource=\"podgroups\"") || line.contains("resource=\"workloads\""))
            && line.contains("subresource=\"\"")
            && (line.contains("verb=\"APPLY\"") || line.contains("verb=\"DELETE\""));
        if ours {
            sum += line.rsplit(' ').next().unwrap_or_default().parse::<f64>()?;
        }
    }
    Ok(sum as u64)
}
