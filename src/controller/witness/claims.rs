//! Which claims of volumes that pods mount do not exist, or are not bound. Kubernetes 1.37 does not say so
//! of a gang's pods; so they are looked up, but only while a gang waits and only to say why.

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
    /// It exists, and has no volume yet.
    Unbound,
    Missing,
    Unknown,
}

impl Default for Claims {
    fn default() -> Self {
        Self(Mutex::new(Expiring::new(REST)))
    }
}

/// Which claims do not exist, or are not bound, as far as it is known.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::controller) struct Missing {
    pub(in crate::controller) names: Vec<String>,
    pub(in crate::controller) unbound: Vec<String>,
    /// After so long another look may find something else: nothing else brings one.
    pub(in crate::controller) again: Option<Duration>,
}

impl Missing {
    fn note(&mut self, name: &str, found: Found, again: Option<Duration>) {
        match found {
            Found::Missing => self.names.push(name.to_owned()),
            Found::Unbound => self.unbound.push(name.to_owned()),
            Found::There | Found::Unknown => {}
        }
        self.again = [self.again, again].into_iter().flatten().min();
    }
}

impl Claims {
    pub(super) async fn missing(
        &self,
        client: &Client,
        namespace: &str,
        names: BTreeSet<&str>,
    ) -> Missing {
        let mut missing = Missing::default();
        for name in names.into_iter().take(MOST) {
            let (found, again) = self.find(client, namespace, name).await;
            missing.note(name, found, again);
        }
        missing
    }

    /// What was found a moment ago, and for how long that still counts.
    fn known(&self, key: &Key, now: Instant) -> Option<(Found, Option<Duration>)> {
        let claims = self.lock();
        let (found, left) = claims.get(key, now)?;
        Some((*found, Some(left)))
    }

    async fn find(
        &self,
        client: &Client,
        namespace: &str,
        name: &str,
    ) -> (Found, Option<Duration>) {
        let key = (namespace.to_owned(), name.to_owned());
        if let Some(known) = self.known(&key, Instant::now()) {
            return known;
        }
        let api: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), namespace);
        let bound = |claim: &PersistentVolumeClaim| {
            let phase = claim.status.as_ref().and_then(|s| s.phase.as_deref());
            phase != Some("Pending")
        };
        let found = match api.get_opt(name).await {
            Ok(Some(claim)) if !bound(&claim) => Found::Unbound,
            Ok(Some(_)) => Found::There,
            Ok(None) => Found::Missing,
            Err(error) => {
                tracing::debug!(%error, "cannot look at a claim of a volume");
                Found::Unknown
            }
        };
        self.lock().insert(key, found, Instant::now());
        // Kubernetes does not say when a claim comes that a gang's pods wait for.
        let again = (found != Found::There).then_some(REST);
        (found, again)
    }

    fn lock(&self) -> MutexGuard<'_, Expiring<Key, Found>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Else one that is created within that time would be said to be missing until something else
    /// changes.
    #[test]
    fn what_is_said_from_memory_is_looked_at_again_when_it_may_be() {
        let (claims, start) = (Claims::default(), Instant::now());
        let key = ("ml".to_owned(), "data".to_owned());
        claims.lock().insert(key.clone(), Found::Missing, start);
        let later = start + Duration::from_secs(4);
        let (found, again) = claims.known(&key, later).unwrap();
        assert_eq!(
            (found, again),
            (Found::Missing, Some(REST - (later - start)))
        );
        assert_eq!(claims.known(&key, start + REST), None);
        let mut missing = Missing::default();
        missing.note("scratch", Found::There, None);
        assert_eq!(missing, Missing::default());
        missing.note("data", found, again);
        missing.note("other", Found::Unknown, Some(REST));
        missing.note("late", Found::Unbound, Some(REST));
        assert_eq!(missing.names, ["data"]);
        assert_eq!(missing.unbound, ["late"]);
        assert_eq!(missing.again, again);
    }
}
