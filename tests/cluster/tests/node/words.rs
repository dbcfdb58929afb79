//! What the tests on a real node write, and how they ask what its containers did.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ContainerStatus, Node, Pod};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, LogParams, Patch, PatchParams};
use serde_json::json;

use crate::install::NAMESPACE;
use crate::manifests::parse;
use crate::node::NODE;
use crate::node::images::BOX;
use crate::sandbox::Sandbox;

/// A JobSet `train` of one gang: two Jobs with two pods each, whose only container does these
/// words of `box.c`. `more` goes into the pod's spec.
pub fn gang(words: &[&str], more: &str) -> String {
    let words = json!(words);
    format!(
        "
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: train
  annotations: {{muster.dev/gang-mode: Gang}}
spec:
  replicatedJobs:
  - name: workers
    replicas: 2
    template:
      spec:
        parallelism: 2
        completions: 2
        backoffLimit: 0
        template:
          spec:
            restartPolicy: Never
            {more}
            containers:
            - name: main
              image: {BOX}
              args: {words}
              securityContext:
                allowPrivilegeEscalation: false
                runAsNonRoot: true
                runAsUser: 65532
                capabilities: {{drop: [ALL]}}
                seccompProfile: {{type: RuntimeDefault}}
              resources: {{requests: {{cpu: 10m}}}}
"
    )
}

/// How many pods [`gang`] has.
pub const PODS: usize = 4;

/// The only container's status; init containers are not among them.
pub fn container(pod: &Pod) -> Option<&ContainerStatus> {
    pod.status.as_ref()?.container_statuses.as_ref()?.first()
}

impl Sandbox {
    /// What a pod's container has said.
    pub async fn log(&self, pod: &str, container: &str) -> Result<String> {
        let api: Api<Pod> = Api::namespaced(self.client(), &self.namespace);
        let params = LogParams {
            container: Some(container.to_owned()),
            ..LogParams::default()
        };
        let log = api.logs(pod, &params).await;
        log.with_context(|| format!("no log of {pod}"))
    }

    /// The lines of a pod's container that are times, in milliseconds since 1970.
    pub async fn times(&self, pod: &str, container: &str) -> Result<Vec<u64>> {
        let log = self.log(pod, container).await?;
        Ok(log.lines().filter_map(|line| line.parse().ok()).collect())
    }

    /// Waits until every pod's container runs; by the pod's name, which one it is.
    pub async fn all_running(&self, count: usize) -> Result<BTreeMap<String, String>> {
        self.wait_for(&format!("{count} running containers"), async || {
            let pods = self.pods().await?;
            let running = pods.iter().filter_map(|pod| {
                let status = container(pod)?;
                status.state.as_ref()?.running.as_ref()?;
                Some((pod.name_any(), status.container_id.clone()?))
            });
            let running: BTreeMap<String, String> = running.collect();
            ensure!(running.len() == count, "these run: {running:?}");
            Ok(running)
        })
        .await
    }

    /// Waits until the JobSet `train` is complete, and returns its pods.
    pub async fn finished(&self) -> Result<Vec<Pod>> {
        let jobsets = self.api("jobset.x-k8s.io/v1alpha2", "JobSet").await?;
        self.wait_for("the JobSet to end", async || {
            let jobset = jobsets.get("train").await?;
            let state = &jobset.data["status"]["terminalState"];
            ensure!(!state.is_null(), "it runs");
            Ok(())
        })
        .await?;
        let jobset = jobsets.get("train").await?;
        let state = &jobset.data["status"]["terminalState"];
        ensure!(*state == "Completed", "it is {state}");
        self.pods().await
    }

    /// Lets only restricted pods into the namespace.
    pub async fn restrict(&self) -> Result<()> {
        let namespaces = self.api("v1", "Namespace").await?;
        let enforce = json!({"pod-security.kubernetes.io/enforce": "restricted"});
        let label = Patch::Merge(json!({"metadata": {"labels": enforce}}));
        let params = PatchParams::default();
        namespaces.patch(&self.namespace, &params, &label).await?;
        Ok(())
    }

    /// Puts a label on the node, or takes it away.
    pub async fn label_node(&self, key: &str, value: Option<&str>) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.client());
        let patch = Patch::Merge(json!({"metadata": {"labels": {key: value}}}));
        nodes.patch(NODE, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// One more namespace for the same test.
    pub async fn beside(&self, name: &str) -> Result<Sandbox> {
        let namespace = format!("{}-{name}", self.namespace);
        Sandbox::new(self.cluster.clone(), &namespace).await
    }

    /// Runs kubectl as an operator does, for as long as it takes; an error if it fails.
    pub async fn operate(&self, args: &[&str]) -> Result<String> {
        let mut kubectl = self.cluster.kubectl()?;
        kubectl.args(args);
        succeeds(kubectl).await
    }

    /// Whether the apiserver takes a workload with a gang now; nothing is stored.
    pub async fn takes_a_gang(&self) -> Result<()> {
        let mut gang = parse(&gang(&["now"], ""))?.remove(0);
        gang["metadata"]["name"] = json!("probe");
        let objects = &self.cluster.objects;
        objects.try_create(&gang, &self.namespace).await?;
        Ok(())
    }

    /// The names of Muster's pods.
    pub async fn replicas(&self) -> Result<BTreeSet<String>> {
        let pods: Api<Pod> = Api::namespaced(self.client(), NAMESPACE);
        let list = pods.list(&ListParams::default()).await?;
        Ok(list.iter().map(|pod| pod.name_any()).collect())
    }

    /// Ends Muster's pods without the seconds of their lame duck, and waits until none is left: whoever makes
    /// new ones is gone.
    pub async fn end_replicas(&self) -> Result<()> {
        let pods: Api<Pod> = Api::namespaced(self.client(), NAMESPACE);
        self.wait_for("Muster's pods to be gone", async || {
            let now = DeleteParams::default().grace_period(1);
            pods.delete_collection(&now, &ListParams::default()).await?;
            let left = self.replicas().await?;
            ensure!(left.is_empty(), "there are {left:?}");
            Ok(())
        })
        .await
    }

    /// Waits until one of these pods leads.
    pub async fn leader(&self, of: &BTreeSet<String>) -> Result<String> {
        let leases: Api<Lease> = Api::namespaced(self.client(), NAMESPACE);
        self.wait_for("a leader", async || {
            let leases = leases.list(&ListParams::default()).await?;
            let holders = leases.iter().filter_map(|lease| lease.spec.as_ref());
            let mut holders = holders.filter_map(|spec| spec.holder_identity.as_ref());
            let leader = holders.find_map(|holder| of.iter().find(|name| holder.contains(*name)));
            leader.cloned().context("none of them leads")
        })
        .await
    }
}

/// What a command prints that must succeed.
pub async fn succeeds(mut command: Command) -> Result<String> {
    let shown = format!("{command:?}");
    let output = tokio::task::spawn_blocking(move || command.output()).await??;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{shown}: {said}");
    Ok(String::from_utf8(output.stdout)?)
}
