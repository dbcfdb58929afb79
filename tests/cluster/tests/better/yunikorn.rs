//! YuniKorn takes pods that come within half a minute for more of the same application, and
//! forgets a gang whose first pod goes.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams};
use serde_json::json;

use super::super::samples::jobset;
use crate::sandbox::Sandbox;

const GANG: &str = "muster.dev/gang-mode: Gang, muster.dev/scheduler: yunikorn";

pub async fn a_gang_that_is_resumed_at_once_is_a_gang_again(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 3).await?;
    let late = sandbox.nodes(1, 1).await?.remove(0);
    sandbox.apply(&jobset("train", GANG, 4, "1")).await?;
    sandbox.placed(4).await?;
    sandbox
        .patch_jobset(json!({"spec": {"suspend": true}}))
        .await?;
    sandbox.placed(0).await?;
    sandbox.cordon(&late).await?;
    sandbox
        .patch_jobset(json!({"spec": {"suspend": false}}))
        .await?;
    sandbox.stays_unbound("0", 4).await?;
    sandbox.uncordon(&late).await?;
    sandbox.placed(4).await
}

pub async fn a_gang_whose_first_pod_is_deleted_starts_all_the_same(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 3).await?;
    sandbox.apply(&jobset("train", GANG, 4, "1")).await?;
    sandbox.stays_unbound("0", 4).await?;
    let first = sandbox.originator().await?;
    let pods: Api<Pod> = Api::namespaced(sandbox.client(), &sandbox.namespace);
    pods.delete(&first, &DeleteParams::default()).await?;
    let said = sandbox.told("GangRevived").await?;
    ensure!(said.contains("a pod was deleted"), "{said}");
    sandbox.stays_unbound("0", 4).await?;
    sandbox.nodes(1, 1).await?;
    sandbox.placed(4).await?;
    let jobsets = sandbox.api("jobset.x-k8s.io/v1alpha2", "JobSet").await?;
    let annotations = jobsets.get("train").await?.annotations().clone();
    ensure!(
        !annotations.contains_key("muster.dev/reviving"),
        "{annotations:?}"
    );
    Ok(())
}

impl Sandbox {
    /// Waits until so many members have a node. Placeholders are not among them.
    async fn placed(&self, count: usize) -> Result<()> {
        self.wait_for(&format!("{count} placed members"), async || {
            let members = self.members("0").await?;
            let placed = |pod: &&Pod| pod.spec.as_ref().is_some_and(|s| s.node_name.is_some());
            let placed = members.iter().filter(placed).count();
            ensure!(placed == count, "{placed} of {} are", members.len());
            Ok(())
        })
        .await
    }

    /// The pod that the placeholders belong to.
    async fn originator(&self) -> Result<String> {
        self.wait_for("a placeholder", async || {
            let pods = self.pods().await?;
            let mut owners = pods.iter().flat_map(|pod| pod.owner_references());
            let owner = owners.find(|owner| owner.kind == "Pod");
            Ok(owner.context("there is none")?.name.clone())
        })
        .await
    }
}
