//! The overlay for cert-manager as it stands, with cert-manager's own controllers: it issues, the CA
//! injector injects, the kubelet mounts, and neither a renewal under load nor a switch from Muster's own
//! CA fails anything.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::{Api, DeleteParams, ListParams};
use muster::certs::keeper::{GROUP_KEYS, MUTATING, SECRET, VALIDATING};
use muster::certs::pair::{Pair, seconds};

use super::uninstall::commands;
use crate::cert_manager::{self, API, renew, revision};
use crate::health::{PATIENCE, wait_for};
use crate::install::{BASE, NAMESPACE};
use crate::long::Length;
use crate::muster::metrics_at;
use crate::node::settings::Sync;
use crate::node::start::{apply_overlay, two_ready};
use crate::objects::Objects;
use crate::sandbox::Sandbox;
use crate::tests::certs::Shown;
use crate::tests::certs::bundles::bundles;
use crate::tests::certs::load::Load;

const OVERLAY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/manifests/cert-manager");
const CERTIFICATE: &str = "muster";

/// From a new Secret to the certificate in use: the kubelet's interval of up to 90 seconds and
/// Muster's of ten, on a busy machine.
const MOUNTED: Duration = Duration::from_secs(180);

pub async fn certificates_are_issued_injected_mounted_and_renewed_under_load(
    sandbox: Sandbox,
) -> Result<()> {
    let (cluster, plane) = (&sandbox.cluster, &sandbox.cluster.plane);
    let objects = &cluster.objects;
    // In a long run as on any cluster; else the test would only wait.
    let sync = Length::of_this_run().pick(Sync::Often, Sync::Default);
    cluster.machine()?.restart_kubelet(plane, sync).await?;
    let _running = cert_manager::start(plane, objects).await?;
    remove_muster(objects).await?;
    let mut tested = tested(&sandbox).await;
    if tested.is_ok() {
        remove_muster(objects).await?;
        tested = switched(&sandbox).await;
    }
    // Whatever came of it, the tests after this one find Muster as it was.
    remove_muster(objects).await?;
    apply_overlay(plane, BASE).await?;
    two_ready(objects).await?;
    let restarted = cluster.machine()?.restart_kubelet(plane, Sync::Default);
    restarted.await?;
    tested
}

async fn tested(sandbox: &Sandbox) -> Result<()> {
    let (plane, objects) = (&sandbox.cluster.plane, &sandbox.cluster.objects);
    let begun = Instant::now();
    apply_overlay(plane, OVERLAY).await?;
    two_ready(objects).await?;
    println!(
        "from `kubectl apply -k manifests/cert-manager` to two Ready replicas: {:.1?}",
        begun.elapsed()
    );
    ensure!(revision(objects, CERTIFICATE).await? == 1);
    let events = objects.api("v1", "Event", NAMESPACE).await?;
    let warned = ListParams::default().fields("reason=BadConfig");
    let warning = events.list(&warned).await?.items.pop();
    ensure!(warning.is_none(), "cert-manager warns: {warning:?}");
    wait_for("the CA to be injected", PATIENCE, async || {
        let authority = authority(sandbox).await?;
        for bundle in bundles(objects).await? {
            ensure!(bundle == authority, "another CA: {bundle}");
        }
        Ok(())
    })
    .await?;
    serves_what_was_issued(sandbox, 0).await?;
    verify(sandbox).await?;

    let load = Load::start(objects).await?;
    let begun = Instant::now();
    let renewed = renewed(sandbox).await;
    let calls = load.end().await?;
    let (failed, _) = calls.failures(&[]);
    let seconds = begun.elapsed().as_secs();
    println!("{seconds} s of renewals: {calls}; {} failed", failed.len());
    ensure!(failed.is_empty(), "{} failed: {}", failed.len(), failed[0]);
    renewed
}

/// By the commands of the page for operators, under the same load.
async fn switched(sandbox: &Sandbox) -> Result<()> {
    let (plane, objects) = (&sandbox.cluster.plane, &sandbox.cluster.objects);
    apply_overlay(plane, BASE).await?;
    two_ready(objects).await?;
    sandbox
        .wait_for("Muster to be asked", async || sandbox.takes_a_gang().await)
        .await?;
    let load = Load::start(objects).await?;
    for line in commands("Certificates")? {
        sandbox.typed(&line).await?;
    }
    two_ready(objects).await?;
    serves_what_was_issued(sandbox, 0).await?;
    let calls = load.end().await?;
    let (failed, _) = calls.failures(&[]);
    println!(
        "from the own CA to cert-manager's: {calls}; {} failed",
        failed.len()
    );
    ensure!(failed.is_empty(), "{} failed: {}", failed.len(), failed[0]);
    Ok(())
}

/// Once, and in a long run as often as the kubelet's own interval allows in a few minutes.
async fn renewed(sandbox: &Sandbox) -> Result<()> {
    let renewals = Length::of_this_run().pick(1, 3);
    for renewal in 1..=renewals {
        renew(&sandbox.cluster.objects, CERTIFICATE).await?;
        // The old one is trusted until no replica serves it: the injector adds to the bundle.
        serves_what_was_issued(sandbox, renewal).await?;
    }
    Ok(())
}

/// What clients are to trust, as cert-manager says.
async fn authority(sandbox: &Sandbox) -> Result<String> {
    let [authority] = issued(sandbox, ["ca.crt"]).await?;
    Ok(String::from_utf8(authority)?)
}

/// When the certificate expires that cert-manager has issued. Its own word for it, `status.notAfter`,
/// is written by another of its controllers than the revision, and for a moment is that of the
/// certificate before (1.21). The Secret is written before both.
async fn expiry(sandbox: &Sandbox) -> Result<i64> {
    let [certificate, key] = issued(sandbox, ["tls.crt", "tls.key"]).await?;
    let pair = Pair::from_pem(&certificate, &key)?;
    Ok(i64::try_from(seconds(pair.facts.validity.not_after))?)
}

/// What stands in the Secret that is mounted.
async fn issued<const N: usize>(sandbox: &Sandbox, names: [&str; N]) -> Result<[Vec<u8>; N]> {
    let secrets: Api<Secret> = Api::namespaced(sandbox.client(), NAMESPACE);
    let data = secrets.get("muster-tls").await?.data.context("no data")?;
    if let Some(missing) = names.iter().find(|name| !data.contains_key(**name)) {
        bail!("no {missing}");
    }
    Ok(names.map(|name| data[name].0.clone()))
}

/// Waits until both replicas serve the newest certificate, each after so many renewals.
async fn serves_what_was_issued(sandbox: &Sandbox, renewals: u64) -> Result<()> {
    let begun = Instant::now();
    let expires = expiry(sandbox).await?;
    let pods: Api<Pod> = Api::namespaced(sandbox.client(), NAMESPACE);
    let replicas = ListParams::default().labels("app.kubernetes.io/name=muster");
    wait_for("the replicas to serve it", MOUNTED, async || {
        let pods = pods.list(&replicas).await?.items;
        ensure!(pods.len() == 2, "there are {} pods", pods.len());
        for pod in pods {
            let address = pod.status.and_then(|status| status.pod_ip);
            let address = format!("{}:8080", address.context("no address")?);
            let shown = Shown::of(&metrics_at(&address).await?)?;
            let other = shown.expires - expires;
            ensure!(
                other == 0,
                "{address} serves one that expires {other} s later"
            );
            ensure!(shown.taken == renewals, "{address} took {}", shown.taken);
            ensure!(shown.refused == 0, "{address} refused {}", shown.refused);
        }
        Ok(())
    })
    .await?;
    println!("both replicas serve it after {:.1?}", begun.elapsed());
    Ok(())
}

/// As a user does after an installation.
async fn verify(sandbox: &Sandbox) -> Result<()> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_muster"));
    command
        .args(["verify", "--namespace=default", "--timeout=1m"])
        .arg("--kubeconfig")
        .arg(&sandbox.cluster.plane.kubeconfig);
    let output = tokio::task::spawn_blocking(move || command.output()).await??;
    let said = String::from_utf8(output.stdout)?;
    let works = said.matches(": works (scheduler native)").count();
    ensure!(output.status.success() && works == 2, "{said}");
    Ok(())
}

/// What differs between the overlays, so that the next one is a fresh installation. The rest, the
/// namespace too, takes longer to go than the whole test.
async fn remove_muster(objects: &Objects) -> Result<()> {
    let now = DeleteParams::background();
    let configuration = "admissionregistration.k8s.io/v1";
    let roles = "rbac.authorization.k8s.io/v1";
    let all = [
        ("apps/v1", "Deployment", "muster"),
        (configuration, "MutatingWebhookConfiguration", MUTATING),
        (configuration, "MutatingWebhookConfiguration", GROUP_KEYS),
        (configuration, "ValidatingWebhookConfiguration", VALIDATING),
        (roles, "Role", "muster-own-ca"),
        (roles, "RoleBinding", "muster-own-ca"),
        (roles, "ClusterRole", "muster-own-ca"),
        (roles, "ClusterRoleBinding", "muster-own-ca"),
        (API, "Certificate", CERTIFICATE),
        (API, "Issuer", "muster"),
        ("v1", "Secret", SECRET),
        ("v1", "Secret", "muster-tls"),
    ];
    for (api_version, kind, name) in all {
        let api = objects.api(api_version, kind, NAMESPACE).await?;
        match api.delete(name, &now).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            deleted => drop(deleted.with_context(|| format!("cannot delete {kind} {name}"))?),
        }
    }
    let pods = objects.api("v1", "Pod", NAMESPACE).await?;
    let replicas = ListParams::default().labels("app.kubernetes.io/name=muster");
    // Killed after a second: no lame duck.
    let soon = DeleteParams::default().grace_period(1);
    wait_for("the replicas to go", PATIENCE, async || {
        pods.delete_collection(&soon, &replicas).await?;
        let left = pods.list(&replicas).await?.items.len();
        ensure!(left == 0, "there are {left}");
        Ok(())
    })
    .await
}
