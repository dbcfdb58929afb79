//! cert-manager beside a control plane: its own CRDs, and its own controllers in one process of ours,
//! whose main says what is left out.

use std::fs;

use anyhow::{Context, Result, ensure};
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::control_plane::ControlPlane;
use crate::health::{PATIENCE, ready, wait_for};
use crate::install::NAMESPACE;
use crate::objects::Objects;
use crate::operators;
use crate::process::Process;

pub const API: &str = "cert-manager.io/v1";

/// Installs and starts it, with the rights of an administrator.
pub async fn start(plane: &ControlPlane, objects: &Objects) -> Result<Process> {
    let manifests = fs::read(plane.components().path("cert-manager.json")?)?;
    let manifests: Vec<Value> = serde_json::from_slice(&manifests)?;
    operators::install(manifests, "", objects).await?;
    let mut command = plane.components().program("cert-manager")?;
    command.env("KUBECONFIG", &plane.kubeconfig).arg("-v=2");
    let process = plane.spawn("cert-manager", command, Vec::new())?;
    ready(&process, async || {
        let log = fs::read_to_string(&process.log)?;
        ensure!(
            log.contains("everything is started"),
            "its caches are not full"
        );
        Ok(())
    })
    .await?;
    Ok(process)
}

/// How often a certificate of Muster's namespace was issued, once it is ready.
pub async fn revision(objects: &Objects, name: &str) -> Result<i64> {
    let certificates = objects.api(API, "Certificate", NAMESPACE).await?;
    let certificate = certificates.get(name).await?;
    let status = &certificate.data["status"];
    let ready = |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
    let conditions = status["conditions"].as_array().context("no conditions")?;
    ensure!(
        conditions.iter().any(ready),
        "{name} is not ready: {status}"
    );
    status["revision"].as_i64().context("never issued")
}

/// Has it issued anew, as `cmctl renew` does, and waits until it is.
pub async fn renew(objects: &Objects, name: &str) -> Result<()> {
    let certificates = objects.api(API, "Certificate", NAMESPACE).await?;
    let before = revision(objects, name).await?;
    wait_for("the renewal to be asked for", PATIENCE, async || {
        let mut certificate = certificates.get(name).await?;
        let issuing = json!({
            "type": "Issuing",
            "status": "True",
            "reason": "ManuallyTriggered",
            "message": "Certificate re-issuance manually triggered",
            "observedGeneration": certificate.metadata.generation,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        });
        let conditions = certificate.data["status"]["conditions"].as_array_mut();
        conditions.context("no conditions")?.push(issuing);
        let params = PostParams::default();
        Ok(certificates
            .replace_status(name, &params, &certificate)
            .await?)
    })
    .await?;
    wait_for("the renewal", PATIENCE, async || {
        let now = revision(objects, name).await?;
        ensure!(now > before, "{name} is at revision {now}");
        Ok(())
    })
    .await
}
