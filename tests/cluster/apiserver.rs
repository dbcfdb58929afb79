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

/// Where an apiserver listens, and who plays the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seat {
    /// On loopback. KWOK plays the nodes, and nothing runs in pods.
    Loopback,
    /// On an address that pods reach, for a kubelet: see `node`.
    Node,
}

impl Seat {
    pub fn address(self) -> &'static str {
        match self {
            Self::Loopback => "127.0.0.1",
            Self::Node => "10.199.0.1",
        }
    }

    /// What the controller-manager runs beside what every cluster needs. Without the publisher of
    /// the root CA no pod gets its token.
    pub fn controllers(self) -> &'static str {
        match self {
            Self::Loopback => "",
            Self::Node => {
                ",endpointslice-controller,root-ca-certificate-publisher-controller,\
                 node-lifecycle-controller,taint-eviction-controller,disruption-controller,\
                 daemonset-controller,resourcequota-controller"
            }
        }
    }
}

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
        // A lone member elects itself at once, and costs more the more often it ticks.
        .args(["--heartbeat-interval=50", "--election-timeout=500"]);
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
    (seat, port): (Seat, &Port),
) -> Result<Command> {
    // The first address of the range below is the `kubernetes` Service's.
    let hosts = ["127.0.0.1", seat.address(), "10.0.0.1", "localhost"];
    let hosts = [&hosts[..], &["kubernetes.default.svc"]].concat();
    let serving = authority.server("kube-apiserver", &hosts)?;
    let token_key = authority.token_key();
    let token_public_key = authority.token_public_key();
    command
        .arg(flag("etcd-servers", storage))
        .arg(flag("bind-address", seat.address()))
        .arg(flag("advertise-address", seat.address()))
        .arg(flag("secure-port", port.number))
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
        .arg("--profiling=false")
        .args(
            release
                .runtime_config()
                .map(|apis| flag("runtime-config", apis)),
        )
        .args(gates(release.apiserver_gates()));
    match seat {
        Seat::Loopback => command
            // A loopback address could never be a valid endpoint of the `kubernetes` Service.
            .arg("--endpoint-reconciler-type=none")
            .arg("--authorization-mode=RBAC")
            // Its taint on new nodes is only taken off by a controller that does not run here.
            .arg("--disable-admission-plugins=TaintNodesByCondition")
            // They send the pods of a namespace to the nodes of its test; see `sandbox.rs`.
            .arg("--enable-admission-plugins=PodNodeSelector,PodTolerationRestriction"),
        Seat::Node => {
            // For logs and exec.
            let user = "kube-apiserver-kubelet-client";
            let client = authority.client(user, Some("system:masters"))?;
            let trusted = authority.certificate();
            command
                .arg("--authorization-mode=Node,RBAC")
                .arg("--enable-admission-plugins=NodeRestriction")
                .arg(flag(
                    "kubelet-client-certificate",
                    client.certificate.display(),
                ))
                .arg(flag("kubelet-client-key", client.key.display()))
                .arg(flag("kubelet-certificate-authority", trusted.display()))
                .arg("--kubelet-preferred-address-types=InternalIP")
        }
    };
    Ok(command)
}
