//! KAI: a scheduler that decides and a binder that binds, over a tree of queues.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::control_plane::{ControlPlane, flag};
use crate::objects::Objects;
use crate::ports::Port;
use crate::process::Process;

pub async fn install(objects: &Objects) -> Result<()> {
    objects
        .apply(&queue("default-parent-queue", None), "")
        .await?;
    let parent = Some("default-parent-queue");
    objects.apply(&queue("default-queue", parent), "").await?;
    Ok(())
}

fn queue(name: &str, parent: Option<&str>) -> Value {
    let unlimited = json!({"quota": -1, "limit": -1, "overQuotaWeight": 1});
    let mut queue = json!({
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"resources": {"cpu": unlimited, "gpu": unlimited, "memory": unlimited}},
    });
    if let Some(parent) = parent {
        queue["spec"]["parentQueue"] = json!(parent);
    }
    queue
}

pub fn start(plane: &ControlPlane) -> Result<[Process; 2]> {
    let listen = Port::reserve()?;
    // It would serve plugins on all interfaces, and schedules just as well when that port is
    // taken: the apiserver has this one.
    let (_, taken) = plane.server.rsplit_once(':').context("no port")?;
    let mut command = plane.components().program("kai-scheduler")?;
    command
        .env("KUBECONFIG", &plane.kubeconfig)
        .args(["--schedule-period=200ms", "--qps=1000", "--burst=1000"])
        .arg(flag(
            "listen-address",
            format!("127.0.0.1:{}", listen.number),
        ))
        .arg(flag("plugin-server-port", taken));
    let scheduler = plane.spawn("kai-scheduler", command, vec![listen])?;

    let (metrics, health) = (Port::reserve()?, Port::reserve()?);
    let mut command = plane.components().program("kai-binder")?;
    command
        .env("KUBECONFIG", &plane.kubeconfig)
        .args(["--qps=1000", "--burst=1000"])
        .arg(flag(
            "metrics-bind-address",
            format!("127.0.0.1:{}", metrics.number),
        ))
        .arg(flag(
            "health-probe-bind-address",
            format!("127.0.0.1:{}", health.number),
        ));
    let binder = plane.spawn("kai-binder", command, vec![metrics, health])?;
    Ok([scheduler, binder])
}

/// Makes a PodGroup for every pod that names KAI and none; a real installation has it. The matrix
/// runs without, to see what Muster and the scheduler do by themselves.
pub fn start_podgrouper(plane: &ControlPlane) -> Result<Process> {
    let (metrics, health) = (Port::reserve()?, Port::reserve()?);
    let mut command = plane.components().program("kai-podgrouper")?;
    command
        .env("KUBECONFIG", &plane.kubeconfig)
        .arg(flag(
            "metrics-bind-address",
            format!("127.0.0.1:{}", metrics.number),
        ))
        .arg(flag(
            "health-probe-bind-address",
            format!("127.0.0.1:{}", health.number),
        ));
    plane.spawn("kai-podgrouper", command, vec![metrics, health])
}
