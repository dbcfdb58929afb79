//! Muster's own image and manifests, as they stand.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, ListParams};

use super::words::container;
use crate::install::{BASE, NAMESPACE};
use crate::long::Length;
use crate::node::start::{install, two_ready};
use crate::sandbox::Sandbox;

/// From `kubectl apply` to two Ready replicas, at most.
const WITHIN: Duration = Duration::from_secs(10);

const LARGEST: u64 = 25 * 1024 * 1024;

pub async fn two_replicas_are_ready(sandbox: Sandbox) -> Result<()> {
    two_ready(&sandbox.cluster.objects).await?;
    let installed = sandbox.cluster.machine()?.installed.get();
    let seconds = installed.context("not measured")?.as_secs_f64();
    println!("from `kubectl apply -k manifests/base` to two Ready replicas: {seconds:.1} s");
    let pods: Api<Pod> = Api::namespaced(sandbox.client(), NAMESPACE);
    let pods = pods.list(&ListParams::default()).await?.items;
    ensure!(pods.len() == 2, "there are {} pods", pods.len());
    for pod in &pods {
        let status = container(pod).context("a replica without a container")?;
        ensure!(status.restart_count == 0, "{} restarted", pod.name_any());
    }
    let names = pods.iter().map(|pod| pod.name_any()).collect();
    sandbox.leader(&names).await?;
    Ok(())
}

pub async fn the_image_is_small(sandbox: Sandbox) -> Result<()> {
    let size = sandbox.cluster.machine()?.image_size();
    let mib = size as f64 / (1024.0 * 1024.0);
    println!("Muster's image has {mib:.1} MiB");
    ensure!(size <= LARGEST, "the image has {mib:.1} MiB");
    Ok(())
}

/// Each from nothing: no CA, no key of stamps, no Lease.
pub async fn fresh_installs_are_ready_within_ten_seconds(sandbox: Sandbox) -> Result<()> {
    let cluster = &sandbox.cluster;
    let mut times = Vec::new();
    for number in 1..=Length::of_this_run().pick(3, 20) {
        remove(&sandbox).await.context("cannot remove Muster")?;
        let took = install(&cluster.plane, &cluster.objects).await?;
        times.push(took);
        // At once: what is written of a failed test shows what its replicas have logged.
        ensure!(took <= WITHIN, "install {number} took {took:?}: {times:?}");
    }
    println!("fresh installs took {times:.1?}");
    Ok(())
}

/// In the documented order, without the seconds of the lame duck.
async fn remove(sandbox: &Sandbox) -> Result<()> {
    for line in [
        "delete validatingwebhookconfiguration muster-validating",
        "delete mutatingwebhookconfiguration muster-mutating group-keys.muster.dev",
        "delete deployment muster --namespace=muster-system",
    ] {
        let mut words: Vec<&str> = line.split_whitespace().collect();
        words.push("--ignore-not-found");
        sandbox.operate(&words).await?;
    }
    sandbox.end_replicas().await?;
    let rest = ["delete", "-k", BASE, "--ignore-not-found"];
    sandbox.operate(&rest).await?;
    Ok(())
}
