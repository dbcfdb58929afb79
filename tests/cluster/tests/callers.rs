//! Muster that answers only the apiserver, on a real one that is configured as the page says.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use hyper::{Request, StatusCode};
use kube::api::{Patch, PatchParams};
use kube::{Client, Config};
use muster::certs::keeper::{GROUP_KEYS, MUTATING, VALIDATING};
use serde_json::{Value, json};

use crate::control_plane::flag;
use crate::health::{PATIENCE, wait_for};
use crate::install::{Installed, jobset};
use crate::muster::Muster;
use crate::pki::{Authority, Pair};
use crate::ports::Port;
use crate::sandbox::Sandbox;

/// Whom the apiserver's certificate is for.
const NAME: &str = "kube-apiserver-admission";

pub async fn the_apiserver_is_answered_and_nobody_else(sandbox: Sandbox) -> Result<()> {
    let port = Port::reserve()?;
    let number = port.number;
    let shared = &sandbox.cluster.plane;
    let plane = shared.another_with("callers", |dir, authority| {
        configure(dir, authority, number)
    });
    let installed = Installed::on(plane.await?, number).await?;
    let authority = &installed.plane.authority;
    let muster = Muster::installed(&installed.plane).await?;
    let muster = muster
        .with("client-ca", &authority.certificate().display().to_string())
        .with("client-name", NAME);
    let _process = muster.start_at(&installed.plane, "muster-0", port).await?;

    is_stamped(&installed).await.context("by the Service")?;
    let kubelet = authority.client("system:node:n1", Some("system:nodes"))?;
    ensure!(
        status(number, None).await?.is_none(),
        "a stranger is answered"
    );
    let answered = status(number, Some(&kubelet)).await?;
    ensure!(answered.is_none(), "a kubelet is answered");
    let itself = authority.client(NAME, None)?;
    let answered = status(number, Some(&itself)).await?;
    ensure!(answered == Some(StatusCode::BAD_REQUEST), "{answered:?}");

    to_url(&installed, number).await?;
    is_stamped(&installed).await.context("by its URL")
}

/// Writes the files of the page for the apiserver, with the addresses of the test in them.
fn configure(dir: &Path, authority: &Authority, port: u16) -> Result<Vec<String>> {
    let pair = authority.client(NAME, None)?;
    let kubeconfig = dir.join("kubeconfig.yaml");
    let name = "muster.muster-system.svc";
    let text = shown("kind: Config\n")?
        .replace(
            "/etc/kubernetes/muster/client.crt",
            path(&pair.certificate)?,
        )
        .replace("/etc/kubernetes/muster/client.key", path(&pair.key)?)
        .replace(name, &format!("{name}:{port}"));
    let (_, user) = text.split_once("users:\n").context("no users")?;
    let by_url = user.replace(name, "127.0.0.1");
    fs::write(&kubeconfig, format!("{text}{by_url}"))?;
    let text = shown("kind: AdmissionConfiguration\n")?
        .replace("/etc/kubernetes/muster/kubeconfig.yaml", path(&kubeconfig)?);
    let file = dir.join("admission.yaml");
    fs::write(&file, text)?;
    Ok(vec![flag("admission-control-config-file", file.display())])
}

fn path(path: &Path) -> Result<&str> {
    path.to_str().context("not UTF-8")
}

/// The block of the page on client certificates that has this line.
fn shown(line: &str) -> Result<String> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/client-certificates.md");
    let page = fs::read_to_string(page)?;
    let mut blocks = page.split("```yaml\n").skip(1);
    let block = blocks.find_map(|rest| {
        let (block, _) = rest.split_once("```")?;
        block.contains(line).then(|| block.to_owned())
    });
    block.with_context(|| format!("the page shows no {line}"))
}

async fn is_stamped(installed: &Installed) -> Result<()> {
    let mut ganged = jobset("ganged");
    ganged["metadata"]["annotations"] = json!({"muster.dev/gang-mode": "Gang"});
    wait_for("Muster to be called", PATIENCE, async || {
        let stamped = installed.objects.try_create(&ganged, "default").await?;
        let annotations = stamped.metadata.annotations.unwrap_or_default();
        let scheduler = annotations.get("muster.dev/scheduler");
        ensure!(scheduler.is_some(), "{annotations:?}");
        Ok(())
    })
    .await
}

/// The status with which Muster answers a call that is no review, if it answers.
async fn status(port: u16, identity: Option<&Pair>) -> Result<Option<StatusCode>> {
    let mut config = Config::new(format!("https://127.0.0.1:{port}").parse()?);
    config.accept_invalid_certs = true;
    if let Some(pair) = identity {
        config.auth_info.client_certificate = Some(path(&pair.certificate)?.to_owned());
        config.auth_info.client_key = Some(path(&pair.key)?.to_owned());
    }
    let request = Request::post("/mutate")
        .header("content-type", "application/json")
        .body(Vec::from("{}").into())?;
    let answer = Client::try_from(config)?.send(request).await;
    Ok(answer.ok().map(|answer| answer.status()))
}

/// Has Muster called by a URL.
async fn to_url(installed: &Installed, port: u16) -> Result<()> {
    for (kind, name) in [
        ("Mutating", MUTATING),
        ("Validating", VALIDATING),
        ("Mutating", GROUP_KEYS),
    ] {
        let kind = format!("{kind}WebhookConfiguration");
        let api = installed
            .objects
            .api("admissionregistration.k8s.io/v1", &kind, "");
        let api = api.await?;
        let hooks = api.get(name).await?.data["webhooks"].take();
        let hooks = hooks.as_array().context("no webhooks")?;
        let changes = hooks.iter().enumerate().flat_map(|(at, hook)| {
            let to = format!("/webhooks/{at}/clientConfig");
            let path = hook["clientConfig"]["service"]["path"].as_str();
            let url = format!("https://127.0.0.1:{port}{}", path.unwrap_or_default());
            [
                json!({"op": "remove", "path": format!("{to}/service")}),
                json!({"op": "add", "path": format!("{to}/url"), "value": url}),
            ]
        });
        let changes: json_patch::Patch = serde_json::from_value(Value::from_iter(changes))?;
        let changes = Patch::<()>::Json(changes);
        api.patch(name, &PatchParams::default(), &changes).await?;
    }
    Ok(())
}
