//! A kubelet that restarts, and Muster that is gone for a while.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams};

use super::words::{PODS, container, gang};
use crate::install::NAMESPACE;
use crate::node::settings::Sync;
use crate::node::start::two_ready;
use crate::sandbox::Sandbox;

/// On the node only while a test makes room.
const ROOM: &str = "e2e.muster.dev/room";

pub async fn a_restart_of_the_kubelet_harms_no_gang(sandbox: Sandbox) -> Result<()> {
    sandbox
        .apply(&gang(&["now", "--", "sleep", "10"], ""))
        .await?;
    let before = sandbox.all_running(PODS).await?;
    let (cluster, plane) = (&sandbox.cluster, &sandbox.cluster.plane);
    cluster
        .machine()?
        .restart_kubelet(plane, Sync::Default)
        .await?;
    let pods = sandbox.finished().await?;
    for pod in &pods {
        let name = pod.name_any();
        let status = container(pod).context("no status")?;
        ensure!(status.restart_count == 0, "{name} restarted");
        ensure!(
            status.container_id.as_ref() == before.get(&name),
            "{name} is another"
        );
        let starts = sandbox.times(&name, "main").await?;
        ensure!(starts.len() == 1, "{name} started at {starts:?}");
    }
    ensure!(pods.len() == PODS, "there are {} pods", pods.len());
    Ok(())
}

/// They are deleted while a gang waits, and it starts before they are back: what is admitted and
/// has its objects needs Muster no more.
pub async fn both_replicas_deleted_harm_no_gang(sandbox: Sandbox) -> Result<()> {
    let selector = format!("nodeSelector: {{{ROOM}: {}}}", sandbox.namespace);
    sandbox
        .apply(&gang(&["now", "--", "sleep", "1"], &selector))
        .await?;
    sandbox.none_bound(PODS).await?;

    let replicas: Api<Pod> = Api::namespaced(sandbox.client(), NAMESPACE);
    let names = async || -> Result<BTreeSet<String>> {
        let list = replicas.list(&ListParams::default()).await?;
        Ok(list.iter().map(|pod| pod.name_any()).collect())
    };
    let old = names().await?;
    ensure!(old.len() == 2, "there are {old:?}");
    for name in &old {
        // Killed after a second: no lame duck.
        let params = DeleteParams::default().grace_period(1);
        replicas.delete(name, &params).await?;
    }
    sandbox.label_node(ROOM, Some(&sandbox.namespace)).await?;
    let ended = sandbox.finished().await;
    sandbox.label_node(ROOM, None).await?;
    let pods = ended?;
    ensure!(pods.len() == PODS, "there are {} pods", pods.len());

    two_ready(&sandbox.cluster.objects).await?;
    let new = names().await?;
    ensure!(new.is_disjoint(&old), "{new:?} are still {old:?}");
    // And the new ones do their work.
    sandbox
        .wait_for("the gang's objects to go", async || {
            let names = sandbox.names("PodGroup").await?;
            ensure!(names.is_empty(), "there are {names:?}");
            Ok(())
        })
        .await
}
