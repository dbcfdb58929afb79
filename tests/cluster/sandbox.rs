//! What one test gets: a namespace, nodes that only its pods can use, and words to say what holds.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::health::{PATIENCE, wait_for};
use crate::manifests::parse;

/// On a test's nodes as label and taint.
const KEY: &str = "e2e.muster.dev/namespace";

#[derive(Clone)]
pub struct Sandbox {
    pub cluster: Arc<Cluster>,
    pub namespace: String,
    nodes: Arc<AtomicUsize>,
    /// When the last ganged JobSet was applied, while nothing but Muster and the scheduler holds
    /// it up.
    created: Arc<Mutex<Option<Instant>>>,
}

impl Sandbox {
    /// Makes the namespace. Two admission plugins of the apiserver read its annotations and give
    /// each of its pods the node selector and the toleration, so that manifests stay as a user
    /// would write them.
    pub async fn new(cluster: Arc<Cluster>, namespace: &str) -> Result<Sandbox> {
        let toleration =
            json!([{"key": KEY, "operator": "Equal", "value": namespace, "effect": "NoSchedule"}]);
        let object = json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": namespace, "annotations": {
                "scheduler.alpha.kubernetes.io/node-selector": format!("{KEY}={namespace}"),
                "scheduler.alpha.kubernetes.io/defaultTolerations": toleration.to_string(),
            }},
        });
        cluster.objects.apply(&object, "").await?;
        let sandbox = Sandbox {
            cluster,
            namespace: namespace.to_owned(),
            nodes: Arc::default(),
            created: Arc::default(),
        };
        // Without its default service account a namespace accepts no pods.
        let accounts = sandbox.api("v1", "ServiceAccount").await?;
        wait_for("the default service account", PATIENCE, async || {
            Ok(accounts.get("default").await?)
        })
        .await?;
        Ok(sandbox)
    }

    pub fn client(&self) -> Client {
        self.cluster.plane.client.clone()
    }

    /// Adds a node that is not for this test's pods.
    pub async fn nodes_elsewhere(&self, cpu: u32) -> Result<()> {
        let node = self.nodes(1, cpu).await?.remove(0);
        let api: Api<Node> = Api::all(self.client());
        let patch = json!({"spec": {"unschedulable": false, "taints": [
            {"key": "e2e.muster.dev/elsewhere", "effect": "NoSchedule"},
        ]}});
        let params = PatchParams::default();
        api.patch(&node, &params, &Patch::Merge(patch)).await?;
        Ok(())
    }

    /// Adds `count` nodes with `cpu` CPUs each, and returns their names.
    pub async fn nodes(&self, count: usize, cpu: u32) -> Result<Vec<String>> {
        // A gang that had to wait for room says nothing about speed.
        self.take_created();
        let mut names = Vec::new();
        for _ in 0..count {
            let number = self.nodes.fetch_add(1, Ordering::Relaxed);
            let name = format!("{}-{number}", self.namespace);
            let room = json!({"cpu": cpu.to_string(), "memory": "256Gi", "pods": "500"});
            let node = json!({
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {
                    "name": name,
                    "labels": {KEY: self.namespace, "kubernetes.io/hostname": name},
                },
                "spec": {"taints": [{"key": KEY, "value": self.namespace, "effect": "NoSchedule"}]},
                "status": {"capacity": room, "allocatable": room},
            });
            // Created, not applied: only a create keeps the status.
            let api: Api<Node> = Api::all(self.client());
            let node = serde_json::from_value(node)?;
            api.create(&Default::default(), &node).await?;
            names.push(name);
        }
        Ok(names)
    }

    /// Applies every object of a YAML text (server-side, strictly), and returns them as stored.
    pub async fn apply(&self, yaml: &str) -> Result<Vec<DynamicObject>> {
        let mut applied = Vec::new();
        let start = Instant::now();
        for object in parse(yaml)? {
            let object = self.cluster.objects.apply(&object, &self.namespace).await?;
            let new = object.metadata.generation == Some(1);
            if new && yaml.contains("muster.dev/gang-mode") {
                self.set_created(Some(start));
            }
            applied.push(object);
        }
        Ok(applied)
    }

    /// The namespace's objects of a kind; `api_version` as in a manifest.
    pub async fn api(&self, api_version: &str, kind: &str) -> Result<Api<DynamicObject>> {
        self.cluster
            .objects
            .api(api_version, kind, &self.namespace)
            .await
    }

    /// Repeats `check` until it succeeds; see [`wait_for`].
    pub async fn wait_for<T>(
        &self,
        what: &str,
        check: impl AsyncFnMut() -> Result<T>,
    ) -> Result<T> {
        wait_for(what, PATIENCE, check).await
    }

    pub async fn pods(&self) -> Result<Vec<Pod>> {
        let api: Api<Pod> = Api::namespaced(self.client(), &self.namespace);
        Ok(api.list(&ListParams::default()).await?.items)
    }

    /// Pods that have a node, with its name.
    pub async fn bound(&self) -> Result<BTreeMap<String, String>> {
        let placed = |pod: Pod| Some((pod.name_any(), pod.spec?.node_name?));
        Ok(self.pods().await?.into_iter().filter_map(placed).collect())
    }

    /// Waits until `count` pods have a node.
    pub async fn all_bound(&self, count: usize) -> Result<BTreeMap<String, String>> {
        let bound = self
            .wait_for(&format!("{count} bound pods"), async || {
                let bound = self.bound().await?;
                ensure!(bound.len() == count, "{} are bound", bound.len());
                Ok(bound)
            })
            .await?;
        if let Some(created) = self.take_created() {
            self.cluster.figures.started(created.elapsed());
        }
        Ok(bound)
    }

    fn take_created(&self) -> Option<Instant> {
        self.set_created(None)
    }

    fn set_created(&self, at: Option<Instant>) -> Option<Instant> {
        let mut created = self.created.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut created, at)
    }

    /// Waits until the scheduler has refused all of `count` pods, then checks that none of them
    /// has a node. Only after its verdict does "not bound" mean anything.
    pub async fn none_bound(&self, count: usize) -> Result<()> {
        self.wait_for(&format!("{count} unschedulable pods"), async || {
            let refused = self.pods().await?.iter().filter(|pod| refused(pod)).count();
            ensure!(refused == count, "{refused} are unschedulable");
            Ok(())
        })
        .await?;
        let bound = self.bound().await?;
        ensure!(bound.is_empty(), "bound though they should wait: {bound:?}");
        Ok(())
    }

    /// Puts annotations on every pod, such as those that tell KWOK how a pod ends.
    pub async fn annotate_pods(&self, annotations: Value) -> Result<()> {
        let api: Api<Pod> = Api::namespaced(self.client(), &self.namespace);
        let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
        for pod in self.pods().await? {
            let name = pod.name_any();
            api.patch(&name, &PatchParams::default(), &patch).await?;
        }
        Ok(())
    }

    /// Runs the real kubectl in this namespace with `stdin` as its input.
    pub async fn kubectl(&self, args: &[&str], stdin: &str) -> Result<Output> {
        let mut command = self.cluster.kubectl()?;
        command
            .args(["--request-timeout=30s", "--namespace"])
            .arg(&self.namespace)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let stdin = stdin.to_owned();
        let run = move || {
            let mut child = command.spawn().context("cannot start kubectl")?;
            if let Some(mut input) = child.stdin.take() {
                input.write_all(stdin.as_bytes())?;
            }
            Ok(child.wait_with_output()?)
        };
        tokio::task::spawn_blocking(run).await?
    }

    /// What the namespace looks like, for the log of a failed test.
    pub async fn describe(&self) -> String {
        let mut kinds = "pods,jobs,jobsets,workloads.scheduling.k8s.io,\
                         podgroups.scheduling.k8s.io,events"
            .to_owned();
        let on_a_node = self.cluster.machine().is_ok();
        if !on_a_node {
            kinds += ",leaderworkersets";
        }
        if self.cluster.log("kueue").is_ok() {
            kinds += ",workloads.kueue.x-k8s.io,localqueues";
        }
        let list = self.kubectl(&["get", &kinds, "--output=wide"], "").await;
        let yaml = self.kubectl(&["get", &kinds, "--output=yaml"], "").await;
        let text = |output: Result<Output>| match output {
            Ok(output) => {
                let (said, warned) = (output.stdout, output.stderr);
                String::from_utf8_lossy(&[said, warned].concat()).into_owned()
            }
            Err(error) => format!("{error:#}"),
        };
        let mut state = format!("{}\n{}", text(list), text(yaml));
        if on_a_node {
            // There Muster's log is a pod's.
            let events = ["get", "events,pods", "--all-namespaces", "--output=wide"];
            let logs = "logs --namespace=muster-system --selector=app.kubernetes.io/name=muster \
                        --prefix --tail=200";
            let logs: Vec<&str> = logs.split_whitespace().collect();
            for args in [&events[..], &logs] {
                state += &text(self.kubectl(args, "").await);
            }
        }
        state
    }

    /// Frees what the test used. Not awaited to the end: a namespace takes five seconds to go.
    pub async fn clear(&self) -> Result<()> {
        let namespaces: Api<DynamicObject> = self.api("v1", "Namespace").await?;
        namespaces
            .delete(&self.namespace, &DeleteParams::background())
            .await?;
        let pods: Api<Pod> = Api::namespaced(self.client(), &self.namespace);
        let now = DeleteParams::default().grace_period(0);
        pods.delete_collection(&now, &ListParams::default()).await?;
        let nodes: Api<Node> = Api::all(self.client());
        let own = ListParams::default().labels(&format!("{KEY}={}", self.namespace));
        nodes.delete_collection(&now, &own).await?;
        Ok(())
    }
}

pub fn refused(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let mut conditions = status
        .and_then(|status| status.conditions.as_ref())
        .into_iter()
        .flatten();
    conditions.any(|condition| {
        condition.type_ == "PodScheduled" && condition.reason.as_deref() == Some("Unschedulable")
    })
}
