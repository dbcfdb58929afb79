//! Pods that have not gone on although their barrier is open: they cannot reach a replica, and their
//! kubelet shows the ConfigMap only at its next round, up to 90 s later. A change of the pod makes it
//! look at once. One write for each straggler, and none for the others.

use std::collections::{HashMap, HashSet};
use std::pin::pin;
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
/// Until then, where there are more.
const NEXT: Duration = Duration::from_millis(100);
/// A barrier that was opened so long ago has no stragglers that a write would help.
const REMEMBERED: Duration = Duration::from_secs(600);

/// Who is missing is not written down more often than this.
const LATE: Duration = Duration::from_secs(10);

/// What was done for barriers of the last minutes, by name.
pub(crate) struct Stragglers {
    /// Those that are open.
    opened: Mutex<Expiring<String, Opened>>,
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
        let late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        let mut again = None;
        for name in status.starts().map(|start| start.name()) {
            let named = |object: &DynamicObject| object.metadata.name.as_deref() == Some(&name);
            let Some(at) = actions.apply.iter().position(named) else {
                continue;
            };
            if let Some(((), left)) = late.get(&name, now) {
                actions.apply.remove(at);
                again = again.max(Some(left));
            }
        }
        again
    }

    /// All was written. What fails is tried again before the pods give up.
    pub(crate) fn wrote(&self, actions: &Actions) {
        let says = actions
            .barrier
            .as_ref()
            .and_then(|status| status.says.as_ref());
        let (Some(status), Some(Says::Late(_))) = (&actions.barrier, says) else {
            return;
        };
        let (mut late, now) = (
            self.late.lock().unwrap_or_else(PoisonError::into_inner),
            Instant::now(),
        );
        for name in status.starts().map(|start| start.name()) {
            let named = |object: &DynamicObject| object.metadata.name.as_deref() == Some(&name);
            if actions.apply.iter().any(named) {
                late.insert(name, (), now);
            }
        }
    }

    /// Makes the kubelets of stragglers look; when to look at them again.
    pub(crate) async fn tell(&self, client: &Client, status: &BarrierStatus) -> Option<Duration> {
        let due = self.due(status, Instant::now());
        if due.pods.is_empty() {
            return due.again;
        }
        let failed = touch(client, status, due.pods).await;
        if failed.is_empty() {
            return due.again;
        }
        self.tell_again(status, failed, Instant::now());
        Some(due.again.map_or(PATIENCE, |again| again.min(PATIENCE)))
    }

    /// Those whose turn it is, who count as told from now on.
    fn due(&self, status: &BarrierStatus, now: Instant) -> Due {
        let name = status.start.name();
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if status.says != Some(Says::Open) {
            // It may open again, under this name too.
            opened.remove(&name);
            return Due::default();
        }
        if status.stragglers.is_empty() {
            return Due::default();
        }
        if opened.get(&name, now).is_none() {
            opened.insert(name.clone(), Opened::new(now), now);
        }
        let Some(opened) = opened.get_mut(&name, now) else {
            return Due::default();
        };
        opened.due(&status.stragglers, now)
    }

    /// Those could not be told for now: others go first.
    fn tell_again(&self, status: &BarrierStatus, failed: Vec<String>, now: Instant) {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(opened) = opened.get_mut(&status.start.name(), now) {
            let again = failed.into_iter().map(|pod| (pod, Some(now + PATIENCE)));
            opened.told.extend(again);
        }
    }
}

/// A barrier that is open.
struct Opened {
    /// When it was first seen so.
    since: Instant,
    /// The stragglers that were told, and when each is told again; never where it was told, or where that is
    /// refused.
    told: HashMap<String, Option<Instant>>,
}

impl Opened {
    fn new(now: Instant) -> Self {
        Self {
            since: now,
            told: HashMap::new(),
        }
    }

    fn due(&mut self, stragglers: &[Straggler], now: Instant) -> Due {
        let left = PATIENCE.saturating_sub(now.duration_since(self.since));
        if !left.is_zero() {
            return Due {
                pods: Vec::new(),
                again: Some(left),
            };
        }
        // No more than there are pods.
        let still: HashSet<&str> = stragglers.iter().map(|one| one.pod.as_str()).collect();
        self.told.retain(|pod, _| still.contains(pod.as_str()));
        let is_due = |one: &&Straggler| match self.told.get(&one.pod) {
            Some(again) => again.is_some_and(|again| again <= now),
            None => true,
        };
        let mut all = stragglers.iter().filter(is_due);
        let pods: Vec<Straggler> = all.by_ref().take(MOST).cloned().collect();
        let more = all.next().map(|_| NEXT);
        let later = self.told.values().flatten().filter(|again| **again > now);
        let later = later.min().map(|again| again.duration_since(now));
        let told = pods.iter().map(|one| (one.pod.clone(), None));
        self.told.extend(told);
        Due {
            pods,
            again: more.or(later),
        }
    }
}

/// Who is to be told now, and when to look again.
#[derive(Debug, Default, PartialEq)]
struct Due {
    pods: Vec<Straggler>,
    again: Option<Duration>,
}

/// Makes the kubelets of these pods look; those who could not be told for now.
async fn touch(client: &Client, status: &BarrierStatus, pods: Vec<Straggler>) -> Vec<String> {
    let (namespace, barrier) = (&status.start.namespace, status.start.name());
    let count = pods.len();
    tracing::info!(namespace, barrier, pods = count, "stragglers are told");
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let touch_each = |straggler: Straggler| {
        let opened = status.start.in_round(straggler.round).name();
        let patch = json!({"metadata": {"annotations": {keys::BARRIER_OPENED: opened}}});
        let api = api.clone();
        async move {
            let told = touch_one(&api, &straggler.pod, &patch).await;
            (straggler.pod, told)
        }
    };
    let touched = pods.into_iter().map(touch_each);
    let mut touched = pin!(futures::stream::iter(touched).buffer_unordered(AT_ONCE));
    let (mut failed, mut refused, mut reason) = (Vec::new(), 0, None);
    while let Some((pod, told)) = touched.next().await {
        match told {
            Told::Yes => {}
            Told::Refused(why) => {
                refused += 1;
                reason.get_or_insert(why);
            }
            Told::Failed => failed.push(pod),
        }
    }
    if let Some(reason) = reason {
        tracing::warn!(
            namespace,
            barrier,
            pods = refused,
            reason,
            "pods cannot be told that their barrier is open"
        );
    }
    failed
}

enum Told {
    /// Or it is gone.
    Yes,
    /// By a policy, or by the pod itself: another attempt would be refused too.
    Refused(String),
    Failed,
}

async fn touch_one(api: &Api<Pod>, pod: &str, patch: &Value) -> Told {
    let patch = Patch::Merge(patch);
    let params = PatchParams::default();
    match api.patch_metadata(pod, &params, &patch).await {
        Ok(_) => Told::Yes,
        Err(kube::Error::Api(status)) if status.is_not_found() => Told::Yes,
        Err(kube::Error::Api(status)) if is_final(status.code) => Told::Refused(status.message),
        Err(error) => {
            tracing::debug!(%error, pod, "a straggler is not told");
            Told::Failed
        }
    }
}

/// Whether a write that was refused so is refused again. Conflicts pass, and so does a flood.
fn is_final(code: u16) -> bool {
    (400..500).contains(&code) && !matches!(code, 401 | 409 | 429)
}

#[cfg(test)]
mod tests;
