//! Volcano's scheduler and controller-manager.

use std::fs;

use anyhow::{Result, ensure};
use serde_json::json;

use crate::control_plane::{ControlPlane, flag};
use crate::health::ready;
use crate::objects::Objects;
use crate::ports::Port;
use crate::process::Process;

const CONFIG: &str = "
actions: enqueue, allocate, backfill
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: overcommit}, {name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}]
";

pub async fn start(plane: &ControlPlane, objects: &Objects) -> Result<[Process; 2]> {
    let config = plane.dir().join("volcano.conf");
    fs::write(&config, CONFIG)?;
    let (health, metrics) = (Port::reserve()?, Port::reserve()?);
    let mut command = plane.components().program("volcano-scheduler")?;
    command
        .arg(flag("kubeconfig", plane.kubeconfig.display()))
        .arg(flag("scheduler-conf", config.display()))
        .args(["--leader-elect=false", "--schedule-period=200ms"])
        .args(["--plugins-dir=", "--cache-dumper=false"])
        .args(["--kube-api-qps=1000", "--kube-api-burst=1000"])
        .args(addresses(&health, &metrics));
    let scheduler = plane.spawn("volcano-scheduler", command, vec![health, metrics])?;

    // All controllers: a real installation has the one that makes PodGroups of its own too.
    let (health, metrics) = (Port::reserve()?, Port::reserve()?);
    let mut command = plane.components().program("volcano-controller")?;
    command
        .arg(flag("kubeconfig", plane.kubeconfig.display()))
        .arg("--leader-elect=false")
        .args(addresses(&health, &metrics));
    let controller = plane.spawn("volcano-controller", command, vec![health, metrics])?;

    // Health is served long before anything is scheduled; an open queue means that both work.
    ready(&controller, async || {
        let queues = objects
            .api("scheduling.volcano.sh/v1beta1", "Queue", "")
            .await?;
        let state = queues.get("default").await?.data["status"]["state"].clone();
        ensure!(state == "Open", "the queue is {state}");
        Ok(())
    })
    .await?;
    Ok([scheduler, controller])
}

fn addresses(health: &Port, metrics: &Port) -> [String; 3] {
    [
        "--enable-healthz=true".to_owned(),
        flag("healthz-address", format!("127.0.0.1:{}", health.number)),
        flag("listen-address", format!("127.0.0.1:{}", metrics.number)),
    ]
}

/// Volcano's webhook for PodGroups; a real installation has it. Most tests run without, to see what
/// is said of a queue that nobody has checked.
pub async fn start_webhook(plane: &ControlPlane, objects: &Objects) -> Result<Process> {
    let port = Port::reserve()?;
    let url = format!("https://127.0.0.1:{}", port.number);
    let hook = "podgroups/validate";
    // The program waits for its configuration, and writes the CA into it.
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "volcano-admission-service-podgroups-validate"},
        "webhooks": [{
            "name": "validatepodgroup.volcano.sh",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "NoneOnDryRun",
            "clientConfig": {"url": format!("{url}/{hook}")},
            "rules": [{
                "apiGroups": ["scheduling.volcano.sh"], "apiVersions": ["v1beta1"],
                "resources": ["podgroups"], "operations": ["CREATE"],
            }],
        }],
    });
    objects.apply(&configuration, "").await?;
    let serving = plane.authority.server("volcano-webhook", &["127.0.0.1"])?;
    let mut command = plane.components().program("volcano-webhook")?;
    command
        .arg(flag("kubeconfig", plane.kubeconfig.display()))
        .args(["--listen-address=127.0.0.1", "--enable-healthz=false"])
        .arg(flag("port", port.number))
        .arg(flag("tls-cert-file", serving.certificate.display()))
        .arg(flag("tls-private-key-file", serving.key.display()))
        .arg(flag(
            "ca-cert-file",
            plane.authority.certificate().display(),
        ))
        .arg(flag("webhook-url", &url))
        .arg(flag("enabled-admission", format!("/{hook}")));
    let process = plane.spawn("volcano-webhook", command, vec![port])?;
    ready(&process, async || {
        let group = json!({
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": "probe"},
            "spec": {"queue": "default"},
        });
        objects.try_create(&group, "default").await?;
        Ok(())
    })
    .await?;
    Ok(process)
}
