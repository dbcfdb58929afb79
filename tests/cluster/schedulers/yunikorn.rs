//! YuniKorn's scheduler. Its queue is the namespace.

use std::net::TcpListener;

use anyhow::Result;
use serde_json::json;

use crate::control_plane::ControlPlane;
use crate::objects::Objects;
use crate::process::Process;

const NAMESPACE: &str = "yunikorn";

pub async fn install(objects: &Objects) -> Result<()> {
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    objects.apply(&namespace, "").await?;
    let queues = json!({"partitions": [{
        "name": "default",
        "placementrules": [
            {"name": "provided", "create": true},
            {"name": "tag", "value": "namespace", "create": true},
        ],
        "queues": [{"name": "root", "submitacl": "*"}],
    }]});
    let config = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "yunikorn-configs"},
        "data": {
            // The default of one second makes a gang of eight take four seconds.
            "service.schedulingInterval": "100ms",
            "queues.yaml": queues.to_string(),
        },
    });
    objects.apply(&config, NAMESPACE).await?;
    Ok(())
}

pub fn start(plane: &ControlPlane) -> Result<Process> {
    // It serves REST on all interfaces at a fixed port, and schedules just as well when the port
    // is taken. So it is: either by this listener or by what made it fail.
    let _occupied = TcpListener::bind("127.0.0.1:9080").map(std::mem::forget);
    let mut command = plane.components().program("yunikorn-scheduler")?;
    command
        .env("KUBECONFIG", &plane.kubeconfig)
        .env("NAMESPACE", NAMESPACE);
    plane.spawn("yunikorn-scheduler", command, Vec::new())
}
