//! Muster in the network of the node, as the overlay `manifests/host-network` has it. Of one node it can
//! have the ports once, so there is one replica.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};

use super::barrier::replicas::connected;
use super::words::succeeds;
use crate::install::NAMESPACE;
use crate::node::start::{apply_overlay, replicas_ready};
use crate::sandbox::Sandbox;

const OVERLAY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/manifests/host-network");

/// Of the overlay, for start barriers.
const BARRIERS: u16 = 18444;

pub async fn in_the_network_of_the_node_gangs_are_admitted_and_barriers_open(
    sandbox: Sandbox,
) -> Result<()> {
    let outcome = tried(&sandbox).await;
    let again = sandbox.install_again().await;
    outcome?;
    again
}

async fn tried(sandbox: &Sandbox) -> Result<()> {
    let cluster = &sandbox.cluster;
    apply_overlay(&cluster.plane, OVERLAY).await?;
    sandbox.scale_muster("1").await?;
    replicas_ready(&cluster.objects, 1).await?;
    // Those that go are in the network of pods.
    let pods: Api<Pod> = Api::namespaced(sandbox.client(), NAMESPACE);
    sandbox
        .wait_for("the old replicas to be gone", async || {
            let pods = pods.list(&ListParams::default()).await?.items;
            let [pod] = &pods[..] else {
                anyhow::bail!("there are {}", pods.len());
            };
            let spec = pod.spec.as_ref().context("no spec")?;
            ensure!(spec.host_network == Some(true), "{:?}", spec.host_network);
            Ok(())
        })
        .await?;

    let mut verify = Command::new(env!("CARGO_BIN_EXE_muster"));
    verify
        .args(["verify", "--timeout=1m", "--namespace", &sandbox.namespace])
        .env("KUBECONFIG", &cluster.plane.kubeconfig);
    let said = succeeds(verify).await?;
    for line in [
        "Job: works (scheduler native)\n",
        "JobSet: works (scheduler native)\n",
    ] {
        ensure!(said.contains(line), "{said}");
    }

    let after = sandbox
        .barrier_opens(async |waiting| {
            let namespace = &sandbox.namespace;
            sandbox
                .wait_for("pods that ask the replica", async || {
                    let replicas = connected(namespace, BARRIERS)?;
                    ensure!(replicas == vec![1; waiting], "{replicas:?}");
                    Ok(())
                })
                .await
        })
        .await?;
    println!("in the network of the node: a barrier opened, its pods went on after {after:?} ms");
    Ok(())
}
