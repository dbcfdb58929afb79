//! Which scheduler a gang goes to, and what is said when it cannot.

use anyhow::{Context, Result, ensure};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::samples::gang;
use crate::install::{Installed, jobset};
use crate::muster::Muster;
use crate::ports::Port;
use crate::release::Release;
use crate::sandbox::Sandbox;

async fn label(sandbox: &Sandbox, scheduler: &str) -> Result<()> {
    let namespaces = sandbox.api("v1", "Namespace").await?;
    let patch = Patch::Merge(json!({"metadata": {"labels": {"muster.dev/scheduler": scheduler}}}));
    let name = &sandbox.namespace;
    namespaces
        .patch(name, &PatchParams::default(), &patch)
        .await?;
    Ok(())
}

pub async fn the_namespaces_label_chooses_the_scheduler(sandbox: Sandbox) -> Result<()> {
    let apply = ["apply", "--filename=-", "--dry-run=server", "--output=json"];
    label(&sandbox, "volcano").await?;
    let chosen: Value = sandbox
        .wait_for("Volcano to be chosen", async || {
            let output = sandbox.kubectl(&apply, &gang("train", 2, "1")).await?;
            let chosen: Value = serde_json::from_slice(&output.stdout)?;
            let scheduler = &chosen["metadata"]["annotations"]["muster.dev/scheduler"];
            ensure!(scheduler == "volcano", "it is {scheduler}");
            Ok(chosen)
        })
        .await?;
    let template = &chosen["spec"]["replicatedJobs"][0]["template"]["spec"]["template"];
    assert_eq!(template["spec"]["schedulerName"], "volcano");

    label(&sandbox, "vulcano").await?;
    sandbox
        .wait_for("the mistake to be told", async || {
            let output = sandbox.kubectl(&apply, &gang("train", 2, "1")).await?;
            let said = String::from_utf8_lossy(&output.stderr);
            let told = said.contains("label muster.dev/scheduler is \"vulcano\"");
            ensure!(told && output.status.code() == Some(1), "{said}");
            Ok(())
        })
        .await
}

pub async fn native_gangs_that_are_not_served_are_refused_with_what_is_missing(
    sandbox: Sandbox,
) -> Result<()> {
    let port = Port::reserve()?;
    let plane = sandbox
        .cluster
        .plane
        .another(Release::V1_37WithoutGangs, "no-gangs")
        .await?;
    let installed = Installed::on(plane, port.number).await?;
    let muster = Muster::installed(&installed.plane).await?;
    let _process = muster.start_at(&installed.plane, "muster-0", port).await?;
    let mut native = jobset("train");
    native["metadata"]["annotations"] =
        json!({"muster.dev/gang-mode": "Gang", "muster.dev/scheduler": "native"});
    let refused = installed.kubectl_apply(&native).err().context("admitted")?;
    let said = refused.to_string();
    for part in [
        "metadata.annotations[muster.dev/scheduler]: Invalid value: \"native\"",
        "Kubernetes 1.37 needs the feature gate GenericWorkload",
        "the API scheduling.k8s.io/v1beta1",
    ] {
        ensure!(said.contains(part), "{said}");
    }
    Ok(())
}
