//! Three stories of other webhooks, told with Muster down: an ordinary Job (kubernetes-sigs/kueue#5244),
//! a pod of a system namespace (NVIDIA/KAI-Scheduler#883), and a node that joins and needs the pods of
//! its network (marin-community/marin#6894). None of them has to do with Muster, and so none is touched.
//!
//! `kube-system` is spared as a whole. The pods of the network are in a namespace of their own, as
//! Calico's are: there only what the webhooks match by spares them.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DeleteParams};

use crate::calls::Calls;
use crate::health::{PATIENCE, wait_for};
use crate::node::NODE;
use crate::node::images::BOX;
use crate::node::settings::NETWORK;
use crate::node::start::two_ready;
use crate::sandbox::Sandbox;

const SYSTEM: &str = "kube-system";
const CALICO: &str = "calico-system";

fn job() -> String {
    format!(
        "
apiVersion: batch/v1
kind: Job
metadata: {{name: job}}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{{name: main, image: '{BOX}', args: [now]}}]
"
    )
}

fn pod(name: &str, namespace: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  restartPolicy: Never
  containers: [{{name: main, image: '{BOX}', args: [now]}}]
"
    )
}

/// Plays the network of a cluster: each node gets a pod that brings the plugin's configuration.
fn network(kept: &str, networks: &str) -> String {
    format!(
        "
apiVersion: apps/v1
kind: DaemonSet
metadata: {{name: network}}
spec:
  selector: {{matchLabels: {{app: network}}}}
  template:
    metadata: {{labels: {{app: network}}}}
    spec:
      hostNetwork: true
      priorityClassName: system-node-critical
      terminationGracePeriodSeconds: 1
      tolerations: [{{operator: Exists}}]
      containers:
      - name: main
        image: {BOX}
        args: [copy, /kept/{NETWORK}, /networks/{NETWORK}, --, sleep, '3600']
        volumeMounts:
        - {{name: kept, mountPath: /kept}}
        - {{name: networks, mountPath: /networks}}
      volumes:
      - {{name: kept, hostPath: {{path: {kept}}}}}
      - {{name: networks, hostPath: {{path: {networks}}}}}
"
    )
}

impl Sandbox {
    pub(super) async fn scale_muster(&self, replicas: &str) -> Result<()> {
        let replicas = format!("--replicas={replicas}");
        let namespace = "--namespace=muster-system";
        let scale = ["scale", "deployment", "muster", &replicas, namespace];
        self.operate(&scale).await.map(|_| ())
    }

    /// Waits until a pod has ended well.
    async fn succeeded(&self, namespace: &str, name: &str) -> Result<()> {
        let pods = self.cluster.objects.api("v1", "Pod", namespace).await?;
        self.wait_for(&format!("the pod {name} to end"), async || {
            let phase = pods.get(name).await?.data["status"]["phase"].clone();
            ensure!(phase == "Succeeded", "it is {phase}");
            Ok(())
        })
        .await
    }

    /// What the node's own condition says, once it is that.
    async fn node_ready(&self, status: &str) -> Result<String> {
        let nodes: Api<Node> = Api::all(self.client());
        wait_for(
            &format!("a node whose Ready is {status}"),
            PATIENCE,
            async || {
                let found = nodes.get(NODE).await?.status.unwrap_or_default();
                let mut conditions = found.conditions.into_iter().flatten();
                let ready = conditions.find(|condition| condition.type_ == "Ready");
                let ready = ready.context("it says nothing")?;
                ensure!(ready.status == status, "it is {}", ready.status);
                Ok(ready.message.unwrap_or_default())
            },
        )
        .await
    }
}

pub async fn what_has_no_gang_does_not_notice_that_muster_is_down(sandbox: Sandbox) -> Result<()> {
    sandbox.scale_muster("0").await?;
    sandbox.end_replicas().await?;
    let outcome = stories(&sandbox).await;
    sandbox.cluster.machine()?.restore_network()?;
    sandbox.scale_muster("2").await?;
    two_ready(&sandbox.cluster.objects).await?;
    // The first call may find a connection to a replica that is gone.
    sandbox
        .wait_for("Muster to be asked again", async || {
            sandbox.takes_a_gang().await
        })
        .await?;
    outcome
}

async fn stories(sandbox: &Sandbox) -> Result<()> {
    let client = &sandbox.cluster.plane.client;
    let before = Calls::of(client).await?;

    sandbox.apply(&job()).await?;
    let jobs = sandbox.api("batch/v1", "Job").await?;
    sandbox
        .wait_for("the Job to end", async || {
            let status = jobs.get("job").await?.data["status"].clone();
            ensure!(status["succeeded"] == 1, "{status}");
            Ok(())
        })
        .await?;

    sandbox.apply(&pod("ordinary", SYSTEM)).await?;
    sandbox.succeeded(SYSTEM, "ordinary").await?;

    let (kept, networks) = sandbox
        .cluster
        .machine()?
        .join_anew(&sandbox.cluster.plane)
        .await?;
    let said = sandbox.node_ready("False").await?;
    ensure!(said.contains("cni plugin not initialized"), "{said}");
    let text = network(&kept.to_string_lossy(), &networks.to_string_lossy());
    let calico = Sandbox::new(sandbox.cluster.clone(), CALICO).await?;
    calico.apply(&text).await?;
    sandbox.node_ready("True").await?;
    // And with its network, a pod that needs one.
    sandbox.apply(&pod("joined", &sandbox.namespace)).await?;
    sandbox.succeeded(&sandbox.namespace, "joined").await?;

    let after = Calls::of(client).await?;
    ensure!(after == before, "Muster was called: {before:?}, {after:?}");
    println!("Muster down: a Job, a system pod and a node that joined; calls of Muster: 0");

    // The count can grow, in that namespace too: a gang is refused, by a call that nobody answers.
    let refused = calico.takes_a_gang().await;
    ensure!(refused.is_err(), "a gang is admitted");
    let after = Calls::of(client).await?;
    let counted = after.made > before.made && after.failed > before.failed;
    ensure!(counted, "{before:?}, {after:?}");

    let pods = sandbox.cluster.objects.api("v1", "Pod", SYSTEM).await?;
    pods.delete("ordinary", &DeleteParams::default()).await?;
    calico.clear().await?;
    let namespaces = calico.api("v1", "Namespace").await?;
    sandbox
        .wait_for("the network's namespace to be gone", async || {
            let left = namespaces.get_opt(CALICO).await?;
            ensure!(left.is_none(), "it is there");
            Ok(())
        })
        .await
}
