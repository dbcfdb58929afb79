//! Muster itself, from its real manifests and as its own service account, beside the operators.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::control_plane::{ControlPlane, flag};
use crate::health::{Probe, ready};
use crate::install::{BASE, NAMESPACE, to_loopback};
use crate::manifests::render;
use crate::objects::Objects;
use crate::ports::Port;
use crate::process::Process;

/// Installs the manifests and starts one replica, which writes its CA into them.
pub async fn start(plane: &ControlPlane, objects: &Objects) -> Result<Process> {
    let (webhook, admin) = (Port::reserve()?, Port::reserve()?);
    let port = webhook.number;
    let manifests = render(plane.components(), Path::new(BASE))?;
    let manifests: Vec<Value> = manifests
        .into_iter()
        .map(|object| to_loopback(object, port))
        .collect();
    objects.apply_all(&manifests, NAMESPACE).await?;

    let kubeconfig = plane
        .service_account_kubeconfig(NAMESPACE, "muster")
        .await?;
    let health = format!("http://127.0.0.1:{}", admin.number);
    let mut command = Command::new(env!("CARGO_BIN_EXE_muster"));
    command
        .arg("serve")
        .arg(flag("kubeconfig", kubeconfig.display()))
        .arg(flag("namespace", NAMESPACE))
        .arg(flag("identity", "muster-0"))
        .arg(flag("listen", format!("127.0.0.1:{port}")))
        .arg(flag("admin-listen", format!("127.0.0.1:{}", admin.number)))
        .arg(flag("lame-duck-seconds", 0));
    let process = plane.spawn("muster", command, vec![webhook, admin])?;
    let probe = Probe::new(&health, "/readyz")?;
    ready(&process, async || probe.check().await)
        .await
        .context("Muster does not become ready")?;
    Ok(process)
}
