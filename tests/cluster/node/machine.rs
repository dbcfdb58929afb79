//! The programs of the node: containerd with the images, kubelet, kube-proxy, DNS.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DeleteParams};

use super::NODE;
use super::images::Images;
use super::settings::{NETWORK, Settings, Sync};
use crate::apiserver::Seat;
use crate::components::Components;
use crate::control_plane::{ControlPlane, flag};
use crate::health::{PATIENCE, Probe, ready, wait_for};
use crate::process::{Group, Process};

/// containerd, which needs no control plane, with the images in it.
pub struct Runtime {
    settings: Settings,
    containerd: Process,
    image: u64,
}

impl Runtime {
    pub async fn start(components: &Arc<Components>, group: &Arc<Group>) -> Result<Runtime> {
        let settings = Settings::new()?;
        let mut command = Command::new("containerd");
        command.arg("--config").arg(settings.containerd()?);
        let containerd = group.spawn("node/containerd", command, Vec::new())?;
        let (parts, dir) = (Arc::clone(components), settings.images());
        let images = tokio::task::spawn_blocking(move || Images::write(&parts, &dir));
        let images = images.await?.context("cannot write the images")?;
        ready(&containerd, async || ctr(&["version"]).await).await?;
        for image in &images.all {
            let path = image.to_string_lossy();
            let import = ctr(&["--namespace", "k8s.io", "images", "import", &path]).await;
            import.with_context(|| format!("cannot import {path}"))?;
        }
        let image = fs::metadata(&images.muster)?.len();
        Ok(Runtime {
            settings,
            containerd,
            image,
        })
    }
}

async fn ctr(args: &[&str]) -> Result<()> {
    let mut command = Command::new("ctr");
    command.args(args);
    let output = tokio::task::spawn_blocking(move || command.output()).await??;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "ctr: {said}");
    Ok(())
}

/// A node that is Ready.
pub struct Machine {
    runtime: Runtime,
    kubelet: Mutex<Option<Process>>,
    proxy: Mutex<Option<Process>>,
    dns: Process,
    /// From `kubectl apply` to two Ready replicas.
    pub installed: OnceLock<Duration>,
}

impl Machine {
    pub async fn start(plane: &ControlPlane, runtime: Runtime) -> Result<Machine> {
        let mut command = plane.components().program("coredns")?;
        command.arg("-conf").arg(runtime.settings.dns(plane)?);
        let dns = plane.spawn("coredns", command, Vec::new())?;
        let machine = Machine {
            runtime,
            kubelet: Mutex::default(),
            proxy: Mutex::default(),
            dns,
            installed: OnceLock::new(),
        };
        machine.start_proxy(plane)?;
        machine.start_kubelet(plane, Sync::Often).await?;
        let nodes: Api<Node> = Api::all(plane.client.clone());
        wait_for("the node to be Ready", PATIENCE, async || {
            let status = nodes.get(NODE).await?.status.unwrap_or_default();
            let mut conditions = status.conditions.into_iter().flatten();
            let ready = conditions.any(|c| c.type_ == "Ready" && c.status == "True");
            ready.then_some(()).context("it is not")
        })
        .await?;
        Ok(machine)
    }

    /// Ends the kubelet, and starts it again as it was or with another interval. Returns when it
    /// says that it is healthy.
    pub async fn restart_kubelet(&self, plane: &ControlPlane, sync: Sync) -> Result<()> {
        let old = locked(&self.kubelet).take();
        if let Some(old) = old {
            old.stop(PATIENCE).await?;
        }
        self.start_kubelet(plane, sync).await
    }

    /// The node leaves the cluster and joins it again as a new one does: without a network for pods, until
    /// somebody copies its configuration from the first of these places to the second.
    pub async fn join_anew(&self, plane: &ControlPlane) -> Result<(PathBuf, PathBuf)> {
        let settings = &self.runtime.settings;
        let (kept, networks) = (settings.kept(), settings.networks());
        let old = locked(&self.kubelet).take();
        if let Some(old) = old {
            old.stop(PATIENCE).await?;
        }
        fs::rename(networks.join(NETWORK), kept.join(NETWORK))?;
        // It ends by itself when its node is deleted, and comes with the new one.
        locked(&self.proxy).take();
        let nodes: Api<Node> = Api::all(plane.client.clone());
        nodes.delete(NODE, &DeleteParams::default()).await?;
        self.start_kubelet(plane, Sync::Default).await?;
        self.start_proxy(plane)?;
        Ok((kept, networks))
    }

    /// Brings the network back, where a test has failed to.
    pub fn restore_network(&self) -> Result<()> {
        let settings = &self.runtime.settings;
        let network = settings.networks().join(NETWORK);
        if !network.exists() {
            fs::copy(settings.kept().join(NETWORK), network)?;
        }
        Ok(())
    }

    fn start_proxy(&self, plane: &ControlPlane) -> Result<()> {
        let mut command = plane.components().program("kube-proxy")?;
        command
            .arg(flag(
                "config",
                self.runtime.settings.proxy(plane)?.display(),
            ))
            .arg("--v=2");
        let proxy = plane.spawn("kube-proxy", command, Vec::new())?;
        *locked(&self.proxy) = Some(proxy);
        Ok(())
    }

    async fn start_kubelet(&self, plane: &ControlPlane, sync: Sync) -> Result<()> {
        let settings = &self.runtime.settings;
        let user = format!("system:node:{NODE}");
        let kubeconfig = plane.user_kubeconfig(&user, Some("system:nodes"))?;
        let mut command = plane.components().program("kubelet")?;
        command
            .arg(flag("config", settings.kubelet(plane, sync)?.display()))
            .arg(flag("kubeconfig", kubeconfig.display()))
            .arg(flag("hostname-override", NODE))
            .arg(flag("node-ip", Seat::Node.address()))
            .arg(flag("root-dir", settings.kubelet_root().display()))
            .arg("--v=2");
        let kubelet = plane.spawn("kubelet", command, Vec::new())?;
        let probe = Probe::new("http://127.0.0.1:10248", "/healthz")?;
        ready(&kubelet, || probe.check()).await?;
        *locked(&self.kubelet) = Some(kubelet);
        Ok(())
    }

    /// The size of the archive that is Muster's image.
    pub fn image_size(&self) -> u64 {
        self.runtime.image
    }

    /// Asks each program of the node.
    pub fn ask<T>(&self, mut question: impl FnMut(&Process) -> Option<T>) -> Vec<T> {
        let (kubelet, proxy) = (locked(&self.kubelet), locked(&self.proxy));
        let all = proxy.iter().chain(kubelet.iter());
        let all = all.chain([&self.dns, &self.runtime.containerd]);
        all.filter_map(&mut question).collect()
    }
}

fn locked(process: &Mutex<Option<Process>>) -> MutexGuard<'_, Option<Process>> {
    process.lock().unwrap_or_else(PoisonError::into_inner)
}
