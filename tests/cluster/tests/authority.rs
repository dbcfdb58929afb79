//! Muster's own CA against a real apiserver, with the rights that the manifests give.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, ensure};
use hyper::Request;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::{Api, ListParams, Patch, PatchParams};
use muster::admission::answer;
use muster::certs::keeper::{Keeper, MUTATING, SECRET, Trust, VALIDATING};
use muster::certs::{Authority, Certificates, Signer, Source, Subject};
use muster::gang::SchedulerKind;
use muster::scheduler::{Dialect, Snapshot};
use muster::server::{Config, Handler, Server};
use serde_json::json;

use super::certs::bundles::{bundles, configurations, remove_bundles};
use crate::health::{PATIENCE, wait_for};
use crate::install::{Installed, NAMESPACE, jobset};
use crate::manifests::parse;
use crate::ports::Port;
use crate::sandbox::Sandbox;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// How often anyone applied to a webhook configuration, by the apiserver's own count: an apply
/// that changes nothing keeps the resourceVersion, and is a write all the same.
async fn applies(installed: &Installed) -> Result<f64> {
    let request = Request::get("/metrics").body(Vec::new())?;
    let text = installed.plane.client.request_text(request).await?;
    let mut sum = 0.0;
    for line in text.lines() {
        let applied = line.starts_with("apiserver_request_total{")
            && line.contains("webhookconfigurations\"")
            && line.contains("verb=\"APPLY\"");
        if applied {
            sum += line.rsplit(' ').next().unwrap_or_default().parse::<f64>()?;
        }
    }
    Ok(sum)
}

pub async fn replicas_that_start_at_once_agree_on_one_ca(sandbox: Sandbox) -> Result<()> {
    let installed = Installed::get(&sandbox).await?;
    let client = &installed.plane.client;
    let starts = (0..5).map(|_| Keeper::open(client.clone(), "default"));
    let keepers = futures::future::try_join_all(starts).await?;
    let first = keepers[0].signer().current();
    for keeper in &keepers {
        let signer = keeper.signer().current();
        assert_eq!(signer.certificate_pem(), first.certificate_pem());
    }
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");
    let secret = secrets.get(SECRET).await?;
    assert_eq!(secret.data.context("no data")?.len(), 2, "one pair");
    Ok(())
}

/// Twenty fresh starts, each of two replicas at the same instant, on configurations without a CA.
pub async fn replicas_that_start_at_once_are_ready_within_5_seconds(
    sandbox: Sandbox,
) -> Result<()> {
    let installed = Installed::new(&sandbox.cluster.plane, "starts", 1).await?;
    let secrets: Api<Secret> = Api::namespaced(installed.plane.client.clone(), NAMESPACE);
    for start in 0..20 {
        if secrets.get_opt(SECRET).await?.is_some() {
            secrets.delete(SECRET, &Default::default()).await?;
        }
        for configuration in configurations(&installed.objects).await? {
            remove_bundles(&installed.objects, &configuration).await?;
        }
        let begun = Instant::now();
        let replicas = (0..2).map(async |_| {
            let keeper = Keeper::open(installed.client().await?, NAMESPACE).await?;
            let mut trust = keeper.trust();
            // So slow a poll that it cannot have helped.
            let running = tokio::spawn(keeper.run(Duration::from_secs(3600)));
            let ready = trust.wait_for(|trust| *trust == Trust::Carried);
            let ready = tokio::time::timeout(Duration::from_secs(5), ready).await;
            running.abort();
            ready.with_context(|| format!("start {start}: not ready"))??;
            anyhow::Ok(())
        });
        futures::future::try_join_all(replicas).await?;
        let took = begun.elapsed();
        ensure!(took < Duration::from_secs(5), "start {start}: {took:?}");
        bundles(&installed.objects).await?;
    }
    Ok(())
}

pub async fn the_bundle_is_written_restored_and_then_left_alone(sandbox: Sandbox) -> Result<()> {
    let installed = Installed::get(&sandbox).await?;
    let keeper = Keeper::open(installed.client().await?, NAMESPACE).await?;
    let (signer, mut trust) = (keeper.signer().current(), keeper.trust());
    // So slow a poll that only the watch can have seen what is below.
    let task = tokio::spawn(keeper.run(Duration::from_secs(3600)));
    tokio::time::timeout(PATIENCE, trust.wait_for(|trust| *trust == Trust::Carried)).await??;
    for bundle in bundles(&installed.objects).await? {
        ensure!(bundle.contains(signer.certificate_pem()), "{bundle}");
    }

    for (kind, name) in [("Mutating", MUTATING), ("Validating", VALIDATING)] {
        let kind = format!("{kind}WebhookConfiguration");
        let api = installed
            .objects
            .api("admissionregistration.k8s.io/v1", &kind, "");
        let removal: json_patch::Patch = serde_json::from_value(json!([
            {"op": "remove", "path": "/webhooks/1/clientConfig/caBundle"},
        ]))?;
        let removal = Patch::<()>::Json(removal);
        api.await?
            .patch(name, &PatchParams::default(), &removal)
            .await?;
    }
    wait_for(
        "the bundles to be back",
        Duration::from_secs(5),
        async || bundles(&installed.objects).await,
    )
    .await?;

    let settled = applies(installed).await?;
    ensure!(
        settled >= 4.0,
        "at least those of the test are counted: {settled}"
    );
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(applies(installed).await?, settled);
    task.abort();
    let _ = task.await;
    // A restart writes nothing either, nor do more looks.
    let mut again = Keeper::open(installed.client().await?, NAMESPACE).await?;
    for _ in 0..3 {
        again.look(SystemTime::now()).await?;
    }
    assert_eq!(applies(installed).await?, settled);
    Ok(())
}

pub async fn a_new_ca_is_trusted_before_it_signs(sandbox: Sandbox) -> Result<()> {
    // An apiserver of its own, for which Muster is up.
    let held = Port::reserve()?;
    let port = held.number;
    let installed = Installed::new(&sandbox.cluster.plane, "rotation", port).await?;
    let now = SystemTime::now();
    let due = Authority::generate(now - DAY * 250)?;
    let old = due.certificate_pem().to_owned();
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": SECRET},
        "stringData": {"old.crt": old, "old.key": due.key_pem()},
    });
    installed.objects.apply(&secret, NAMESPACE).await?;
    let mut keeper = Keeper::open(installed.client().await?, NAMESPACE).await?;
    let signer = keeper.signer();
    let certificates = serve(signer.clone(), port).await?;
    let mut ganged = jobset("ganged");
    ganged["metadata"]["annotations"] = json!({"muster.dev/gang-mode": "Gang"});
    let admitted = async || installed.objects.try_create(&ganged, "default").await;

    keeper.look(now).await?;
    for bundle in bundles(&installed.objects).await? {
        ensure!(bundle.contains(&old), "the old one is still trusted");
        assert_eq!(bundle.matches("BEGIN CERTIFICATE").count(), 2);
    }
    let stamped = wait_for("the apiserver to trust Muster", PATIENCE, admitted).await?;
    let annotations = stamped.metadata.annotations.context("no annotations")?;
    assert_eq!(annotations["muster.dev/scheduler"], "native");

    // Other apiservers hear of it later.
    for seconds in [0, 29] {
        keeper.look(now + Duration::from_secs(seconds)).await?;
        assert_eq!(signer.current().certificate_pem(), old, "it may be news");
        admitted().await?;
    }
    keeper.look(now + Duration::from_secs(30)).await?;
    assert_ne!(signer.current().certificate_pem(), old, "the new one signs");
    // Not one call fails on the way.
    while certificates.reloads().taken == 0 {
        admitted().await?;
    }
    admitted().await?;
    Ok(())
}

pub async fn an_upgrade_may_drop_a_webhook_and_keeps_the_bundle(sandbox: Sandbox) -> Result<()> {
    let installed = Installed::new(&sandbox.cluster.plane, "upgrade", 1).await?;
    let yaml = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/manifests/base/validating.yaml"
    ))?;
    let mut object = parse(&yaml)?.remove(0);
    installed.kubectl_apply(&object)?;
    let mut keeper = Keeper::open(installed.client().await?, NAMESPACE).await?;
    keeper.look(SystemTime::now()).await?;

    let hooks = object["webhooks"].as_array_mut().context("no webhooks")?;
    hooks.pop();
    // Server-side, the entry stays with the bundle alone, which is no webhook.
    let error = installed.objects.apply(&object, "").await.err();
    let error = format!("{:#}", error.context("server-side apply can do it now")?);
    ensure!(error.contains("sideEffects: Required value"), "{error}");
    installed.kubectl_apply(&object)?;
    let after = configurations(&installed.objects).await?.remove(1);
    let hooks = after.data["webhooks"].as_array().context("no webhooks")?;
    assert_eq!(hooks.len(), 7);
    for hook in hooks {
        ensure!(hook["clientConfig"]["caBundle"].is_string(), "{hook}");
    }
    Ok(())
}

/// Serves admission with leaves of that signer, each connection for one request only.
async fn serve(signer: Signer, port: u16) -> Result<Arc<Certificates>> {
    let subject = Subject::default();
    let certificates = Certificates::open(Source::Memory { signer, subject })?;
    let certificates = Arc::new(certificates.polled_every(Duration::from_millis(100)));
    let config = Config {
        listen: ([127, 0, 0, 1], port).into(),
        admin: ([127, 0, 0, 1], 0).into(),
        max_connection_age: Duration::ZERO,
        ..Config::default()
    };
    let cluster = Snapshot::assumed(SchedulerKind::NATIVE, Dialect::V1_37);
    let handler: Handler = Arc::new(move |phase, body| answer(phase, body, &cluster));
    let server = Server::bind(config, Arc::clone(&certificates), handler).await?;
    tokio::spawn(server.run(std::future::pending()));
    Ok(certificates)
}

pub async fn no_other_secret_and_no_other_webhook_is_open_to_muster(
    sandbox: Sandbox,
) -> Result<()> {
    let installed = Installed::get(&sandbox).await?;
    let client: Client = installed.client().await?;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    let everything = ListParams::default();
    forbidden(secrets.get("other").await)?;
    forbidden(secrets.list(&everything).await)?;
    forbidden(Api::<Secret>::all(client.clone()).list(&everything).await)?;
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    forbidden(mutating.get("jobset-mutating-webhook-configuration").await)?;
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(client);
    forbidden(validating.list(&everything).await)
}

fn forbidden<T>(outcome: kube::Result<T>) -> Result<()> {
    match outcome {
        Err(kube::Error::Api(status)) if status.is_forbidden() => Ok(()),
        Err(error) => Err(error.into()),
        Ok(_) => anyhow::bail!("it is allowed"),
    }
}
