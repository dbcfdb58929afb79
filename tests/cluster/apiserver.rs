//! etcd and kube-apiserver: the flags, and why.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::components::Components;
use crate::control_plane::{flag, gates};
use crate::health::{Probe, ready};
use crate::pki::Authority;
use crate::ports::Port;
use crate::process::{Group, Process};
use crate::release::Release;

/// Its process and the URL that the apiserver uses.
pub async fn start_etcd(
    components: &Components,
    group: &Group,
    dir: &Path,
    name: &str,
) -> Result<(Process, String)> {
    let (clients, peers) = (Port::reserve()?, Port::reserve()?);
    let client = format!("http://127.0.0.1:{}", clients.number);
    let peer = format!("http://127.0.0.1:{}", peers.number);
    let mut command = components.program("etcd")?;
    command
        .arg("--name=default")
        .arg(flag("data-dir", dir.join("etcd").display()))
        .arg(flag("listen-client-urls", &client))
        .arg(flag("advertise-client-urls", &client))
        .arg(flag("listen-peer-urls", &peer))
        .arg(flag("initial-advertise-peer-urls", &peer))
        .arg(flag("initial-cluster", format!("default={peer}")))
        // The data is thrown away, so nothing needs to reach the disk.
        .args(["--unsafe-no-fsync", "--log-level=warn"])
        .args(["--heartbeat-interval=10", "--election-timeout=100"]);
    let process = group.spawn(&format!("{name}/etcd"), command, vec![clients, peers])?;
    let probe = Probe::new(&client, "/health")?;
    ready(&process, || probe.check()).await?;
    Ok((process, client))
}

/// The apiserver's command line.
pub fn apiserver(
    mut command: Command,
    release: Release,
    authority: &Authority,
    storage: &str,
    port: &Port,
) -> Result<Command> {
    let hosts = ["127.0.0.1", "localhost", "kubernetes.default.svc"];
    let serving = authority.server("kube-apiserver", &hosts)?;
    let token_key = authority.token_key();
    let token_public_key = authority.token_public_key();
    command
        .arg(flag("etcd-servers", storage))
        .args(["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1"])
        .arg(flag("secure-port", port.number))
        // A loopback address could never be a valid endpoint of the `kubernetes` Service.
        .arg("--endpoint-reconciler-type=none")
        .arg(flag("tls-cert-file", serving.certificate.display()))
        .arg(flag("tls-private-key-file", serving.key.display()))
        .arg(flag("client-ca-file", authority.certificate().display()))
        .arg("--service-account-issuer=https://kubernetes.default.svc")
        .arg(flag("service-account-key-file", token_public_key.display()))
        .arg(flag(
            "service-account-signing-key-file",
            token_key.display(),
        ))
        .arg("--service-cluster-ip-range=10.0.0.0/16")
        .arg("--authorization-mode=RBAC")
        // Its taint on new nodes is only taken off by a controller that does not run here.
        .arg("--disable-admission-plugins=TaintNodesByCondition")
        // They send the pods of a namespace to the nodes of its test; see `sandbox.rs`.
        .arg("--enable-admission-plugins=PodNodeSelector,PodTolerationRestriction")
        .arg("--profiling=false")
        .args(
            release
                .runtime_config()
                .map(|apis| flag("runtime-config", apis)),
        )
        .args(gates(release.apiserver_gates()));
    Ok(command)
}
