//! The JobSet and LeaderWorkerSet controllers and Kueue, installed from their own manifests, running
//! as their own service accounts, with their own webhooks on.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Secret;
use kube::api::Api;
use serde_json::{Value, json};

use crate::control_plane::{ControlPlane, flag};
use crate::health::{PATIENCE, Probe, ready, wait_for};
use crate::manifests::{Loopback, parse};
use crate::objects::Objects;
use crate::ports::Port;
use crate::process::Process;

/// What differs between them.
struct Kind {
    name: &'static str,
    namespace: &'static str,
    account: &'static str,
    config: &'static str,
    /// Off by default, and on here.
    gates: &'static [&'static str],
    sample: &'static str,
    /// Further configuration, as JSON.
    more: &'static [(&'static str, &'static str)],
    certificate: Certificate,
}

/// Where it has its certificate from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Certificate {
    /// The tests sign it.
    Given,
    /// It makes one itself and keeps it in this Secret, which a kubelet would mount.
    Own(&'static str),
}

const JOBSET: Kind = Kind {
    name: "jobset",
    namespace: "jobset-system",
    account: "jobset-controller-manager",
    config: "config.jobset.x-k8s.io/v1alpha1",
    // Alpha in v0.12: a Job that restarts alone, and a JobSet that grows.
    gates: &["RestartJob", "ElasticJobSet"],
    more: &[],
    certificate: Certificate::Given,
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
    more: &[],
    certificate: Certificate::Given,
    sample: "
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: probe}
spec:
  leaderWorkerTemplate:
    workerTemplate: {spec: {containers: [{name: c, image: i}]}}
",
};

/// With a certificate of its own: without, it reads one for its metrics from a fixed directory of the
/// machine (v0.19).
const KUEUE: Kind = Kind {
    name: "kueue",
    namespace: "kueue-system",
    account: "kueue-controller-manager",
    config: "config.kueue.x-k8s.io/v1beta2",
    gates: &[],
    more: &[
        (
            "integrations",
            r#"{"frameworks": ["batch/job", "jobset.x-k8s.io/jobset", "pod", "deployment",
                "statefulset", "leaderworkerset.x-k8s.io/leaderworkerset"]}"#,
        ),
        // An API server of its own at a fixed port, by which queues are shown.
        ("featureGates", r#"{"VisibilityOnDemand": false}"#),
    ],
    certificate: Certificate::Own("kueue-webhook-server-cert"),
    sample: "
apiVersion: batch/v1
kind: Job
metadata: {name: probe, labels: {kueue.x-k8s.io/queue-name: probe}}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: probe}
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

    pub async fn install_kueue(plane: &ControlPlane, objects: &Objects) -> Result<Operator> {
        Operator::install(KUEUE, plane, objects).await
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
        let kind = Kind {
            more: &[(
                "gangSchedulingManagement",
                r#"{"schedulerProvider": "volcano"}"#,
            )],
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
        let certificates = match kind.certificate {
            Certificate::Given => {
                let serving = plane.authority.server(kind.name, &[&host])?;
                serving.certificate.with_file_name("")
            }
            Certificate::Own(_) => plane.dir().join(kind.name),
        };
        let mut config = json!({
            "apiVersion": kind.config,
            "kind": "Configuration",
            "leaderElection": {"leaderElect": false},
            "internalCertManagement": {"enable": kind.certificate != Certificate::Given},
            "webhook": {
                "host": "127.0.0.1",
                "port": self.webhook.number,
                "certDir": certificates,
            },
            "metrics": {"bindAddress": "0"},
            "health": {"healthProbeBindAddress": format!("127.0.0.1:{}", health.number)},
        });
        for (field, value) in kind.more {
            config[*field] = serde_json::from_str(value)?;
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
        if let Certificate::Own(secret) = kind.certificate {
            let place = (kind.namespace, secret);
            ready(&process, || mount(objects, place, &certificates)).await?;
        }

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

/// Writes what is in a Secret into a directory, as a kubelet mounts it.
async fn mount(objects: &Objects, (namespace, name): (&str, &str), to: &Path) -> Result<()> {
    let secrets: Api<Secret> = Api::namespaced(objects.client.clone(), namespace);
    let data = secrets.get(name).await?.data.unwrap_or_default();
    ensure!(data.contains_key("tls.crt"), "{name} is empty");
    fs::create_dir_all(to)?;
    // The certificate last: it is looked for.
    for (file, content) in data.iter().rev() {
        fs::write(to.join(file), &content.0)?;
    }
    Ok(())
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
