//! Pods that have not gone on although their barrier is open: they cannot reach a replica, and their
//! kubelet shows the ConfigMap only at its next round, up to 90 s later. A change of the pod makes it
//! look at once. One write for each straggler, and none for the others.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use kube::core::DynamicObject;
use serde_json::{Value, json};

use super::status::{BarrierStatus, Says, Straggler};
use crate::controller::cache::expiring::Expiring;
use crate::controller::decide::Actions;
use crate::gang::keys;

/// After its barrier has opened, a pod that can ask a replica has gone on long before.
const PATIENCE: Duration = Duration::from_secs(5);
/// Writes at a time.
const AT_ONCE: usize = 16;
/// Pods of one barrier that are touched before the workload is looked at again.
const MOST: usize = 500;
/// A barrier that was opened so long ago has no stragglers that a write would help.
const REMEMBERED: Duration = Duration::from_secs(600);

/// Who is missing is not written down more often than this.
const LATE: Duration = Duration::from_secs(10);

/// What was done for barriers of the last minutes, by name.
pub(crate) struct Stragglers {
    /// When each was first seen open.
    opened: Mutex<Expiring<String, Instant>>,
    /// For which it was written down who is missing.
    late: Mutex<Expiring<String, ()>>,
}

impl Default for Stragglers {
    fn default() -> Self {
        Self {
            opened: Mutex::new(Expiring::new(REMEMBERED)),
            late: Mutex::new(Expiring::new(LATE)),
        }
    }
}

impl Stragglers {
    /// Takes back that it is to be written down who is missing, where that was done a moment ago; then
    /// when to look again.
    pub(crate) fn hold_back(&self, actions: &mut Actions) -> Option<Duration> {
        let status = actions.barrier.as_ref()?;
        let now = Instant::now();
        if !matches!(status.says, Some(Says::Late(_))) {
            return None;
        }
        let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        let mut again = None;
        for name in status.starts().map(|start| start.name()) {
            let named = |object: &DynamicObject| object.metadata.name.as_deref() == Some(&name);
            let Some(at) = actions.apply.iter().position(named) else {
                continue;
            };
            match late.get(&name, now) {
                Some(((), left)) => {
                    actions.apply.remove(at);
                    again = again.max(Some(left));
                }
                None => late.insert(name, (), now),
            }
        }
        again
    }

    /// Those who are to be told now, or when to look again.
    pub(crate) fn due<'s>(&self, status: &'s BarrierStatus) -> Result<&'s [Straggler], Duration> {
        if status.says != Some(Says::Open) || status.stragglers.is_empty() {
            return Ok(&[]);
        }
        let (name, now) = (status.start.name(), Instant::now());
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let since = match opened.get(&name, now) {
            Some((since, _)) => *since,
            None => {
                opened.insert(name, now, now);
                now
            }
        };
        match PATIENCE.checked_sub(now.duration_since(since)) {
            Some(left) if !left.is_zero() => Err(left),
            _ => Ok(&status.stragglers[..status.stragglers.len().min(MOST)]),
        }
    }
}

/// Makes the kubelets of these pods look; when to try again where one could not be told.
pub(crate) async fn touch(
    client: &Client,
    status: &BarrierStatus,
    pods: &[Straggler],
) -> Option<Duration> {
    if pods.is_empty() {
        return None;
    }
    let (namespace, name) = (&status.start.namespace, status.start.name());
    tracing::info!(
        namespace,
        barrier = name,
        pods = pods.len(),
        "stragglers are told"
    );
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let touch_each = |straggler: Straggler| {
        let opened = status.start.in_round(straggler.round).name();
        let patch = json!({"metadata": {"annotations": {keys::BARRIER_OPENED: opened}}});
        touch_one(api.clone(), straggler.pod, patch)
    };
    let touched = pods.iter().cloned().map(touch_each);
    let mut touched = futures::stream::iter(touched).buffer_unordered(AT_ONCE);
    let mut again = None;
    while let Some(told) = touched.next().await {
        again = told.is_err().then_some(PATIENCE).or(again);
    }
    again
}

async fn touch_one(api: Api<Pod>, pod: String, patch: Value) -> Result<(), kube::Error> {
    let params = PatchParams::default();
    let patch = Patch::Merge(&patch);
    let answer = api.patch_metadata(&pod, &params, &patch).await;
    let told = match answer {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        // A policy, or the pod itself: another attempt would be refused too.
        Err(kube::Error::Api(status)) if is_final(status.code) => {
            tracing::warn!(pod, reason = %status.message, "a pod cannot be told that its barrier is open");
            Ok(())
        }
        answer => answer.map(drop),
    };
    told.inspect_err(|error| tracing::debug!(%error, pod, "a straggler is not told"))
}

/// Whether a write that was refused so is refused again. Conflicts pass, and so does a flood.
fn is_final(code: u16) -> bool {
    (400..500).contains(&code) && !matches!(code, 401 | 409 | 429)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_policy_refuses_is_not_written_again_and_again() {
        assert!([400, 403, 422].into_iter().all(is_final));
        let pass = [401, 409, 429, 500, 503];
        assert!(!pass.into_iter().any(is_final));
    }
}
