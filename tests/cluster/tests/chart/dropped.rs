//! A later chart has a webhook less. Helm 4 applies on the server, where Muster owns the CA of each
//! webhook: the page for operators says how the upgrade goes all the same.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::lives::{namespace, plane};
use crate::helm::{CHART, Helm, RELEASE};
use crate::install::NAMESPACE;
use crate::muster::Muster;
use crate::ports::Port;
use crate::sandbox::Sandbox;

/// The last one of its file.
const DROPPED: &str = "deployments.muster.dev";

pub async fn an_upgrade_that_drops_a_webhook_goes_the_documented_way(
    sandbox: Sandbox,
) -> Result<()> {
    let installed = plane(&sandbox, "dropped").await?;
    let (plane, objects) = (&installed.plane, &installed.objects);
    objects
        .apply(&namespace(NAMESPACE, "restricted"), "")
        .await?;
    let helm = Helm::new(plane.components())?.of(&plane.kubeconfig);
    let here = ["--namespace", NAMESPACE];
    helm.printed(&[&["install", RELEASE, CHART][..], &here].concat())?;
    // It writes its CA, and so owns a field of each webhook.
    let muster = Muster::installed(plane).await?;
    let _replica = muster.start_at(plane, "release", Port::reserve()?).await?;
    let group = "admissionregistration.k8s.io/v1";
    let kind = "MutatingWebhookConfiguration";
    let configurations = objects.api(group, kind, "").await?;
    let bundles = async || {
        let found = configurations.get("muster-mutating").await?.data;
        let hooks = found["webhooks"].as_array().context("no webhooks")?.clone();
        let carried = |hook: &Value| hook["clientConfig"]["caBundle"].is_string();
        ensure!(hooks.iter().all(carried), "{hooks:?}");
        let names = hooks.iter().map(|hook| hook["name"].clone());
        anyhow::Ok(names.collect::<Vec<Value>>())
    };
    let mut names = bundles().await?;
    ensure!(names.pop().is_some_and(|last| last == DROPPED), "{names:?}");

    let later = helm.dir().join("later");
    let mut copy = Command::new("cp");
    let copied = copy.arg("-RL").arg(CHART).arg(&later).status()?;
    ensure!(copied.success(), "the chart cannot be copied");
    let file = later.join("files/base/mutating.yaml");
    let text = fs::read_to_string(&file)?;
    let (rest, _) = text
        .split_once(&format!("- name: {DROPPED}\n"))
        .context("it is not in the chart")?;
    fs::write(&file, rest)?;

    let later = later.to_str().context("a path")?;
    let upgrade = [&["upgrade", RELEASE, later][..], &here].concat();
    let refused = helm.refused(&upgrade)?;
    ensure!(refused.contains("muster-mutating"), "{refused}");
    helm.printed(&[&upgrade[..], &["--server-side=false"]].concat())?;
    let left = bundles().await?;
    ensure!(left == names, "{left:?} of {names:?}");
    // The next one goes as always.
    helm.printed(&upgrade)?;
    ensure!(bundles().await? == names, "the upgrade took the bundles");
    Ok(())
}
