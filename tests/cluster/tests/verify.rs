//! `muster verify` where kinds have webhooks of their own, and where several schedulers are served.

use std::process::{Command, Output};

use anyhow::{Result, ensure};

use crate::sandbox::Sandbox;

async fn verify(sandbox: &Sandbox, more: &'static [&'static str]) -> Result<Output> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_muster"));
    command
        .args(["verify", "--namespace", &sandbox.namespace])
        .arg("--kubeconfig")
        .arg(&sandbox.cluster.plane.kubeconfig)
        .args(more);
    Ok(tokio::task::spawn_blocking(move || command.output()).await??)
}

pub async fn every_kind_works_beside_its_own_webhooks(sandbox: Sandbox) -> Result<()> {
    let output = verify(&sandbox, &[]).await?;
    let said = String::from_utf8(output.stdout)?;
    let mut lines: Vec<&str> = said.lines().collect();
    lines.sort_unstable();
    let works = ["Job", "JobSet", "LeaderWorkerSet"];
    let works = works.map(|kind| format!("{kind}: works (scheduler native)"));
    ensure!(lines == works, "{said}");
    ensure!(output.status.code() == Some(0), "{}", output.status);
    Ok(())
}

pub async fn where_several_schedulers_are_served_one_must_be_named(sandbox: Sandbox) -> Result<()> {
    let output = verify(&sandbox, &[]).await?;
    let said = String::from_utf8(output.stdout)?;
    ensure!(output.status.code() == Some(1), "{}: {said}", output.status);
    let refused = said.matches("fails: a workload that asks for a gang was refused: ");
    ensure!(refused.count() == 3 && said.contains("volcano"), "{said}");

    let output = verify(&sandbox, &["--scheduler", "volcano"]).await?;
    let said = String::from_utf8(output.stdout)?;
    let works = said.matches(": works (scheduler volcano)\n").count();
    ensure!(works == 3 && output.status.success(), "{said}");
    Ok(())
}
