//! etcd, kube-apiserver, kube-controller-manager, kube-scheduler and KWOK on loopback, with
//! TLS, RBAC, service accounts and admission at their production defaults.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::json;

use crate::apiserver::{Seat, apiserver, start_etcd};
use crate::components::Components;
use crate::health::{Probe, ready};
use crate::kubeconfig::{self, Credential};
use crate::pki::Authority;
use crate::ports::Port;
use crate::process::{Group, Process};
use crate::release::Release;

/// The stages in it say how pods run.
const KWOK: &str = include_str!("kwok.yaml");

/// An apiserver that answers, and what is needed to start more around it.
pub struct ControlPlane {
    components: Arc<Components>,
    group: Arc<Group>,
    pub release: Release,
    seat: Seat,
    dir: PathBuf,
    pub name: String,
    pub authority: Authority,
    pub server: String,
    /// For kubectl; a member of `system:masters`.
    pub kubeconfig: PathBuf,
    pub client: Client,
    pub etcd: Process,
    pub apiserver: Process,
}

impl ControlPlane {
    /// Starts etcd and the apiserver. The rest comes after the CRDs are installed: the garbage
    /// collector would learn of later ones only after half a minute.
    pub async fn start(
        components: Arc<Components>,
        group: Arc<Group>,
        release: Release,
        name: &str,
    ) -> Result<ControlPlane> {
        let place = (Seat::Loopback, name);
        ControlPlane::start_with(components, group, release, place, |_, _| Ok(Vec::new())).await
    }

    /// The same where pods reach it, for a kubelet.
    pub async fn start_for_node(
        components: Arc<Components>,
        group: Arc<Group>,
        release: Release,
        name: &str,
    ) -> Result<ControlPlane> {
        let place = (Seat::Node, name);
        ControlPlane::start_with(components, group, release, place, |_, _| Ok(Vec::new())).await
    }

    /// The same with further flags of the apiserver; the files that they name may go into the
    /// directory.
    async fn start_with(
        components: Arc<Components>,
        group: Arc<Group>,
        release: Release,
        (seat, name): (Seat, &str),
        flags: impl FnOnce(&Path, &Authority) -> Result<Vec<String>>,
    ) -> Result<ControlPlane> {
        let dir = group.data.join(name);
        let authority = Authority::new(&dir)?;
        let (etcd, storage) = start_etcd(&components, &group, &dir, name).await?;

        let port = Port::reserve()?;
        let server = format!("https://{}:{}", seat.address(), port.number);
        let admin = authority.client("admin", Some("system:masters"))?;
        let admin = Credential::Certificate(admin);
        let kubeconfig =
            kubeconfig::write(&dir, "admin", &server, &authority.certificate(), &admin)?;
        let client = client(&kubeconfig).await?;
        let program = components.program(&release.program("kube-apiserver"))?;
        let mut command = apiserver(program, release, &authority, &storage, (seat, &port))?;
        command.args(flags(&dir, &authority)?);
        let apiserver = group.spawn(&format!("{name}/kube-apiserver"), command, vec![port])?;
        let probe = Probe::with(client.clone(), "/readyz");
        ready(&apiserver, || probe.check()).await?;
        Ok(ControlPlane {
            components,
            group,
            release,
            seat,
            dir,
            name: name.to_owned(),
            authority,
            server,
            kubeconfig,
            client,
            etcd,
            apiserver,
        })
    }

    /// Uses its own identity and those of its controllers, so that admission sees the users that
    /// it sees in production, such as `system:serviceaccount:kube-system:job-controller`.
    pub async fn start_controller_manager(&self) -> Result<Process> {
        self.start_controller_manager_with("").await
    }

    /// The same with further controllers, each after a comma.
    pub async fn start_controller_manager_with(&self, further: &str) -> Result<Process> {
        let port = Port::reserve()?;
        let url = format!("https://127.0.0.1:{}", port.number);
        let kubeconfig = self.user_kubeconfig("system:kube-controller-manager", None)?;
        let controllers = self.release.controllers() + self.seat.controllers() + further;
        let mut command = self.kubernetes("kube-controller-manager")?;
        command
            .arg(flag("kubeconfig", kubeconfig.display()))
            .arg(flag("secure-port", port.number))
            .arg(flag("controllers", controllers))
            .arg(flag("root-ca-file", self.authority.certificate().display()))
            .arg(flag(
                "service-account-private-key-file",
                self.authority.token_key().display(),
            ))
            .args(["--bind-address=127.0.0.1", "--leader-elect=false"])
            .args(["--kube-api-qps=1000", "--kube-api-burst=1000"])
            .arg("--use-service-account-credentials=true")
            .args(gates(self.release.controller_gates()));
        let process = self.spawn("kube-controller-manager", command, vec![port])?;
        let probe = Probe::new(&url, "/healthz")?;
        ready(&process, || probe.check()).await?;
        Ok(process)
    }

    pub async fn start_scheduler(&self) -> Result<Process> {
        let port = Port::reserve()?;
        let url = format!("https://127.0.0.1:{}", port.number);
        let config = json!({
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {
                "kubeconfig": self.user_kubeconfig("system:kube-scheduler", None)?,
                "qps": 1000,
                "burst": 1000,
            },
            "leaderElection": {"leaderElect": false},
            // A blocked gang is tried again after a back-off; the default grows to 10 s.
            "podInitialBackoffSeconds": 1,
            "podMaxBackoffSeconds": 1,
        });
        let path = self.dir.join("scheduler.json");
        fs::write(&path, serde_json::to_vec(&config)?)?;
        let mut command = self.kubernetes("kube-scheduler")?;
        command
            .arg(flag("config", path.display()))
            .arg(flag("secure-port", port.number))
            .arg("--bind-address=127.0.0.1")
            .args(gates(self.release.scheduler_gates()));
        let process = self.spawn("kube-scheduler", command, vec![port])?;
        let probe = Probe::new(&url, "/readyz")?;
        ready(&process, || probe.check()).await?;
        Ok(process)
    }

    pub async fn start_kwok(&self) -> Result<Process> {
        let port = Port::reserve()?;
        let url = format!("http://127.0.0.1:{}", port.number);
        let config = self.dir.join("kwok.yaml");
        fs::write(&config, KWOK)?;
        let mut command = self.components.program("kwok")?;
        command
            .arg(flag("kubeconfig", self.kubeconfig.display()))
            .arg(flag("config", config.display()))
            .arg(flag("server-address", format!("127.0.0.1:{}", port.number)));
        let process = self.spawn("kwok", command, vec![port])?;
        let probe = Probe::new(&url, "/healthz")?;
        ready(&process, || probe.check()).await?;
        Ok(process)
    }

    /// A kubeconfig with a token of that service account, as a pod of it would have.
    pub async fn service_account_kubeconfig(&self, namespace: &str, name: &str) -> Result<PathBuf> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), namespace);
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                expiration_seconds: Some(24 * 3600),
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        };
        let answer = accounts
            .create_token_request(name, &PostParams::default(), &request)
            .await
            .with_context(|| format!("no token for {namespace}/{name}"))?;
        let token = answer.status.and_then(|status| status.token);
        let token = token.context("a token request without an answer")?;
        self.kubeconfig_for(name, &Credential::Token(token))
    }

    /// A client with the rights of that service account, and no others.
    pub async fn service_account_client(&self, namespace: &str, name: &str) -> Result<Client> {
        client(&self.service_account_kubeconfig(namespace, name).await?).await
    }

    /// One more etcd and apiserver, for what would disturb the tests that share this one.
    pub async fn another(&self, release: Release, name: &str) -> Result<ControlPlane> {
        let (components, group) = (Arc::clone(&self.components), Arc::clone(&self.group));
        ControlPlane::start(components, group, release, name).await
    }

    /// The same with further flags of the apiserver.
    pub async fn another_with(
        &self,
        name: &str,
        flags: impl FnOnce(&Path, &Authority) -> Result<Vec<String>>,
    ) -> Result<ControlPlane> {
        let (components, group) = (Arc::clone(&self.components), Arc::clone(&self.group));
        let place = (Seat::Loopback, name);
        ControlPlane::start_with(components, group, self.release, place, flags).await
    }

    /// A component of this release.
    fn kubernetes(&self, component: &str) -> Result<Command> {
        self.components.program(&self.release.program(component))
    }

    /// A place for files that a component reads.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn components(&self) -> &Components {
        &self.components
    }

    /// Starts one more process beside this control plane; it ends with it.
    pub fn spawn(&self, name: &str, command: Command, ports: Vec<Port>) -> Result<Process> {
        let name = format!("{}/{name}", self.name);
        self.group.spawn(&name, command, ports)
    }

    /// For a component that has a certificate.
    pub fn user_kubeconfig(&self, user: &str, group: Option<&str>) -> Result<PathBuf> {
        let pair = self.authority.client(user, group)?;
        self.kubeconfig_for(&user.replace(':', "-"), &Credential::Certificate(pair))
    }

    fn kubeconfig_for(&self, name: &str, credential: &Credential) -> Result<PathBuf> {
        let authority = self.authority.certificate();
        kubeconfig::write(&self.dir, name, &self.server, &authority, credential)
    }
}

async fn client(kubeconfig: &Path) -> Result<Client> {
    let file = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

pub fn gates(gates: Option<&str>) -> Option<String> {
    gates.map(|gates| flag("feature-gates", gates))
}

pub fn flag(name: &str, value: impl std::fmt::Display) -> String {
    format!("--{name}={value}")
}
