//! Muster itself, from its real manifests and as its own service account, beside the operators.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use hyper::Request;
use kube::{Client, Config};
use serde_json::{Value, json};

use crate::clock::Clock;
use crate::cluster::Cluster;
use crate::control_plane::{ControlPlane, flag};
use crate::health::{Probe, ready};
use crate::install::{BASE, NAMESPACE, to_loopback};
use crate::manifests::render;
use crate::ports::Port;
use crate::process::Process;

/// Muster as installed: where it is called, and what a replica needs to start.
#[derive(Clone)]
pub struct Muster {
    program: PathBuf,
    kubeconfig: PathBuf,
    namespace: String,
    flags: Vec<String>,
    clock: Clock,
}

impl Muster {
    /// Applies the manifests; the apiserver calls Muster at that port.
    pub async fn install(cluster: &Cluster, port: u16) -> Result<Muster> {
        Muster::install_from(BASE, cluster, port).await
    }

    /// The same with another overlay.
    pub async fn install_from(overlay: &str, cluster: &Cluster, port: u16) -> Result<Muster> {
        let manifests = render(cluster.plane.components(), Path::new(overlay))?;
        let manifests: Vec<Value> = manifests
            .into_iter()
            .map(|object| to_loopback(object, port))
            .collect();
        cluster.objects.apply_all(&manifests, NAMESPACE).await?;
        Muster::installed(&cluster.plane).await
    }

    /// Where the manifests are applied already.
    pub async fn installed(plane: &ControlPlane) -> Result<Muster> {
        Muster::installed_in(NAMESPACE, plane).await
    }

    /// The same in another namespace.
    pub async fn installed_in(namespace: &str, plane: &ControlPlane) -> Result<Muster> {
        let account = plane.service_account_kubeconfig(namespace, "muster");
        Ok(Muster {
            program: env!("CARGO_BIN_EXE_muster").into(),
            kubeconfig: account.await?,
            namespace: namespace.to_owned(),
            flags: Vec::new(),
            clock: Clock::Right,
        })
    }

    /// Speaks to the apiserver by another address.
    pub fn through(mut self, address: SocketAddr) -> Result<Muster> {
        let mut config: Value = serde_json::from_slice(&fs::read(&self.kubeconfig)?)?;
        config["clusters"][0]["cluster"]["server"] = json!(format!("https://{address}"));
        self.kubeconfig.set_extension("through");
        fs::write(&self.kubeconfig, serde_json::to_vec(&config)?)?;
        Ok(self)
    }

    /// Another build of it.
    pub fn program(mut self, program: &Path) -> Muster {
        program.clone_into(&mut self.program);
        self
    }

    /// Configured otherwise than in the manifests.
    pub fn with(mut self, name: &str, value: &str) -> Muster {
        self.flags.push(flag(name, value));
        self
    }

    /// On a machine whose clock is off.
    pub fn at(mut self, clock: Clock) -> Muster {
        self.clock = clock;
        self
    }

    /// Starts a replica at that port, and waits until it is ready: by then the CA is in the
    /// webhook configurations.
    pub async fn start_at(
        &self,
        plane: &ControlPlane,
        identity: &str,
        port: Port,
    ) -> Result<Process> {
        self.start_on(plane, identity, port, Port::reserve()?).await
    }

    /// The same with a known admin port, whose metrics a test may read.
    pub async fn start_on(
        &self,
        plane: &ControlPlane,
        identity: &str,
        port: Port,
        admin: Port,
    ) -> Result<Process> {
        let health = format!("http://127.0.0.1:{}", admin.number);
        let mut command = Command::new(&self.program);
        command
            .arg("serve")
            .arg(flag("kubeconfig", self.kubeconfig.display()))
            .arg(flag("namespace", &self.namespace))
            .arg(flag("identity", identity))
            .arg(flag("listen", format!("127.0.0.1:{}", port.number)))
            .arg(flag("admin-listen", format!("127.0.0.1:{}", admin.number)))
            .args(&self.flags);
        if !self.flags.iter().any(|flag| flag.starts_with("--lame-")) {
            command.arg(flag("lame-duck-seconds", 0));
        }
        self.clock.set(&mut command)?;
        // A replica of its own tells pods at start barriers where it is.
        let barrier = Port::reserve()?;
        if !self.flags.iter().any(|flag| flag.starts_with("--barrier-")) {
            let at = format!("127.0.0.1:{}", barrier.number);
            command.args([flag("barrier-listen", &at), flag("barrier-server", &at)]);
        }
        let process = plane.spawn(identity, command, vec![port, admin, barrier])?;
        let probe = Probe::new(&health, "/readyz")?;
        ready(&process, async || probe.check().await)
            .await
            .context("Muster does not become ready")?;
        Ok(process)
    }
}

/// What a replica counts, as Prometheus would read it at that admin port.
pub async fn metrics(admin: u16) -> Result<String> {
    metrics_at(&format!("127.0.0.1:{admin}")).await
}

/// The same of a replica anywhere.
pub async fn metrics_at(address: &str) -> Result<String> {
    let at = format!("http://{address}").parse()?;
    let client = Client::try_from(Config::new(at))?;
    let request = Request::get("/metrics").body(Vec::new())?;
    Ok(client.request_text(request).await?)
}

/// The sum of the series that begin so, of a page of metrics.
pub fn sum(page: &str, series: &str) -> Result<f64> {
    let lines = page.lines().filter(|line| line.starts_with(series));
    let values = lines.map(|line| line.rsplit(' ').next().unwrap_or_default().parse::<f64>());
    Ok(values.sum::<Result<f64, _>>()?)
}
