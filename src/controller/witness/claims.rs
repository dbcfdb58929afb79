//! Which claims of volumes that pods mount do not exist. Kubernetes 1.37 does not say so of a gang's
//! pods; so they are looked up, but only while a gang waits and only to say why.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::Client;
use kube::api::Api;

use crate::controller::cache::expiring::Expiring;

/// A claim is not looked up more often than this, however many gangs wait for it.
const REST: Duration = Duration::from_secs(10);

/// Of one workload so many are looked up.
const MOST: usize = 16;

type Key = (String, String);

/// What was found lately.
pub(super) struct Claims(Mutex<Expiring<Key, Found>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    There,
    Missing,
    Unknown,
}

impl Default for Claims {
    fn default() -> Self {
        Self(Mutex::new(Expiring::new(REST)))
    }
}

impl Claims {
    pub(super) async fn missing(
        &self,
        client: &Client,
        namespace: &str,
        names: BTreeSet<&str>,
    ) -> Vec<String> {
        let mut missing = Vec::new();
        for name in names.into_iter().take(MOST) {
            if self.find(client, namespace, name).await == Found::Missing {
                missing.push(name.to_owned());
            }
        }
        missing
    }

    async fn find(&self, client: &Client, namespace: &str, name: &str) -> Found {
        let key = (namespace.to_owned(), name.to_owned());
        if let Some((found, _)) = self.lock().get(&key, Instant::now()) {
            return *found;
        }
        let api: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), namespace);
        let found = match api.get_metadata_opt(name).await {
            Ok(Some(_)) => Found::There,
            Ok(None) => Found::Missing,
            Err(error) => {
                tracing::debug!(%error, "cannot look at a claim of a volume");
                Found::Unknown
            }
        };
        self.lock().insert(key, found, Instant::now());
        found
    }

    fn lock(&self) -> MutexGuard<'_, Expiring<Key, Found>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
