//! Operators of other projects, whose workloads Muster does not know: it meets their pods only.
//!
//! Each is installed from its own manifests and runs as its own service account. Neither has a
//! webhook as it is installed by default, and so neither has one here.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::control_plane::{ControlPlane, flag};
use crate::health::{Probe, ready};
use crate::objects::Objects;
use crate::operators;
use crate::ports::Port;
use crate::process::Process;

/// An operator of another project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThirdParty {
    /// Kubeflow's, for MPIJobs.
    Mpi,
    /// For RayClusters.
    KubeRay,
}

pub const ALL: &[ThirdParty] = &[ThirdParty::Mpi, ThirdParty::KubeRay];

impl ThirdParty {
    /// Of the program, its manifests and its service account.
    fn name(self) -> &'static str {
        match self {
            Self::Mpi => "mpi-operator",
            Self::KubeRay => "kuberay-operator",
        }
    }

    /// Where its manifests put it.
    fn namespace(self) -> &'static str {
        match self {
            Self::Mpi => "mpi-operator",
            Self::KubeRay => "default",
        }
    }

    /// Installs what it needs before it starts.
    pub async fn install(self, plane: &ControlPlane, objects: &Objects) -> Result<()> {
        let path = plane.components().path(&format!("{}.json", self.name()))?;
        let text = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut manifests: Vec<Value> = serde_json::from_slice(&text)?;
        // Its process is started here, and not in a pod.
        manifests.retain(|object| object["kind"] != "Deployment");
        operators::install(manifests, self.namespace(), objects).await
    }

    pub async fn start(self, plane: &ControlPlane) -> Result<Process> {
        let kubeconfig = plane
            .service_account_kubeconfig(self.namespace(), self.name())
            .await?;
        let mut command = plane.components().program(self.name())?;
        command.env("KUBECONFIG", kubeconfig);
        match self {
            Self::Mpi => start_mpi(plane, self.name(), command).await,
            Self::KubeRay => start_kuberay(plane, self.name(), command).await,
        }
    }
}

async fn start_mpi(plane: &ControlPlane, name: &str, mut command: Command) -> Result<Process> {
    // By default five calls a second: a job of ten pods would take seconds.
    command.args(["--kube-api-qps=1000", "--kube-api-burst=1000"]);
    let process = plane.spawn(name, command, Vec::new())?;
    // It serves no health here; see its main.
    ready(&process, async || {
        let log = fs::read_to_string(&process.log)?;
        ensure!(log.contains("Started workers"), "its workers do not run");
        Ok(())
    })
    .await?;
    Ok(process)
}

async fn start_kuberay(plane: &ControlPlane, name: &str, mut command: Command) -> Result<Process> {
    let health = Port::reserve()?;
    let address = format!("127.0.0.1:{}", health.number);
    let probe = Probe::new(&format!("http://{address}"), "/readyz")?;
    command
        .arg(flag("health-probe-bind-address", address))
        .args(["--metrics-addr=0", "--enable-leader-election=false"]);
    let process = plane.spawn(name, command, vec![health])?;
    ready(&process, || probe.check()).await?;
    Ok(process)
}
