//! Pods that declare their gang themselves, bare or of a controller: what they agree on, who owns what
//! is made for them, and what is told of them.

pub mod crowd;
pub mod outage;
pub mod owners;
pub mod words;

use anyhow::{Result, ensure};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams};

use crate::sandbox::Sandbox;

/// A bare pod of one CPU that declares the gang `ring`, with those annotations beside its name.
fn bare(name: &str, declared: &str) -> String {
    format!(
        "
---
apiVersion: v1
kind: Pod
metadata:
  name: {name}
  annotations: {{muster.dev/gang-name: ring, {declared}}}
spec:
  containers: [{{name: main, image: train, resources: {{requests: {{cpu: '1'}}}}}}]
"
    )
}

/// Bare pods of one gang with that quorum.
fn ring(names: &[&str], quorum: u32) -> String {
    let declared = format!("muster.dev/min-count: '{quorum}'");
    names.iter().map(|name| bare(name, &declared)).collect()
}

/// A Deployment whose pods are one gang whatever their revision.
fn deployment(replicas: u32, quorum: u32) -> String {
    format!(
        "
apiVersion: apps/v1
kind: Deployment
metadata: {{name: serve}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: serve}}}}
  template:
    metadata:
      labels: {{app: serve}}
      annotations: {{muster.dev/gang-name: ring, muster.dev/min-count: '{quorum}'}}
    spec:
      containers: [{{name: main, image: serve, resources: {{requests: {{cpu: '1'}}}}}}]
"
    )
}

impl Sandbox {
    /// Who owns the only PodGroup.
    async fn owners_of_gang(&self) -> Result<Vec<OwnerReference>> {
        let groups = self.made("PodGroup").await?;
        ensure!(groups.len() == 1, "there are {} PodGroups", groups.len());
        Ok(groups[0].owner_references().to_vec())
    }

    async fn delete_ring(&self, names: &[&str]) -> Result<()> {
        let api: Api<k8s_openapi::api::core::v1::Pod> =
            Api::namespaced(self.client(), &self.namespace);
        for name in names {
            api.delete(name, &DeleteParams::default()).await?;
        }
        Ok(())
    }

    async fn scale_serve(&self, replicas: u32) -> Result<()> {
        let replicas = format!("--replicas={replicas}");
        let args = ["scale", "deployment", "serve", &replicas];
        let scaled = self.kubectl(&args, "").await?;
        let said = String::from_utf8_lossy(&scaled.stderr);
        ensure!(scaled.status.success(), "{said}");
        Ok(())
    }
}
