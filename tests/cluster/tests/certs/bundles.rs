//! What the webhook configurations carry.

use anyhow::{Context, Result};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use kube::api::{DynamicObject, Patch, PatchParams};
use muster::certs::keeper::{GROUP_KEYS, MUTATING, VALIDATING};
use serde_json::{Value, json};

use crate::objects::Objects;

/// All configurations as they are.
pub async fn configurations(objects: &Objects) -> Result<Vec<DynamicObject>> {
    let mut found = Vec::new();
    let all = [
        ("Mutating", MUTATING),
        ("Validating", VALIDATING),
        ("Mutating", GROUP_KEYS),
    ];
    for (kind, name) in all {
        let kind = format!("{kind}WebhookConfiguration");
        let api = objects.api("admissionregistration.k8s.io/v1", &kind, "");
        found.push(api.await?.get(name).await?);
    }
    Ok(found)
}

/// The bundle of every entry; an error where one has none.
pub async fn bundles(objects: &Objects) -> Result<Vec<String>> {
    let mut bundles = Vec::new();
    for configuration in configurations(objects).await? {
        let hooks = configuration.data["webhooks"].as_array();
        for hook in hooks.context("no webhooks")? {
            let bundle = hook["clientConfig"]["caBundle"].as_str();
            let bundle = bundle.with_context(|| format!("{} has no bundle", hook["name"]))?;
            bundles.push(String::from_utf8(BASE64_STANDARD.decode(bundle)?)?);
        }
    }
    assert_eq!(bundles.len(), 17);
    Ok(bundles)
}

pub async fn remove_bundles(objects: &Objects, configuration: &DynamicObject) -> Result<()> {
    let types = configuration.types.as_ref().context("no kind")?;
    let name = configuration.metadata.name.as_deref().context("no name")?;
    let hooks = configuration.data["webhooks"].as_array();
    let carries = |hook: &Value| hook["clientConfig"]["caBundle"].is_string();
    let removals: Vec<Value> = hooks
        .context("no webhooks")?
        .iter()
        .enumerate()
        .filter(|(_, hook)| carries(hook))
        .map(|(i, _)| json!({"op": "remove", "path": format!("/webhooks/{i}/clientConfig/caBundle")}))
        .collect();
    let removals: json_patch::Patch = serde_json::from_value(Value::Array(removals))?;
    let api = objects.api(&types.api_version, &types.kind, "");
    api.await?
        .patch(name, &PatchParams::default(), &Patch::<()>::Json(removals))
        .await?;
    Ok(())
}
