//! Muster in the network of its nodes: what the apiserver makes of it.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::lives::{namespace, plane};
use crate::helm::{CHART, Helm, is_hook, kustomize};
use crate::install::NAMESPACE;
use crate::sandbox::Sandbox;

/// The overlay brings its own; with Helm the namespace is the operator's.
pub async fn the_host_network_needs_a_namespace_that_allows_it(sandbox: Sandbox) -> Result<()> {
    let installed = plane(&sandbox, "host-network").await?;
    let (plane, objects) = (&installed.plane, &installed.objects);
    let overlay = concat!(env!("CARGO_MANIFEST_DIR"), "/manifests/host-network");
    let rendered = kustomize(plane.components(), Path::new(overlay))?;
    // The namespace first, and what belongs into it afterwards.
    let (first, others): (Vec<Value>, Vec<Value>) = rendered
        .into_values()
        .partition(|object| object["kind"] == "Namespace");
    objects.apply_all(&first, NAMESPACE).await?;
    objects.apply_all(&others, NAMESPACE).await?;
    objects
        .apply(&namespace("strict", "restricted"), "")
        .await?;
    let account = json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "muster"},
    });
    objects.apply(&account, "strict").await?;

    let deployments = objects.api("apps/v1", "Deployment", NAMESPACE).await?;
    let mut pod = deployments.get("muster").await?.data["spec"]["template"].clone();
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"]["name"] = json!("muster-0");
    let admitted = objects.try_create(&pod, NAMESPACE).await?;
    let ports = &admitted.data["spec"]["containers"][0]["ports"];
    let host: Vec<&Value> = (0..3).map(|at| &ports[at]["hostPort"]).collect();
    ensure!(host == [18443, 18444, 18080], "{ports}");
    let refused = objects.try_create(&pod, "strict").await;
    let error = refused
        .err()
        .context("the restricted standard lets it in")?;
    ensure!(format!("{error:#}").contains("hostNetwork"), "{error:#}");

    let helm = Helm::new(plane.components())?;
    let values = ["--set", "hostNetwork=true"];
    let chart = helm.template(CHART, NAMESPACE, &values)?;
    let hooks = chart.values().filter(|object| is_hook(object));
    // The test's pod needs no port of a node.
    for pod in hooks.filter(|object| object["kind"] == "Pod") {
        ensure!(pod["spec"]["hostNetwork"].is_null(), "{pod}");
    }
    Ok(())
}
