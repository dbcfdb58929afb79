//! YuniKorn's scheduler and its admission controller. A pod's queue is its namespace.

use std::net::TcpListener;

use anyhow::{Context, Result, ensure};
use kube::api::PostParams;
use serde_json::json;

use crate::control_plane::ControlPlane;
use crate::health::ready;
use crate::objects::Objects;
use crate::ports::Port;
use crate::process::Process;

const NAMESPACE: &str = "yunikorn";

pub async fn install(objects: &Objects) -> Result<()> {
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    objects.apply(&namespace, "").await?;
    let queues = json!({"partitions": [{
        "name": "default",
        "placementrules": [
            {"name": "provided", "create": true},
            {"name": "tag", "value": "namespace", "create": true},
        ],
        "queues": [{"name": "root", "submitacl": "*"}],
    }]});
    let config = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "yunikorn-configs"},
        "data": {
            // The default of one second makes a gang of eight take four seconds.
            "service.schedulingInterval": "100ms",
            "queues.yaml": queues.to_string(),
        },
    });
    objects.apply(&config, NAMESPACE).await?;
    Ok(())
}

pub fn start(plane: &ControlPlane) -> Result<Process> {
    // It serves REST on all interfaces at a fixed port, and schedules just as well when the port
    // is taken. So it is: either by this listener or by what made it fail.
    let _occupied = TcpListener::bind("127.0.0.1:9080").map(std::mem::forget);
    let mut command = plane.components().program("yunikorn-scheduler")?;
    command
        .env("KUBECONFIG", &plane.kubeconfig)
        .env("NAMESPACE", NAMESPACE);
    plane.spawn("yunikorn-scheduler", command, Vec::new())
}

/// YuniKorn's admission controller, which gives every pod of the cluster to YuniKorn; a real
/// installation has it. Most tests run without: it would take the pods of all other schedulers.
pub async fn start_admission(plane: &ControlPlane, objects: &Objects) -> Result<Process> {
    let port = Port::reserve()?;
    // As its manifests have them, but for where the Service leads: nothing runs in pods here.
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "admission-controller-secrets"},
    });
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "yunikorn-admission-controller-service"},
        "spec": {"type": "ExternalName", "externalName": "127.0.0.1"},
    });
    objects.apply_all(&[secret, service], NAMESPACE).await?;
    let number = port.number;
    let mut command = plane.components().program("yunikorn-admission")?;
    command
        .arg(format!("127.0.0.1:{number}"))
        .env("KUBECONFIG", &plane.kubeconfig)
        .env("NAMESPACE", NAMESPACE);
    let process = plane.spawn("yunikorn-admission", command, vec![port])?;
    // It writes its webhook configurations itself, for a Service at port 443.
    ready(&process, async || {
        for (kind, name) in [
            ("ValidatingWebhookConfiguration", "validations"),
            ("MutatingWebhookConfiguration", "mutations"),
        ] {
            let api = objects.api("admissionregistration.k8s.io/v1", kind, "");
            let (api, name) = (api.await?, format!("yunikorn-admission-controller-{name}"));
            let mut hooks = api.get(&name).await?;
            let client = hooks.data.pointer_mut("/webhooks/0/clientConfig/service");
            client.context("no webhook")?["port"] = json!(number);
            api.replace(&name, &PostParams::default(), &hooks).await?;
        }
        Ok(())
    })
    .await?;
    ready(&process, async || {
        let given = scheduler_of_a_pod(objects, "default").await?;
        ensure!(given == "yunikorn", "a pod is given to {given}");
        Ok(())
    })
    .await?;
    Ok(process)
}

/// To whom a pod goes that names no scheduler.
pub async fn scheduler_of_a_pod(objects: &Objects, namespace: &str) -> Result<String> {
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "probe"},
        "spec": {"containers": [{"name": "main", "image": "probe"}]},
    });
    let pod = objects.try_create(&pod, namespace).await?;
    let name = pod.data["spec"]["schedulerName"].as_str();
    Ok(name.unwrap_or_default().to_owned())
}
