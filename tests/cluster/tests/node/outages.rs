//! A kubelet that restarts, and Muster that is gone for a while.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams};

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
    let old = sandbox.replicas().await?;
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
    let new = sandbox.replicas().await?;
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

/// One gang runs, one waits for room and one is being created when the leader's pod is deleted.
pub async fn the_leaders_pod_deleted_harms_no_gang(sandbox: Sandbox) -> Result<()> {
    let runs = sandbox.beside("runs").await?;
    let new = sandbox.beside("new").await?;
    runs.apply(&gang(&["now", "--", "sleep", "8"], "")).await?;
    let selector = format!("nodeSelector: {{{ROOM}: {}}}", sandbox.namespace);
    sandbox.apply(&gang(&["now"], &selector)).await?;
    let before = runs.all_running(PODS).await?;
    sandbox.none_bound(PODS).await?;

    let old = sandbox.replicas().await?;
    let leader = sandbox.leader(&old).await?;
    let replicas: Api<Pod> = Api::namespaced(sandbox.client(), NAMESPACE);
    replicas.delete(&leader, &DeleteParams::default()).await?;
    let deleted = Instant::now();
    // Neither is refused: the other replica serves, and so does the one that goes.
    new.apply(&gang(&["now"], "")).await?;
    sandbox.label_node(ROOM, Some(&sandbox.namespace)).await?;
    let ended = async {
        for sandbox in [&new, &sandbox, &runs] {
            let pods = sandbox.finished().await?;
            ensure!(pods.len() == PODS, "there are {} pods", pods.len());
        }
        Ok(())
    };
    let ended = ended.await;
    sandbox.label_node(ROOM, None).await?;
    ended?;
    println!(
        "the leader's pod deleted: all three gangs ended {:.1} s later",
        deleted.elapsed().as_secs_f64()
    );
    for pod in runs.pods().await? {
        let (name, status) = (pod.name_any(), container(&pod).context("no status")?);
        let same = status.container_id.as_ref() == before.get(&name);
        ensure!(same && status.restart_count == 0, "{name} is another");
    }
    two_ready(&sandbox.cluster.objects).await?;
    let mut others = sandbox.replicas().await?;
    others.remove(&leader);
    sandbox.leader(&others).await?;
    runs.clear().await?;
    new.clear().await
}
