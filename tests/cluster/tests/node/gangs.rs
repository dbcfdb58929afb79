//! Gangs of real containers.

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;

use super::words::{PODS, container, gang};
use crate::manifests::parse;
use crate::sandbox::Sandbox;

pub async fn a_gang_of_real_containers_runs_to_its_end(sandbox: Sandbox) -> Result<()> {
    sandbox
        .apply(&gang(&["now", "--", "sleep", "3"], ""))
        .await?;
    let group = sandbox.gangs(1).await?.remove(0);
    // Together, which KWOK's pods cannot show: all of them run at one moment.
    sandbox.all_running(PODS).await?;
    let pods = sandbox.finished().await?;
    ensure!(pods.len() == PODS, "there are {} pods", pods.len());
    let mut starts = Vec::new();
    for pod in &pods {
        let name = pod.name_any();
        let spec = serde_json::to_value(&pod.spec)?;
        ensure!(
            spec["schedulingGroup"]["podGroupName"] == group,
            "{name}: {spec}"
        );
        let status = container(pod).context("no status")?;
        ensure!(status.restart_count == 0, "{name} restarted");
        starts.extend(sandbox.times(&name, "main").await?);
    }
    ensure!(starts.len() == PODS, "{starts:?}");
    let spread = starts.iter().max().zip(starts.iter().min());
    let spread = spread.map_or(0, |(last, first)| last - first);
    println!("from the first container's start to the last one's: {spread} ms");
    sandbox
        .wait_for("the gang's objects to go", async || {
            let names = sandbox.names("PodGroup").await?;
            ensure!(names.is_empty(), "there are {names:?}");
            Ok(())
        })
        .await
}

pub async fn the_pods_of_a_gang_find_each_other_by_name(sandbox: Sandbox) -> Result<()> {
    let names = ["train-workers-0-0.train", "train-workers-1-1.train"];
    let words = names.map(|name| ["resolve", name]).join(&"--");
    sandbox.apply(&gang(&words, "")).await?;
    let pods = sandbox.finished().await?;
    for pod in &pods {
        let name = pod.name_any();
        let log = sandbox.log(&name, "main").await?;
        ensure!(log.lines().count() == names.len(), "{name} said {log:?}");
    }
    Ok(())
}

/// The user's pods and what Muster adds to them are allowed, and the policy is in force.
pub async fn a_gang_runs_under_restricted_pod_security(sandbox: Sandbox) -> Result<()> {
    sandbox.restrict().await?;
    let open = parse(
        "
apiVersion: v1
kind: Pod
metadata: {name: open}
spec: {containers: [{name: main, image: 'box:e2e'}]}
",
    )?;
    let objects = &sandbox.cluster.objects;
    let refused = objects.try_create(&open[0], &sandbox.namespace).await;
    let error = refused.err().context("the policy is not in force")?;
    ensure!(format!("{error:#}").contains("restricted"), "{error:#}");
    sandbox.apply(&gang(&["now"], "")).await?;
    let pods = sandbox.finished().await?;
    ensure!(pods.len() == PODS, "there are {} pods", pods.len());
    Ok(())
}
