//! Wakes gangs whose scheduler does not notice new room by itself.
//!
//! Coscheduling (scheduler-plugins 0.34) tries a rejected member again when a pod or a PodGroup
//! changes, never when a node does: a blocked gang sleeps for five minutes beside an empty node.
//! Any write to its PodGroup wakes it at once. So while such a gang waits, nodes and running pods
//! are watched, and when room may have appeared its object gets a small write, and a few more as long
//! as it waits: one alone may come too early. Nothing is watched while no such gang waits. Which gangs
//! these are is decided elsewhere.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams};
use kube::core::{DynamicObject, PartialObjectMeta};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt as _, watcher as watch};
use kube::{Client, ResourceExt as _};
use serde_json::json;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::controller::metrics::OfKind;
use crate::gang::SchedulerKind;
use crate::gang::keys::NUDGED;

/// Not the manager of the other writes: a server-side apply removes what its own manager wrote before
/// and no longer says.
const MANAGER: &str = "muster-nudge";

/// How long to wait after a sign of new room: the scheduler's cache must have seen it too, and such
/// signs often come many at once.
const BREATH: Duration = Duration::from_millis(300);
/// A gang is not woken more often than this.
const REST: Duration = Duration::from_secs(2);
/// Between two writes, however many gangs wait.
const PACE: Duration = Duration::from_millis(20);
/// Who still waits so long after a sign is woken again. A scheduler that is behind by more than
/// [`BREATH`] has tried the gang without the room; the node then wakes only the member that did not fit,
/// which fetches the others only if none of them is still on its way back from that try (0.34.7).
/// Otherwise it waits for them in vain for as long as it may, ten seconds or more, and the gang sleeps
/// again beside its room. Nor is it certain that a write succeeds.
const REMINDERS: [Duration; 3] = [
    Duration::from_secs(3),
    Duration::from_secs(15),
    Duration::from_secs(60),
];

/// An object to write to.
#[derive(Clone)]
pub(crate) struct Sleeper {
    pub(crate) api: Api<DynamicObject>,
    pub(crate) name: String,
    /// Who looks at it again then.
    pub(crate) scheduler: SchedulerKind,
}

/// The gangs that sleep, by the uid of their workload.
#[derive(Default)]
pub(crate) struct Sleepers {
    objects: Mutex<HashMap<String, Vec<Sleeper>>>,
    changed: Notify,
}

impl Sleepers {
    /// Notes which objects of a workload get a write when room appears; none when no gang of it waits.
    pub(crate) fn set(&self, workload: &str, objects: Vec<Sleeper>) {
        let mut sleeping = self.lock();
        if objects.is_empty() {
            sleeping.remove(workload);
        } else {
            sleeping.insert(workload.to_owned(), objects);
        }
        drop(sleeping);
        self.changed.notify_one();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Vec<Sleeper>>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn all(&self) -> Vec<Sleeper> {
        self.lock().values().flatten().cloned().collect()
    }

    fn forget(&self, name: &str) {
        self.lock().retain(|_, objects| {
            objects.retain(|other| other.name != name);
            !objects.is_empty()
        });
    }

    /// Wakes sleepers when room appears, until dropped.
    pub(crate) async fn run(&self, client: Client, metrics: &OfKind) {
        loop {
            while self.is_empty() {
                self.changed.notified().await;
            }
            let mut signs = std::pin::pin!(signs(&client));
            let mut reminders = Reminders::default();
            while !self.is_empty() {
                tokio::select! {
                    sign = signs.next() => match sign {
                        Some(_) => {
                            reminders = Reminders::since(Instant::now());
                            tokio::time::sleep(BREATH).await;
                            self.wake(metrics).await;
                            tokio::time::sleep(REST - BREATH).await;
                        }
                        None => break,
                    },
                    () = reminders.due() => {
                        self.wake(metrics).await;
                        reminders.given();
                    }
                    () = self.changed.notified() => {}
                }
            }
        }
    }

    async fn wake(&self, metrics: &OfKind) {
        let patch = json!({"metadata": {"annotations": {NUDGED: Timestamp::now().to_string()}}});
        let params = PatchParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PatchParams::default()
        };
        for sleeper in self.all() {
            let Sleeper {
                api,
                name,
                scheduler,
            } = sleeper;
            match api
                .patch_metadata(&name, &params, &Patch::Merge(&patch))
                .await
            {
                Ok(_) => {
                    metrics.nudged(scheduler);
                    tracing::debug!(name, "nudged: room may have appeared");
                }
                Err(kube::Error::Api(status)) if status.code == 404 => self.forget(&name),
                Err(error) => tracing::warn!(name, %error, "cannot nudge the gang's object"),
            }
            tokio::time::sleep(PACE).await;
        }
    }
}

/// The reminders that are left after the last sign.
#[derive(Debug, Default)]
struct Reminders(VecDeque<Instant>);

impl Reminders {
    fn since(sign: Instant) -> Self {
        Self(REMINDERS.iter().map(|after| sign + *after).collect())
    }

    fn next(&self) -> Option<Instant> {
        self.0.front().copied()
    }

    /// Comes back when it is time for the next one, if there is one.
    async fn due(&self) {
        match self.next() {
            Some(next) => tokio::time::sleep_until(next).await,
            None => std::future::pending().await,
        }
    }

    fn given(&mut self) {
        self.0.pop_front();
    }
}

/// An item each time that room may have appeared. The first comes when the watches are complete, since
/// room may have appeared before them. Several signs that wait to be read are one item.
fn signs(client: &Client) -> impl Stream<Item = Vec<()>> + use<> {
    futures::stream::select(node_signs(client), pod_signs(client)).ready_chunks(4096)
}

/// New nodes, and nodes that now take pods that they did not take before.
fn node_signs(client: &Client) -> impl Stream<Item = ()> + use<> {
    let api: Api<Node> = Api::all(client.clone());
    let mut known: HashMap<String, u64> = HashMap::new();
    let events = watch(api, watcher::Config::default()).default_backoff();
    events.filter_map(move |event| {
        let sign = match event {
            Ok(Event::InitDone) => true,
            Ok(Event::InitApply(node)) => {
                known.insert(node.name_any(), room(&node));
                false
            }
            Ok(Event::Apply(node)) => {
                let room = room(&node);
                known.insert(node.name_any(), room) != Some(room)
            }
            Ok(Event::Delete(node)) => {
                known.remove(&node.name_any());
                false
            }
            Ok(Event::Init) => false,
            Err(error) => {
                tracing::warn!(%error, "cannot watch nodes");
                false
            }
        };
        futures::future::ready(sign.then_some(()))
    })
}

/// What decides whether pods fit on a node, as a number that changes with it. Its heartbeats do
/// not.
fn room(node: &Node) -> u64 {
    let mut hash = DefaultHasher::new();
    let spec = node.spec.as_ref();
    spec.and_then(|spec| spec.unschedulable).hash(&mut hash);
    for taint in spec
        .and_then(|spec| spec.taints.as_ref())
        .into_iter()
        .flatten()
    {
        (&taint.key, &taint.value, &taint.effect).hash(&mut hash);
    }
    node.labels().hash(&mut hash);
    let status = node.status.as_ref();
    let allocatable = status.and_then(|status| status.allocatable.as_ref());
    for (name, quantity) in allocatable.into_iter().flatten() {
        (name, &quantity.0).hash(&mut hash);
    }
    hash.finish()
}

/// Pods that no longer run, because they have finished or were deleted. Only the running ones are watched, so that the
/// apiserver reports one that ends as gone; metadata only, and none of it is kept.
fn pod_signs(client: &Client) -> impl Stream<Item = ()> + use<> {
    let api: Api<PartialObjectMeta<Pod>> = Api::all(client.clone());
    let running = watcher::Config::default().fields("status.phase=Running");
    let events = watch(api, running).default_backoff();
    events.filter_map(|event| {
        let sign = match event {
            Ok(Event::Delete(_) | Event::InitDone) => true,
            Ok(_) => false,
            Err(error) => {
                tracing::warn!(%error, "cannot watch running pods");
                false
            }
        };
        futures::future::ready(sign.then_some(()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(text: &str) -> Node {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn who_still_waits_after_a_sign_is_woken_a_few_times_more_and_then_left_alone() {
        let start = Instant::now();
        let next = |reminders: &Reminders| Some((reminders.next()? - start).as_secs());
        let mut reminders = Reminders::default();
        assert_eq!(next(&reminders), None, "there was no sign");
        reminders = Reminders::since(start);
        assert_eq!(next(&reminders), Some(3));
        reminders.given();
        assert_eq!(next(&reminders), Some(15));
        // Another sign: they begin anew.
        reminders = Reminders::since(start + Duration::from_secs(10));
        let mut seconds = Vec::new();
        while let Some(second) = next(&reminders) {
            seconds.push(second);
            reminders.given();
        }
        assert_eq!(seconds, [13, 25, 70]);
    }

    #[test]
    fn a_heartbeat_is_no_room() {
        let node = |time: &str| {
            node(&format!(
                r#"{{"metadata": {{"name": "n", "resourceVersion": "{time}"}},
                     "status": {{"allocatable": {{"cpu": "4"}},
                                 "conditions": [{{"type": "Ready", "status": "True",
                                                  "lastHeartbeatTime": "2026-01-01T00:00:0{time}Z"}}]}}}}"#
            ))
        };
        assert_eq!(room(&node("1")), room(&node("2")));
    }

    #[test]
    fn a_node_that_opens_or_grows_is_room() {
        let closed = node(r#"{"metadata": {"name": "n"}, "spec": {"unschedulable": true}}"#);
        let open = node(r#"{"metadata": {"name": "n"}, "spec": {}}"#);
        assert_ne!(room(&closed), room(&open));
        let small = node(r#"{"metadata": {}, "status": {"allocatable": {"cpu": "4"}}}"#);
        let large = node(r#"{"metadata": {}, "status": {"allocatable": {"cpu": "8"}}}"#);
        assert_ne!(room(&small), room(&large));
        let tainted =
            node(r#"{"metadata": {}, "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}"#);
        assert_ne!(room(&tainted), room(&node(r#"{"metadata": {}}"#)));
    }
}
