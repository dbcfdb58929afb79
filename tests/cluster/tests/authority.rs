//! Muster's own CA against a real apiserver, with the rights that the manifests give.

use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use muster::controller::authority::{Keeper, MUTATING, SECRET, Trust, VALIDATING};
use serde_json::json;

use crate::health::{PATIENCE, wait_for};
use crate::install::{Installed, NAMESPACE};
use crate::sandbox::Sandbox;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Both configurations as they are.
async fn configurations(installed: &Installed) -> Result<Vec<DynamicObject>> {
    let mut found = Vec::new();
    for (kind, name) in [("Mutating", MUTATING), ("Validating", VALIDATING)] {
        let kind = format!("{kind}WebhookConfiguration");
        let api = installed
            .objects
            .api("admissionregistration.k8s.io/v1", &kind, "");
        found.push(api.await?.get(name).await?);
    }
    Ok(found)
}

/// The bundle of every entry; an error where one has none.
async fn bundles(installed: &Installed) -> Result<Vec<String>> {
    let mut bundles = Vec::new();
    for configuration in configurations(installed).await? {
        let hooks = configuration.data["webhooks"].as_array();
        for hook in hooks.context("no webhooks")? {
            let bundle = hook["clientConfig"]["caBundle"].as_str();
            let bundle = bundle.with_context(|| format!("{} has no bundle", hook["name"]))?;
            bundles.push(String::from_utf8(BASE64_STANDARD.decode(bundle)?)?);
        }
    }
    assert_eq!(bundles.len(), 10);
    Ok(bundles)
}

async fn versions(installed: &Installed) -> Result<Vec<Option<String>>> {
    let version = |object: DynamicObject| object.metadata.resource_version;
    let found = configurations(installed).await?;
    Ok(found.into_iter().map(version).collect())
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

pub async fn the_bundle_is_written_restored_and_then_left_alone(sandbox: Sandbox) -> Result<()> {
    let installed = Installed::get(&sandbox).await?;
    let keeper = Keeper::open(installed.client().await?, NAMESPACE).await?;
    let (signer, mut trust) = (keeper.signer().current(), keeper.trust());
    // So slow a poll that only the watch can have seen what is below.
    let task = tokio::spawn(keeper.run(Duration::from_secs(3600)));
    tokio::time::timeout(PATIENCE, trust.wait_for(|trust| *trust == Trust::Carried)).await??;
    for bundle in bundles(installed).await? {
        ensure!(bundle.contains(signer.certificate_pem()), "{bundle}");
    }

    // The watch may still be starting; a removal before that would wait for the poll.
    tokio::time::sleep(Duration::from_secs(1)).await;
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
        async || bundles(installed).await,
    )
    .await?;

    let settled = versions(installed).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(versions(installed).await?, settled);
    task.abort();
    let _ = task.await;
    // A restart writes nothing either, nor do more looks.
    let mut again = Keeper::open(installed.client().await?, NAMESPACE).await?;
    for _ in 0..3 {
        again.look(SystemTime::now()).await?;
    }
    assert_eq!(versions(installed).await?, settled);
    Ok(())
}

pub async fn a_new_ca_is_trusted_before_it_signs(sandbox: Sandbox) -> Result<()> {
    // A cluster of its own: this one is a year ahead.
    let installed = Installed::new(&sandbox.cluster.plane, "rotation").await?;
    let mut keeper = Keeper::open(installed.client().await?, NAMESPACE).await?;
    let signer = keeper.signer();
    let old = signer.current().certificate_pem().to_owned();
    let now = SystemTime::now();
    keeper.look(now).await?;
    keeper.look(now).await?;

    let due = now + DAY * 250;
    keeper.look(due).await?;
    for bundle in bundles(&installed).await? {
        ensure!(bundle.contains(&old), "the old one is still trusted");
        assert_eq!(bundle.matches("BEGIN CERTIFICATE").count(), 2);
    }
    assert_eq!(signer.current().certificate_pem(), old, "it signs on");
    // The first look that finds it there, and the second.
    keeper.look(due).await?;
    assert_eq!(signer.current().certificate_pem(), old, "it may be news");
    keeper.look(due).await?;
    assert_ne!(signer.current().certificate_pem(), old, "the new one signs");
    Ok(())
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
