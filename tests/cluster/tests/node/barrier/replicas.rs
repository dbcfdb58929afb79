//! Pods at a barrier and the replicas of Muster: reached, out of reach, deleted, and of another image.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;

use super::super::network::iptables;
use super::{BARRIER, INIT, PODS, key, late};
use crate::node::images::{MUSTER, OTHER_MUSTER};
use crate::node::settings::Sync;
use crate::node::start::two_ready;
use crate::sandbox::Sandbox;

/// How many replicas each pod at a barrier of this namespace is connected to, as the network of its own
/// shows it.
pub(in crate::tests::node) fn connected(namespace: &str, port: u16) -> Result<Vec<usize>> {
    let port = format!("{port:04X}");
    let barrier = format!("MUSTER_BARRIER={namespace}/");
    let mut found = Vec::new();
    for process in std::fs::read_dir("/proc")? {
        let process = process?.path();
        let env = std::fs::read(process.join("environ")).unwrap_or_default();
        if !env
            .split(|byte| *byte == 0)
            .any(|variable| variable.starts_with(barrier.as_bytes()))
        {
            continue;
        }
        let table = std::fs::read_to_string(process.join("net/tcp"))?;
        let replica = |line: &str| {
            let mut words = line.split_whitespace().skip(2);
            let (address, asked) = words.next()?.split_once(':')?;
            let established = words.next()? == "01";
            (established && asked == port).then(|| address.to_owned())
        };
        let replicas: BTreeSet<String> = table.lines().filter_map(replica).collect();
        found.push(replicas.len());
    }
    Ok(found)
}

pub async fn a_pod_that_waits_holds_a_second_replica_ready(sandbox: Sandbox) -> Result<()> {
    sandbox
        .apply(&late(&sandbox, BARRIER, "Never", &["now"], ""))
        .await?;
    sandbox.at_barrier(INIT, PODS - 1).await?;
    sandbox
        .wait_for("two replicas behind each pod", async || {
            let replicas = connected(&sandbox.namespace, 8444)?;
            ensure!(replicas == [2; PODS - 1], "{replicas:?}");
            Ok(())
        })
        .await?;
    let after = sandbox.last_comes().await?;
    println!("each pod held a second replica ready: went on after {after:?} ms");
    Ok(())
}

/// The port of the replicas as seen from pods, whether they ask a replica or the Service.
const UNREACHABLE: &str = "POSTROUTING -d 10.245.0.0/24 -p tcp --dport 8444 -j DROP";

/// As where egress is denied. Kubelet shows the ConfigMap at its next look at a pod, a minute and more after
/// the one before, unless the pod is written to.
pub async fn pods_that_reach_no_replica_go_on_when_they_are_written_to(
    sandbox: Sandbox,
) -> Result<()> {
    iptables("-A", UNREACHABLE).await?;
    let outcome = told_by_kubelet(&sandbox).await;
    iptables("-D", UNREACHABLE).await?;
    outcome
}

async fn told_by_kubelet(sandbox: &Sandbox) -> Result<()> {
    sandbox
        .apply(&late(sandbox, BARRIER, "Never", &["now"], ""))
        .await?;
    sandbox.at_barrier(INIT, PODS - 1).await?;
    // Kubelet looks at a pod that has just changed; those who wait for a node pool have not for long.
    tokio::time::sleep(Duration::from_secs(5)).await;
    ensure!(
        connected(&sandbox.namespace, 8444)? == [0; PODS - 1],
        "a replica is reached"
    );
    let after = sandbox.last_comes().await?;
    println!(
        "no replica was reached: main containers started {after:?} ms after the last pod's first"
    );
    let mut told = sandbox.told_to_look().await?;
    // At the last one, which has just changed, kubelet may have looked by itself.
    told.retain(|pod| !pod.contains("-last-"));
    ensure!(told.len() == PODS - 1, "only {told:?} were written to");
    let [.., third, slowest] = after[..] else {
        anyhow::bail!("{after:?}");
    };
    ensure!(third > 5_000, "{after:?}: somebody else told them");
    ensure!(slowest < 20_000, "{after:?}");
    Ok(())
}

/// A replica finds out which image it runs; what it would take for granted is another one.
pub async fn the_container_that_waits_runs_the_image_of_muster(sandbox: Sandbox) -> Result<()> {
    let set_image = async |image: &str| {
        let image = format!("muster={image}");
        let set = ["set", "image", "deployment/muster", &image];
        sandbox
            .operate(&[&set[..], &["--namespace=muster-system"]].concat())
            .await?;
        two_ready(&sandbox.cluster.objects).await?;
        // One that ends still answers for a moment.
        sandbox
            .wait_for("the old replicas to be gone", async || {
                let replicas = sandbox.replicas().await?;
                ensure!(replicas.len() == 2, "there are {replicas:?}");
                Ok(())
            })
            .await
    };
    let images = async || {
        sandbox
            .apply(&late(&sandbox, BARRIER, "Never", &["now"], ""))
            .await?;
        sandbox.label_node(&key(&sandbox), Some("true")).await?;
        let pods = sandbox.finished().await?;
        let image = |pod: &Pod| {
            let mut containers = pod.spec.as_ref()?.init_containers.iter().flatten();
            containers
                .find(|container| container.name == INIT)?
                .image
                .clone()
        };
        anyhow::Ok(pods.iter().map(image).collect::<Vec<_>>())
    };
    set_image(OTHER_MUSTER).await?;
    let found = images().await;
    set_image(MUSTER).await?;
    let found = found?;
    let own = Some(OTHER_MUSTER.to_owned());
    ensure!(found.len() == PODS, "{found:?}");
    ensure!(found.iter().all(|image| *image == own), "{found:?}");
    Ok(())
}

pub async fn both_replicas_deleted_lose_nobody(sandbox: Sandbox) -> Result<()> {
    sandbox
        .apply(&late(&sandbox, BARRIER, "Never", &["now"], ""))
        .await?;
    sandbox.at_barrier(INIT, PODS - 1).await?;
    let all = [
        "delete",
        "pods",
        "--all",
        "--namespace=muster-system",
        "--grace-period=1",
        "--wait=false",
    ];
    let output = sandbox.kubectl(&all, "").await?;
    ensure!(output.status.success(), "they cannot be deleted");
    tokio::time::sleep(Duration::from_secs(2)).await;
    two_ready(&sandbox.cluster.objects).await?;
    let after = sandbox.last_comes().await?;
    println!("both replicas deleted while all waited: went on after {after:?} ms");
    Ok(())
}

pub async fn a_restart_of_the_kubelet_loses_nobody(sandbox: Sandbox) -> Result<()> {
    sandbox
        .apply(&late(&sandbox, BARRIER, "Never", &["now"], ""))
        .await?;
    sandbox.at_barrier(INIT, PODS - 1).await?;
    let machine = sandbox.cluster.machine()?;
    machine
        .restart_kubelet(&sandbox.cluster.plane, Sync::Default)
        .await?;
    let after = sandbox.last_comes().await?;
    println!("kubelet restarted while all waited: went on after {after:?} ms");
    Ok(())
}
