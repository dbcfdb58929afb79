//! From kubectl to Helm, and without an outage: the same objects become a release's.

use anyhow::{Result, ensure};
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde_json::json;

use super::lives::plane;
use crate::helm::{CHART, Helm, RELEASE};
use crate::install::{BASE, NAMESPACE};
use crate::sandbox::Sandbox;

pub async fn what_kubectl_installed_becomes_a_release_without_a_rollout(
    sandbox: Sandbox,
) -> Result<()> {
    let installed = plane(&sandbox, "takeover").await?;
    let (plane, objects) = (&installed.plane, &installed.objects);
    let mut kubectl = plane.components().program("kubectl")?;
    kubectl.env("KUBECONFIG", &plane.kubeconfig);
    let output = kubectl.args(["apply", "-k", BASE]).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{said}");
    let deployments = objects.api("apps/v1", "Deployment", NAMESPACE).await?;
    let before = deployments.get("muster").await?;

    let helm = Helm::new(plane.components())?.of(&plane.kubeconfig);
    let install = ["install", RELEASE, CHART, "--namespace", NAMESPACE];
    // By itself Helm leaves alone what it did not make.
    let refused = helm.refused(&install)?;
    ensure!(refused.contains("cannot be imported"), "{refused}");
    let taking = ["--take-ownership", "--force-conflicts"];
    helm.printed(&[&install[..], &taking].concat())?;

    let after = deployments.get("muster").await?;
    ensure!(after.uid() == before.uid(), "it was recreated");
    let template = |deployment: &DynamicObject| deployment.data["spec"]["template"].to_string();
    let (was, is) = (template(&before), template(&after));
    ensure!(was == is, "it is rolled out: {was}\n{is}");
    let labels = json!(after.metadata.labels);
    ensure!(labels["app.kubernetes.io/managed-by"] == "Helm", "{labels}");
    Ok(())
}
