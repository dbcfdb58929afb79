//! Coscheduling of scheduler-plugins, at its default gates: what it forgets, Muster must remember.

use anyhow::Result;
use serde_json::json;

use super::framework_config;
use crate::control_plane::{ControlPlane, flag};
use crate::health::{Probe, ready};
use crate::ports::Port;
use crate::process::Process;

/// How often a scheduler that is built on kube-scheduler tries a blocked gang again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retries {
    /// `SchedulerPopFromBackoffQ` off: a pod waits for its back-off even when nothing else is to do.
    Calm,
    /// As shipped.
    Default,
}

impl Retries {
    pub fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Calm => &["--feature-gates=SchedulerPopFromBackoffQ=false"],
            Self::Default => &[],
        }
    }
}

pub async fn start(plane: &ControlPlane) -> Result<Process> {
    let port = Port::reserve()?;
    let url = format!("https://127.0.0.1:{}", port.number);
    let profile = json!({
        "schedulerName": "scheduler-plugins-scheduler",
        "plugins": {"multiPoint": {
            "enabled": [{"name": "Coscheduling"}],
            // Only one plugin may sort the queue.
            "disabled": [{"name": "PrioritySort"}],
        }},
        "pluginConfig": [{"name": "Coscheduling", "args": {"permitWaitingTimeSeconds": 10}}],
    });
    let config = framework_config(plane, "coscheduling", profile)?;
    let mut command = plane.components().program("coscheduling-scheduler")?;
    command
        .arg(flag("config", config.display()))
        .arg(flag("secure-port", port.number))
        .arg("--bind-address=127.0.0.1")
        .args(Retries::Default.flags());
    let process = plane.spawn("coscheduling-scheduler", command, vec![port])?;
    let probe = Probe::new(&url, "/readyz")?;
    ready(&process, || probe.check()).await?;
    Ok(process)
}
