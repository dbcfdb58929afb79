//! A release whose pods run: its test as it is meant, in a pod of Muster's own image with the rights that
//! it has; an upgrade, and the end.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::api::{Api, ListParams};

use crate::helm::{CHART, Helm, RELEASE};
use crate::install::NAMESPACE;
use crate::node::start::two_ready;
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

pub async fn a_release_is_upgraded_and_removed_with_its_pods(sandbox: Sandbox) -> Result<()> {
    let outcome = upgraded_and_removed(&sandbox).await;
    let again = sandbox.install_again().await;
    outcome?;
    again
}

async fn upgraded_and_removed(sandbox: &Sandbox) -> Result<()> {
    let (plane, objects) = (&sandbox.cluster.plane, &sandbox.cluster.objects);
    let run = async |words: &str| {
        let helm = Helm::new(plane.components())?.of(&plane.kubeconfig);
        let words = format!("{words} --namespace {NAMESPACE}");
        let done = move || helm.printed(&words.split(' ').collect::<Vec<_>>());
        tokio::task::spawn_blocking(done).await?
    };
    // Whether or not another test has made a release of what kubectl has installed.
    let upgrade = format!("upgrade --install {RELEASE} {CHART} --wait --timeout 2m");
    run(&format!("{upgrade} --take-ownership --force-conflicts")).await?;
    let before = sandbox.replicas().await?;
    run(&format!("{upgrade} --set podAnnotations.turn=second")).await?;
    two_ready(objects).await?;
    sandbox.takes_a_gang().await?;
    let pods: Api<Pod> = Api::namespaced(sandbox.client(), NAMESPACE);
    let second = |pod: &Pod| {
        let annotations = pod.metadata.annotations.as_ref();
        annotations.is_some_and(|all| all.get("turn").is_some_and(|turn| turn == "second"))
    };
    let now = pods.list(&ListParams::default()).await?.items;
    let new: Vec<_> = now.iter().filter(|pod| second(pod)).collect();
    ensure!(new.len() == 2, "{} of {}", new.len(), now.len());
    let names = new.iter().filter_map(|pod| pod.metadata.name.clone());
    ensure!(names.clone().all(|name| !before.contains(&name)));
    sandbox
        .leader(&names.collect())
        .await
        .context("no new replica leads")?;

    run(&format!("uninstall {RELEASE}")).await?;
    // Nobody is asked from then on, and what is created is not held up.
    sandbox.takes_a_gang().await?;
    sandbox.end_replicas().await?;
    sandbox.takes_a_gang().await?;
    let left = sandbox.left_of_muster().await?;
    // The namespace is the operator's.
    let own = |line: &str| line.starts_with("NAME ") || line.contains(NAMESPACE);
    ensure!(left.lines().all(own), "{left}");
    Ok(())
}
