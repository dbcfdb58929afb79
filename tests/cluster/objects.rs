//! Objects of any kind, as the API server knows them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use anyhow::{Context, Result};
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::discovery::{ApiResource, Scope, pinned_kind};
use kube::{Client, ResourceExt};
use serde_json::Value;

type Kinds = HashMap<GroupVersionKind, (ApiResource, Scope)>;

/// Writes strictly: a field that the API server does not know is an error, never dropped.
pub struct Objects {
    pub client: Client,
    kinds: Mutex<Kinds>,
}

impl Objects {
    pub fn new(client: Client) -> Objects {
        Objects {
            client,
            kinds: Mutex::default(),
        }
    }

    /// Server-side apply; `namespace` is for objects that name none.
    pub async fn apply(&self, object: &Value, namespace: &str) -> Result<DynamicObject> {
        let (api, object) = self.api_for(object, namespace).await?;
        let params = PatchParams::apply("e2e").force().validation_strict();
        let name = object.name_any();
        let applied = api.patch(&name, &params, &Patch::Apply(&object)).await;
        applied.with_context(|| format!("cannot apply {}", shown(&object)))
    }

    /// Applies one after the other, in the order given.
    pub async fn apply_all(&self, objects: &[Value], namespace: &str) -> Result<()> {
        for object in objects {
            self.apply(object, namespace).await?;
        }
        Ok(())
    }

    /// Goes through admission, webhooks included, and stores nothing.
    pub async fn try_create(&self, object: &Value, namespace: &str) -> Result<DynamicObject> {
        let (api, object) = self.api_for(object, namespace).await?;
        let params = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let created = api.create(&params, &object).await;
        created.with_context(|| format!("cannot create {}", shown(&object)))
    }

    /// The objects of a kind; `api_version` as in a manifest, such as `batch/v1`.
    pub async fn api(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
    ) -> Result<Api<DynamicObject>> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let gvk = GroupVersionKind::gvk(group, version, kind);
        let (resource, scope) = match self.known(&gvk) {
            Some(known) => known,
            None => {
                let found = pinned_kind(&self.client, &gvk).await;
                let (resource, abilities) =
                    found.with_context(|| format!("{api_version} {kind} is not served"))?;
                let found = (resource, abilities.scope);
                self.kinds().insert(gvk, found.clone());
                found
            }
        };
        let client = self.client.clone();
        Ok(match scope {
            Scope::Cluster => Api::all_with(client, &resource),
            Scope::Namespaced => Api::namespaced_with(client, namespace, &resource),
        })
    }

    fn known(&self, gvk: &GroupVersionKind) -> Option<(ApiResource, Scope)> {
        self.kinds().get(gvk).cloned()
    }

    fn kinds(&self) -> MutexGuard<'_, Kinds> {
        self.kinds
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
    }

    async fn api_for(
        &self,
        object: &Value,
        namespace: &str,
    ) -> Result<(Api<DynamicObject>, DynamicObject)> {
        let object: DynamicObject =
            serde_json::from_value(object.clone()).context("not a Kubernetes object")?;
        let types = object.types.as_ref().context("no apiVersion and kind")?;
        let namespace = object.namespace().unwrap_or_else(|| namespace.to_owned());
        let api = self
            .api(&types.api_version, &types.kind, &namespace)
            .await?;
        Ok((api, object))
    }
}

fn shown(object: &DynamicObject) -> String {
    let kind = object
        .types
        .as_ref()
        .map_or("", |types| types.kind.as_str());
    format!("{kind} {}", object.name_any())
}
