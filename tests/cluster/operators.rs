//! The JobSet and LeaderWorkerSet controllers, installed from their own manifests, running as
//! their own service accounts, with their own webhooks on.

use std::fs;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::control_plane::{ControlPlane, flag};
use crate::health::{PATIENCE, Probe, ready, wait_for};
use crate::manifests::{Loopback, parse};
use crate::objects::Objects;
use crate::ports::Port;
use crate::process::Process;

/// What differs between the two.
struct Kind {
    name: &'static str,
    namespace: &'static str,
    account: &'static str,
    config: &'static str,
    /// Off by default, and on here.
    gates: &'static [&'static str],
    sample: &'static str,
    /// Further configuration, as JSON.
    more: Option<(&'static str, &'static str)>,
}

const JOBSET: Kind = Kind {
    name: "jobset",
    namespace: "jobset-system",
    account: "jobset-controller-manager",
    config: "config.jobset.x-k8s.io/v1alpha1",
    // Alpha in v0.12: a Job that restarts alone, and a JobSet that grows.
    gates: &["RestartJob", "ElasticJobSet"],
    more: None,
    sample: "
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: probe}
spec:
  replicatedJobs:
  - name: a
    template: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}
",
};

const LWS: Kind = Kind {
    name: "lws",
    namespace: "lws-system",
    account: "lws-controller-manager",
    config: "config.lws.x-k8s.io/v1alpha1",
    gates: &[],
    more: None,
    sample: "
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: probe}
spec:
  leaderWorkerTemplate:
    workerTemplate: {spec: {containers: [{name: c, image: i}]}}
",
};

/// An operator whose objects are in the cluster, and whose process is not started yet.
pub struct Operator {
    kind: Kind,
    webhook: Port,
}

impl Operator {
    pub async fn install_jobset(plane: &ControlPlane, objects: &Objects) -> Result<Operator> {
        Operator::install(JOBSET, plane, objects).await
    }

    pub async fn install_lws(plane: &ControlPlane, objects: &Objects) -> Result<Operator> {
        Operator::install(LWS, plane, objects).await
    }

    /// With its own gangs, which it makes on Volcano only.
    pub async fn install_lws_with_gangs(
        plane: &ControlPlane,
        objects: &Objects,
    ) -> Result<Operator> {
        let role = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: lws-podgroups}
rules:
- {apiGroups: [scheduling.volcano.sh], resources: [podgroups], verbs: [create, get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: lws-podgroups}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: lws-podgroups}
subjects: [{kind: ServiceAccount, name: lws-controller-manager, namespace: lws-system}]
";
        objects.apply_all(&parse(role)?, "").await?;
        let gangs = (
            "gangSchedulingManagement",
            r#"{"schedulerProvider": "volcano"}"#,
        );
        let kind = Kind {
            more: Some(gangs),
            ..LWS
        };
        Operator::install(kind, plane, objects).await
    }

    async fn install(kind: Kind, plane: &ControlPlane, objects: &Objects) -> Result<Operator> {
        let webhook = Port::reserve()?;
        let path = plane.components().path(&format!("{}.json", kind.name))?;
        let text = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let loopback = Loopback {
            port: webhook.number,
            authority: &plane.authority.pem,
        };
        let manifests = loopback.redirect(serde_json::from_slice(&text)?);
        install(manifests, kind.namespace, objects).await?;
        Ok(Operator { kind, webhook })
    }

    /// Started means that its webhooks answer: an object goes through all of admission.
    pub async fn start(self, plane: &ControlPlane, objects: &Objects) -> Result<Process> {
        let kind = self.kind;
        let health = Port::reserve()?;
        let url = format!("http://127.0.0.1:{}", health.number);
        let host = format!("{}-webhook-service.{}.svc", kind.name, kind.namespace);
        let serving = plane.authority.server(kind.name, &[&host])?;
        let mut config = json!({
            "apiVersion": kind.config,
            "kind": "Configuration",
            "leaderElection": {"leaderElect": false},
            "internalCertManagement": {"enable": false},
            "webhook": {
                "host": "127.0.0.1",
                "port": self.webhook.number,
                "certDir": serving.certificate.parent(),
            },
            "metrics": {"bindAddress": "0"},
            "health": {"healthProbeBindAddress": format!("127.0.0.1:{}", health.number)},
        });
        if let Some((field, value)) = kind.more {
            config[field] = serde_json::from_str(value)?;
        }
        for gate in kind.gates {
            config["featureGates"][gate] = json!(true);
        }
        let path = plane.dir().join(format!("{}.json", kind.name));
        fs::write(&path, serde_json::to_vec(&config)?)?;
        let kubeconfig = plane
            .service_account_kubeconfig(kind.namespace, kind.account)
            .await?;
        let mut command = plane.components().program(kind.name)?;
        command
            .arg(flag("config", path.display()))
            .arg(flag("kubeconfig", kubeconfig.display()));
        let process = plane.spawn(kind.name, command, vec![self.webhook, health])?;

        let probe = Probe::new(&url, "/readyz")?;
        ready(&process, || probe.check()).await?;
        // LWS says ready before its webhooks listen.
        let sample: Vec<Value> = parse(kind.sample)?;
        ready(&process, async || {
            for object in &sample {
                objects.try_create(object, "default").await?;
            }
            Ok(())
        })
        .await?;
        Ok(process)
    }
}

/// Applies an operator's manifests, and waits until the kinds among them are served.
pub async fn install(mut manifests: Vec<Value>, namespace: &str, objects: &Objects) -> Result<()> {
    // The namespace must be there before what is in it.
    manifests.sort_by_key(|object| object["kind"] != "Namespace");
    objects.apply_all(&manifests, namespace).await?;
    for object in &manifests {
        if object["kind"] == "CustomResourceDefinition" {
            served(object, objects).await?;
        }
    }
    Ok(())
}

/// Waits until a new kind is served. A controller that starts earlier tries again only after ten
/// seconds, and the garbage collector after thirty.
pub async fn served(definition: &Value, objects: &Objects) -> Result<()> {
    let spec = &definition["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (group, kind) = (text(&spec["group"]), text(&spec["names"]["kind"]));
    for version in spec["versions"].as_array().into_iter().flatten() {
        let version = format!("{group}/{}", text(&version["name"]));
        wait_for(&format!("{kind} to be served"), PATIENCE, async || {
            objects.api(&version, &kind, "default").await
        })
        .await?;
    }
    Ok(())
}
