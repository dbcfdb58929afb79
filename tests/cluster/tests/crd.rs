//! `muster crd` on the stock CRD: adds its fields, once, and takes away exactly what it added.

use std::process::Command;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::health::{PATIENCE, wait_for};
use crate::install::{Installed, jobset};
use crate::sandbox::Sandbox;

const CRD: &str = "jobsets.jobset.x-k8s.io";

/// Runs the real binary as a user would, and returns what it printed.
async fn muster(installed: &Installed, args: &[&str]) -> Result<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_muster"));
    command
        .arg("crd")
        .args(args)
        .env("KUBECONFIG", &installed.plane.kubeconfig);
    let output = tokio::task::spawn_blocking(move || command.output()).await??;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{said}");
    Ok(String::from_utf8(output.stdout)?)
}

/// The CRD's spec, and the version that a write would change.
async fn stored(installed: &Installed) -> Result<(Value, Option<String>)> {
    let api = installed
        .objects
        .api("apiextensions.k8s.io/v1", "CustomResourceDefinition", "");
    let crd = api.await?.get(CRD).await?;
    Ok((crd.data["spec"].clone(), crd.metadata.resource_version))
}

/// Whether the apiserver keeps a JobSet's gang fields. In a namespace that Muster's webhooks
/// spare: nothing answers them here.
async fn keeps_fields(installed: &Installed) -> Result<bool> {
    let mut ganged = jobset("ganged");
    ganged["spec"]["gangConfig"] = json!({"gangMode": "Gang"});
    let created = installed.objects.try_create(&ganged, "kube-system").await?;
    Ok(created.data["spec"]["gangConfig"]["gangMode"] == "Gang")
}

pub async fn the_fields_are_added_once_and_taken_away_exactly(sandbox: Sandbox) -> Result<()> {
    let installed = Installed::new(&sandbox.cluster.plane, "crd", 1).await?;
    let stock = stored(&installed).await?;
    ensure!(!keeps_fields(&installed).await?, "the stock CRD has them");

    let said = muster(&installed, &["extend", "--dry-run"]).await?;
    ensure!(
        said.contains("gangConfig") && said.contains("dry run"),
        "{said}"
    );
    assert_eq!(stored(&installed).await?, stock);

    let said = muster(&installed, &["extend"]).await?;
    ensure!(said.contains("written"), "{said}");
    wait_for("the fields to be served", PATIENCE, async || {
        ensure!(keeps_fields(&installed).await?, "they are pruned");
        Ok(())
    })
    .await?;
    // The CRD's controllers write its status for a moment.
    let extended = wait_for("the CRD to rest", PATIENCE, async || {
        let before = stored(&installed).await?;
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        ensure!(stored(&installed).await? == before, "it still changes");
        Ok(before)
    })
    .await?;
    let said = muster(&installed, &["extend"]).await?;
    ensure!(said.contains("nothing to change"), "{said}");
    assert_eq!(stored(&installed).await?, extended);

    // A JobSet that uses a field would lose its gang.
    let mut user = jobset("user");
    user["spec"]["replicatedJobs"][0]["gangConfig"] = json!({"gangMode": "Gang"});
    installed.objects.apply(&user, "kube-system").await?;
    let refused = muster(&installed, &["revert"]).await;
    let said = refused.expect_err("it is used").to_string();
    ensure!(said.contains("kube-system/user"), "{said}");
    assert_eq!(stored(&installed).await?, extended);
    let jobsets = installed
        .objects
        .api("jobset.x-k8s.io/v1alpha2", "JobSet", "kube-system");
    let now = kube::api::DeleteParams::default();
    jobsets.await?.delete("user", &now).await?;

    muster(&installed, &["revert", "--dry-run"]).await?;
    assert_eq!(stored(&installed).await?, extended);
    muster(&installed, &["revert"]).await?;
    assert_eq!(stored(&installed).await?.0, stock.0);
    let said = muster(&installed, &["revert"]).await?;
    ensure!(said.contains("nothing to change"), "{said}");
    Ok(())
}

/// What an upgrade of JobSet does: `spec.versions` is replaced as a whole.
pub async fn the_fields_come_back_after_the_crd_was_replaced(sandbox: Sandbox) -> Result<()> {
    let installed = Installed::new(&sandbox.cluster.plane, "crd-watch", 1).await?;
    let stock = stored(&installed).await?.0;
    let mut command = Command::new(env!("CARGO_BIN_EXE_muster"));
    command
        .args(["crd", "extend", "--watch"])
        .env("KUBECONFIG", &installed.plane.kubeconfig);
    let process = installed.plane.spawn("muster-crd", command, Vec::new())?;
    let writes = async |count: usize| {
        wait_for("the fields to be written", PATIENCE, async || {
            let log = std::fs::read_to_string(&process.log)?;
            let written = log.matches(": written").count();
            ensure!(written == count, "{written} times: {log}");
            ensure!(keeps_fields(&installed).await?, "they are pruned");
            Ok(())
        })
        .await
    };
    writes(1).await?;
    let upgrade = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": CRD},
        "spec": stock,
    });
    installed.objects.apply(&upgrade, "").await?;
    writes(2).await
}
