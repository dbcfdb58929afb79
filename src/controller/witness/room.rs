//! The nodes and the pods on them, watched. What follows from them is counted elsewhere
//! (`explain::room`).

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use futures::StreamExt as _;
use kube::api::{Api, ListParams};
use kube::core::{Object, ObjectMeta};
use kube::runtime::watcher::{self, Event};
use kube::{Client, ResourceExt as _};
use serde::{Deserialize, Serialize};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Notify;

use crate::controller::pages;
use crate::controller::run::{LARGE_PAGE, watch_in_pages};
use crate::controller::write::resource;
use crate::explain::fit::Fit;
use crate::explain::nodes::{NodeRoom, Taint};
use crate::explain::room::{Held, Own, Room};
use crate::gang::Ask;
use crate::gang::ask::AskingSpec;
use crate::gang::resources::ResourceList;
use crate::workload::holder;

/// Pods that take room: those that are on a node and not done.
const ON_NODES: &str = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed";

type Pod = Object<AskingSpec, Ignored>;
type Node = Object<NodeSpec, NodeStatus>;

/// What is not read.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Ignored {}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct NodeSpec {
    unschedulable: bool,
    taints: Vec<Taint>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct NodeStatus {
    allocatable: ResourceList,
}

/// The room of the cluster, as far as it has been seen.
#[derive(Default)]
pub(super) struct WatchedRoom {
    room: Mutex<Room>,
    nodes: AtomicBool,
    pods: AtomicBool,
}

impl WatchedRoom {
    pub(super) fn is_filled(&self) -> bool {
        self.nodes.load(Ordering::Acquire) && self.pods.load(Ordering::Acquire)
    }

    pub(super) fn fit(&self, asks: &[(Arc<Ask>, u32)], needed: u32, own: Own<'_>) -> Option<Fit> {
        if !self.is_filled() || asks.is_empty() {
            return None;
        }
        let room = self.lock();
        let count = || room.fit(asks, needed, own);
        Some(match room.is_large() {
            true => aside(count),
            false => count(),
        })
    }

    /// What was counted at the same version still holds.
    pub(super) fn version(&self) -> u64 {
        self.lock().version()
    }

    /// Whether pods of this holder may be on nodes.
    pub(super) fn may_hold(&self, holder: &str) -> bool {
        self.lock().may_hold(holder)
    }

    pub(super) fn answers(&self, scheduler: &str) -> Option<bool> {
        self.is_filled().then(|| self.lock().answers(scheduler))
    }

    pub(super) fn clear(&self) {
        self.nodes.store(false, Ordering::Release);
        self.pods.store(false, Ordering::Release);
        self.lock().clear();
    }

    /// Looks once; what could not be looked at, and why.
    pub(super) async fn list(&self, client: &Client) -> Vec<(&'static str, kube::Error)> {
        let mut unseen = Vec::new();
        let nodes: Api<Node> = Api::all_with(client.clone(), &resource("", "v1", "Node"));
        let note = |node| self.node(Event::InitApply(node));
        match pages::each(&nodes, ListParams::default(), note).await {
            Ok(()) => self.node(Event::InitDone),
            Err(error) => unseen.push(("nodes", error)),
        }
        let pods: Api<Pod> = Api::all_with(client.clone(), &resource("", "v1", "Pod"));
        let note = |pod| self.pod(Event::InitApply(pod));
        match pages::each(&pods, ListParams::default().fields(ON_NODES), note).await {
            Ok(()) => self.pod(Event::InitDone),
            Err(error) => unseen.push(("the pods on nodes", error)),
        }
        unseen
    }

    /// Watches until dropped.
    pub(super) async fn watch(&self, client: Client, changed: &Notify) {
        let (node, pod) = (resource("", "v1", "Node"), resource("", "v1", "Pod"));
        let (all, on_nodes) = (watcher::Config::default(), watcher::Config::default());
        let nodes = watch_in_pages::<Node>(&client, &node, all, LARGE_PAGE);
        let on_nodes = on_nodes.fields(ON_NODES);
        let pods = watch_in_pages::<Pod>(&client, &pod, on_nodes, LARGE_PAGE);
        let (mut nodes, mut pods) = (pin!(nodes), pin!(pods));
        loop {
            tokio::select! {
                Some(event) = nodes.next() => match event {
                    Ok(event) => self.node(event),
                    Err(error) => tracing::warn!(%error, "cannot watch nodes"),
                },
                Some(event) = pods.next() => match event {
                    Ok(event) => self.pod(event),
                    Err(error) => tracing::warn!(%error, "cannot watch the pods on nodes"),
                },
                else => return,
            }
            if self.is_filled() {
                changed.notify_one();
            }
        }
    }

    fn node(&self, event: Event<Node>) {
        match event {
            Event::Apply(node) | Event::InitApply(node) => {
                let name = node.name_any();
                let room = NodeRoom {
                    allocatable: node.status.map(|s| s.allocatable).unwrap_or_default(),
                    labels: node.metadata.labels.unwrap_or_default(),
                    taints: node.spec.taints,
                    cordoned: node.spec.unschedulable,
                };
                self.lock().node(&name, room);
            }
            Event::Delete(node) => self.lock().without_node(&node.name_any()),
            Event::Init => {
                self.nodes.store(false, Ordering::Release);
                self.lock().clear_nodes();
            }
            Event::InitDone => self.nodes.store(true, Ordering::Release),
        }
    }

    fn pod(&self, event: Event<Pod>) {
        match event {
            Event::Apply(pod) | Event::InitApply(pod) => {
                if let Some((uid, held)) = held(&pod) {
                    self.lock().pod(&uid, held);
                }
            }
            Event::Delete(pod) => {
                let uid = pod.metadata.uid.unwrap_or_default();
                self.lock().without_pod(&uid);
            }
            Event::Init => {
                self.pods.store(false, Ordering::Release);
                self.lock().clear_pods();
            }
            Event::InitDone => self.pods.store(true, Ordering::Release),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Room> {
        match self.room.try_lock() {
            Ok(room) => room,
            Err(TryLockError::Poisoned(room)) => room.into_inner(),
            // Somebody counts.
            Err(TryLockError::WouldBlock) => {
                aside(|| self.room.lock().unwrap_or_else(PoisonError::into_inner))
            }
        }
    }
}

/// Does what takes its time while others go on: admission runs on the same threads.
fn aside<T>(work: impl FnOnce() -> T) -> T {
    let flavor = Handle::try_current().map(|runtime| runtime.runtime_flavor());
    match flavor {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

fn held(pod: &Pod) -> Option<(String, Held)> {
    let ObjectMeta { uid, .. } = &pod.metadata;
    let held = Held {
        node: pod.spec.node_name.clone()?,
        requests: pod.spec.requests()?,
        holder: holder(&pod.metadata),
        priority: pod.spec.priority.unwrap_or_default(),
        scheduler: pod.spec.scheduler_name.clone().unwrap_or_default(),
    };
    Some((uid.clone()?, held))
}
