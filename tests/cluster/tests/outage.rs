//! Muster is stopped: what has no gang does not notice, what has one waits and recovers.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, ensure};
use kube::ResourceExt as _;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;

use super::samples::{events, gang, jobset, made, writes};
use crate::muster::Muster;
use crate::ports::Port;
use crate::sandbox::Sandbox;

const ENOUGH: Duration = Duration::from_secs(10);

const PLAIN: &str = "
apiVersion: batch/v1
kind: Job
metadata: {name: job}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: train}]
---
apiVersion: v1
kind: Pod
metadata: {name: pod}
spec: {containers: [{name: main, image: train}]}
";

/// How many pods of each JobSet have a node.
async fn bound(sandbox: &Sandbox, name: &str) -> Result<usize> {
    let bound = sandbox.bound().await?;
    Ok(bound.keys().filter(|pod| pod.starts_with(name)).count())
}

async fn runs(sandbox: &Sandbox, name: &str, pods: usize) -> Result<()> {
    sandbox
        .wait_for(&format!("{name} to run"), async || {
            let bound = bound(sandbox, name).await?;
            ensure!(bound == pods, "{bound} of its {pods} pods are bound");
            Ok(())
        })
        .await
}

/// What Muster has written, with the version of each.
async fn versions(sandbox: &Sandbox) -> Result<BTreeMap<String, Option<String>>> {
    let mut all = made(sandbox).await?;
    all.extend(events(sandbox).await?);
    let version = |o: kube::api::DynamicObject| (o.name_any(), o.resource_version());
    Ok(all.into_iter().map(version).collect())
}

pub async fn what_has_a_gang_waits_for_muster_and_the_rest_does_not(
    sandbox: Sandbox,
) -> Result<()> {
    let cluster = sandbox.cluster.another("outage").await?;
    let port = Port::reserve()?;
    let number = port.number;
    let muster = Muster::install(&cluster, number).await?;
    let process = muster.start_at(&cluster.plane, "muster-0", port).await?;
    let sandbox = Sandbox::new(cluster.clone(), "outage").await?;
    sandbox.nodes(2, 8).await?;
    sandbox.apply(&gang("early", 3, "1")).await?;
    runs(&sandbox, "early-", 3).await?;
    sandbox
        .wait_for("Muster to have said so", async || {
            let told = events(&sandbox).await?;
            let done = told.iter().any(|e| e.data["reason"] == "GangScheduled");
            ensure!(done, "it has not");
            Ok(())
        })
        .await?;

    // A restart on settled gangs writes nothing.
    let before = (versions(&sandbox).await?, writes(&cluster).await?);
    ensure!(process.stop(ENOUGH).await?.success(), "it did not end well");
    let process = muster
        .start_at(&cluster.plane, "muster-0", Port::again(number)?)
        .await?;
    sandbox.apply(&gang("probe", 1, "1")).await?;
    runs(&sandbox, "probe-", 1).await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let mut after = (versions(&sandbox).await?, writes(&cluster).await?);
    after.0.retain(|name, _| !name.starts_with("probe"));
    // The gang that shows that the new process leads has two objects of its own.
    assert_eq!((after.0, after.1), (before.0, before.1 + 2));

    // Admitted, and at once nobody there to make its objects or to link its pods.
    sandbox.apply(&gang("late", 2, "1")).await?;
    process.signal(rustix::process::Signal::KILL)?;
    process.stop(ENOUGH).await?;

    sandbox.apply(PLAIN).await?;
    sandbox.apply(&jobset("plain", "", 2, "1")).await?;
    runs(&sandbox, "job-", 1).await?;
    runs(&sandbox, "pod", 1).await?;
    runs(&sandbox, "plain-", 2).await?;

    let refused = sandbox
        .kubectl(&["apply", "--filename=-"], &gang("new", 2, "1"))
        .await?;
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    let clear = said.contains("failed calling webhook \"jobsets.muster.dev\"")
        && said.contains("connection refused");
    ensure!(clear, "{said}");

    // The running gang loses its pods; new ones are not let in without their link.
    let pods = sandbox.api("v1", "Pod").await?;
    let early = ListParams::default().labels("jobset.sigs.k8s.io/jobset-name=early");
    let now = DeleteParams::default().grace_period(0);
    pods.delete_collection(&now, &early).await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(bound(&sandbox, "early-").await?, 0);

    // Another one ends meanwhile.
    let probe = ListParams::default().labels("jobset.sigs.k8s.io/jobset-name=probe");
    for pod in pods.list(&probe).await? {
        let end = Patch::Merge(json!({"metadata": {"annotations": {"fake/outcome": "succeed"}}}));
        pods.patch(&pod.name_any(), &PatchParams::default(), &end)
            .await?;
    }
    let objects_of_probe = async || {
        let made = made(&sandbox).await?;
        let names = made.into_iter().map(|object| object.name_any());
        anyhow::Ok(names.filter(|name| name.starts_with("probe")).count())
    };
    assert_eq!(objects_of_probe().await?, 2);

    let _process = muster
        .start_at(&cluster.plane, "muster-0", Port::again(number)?)
        .await?;
    sandbox.apply(&gang("new", 2, "1")).await?;
    runs(&sandbox, "new-", 2).await?;
    runs(&sandbox, "late-", 2).await?;
    sandbox
        .wait_for("the ended gang's objects to go", async || {
            let left = objects_of_probe().await?;
            ensure!(left == 0, "{left} are left");
            Ok(())
        })
        .await?;
    // The Job controller tries again after a back-off of its own.
    crate::health::wait_for("the lost pods", Duration::from_secs(90), async || {
        let bound = bound(&sandbox, "early-").await?;
        ensure!(bound == 3, "{bound} are bound");
        Ok(())
    })
    .await?;
    for pod in pods.list(&early).await? {
        let link = &pod.data["spec"]["schedulingGroup"]["podGroupName"];
        ensure!(link.is_string(), "{} has no link", pod.name_any());
    }
    Ok(())
}
