//! The CA bundle in Muster's own webhook configurations.
//!
//! Written by server-side apply of nothing but the entries' names and their `caBundle`, so that
//! whoever installed the configurations keeps the rest. It knows no keys.

use std::time::SystemTime;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use futures::StreamExt;
use futures::stream::{BoxStream, select_all};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::{Value, json};

use super::ring::{DerSet, Ring, der_set};
use super::{Error, Trust};

/// The configuration that is called in the mutating phase.
pub const MUTATING: &str = "muster-mutating";
/// The configuration that is called in the validating phase.
pub const VALIDATING: &str = "muster-validating";
/// Its name sorts first: the apiserver calls webhooks in the order of their configurations' names, and
/// this one must come before those of the workloads' own controllers.
pub const GROUP_KEYS: &str = "group-keys.muster.dev";
const FIELD_MANAGER: &str = "muster-ca";

const API_VERSION: &str = "v1";
const GROUP: &str = "admissionregistration.k8s.io";

/// Kind and name of each.
const ALL: [(&str, &str); 3] = [
    ("MutatingWebhookConfiguration", MUTATING),
    ("ValidatingWebhookConfiguration", VALIDATING),
    ("MutatingWebhookConfiguration", GROUP_KEYS),
];

/// One configuration as it is in the cluster.
pub(super) struct Configuration {
    kind: &'static str,
    name: &'static str,
    resource_version: Option<String>,
    /// Each entry's name, and what it carries.
    entries: Vec<(String, DerSet)>,
}

impl Configuration {
    fn new((kind, name): (&'static str, &'static str), object: &DynamicObject) -> Self {
        let hooks = object.data["webhooks"].as_array().into_iter().flatten();
        let entry = |hook: &Value| {
            let bundle = hook["clientConfig"]["caBundle"].as_str();
            let pem = BASE64_STANDARD.decode(bundle.unwrap_or_default());
            let name = hook["name"].as_str().unwrap_or_default().to_owned();
            (name, der_set(&pem.unwrap_or_default()))
        };
        Self {
            kind,
            name,
            resource_version: object.metadata.resource_version.clone(),
            entries: hooks.map(entry).collect(),
        }
    }

    pub(super) fn is_settled(&self, ring: &Ring, now: SystemTime) -> bool {
        let mut entries = self.entries.iter();
        entries.all(|(_, carried)| ring.is_settled(carried, now))
    }

    /// What an apply of ours says: raw, since the typed structs would claim their required empty
    /// fields too. With the version that was read, so that it never brings back an entry that was
    /// removed meanwhile.
    fn patch(&self, bundle: &str) -> Value {
        let bundle = BASE64_STANDARD.encode(bundle);
        let entry = |(name, _): &(String, DerSet)| json!({"name": name, "clientConfig": {"caBundle": bundle}});
        json!({
            "apiVersion": format!("{GROUP}/{API_VERSION}"),
            "kind": self.kind,
            "metadata": {"name": self.name, "resourceVersion": self.resource_version},
            "webhooks": self.entries.iter().map(entry).collect::<Vec<_>>(),
        })
    }
}

/// The configurations that are there; one that is missing cannot be called either.
pub(super) struct Installed(pub Vec<Configuration>);

impl Installed {
    /// What holds once every configuration is written. One of them is enough: a user may do
    /// without some, and deleting one must not take every replica out of service.
    pub(super) fn trust(&self) -> Trust {
        if self.0.is_empty() {
            Trust::Missing
        } else {
            Trust::Carried
        }
    }

    /// What every entry of every configuration carries.
    pub(super) fn carried(&self) -> DerSet {
        let mut entries = self.0.iter().flat_map(|found| &found.entries);
        let Some((_, first)) = entries.next() else {
            return DerSet::new();
        };
        entries.fold(first.clone(), |all, (_, one)| {
            all.intersection(one).cloned().collect()
        })
    }
}

pub(super) struct Configurations(Client);

impl Configurations {
    pub(super) fn new(client: Client) -> Self {
        Self(client)
    }

    pub(super) async fn read(&self) -> Result<Installed, Error> {
        let mut all = Vec::new();
        for (kind, name) in ALL {
            let object = self.api(kind).get_opt(name).await;
            match object.map_err(|source| Error::ReadConfiguration { name, source })? {
                Some(object) => all.push(Configuration::new((kind, name), &object)),
                None => tracing::warn!(name, "the webhook configuration is not installed"),
            }
        }
        Ok(Installed(all))
    }

    pub(super) async fn write(&self, found: &Configuration, bundle: &str) -> Result<(), Error> {
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let patch = Patch::Apply(found.patch(bundle));
        let name = found.name;
        self.api(found.kind)
            .patch(name, &params, &patch)
            .await
            .map_err(|source| Error::WriteConfiguration { name, source })?;
        tracing::info!(name, "wrote the CA into the webhook configuration");
        Ok(())
    }

    /// An item for each change, whoever made it, and for each list that a watch begins with: what
    /// changed between the last look and that list comes with no event of its own. A watch by
    /// name, which is all that the role allows.
    pub(super) fn changes(&self) -> BoxStream<'static, ()> {
        let streams = ALL.map(|(kind, name)| {
            let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
            watcher(self.api(kind), config)
                .default_backoff()
                .filter_map(|event| async move {
                    match event {
                        Ok(
                            watcher::Event::Apply(_)
                            | watcher::Event::Delete(_)
                            | watcher::Event::InitDone,
                        ) => Some(()),
                        // Parts of a list, or trouble, which the poll covers.
                        _ => None,
                    }
                })
                .boxed()
        });
        select_all(streams).boxed()
    }

    fn api(&self, kind: &str) -> Api<DynamicObject> {
        let gvk = GroupVersionKind::gvk(GROUP, API_VERSION, kind);
        Api::all_with(self.0.clone(), &ApiResource::from_gvk(&gvk))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configuration() -> Configuration {
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": MUTATING, "resourceVersion": "7"},
            "webhooks": [
                {"name": "a.muster.dev", "clientConfig": {"caBundle": "not base64!"}},
                {"name": "b.muster.dev", "sideEffects": "None", "clientConfig": {"service": {}}},
            ],
        }))
        .unwrap();
        Configuration::new(ALL[0], &object)
    }

    #[test]
    fn an_apply_claims_names_and_bundles_and_nothing_else() {
        insta::assert_json_snapshot!(configuration().patch("PEM"), @r#"
        {
          "apiVersion": "admissionregistration.k8s.io/v1",
          "kind": "MutatingWebhookConfiguration",
          "metadata": {
            "name": "muster-mutating",
            "resourceVersion": "7"
          },
          "webhooks": [
            {
              "clientConfig": {
                "caBundle": "UEVN"
              },
              "name": "a.muster.dev"
            },
            {
              "clientConfig": {
                "caBundle": "UEVN"
              },
              "name": "b.muster.dev"
            }
          ]
        }
        "#);
    }

    #[test]
    fn a_ca_is_carried_only_when_every_entry_carries_it() {
        let some = |numbers: &[u8]| numbers.iter().map(|n| vec![*n]).collect::<DerSet>();
        let mut found = configuration();
        found.entries[0].1 = some(&[1, 2]);
        found.entries[1].1 = some(&[2, 3]);
        assert_eq!(Installed(vec![found]).carried(), some(&[2]));
        assert_eq!(Installed(Vec::new()).carried(), some(&[]));
    }
}
