//! Volcano's scheduler and controller-manager.

use std::fs;

use anyhow::{Result, ensure};

use crate::control_plane::{ControlPlane, flag};
use crate::health::ready;
use crate::objects::Objects;
use crate::ports::Port;
use crate::process::Process;

const CONFIG: &str = "
actions: enqueue, allocate, backfill
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: overcommit}, {name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}]
";

pub async fn start(plane: &ControlPlane, objects: &Objects) -> Result<[Process; 2]> {
    let config = plane.dir().join("volcano.conf");
    fs::write(&config, CONFIG)?;
    let (health, metrics) = (Port::reserve()?, Port::reserve()?);
    let mut command = plane.components().program("volcano-scheduler")?;
    command
        .arg(flag("kubeconfig", plane.kubeconfig.display()))
        .arg(flag("scheduler-conf", config.display()))
        .args(["--leader-elect=false", "--schedule-period=200ms"])
        .args(["--plugins-dir=", "--cache-dumper=false"])
        .args(["--kube-api-qps=1000", "--kube-api-burst=1000"])
        .args(addresses(&health, &metrics));
    let scheduler = plane.spawn("volcano-scheduler", command, vec![health, metrics])?;

    // All controllers: a real installation has the one that makes PodGroups of its own too.
    let (health, metrics) = (Port::reserve()?, Port::reserve()?);
    let mut command = plane.components().program("volcano-controller")?;
    command
        .arg(flag("kubeconfig", plane.kubeconfig.display()))
        .arg("--leader-elect=false")
        .args(addresses(&health, &metrics));
    let controller = plane.spawn("volcano-controller", command, vec![health, metrics])?;

    // Health is served long before anything is scheduled; an open queue means that both work.
    ready(&controller, async || {
        let queues = objects
            .api("scheduling.volcano.sh/v1beta1", "Queue", "")
            .await?;
        let state = queues.get("default").await?.data["status"]["state"].clone();
        ensure!(state == "Open", "the queue is {state}");
        Ok(())
    })
    .await?;
    Ok([scheduler, controller])
}

fn addresses(health: &Port, metrics: &Port) -> [String; 3] {
    [
        "--enable-healthz=true".to_owned(),
        flag("healthz-address", format!("127.0.0.1:{}", health.number)),
        flag("listen-address", format!("127.0.0.1:{}", metrics.number)),
    ]
}
