//! The pods of a gang that declare it themselves: how the cells make them come and go.

use std::time::Instant;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;

use super::super::lws::is_bound;
use super::cell::CHANCE;
use super::pods::PODS;
use crate::health::PATIENCE;
use crate::sandbox::Sandbox;

impl Sandbox {
    /// The pods of the gang that are not being deleted.
    pub async fn live_pods(&self) -> Result<Vec<Pod>> {
        let api: Api<Pod> = Api::namespaced(self.client(), &self.namespace);
        // YuniKorn's placeholders have labels of their own.
        let mut pods = api
            .list(&ListParams::default().labels("app=train"))
            .await?
            .items;
        pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
        pods.retain(|pod| {
            !pod.annotations()
                .contains_key("yunikorn.apache.org/placeholder")
        });
        Ok(pods)
    }

    pub async fn delete_live(&self) -> Result<()> {
        let api: Api<Pod> = Api::namespaced(self.client(), &self.namespace);
        for pod in self.live_pods().await? {
            let params = DeleteParams::default();
            api.delete(&pod.name_any(), &params).await?;
        }
        Ok(())
    }

    pub async fn all_go(&self) -> Result<()> {
        self.wait_for("all pods to go", async || {
            let left = self.live_pods().await?.len();
            ensure!(left == 0, "{left} are left");
            Ok(())
        })
        .await
    }

    /// Waits until so many pods exist, and then sees none of them bound for a while.
    pub async fn pods_wait(&self, count: usize) -> Result<()> {
        self.wait_for("the pods", async || {
            let pods = self.live_pods().await?.len();
            ensure!(pods == count, "there are {pods}");
            Ok(())
        })
        .await?;
        let end = Instant::now() + CHANCE;
        while Instant::now() < end {
            let pods = self.live_pods().await?;
            let bound = pods.iter().filter(|pod| is_bound(pod)).map(Pod::name_any);
            let bound: Vec<String> = bound.collect();
            ensure!(bound.is_empty(), "{bound:?} are bound, and not all fit");
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        Ok(())
    }

    pub async fn pods_run(&self, count: usize) -> Result<Vec<Pod>> {
        crate::health::wait_for("every pod to be bound", PATIENCE, async || {
            let pods = self.live_pods().await?;
            let bound = pods.iter().filter(|pod| is_bound(pod)).count();
            ensure!(
                bound == count && pods.len() == count,
                "{bound} of {} are",
                pods.len()
            );
            Ok(pods)
        })
        .await
    }

    pub async fn scale(&self, replicas: usize) -> Result<()> {
        let replicas = format!("--replicas={replicas}");
        let scaled = self
            .kubectl(&["scale", "statefulset", "train", &replicas], "")
            .await?;
        let said = String::from_utf8_lossy(&scaled.stderr);
        ensure!(scaled.status.success(), "{said}");
        Ok(())
    }

    pub async fn delete_train(&self, kind: &str) -> Result<()> {
        let deleted = self
            .kubectl(&["delete", kind, "train", "--wait"], "")
            .await?;
        ensure!(deleted.status.success());
        Ok(())
    }

    pub async fn change_template(&self) -> Result<()> {
        let api = self.api("apps/v1", "Deployment").await?;
        let patch = json!({"spec": {"template": {"metadata": {"labels": {"version": "2"}}}}});
        api.patch("train", &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        Ok(())
    }

    /// Waits until none of the old pods is left among those that count.
    pub async fn next_revision(&self, old: &[Pod]) -> Result<()> {
        self.wait_for("the next revision", async || {
            let pods = self.live_pods().await?;
            let (new, before) = pods
                .iter()
                .partition::<Vec<&Pod>, _>(|pod| pod.labels().contains_key("version"));
            ensure!(
                before.is_empty(),
                "{} of {} are left",
                before.len(),
                old.len()
            );
            ensure!(new.len() == PODS, "there are {}", new.len());
            Ok(())
        })
        .await
    }

    /// A rollout pod by pod, with room for one more: old and new ones make the quorum together.
    pub async fn rolls_in_place(&self) -> Result<()> {
        self.nodes(1, 1).await?;
        self.change_template().await?;
        crate::health::wait_for("the rollout", PATIENCE, async || {
            let pods = self.live_pods().await?;
            let new = pods
                .iter()
                .filter(|pod| pod.labels().contains_key("version") && is_bound(pod));
            let new = new.count();
            ensure!(new == PODS && pods.len() == PODS, "{new} of {}", pods.len());
            Ok(())
        })
        .await?;
        self.one_gang_is_left().await
    }
}
