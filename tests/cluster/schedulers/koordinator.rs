//! Koordinator's scheduler with its gang plugin; nothing else of Koordinator is needed for gangs.

use anyhow::Result;
use serde_json::json;

use super::{Retries, framework_config};
use crate::control_plane::{ControlPlane, flag};
use crate::health::{Probe, ready};
use crate::ports::Port;
use crate::process::Process;

pub async fn start(plane: &ControlPlane, retries: Retries) -> Result<Process> {
    let port = Port::reserve()?;
    let url = format!("https://127.0.0.1:{}", port.number);
    let profile = json!({
        "schedulerName": "koord-scheduler",
        "plugins": {"multiPoint": {"enabled": [{"name": "Coscheduling"}]}},
        "pluginConfig": [{"name": "Coscheduling", "args": {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "CoschedulingArgs",
            "defaultTimeout": "600s",
        }}],
    });
    let config = framework_config(plane, "koordinator", profile)?;
    let mut command = plane.components().program("koordinator-scheduler")?;
    command
        .arg(flag("config", config.display()))
        .arg(flag("secure-port", port.number))
        // It would also listen on all interfaces without authentication.
        .args(["--bind-address=127.0.0.1", "--port=0"])
        .args(retries.flags());
    let process = plane.spawn("koordinator-scheduler", command, vec![port])?;
    // It has no readiness; health is served once the caches are filled.
    let probe = Probe::new(&url, "/healthz")?;
    ready(&process, || probe.check()).await?;
    Ok(process)
}
