//! The chart's test as it is meant: a pod of Muster's own image, with the rights that it has.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::api::{Api, ListParams};

use crate::helm::{CHART, Helm, RELEASE};
use crate::install::NAMESPACE;
use crate::sandbox::Sandbox;

pub async fn helm_test_tries_admission_in_a_pod(sandbox: Sandbox) -> Result<()> {
    let plane = &sandbox.cluster.plane;
    let helm = Helm::new(plane.components())?.of(&plane.kubeconfig);
    let here = ["--namespace", NAMESPACE];
    // What kubectl has installed becomes a release: only a release can be tested.
    let install = ["install", RELEASE, CHART, "--take-ownership"];
    let install = [&install[..], &["--force-conflicts"], &here].concat();
    helm.printed(&install)?;
    let test = [&["test", RELEASE, "--timeout", "3m"][..], &here].concat();
    let output = tokio::task::spawn_blocking(move || helm.run(&test)).await??;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    ensure!(output.status.success(), "{said}");
    for line in [
        "Job: works (scheduler native)",
        "JobSet: works (scheduler native)",
        "LeaderWorkerSet: not served by this cluster",
    ] {
        ensure!(said.contains(line), "{said}");
    }
    let all = ListParams::default();
    let pods: Api<Pod> = Api::namespaced(sandbox.client(), NAMESPACE);
    let accounts: Api<ServiceAccount> = Api::namespaced(sandbox.client(), NAMESPACE);
    let pods = pods.list(&all).await?.items.into_iter();
    let accounts = accounts.list(&all).await?.items.into_iter();
    let names = pods
        .map(|pod| pod.metadata.name)
        .chain(accounts.map(|account| account.metadata.name));
    let left: Vec<String> = names
        .flatten()
        .filter(|name| name.contains("verify"))
        .collect();
    ensure!(left.is_empty(), "{left:?}");
    Ok(())
}
