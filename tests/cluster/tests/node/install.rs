//! Muster's own image and manifests, as they stand.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, ListParams};

use super::words::container;
use crate::install::NAMESPACE;
use crate::node::start::two_ready;
use crate::sandbox::Sandbox;

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
    let leases: Api<Lease> = Api::namespaced(sandbox.client(), NAMESPACE);
    sandbox
        .wait_for("one of them to lead", async || {
            let leases = leases.list(&ListParams::default()).await?;
            let holders = leases.iter().filter_map(|lease| lease.spec.as_ref());
            let mut holders = holders.filter_map(|spec| spec.holder_identity.as_ref());
            let leader = holders.find(|holder| {
                let name = |pod: &Pod| holder.contains(&pod.name_any());
                pods.iter().any(name)
            });
            leader.map(|_| ()).context("none does")
        })
        .await
}

pub async fn the_image_is_small(sandbox: Sandbox) -> Result<()> {
    let size = sandbox.cluster.machine()?.image_size();
    let mib = size as f64 / (1024.0 * 1024.0);
    println!("Muster's image has {mib:.1} MiB");
    ensure!(size <= LARGEST, "the image has {mib:.1} MiB");
    Ok(())
}
