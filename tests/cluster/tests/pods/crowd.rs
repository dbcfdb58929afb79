//! A gang of five thousand bare pods that are created at once.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Api, PostParams};
use serde_json::json;

use super::super::lws::pod_group;
use super::super::samples::{made, writes};
use crate::muster::Muster;
use crate::ports::Port;
use crate::sandbox::Sandbox;

const PODS: usize = 5000;
/// Requests at a time: more would only wait for the apiserver's own limits.
const AT_ONCE: usize = 64;
/// MiB of Muster's resident memory with all of them, in a debug build, which is the larger one.
const BUDGET: u64 = 120;

const QUIET: Duration = Duration::from_secs(5);

fn pod(number: usize) -> Result<Pod> {
    let pod = json!({
        "metadata": {"name": format!("ring-{number}"), "annotations": {
            "muster.dev/gang-name": "ring", "muster.dev/min-count": PODS.to_string(),
        }},
        "spec": {"containers": [{
            "name": "main", "image": "train", "resources": {"requests": {"cpu": "1m"}},
        }]},
    });
    Ok(serde_json::from_value(pod)?)
}

/// There is no node for them: nobody but Muster has work with them.
pub async fn five_thousand_pods_are_one_gang_and_one_write(sandbox: Sandbox) -> Result<()> {
    let cluster = sandbox.cluster.another("crowd").await?;
    let port = Port::reserve()?;
    let muster = Muster::install(&cluster, port.number).await?;
    let process = muster.start_at(&cluster.plane, "muster-0", port).await?;
    let sandbox = Sandbox::new(cluster.clone(), "crowd").await?;
    let empty = process.memory().context("its memory is not known")?;

    let api: Api<Pod> = Api::namespaced(cluster.plane.client.clone(), "crowd");
    let start = Instant::now();
    let create = async |number| {
        api.create(&PostParams::default(), &pod(number)?)
            .await
            .context("cannot create a pod")
    };
    let created = stream::iter(0..PODS).map(create).buffer_unordered(AT_ONCE);
    created.try_for_each(async |_| Ok(())).await?;
    let seconds = start.elapsed().as_secs_f64();

    // Muster has looked at all of them when nothing comes any more.
    sandbox.gangs(1).await?;
    tokio::time::sleep(QUIET).await;
    let pods = sandbox.pods().await?;
    let links: BTreeSet<Option<String>> = pods.iter().map(pod_group).collect();
    let groups = sandbox.names("PodGroup").await?;
    assert_eq!((pods.len(), links.len(), groups.len()), (PODS, 1, 1));
    assert_eq!(links.first(), Some(&groups.first().cloned()));
    let held = pods.iter().filter(|pod| !pod.finalizers().is_empty());
    assert_eq!(held.count(), 0, "pods with a finalizer");
    let objects = made(&sandbox).await?.len() as u64;
    assert_eq!(writes(&cluster).await?, objects, "one write per object");
    let memory = process.memory().context("its memory is not known")?;
    println!(
        "{PODS} bare pods at once: {seconds:.1} s, {objects} objects, Muster uses {memory} MiB \
         ({empty} before)"
    );
    ensure!(memory < BUDGET, "Muster uses {memory} MiB");
    Ok(())
}
