//! YuniKorn takes pods that come within half a minute for more of the same application, forgets a
//! gang whose first pod goes, and its admission controller takes the pods of other schedulers.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;

use super::super::lws::lws;
use super::super::samples::jobset;
use crate::sandbox::Sandbox;
use crate::schedulers::{Kind, yunikorn};

const GANG: &str = "muster.dev/gang-mode: Gang, muster.dev/scheduler: yunikorn";

pub async fn a_gang_that_is_resumed_at_once_is_a_gang_again(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 3).await?;
    let late = sandbox.nodes(1, 1).await?.remove(0);
    sandbox.apply(&jobset("train", GANG, 4, "1")).await?;
    sandbox.placed(4).await?;
    sandbox
        .patch_jobset(json!({"spec": {"suspend": true}}))
        .await?;
    sandbox.placed(0).await?;
    sandbox.cordon(&late).await?;
    sandbox
        .patch_jobset(json!({"spec": {"suspend": false}}))
        .await?;
    sandbox.stays_unbound("0", 4).await?;
    sandbox.uncordon(&late).await?;
    sandbox.placed(4).await
}

pub async fn a_gang_whose_first_pod_is_deleted_starts_all_the_same(sandbox: Sandbox) -> Result<()> {
    let first = sandbox.waits_for_room().await?;
    let pods: Api<Pod> = Api::namespaced(sandbox.client(), &sandbox.namespace);
    pods.delete(&first, &DeleteParams::default()).await?;
    sandbox.is_revived().await
}

/// The pod garbage collector comes by every 20 seconds, and marks a pod as failed that has no node and
/// is about to go. A Job's pods are so for a second, until the Job has counted them.
pub async fn a_gang_whose_first_pod_fails_while_it_is_deleted_starts_all_the_same(
    sandbox: Sandbox,
) -> Result<()> {
    let first = sandbox.waits_for_room().await?;
    let pods: Api<Pod> = Api::namespaced(sandbox.client(), &sandbox.namespace);
    let pod = pods.get(&first).await?;
    sandbox.hold(&pod).await?;
    pods.delete(&first, &DeleteParams::default()).await?;
    let failed = Patch::Merge(json!({"status": {"phase": "Failed"}}));
    let params = PatchParams::default();
    pods.patch_status(&first, &params, &failed).await?;
    // Muster sees it so.
    tokio::time::sleep(Duration::from_secs(2)).await;
    sandbox.let_go(&pod).await?;
    sandbox.is_revived().await
}

/// The pod template of the gang with a label, and with what else stands in its spec.
fn placed_by(pods: u32, spec: &str) -> String {
    jobset("train", GANG, pods, "1").replace(
        "          spec:\n            restartPolicy",
        &format!(
            "          metadata: {{labels: {{app: train}}}}\n          spec:\n            {spec}\n            \
             restartPolicy"
        ),
    )
}

/// A placeholder has none of its pod's labels, but the pod's affinity.
pub async fn a_gang_of_one_pod_per_node_starts(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(2, 2).await?;
    sandbox.nodes(1, 1).await?;
    let apart = "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [\
        {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: train}}}]}}";
    let nodes = sandbox.starts_with_one_more(apart, 4).await?;
    ensure!(nodes.len() == 4, "they share nodes: {nodes:?}");
    Ok(())
}

pub async fn a_gang_that_stays_in_one_place_starts(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 3).await?;
    let together = "affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [\
        {topologyKey: e2e.muster.dev/namespace, labelSelector: {matchLabels: {app: train}}}]}}";
    sandbox.starts_with_one_more(together, 4).await?;
    Ok(())
}

/// In one place, and each alone on its node: its own placeholders must not be in the way.
pub async fn a_gang_of_pods_that_want_to_be_alone_starts(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(2, 2).await?;
    let alone = "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [\
        {topologyKey: kubernetes.io/hostname, labelSelector: {}}]}, \
        podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [\
        {topologyKey: e2e.muster.dev/namespace, labelSelector: {matchLabels: {app: train}}}]}}";
    let nodes = sandbox.starts_with_one_more(alone, 3).await?;
    ensure!(nodes.len() == 3, "they share nodes: {nodes:?}");
    Ok(())
}

/// Pods of another workload have the same label, and their node is full.
pub async fn a_gang_is_not_drawn_to_pods_of_others(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 2).await?;
    let other = placed_by(2, "").replace("name: train\n", "name: other\n");
    sandbox.apply(&other).await?;
    sandbox.placed(2).await?;
    let together = "affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [\
        {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: train}}}]}}";
    sandbox.apply(&placed_by(4, together)).await?;
    sandbox.nodes(1, 4).await?;
    sandbox.placed(6).await
}

pub async fn a_gang_that_cannot_be_spread_binds_nothing(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 3).await?;
    sandbox.nodes(1, 1).await?;
    let spread = "topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, \
        whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: train}}}]";
    sandbox.starts_with_one_more(spread, 4).await?;
    Ok(())
}

/// The room that its placeholders hold may lie on other nodes than the leader's.
pub async fn workers_that_must_be_where_their_leader_is_start(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(2, 4).await?;
    let annotations = ", muster.dev/scheduler: yunikorn, \
        leaderworkerset.sigs.k8s.io/exclusive-topology: kubernetes.io/hostname";
    let text = lws(annotations, "replicas: 1\n  startupPolicy: LeaderReady", 4);
    sandbox.apply(&text).await?;
    sandbox
        .wait_for("a replica on one node, and nothing else", async || {
            let pods = sandbox.pods().await?;
            let node = |pod: &Pod| pod.spec.as_ref().and_then(|s| s.node_name.clone());
            let nodes: BTreeSet<Option<String>> = pods.iter().map(node).collect();
            ensure!(
                pods.len() == 4 && nodes.len() == 1,
                "{} on {nodes:?}",
                pods.len()
            );
            ensure!(!nodes.contains(&None), "they wait");
            Ok(())
        })
        .await
}

/// A cluster of its own: the admission controller takes the pods of all namespaces.
pub async fn its_admission_controller_breaks_no_gang(sandbox: Sandbox) -> Result<()> {
    let with = &[Kind::Yunikorn];
    let cluster = sandbox
        .cluster
        .another_with("yunikorn-admission", with, &[])
        .await?;
    let admission = yunikorn::start_admission(&cluster.plane, &cluster.objects).await?;
    let own = Sandbox::new(cluster.clone(), "for-yunikorn").await?;
    keeps_its_application(&own).await?;
    let other = Sandbox::new(cluster, "for-another").await?;
    is_refused_until_the_namespace_is_spared(&other).await?;
    ensure!(
        admission.exited().is_none(),
        "the admission controller has ended"
    );
    Ok(())
}

async fn keeps_its_application(sandbox: &Sandbox) -> Result<()> {
    sandbox.nodes(1, 3).await?;
    sandbox.apply(&jobset("train", GANG, 4, "1")).await?;
    sandbox.stays_unbound("0", 4).await?;
    for pod in sandbox.members("0").await? {
        let (labels, annotations) = (pod.labels(), pod.annotations());
        let id = labels.get("yunikorn.apache.org/app-id");
        let muster = id.is_some_and(|id| id.starts_with("train-"));
        // The old key and the user are the admission controller's: it has seen the pod.
        let seen = labels.get("applicationId") == id
            && annotations.contains_key("yunikorn.apache.org/user.info");
        ensure!(muster && seen, "{labels:?} {annotations:?}");
    }
    sandbox.nodes(1, 1).await?;
    sandbox.placed(4).await
}

async fn is_refused_until_the_namespace_is_spared(sandbox: &Sandbox) -> Result<()> {
    sandbox.nodes(1, 3).await?;
    let native = "muster.dev/gang-mode: Gang, muster.dev/scheduler: native";
    sandbox.apply(&jobset("train", native, 4, "1")).await?;
    let events = sandbox.api("events.k8s.io/v1", "Event").await?;
    let said = sandbox
        .wait_for("the Job to say why it has no pods", async || {
            let all = events.list(&ListParams::default()).await?.items;
            let mut failures = all.iter().filter(|e| e.data["reason"] == "FailedCreate");
            let note = failures.next().context("not yet")?.data["note"].clone();
            Ok(note.as_str().unwrap_or_default().to_owned())
        })
        .await?;
    let spare = "yunikorn.apache.org/namespace.enableYuniKorn";
    for part in [
        "spec.schedulerName: Invalid value: \"yunikorn\"",
        "for native",
        spare,
    ] {
        ensure!(said.contains(part), "{said}");
    }
    let pods = sandbox.pods().await?.len();
    ensure!(pods == 0, "{pods} pods were let through");
    let namespace = ["annotate", "namespace", &sandbox.namespace];
    let spare = format!("{spare}=false");
    let args = [&namespace[..], &[&spare]].concat();
    ensure!(sandbox.kubectl(&args, "").await?.status.success());
    // The Job's controller tries again by itself.
    sandbox.none_bound(4).await?;
    sandbox.nodes(1, 1).await?;
    sandbox.all_bound(4).await?;
    Ok(())
}

impl Sandbox {
    /// A gang that lacks room for one of its pods; the first of them.
    async fn waits_for_room(&self) -> Result<String> {
        self.nodes(1, 3).await?;
        self.apply(&jobset("train", GANG, 4, "1")).await?;
        self.stays_unbound("0", 4).await?;
        self.originator().await
    }

    /// Waits until the gang is given a new round, and sees it start as a gang.
    async fn is_revived(&self) -> Result<()> {
        // Others write to the JobSet at that moment, and it must not be forgotten over that.
        let (told, written) = tokio::join!(self.told("GangRevived"), self.keep_writing());
        written?;
        let said = told?;
        ensure!(said.contains("a pod was deleted"), "{said}");
        self.counted("muster_gang_revivals_total").await?;
        self.stays_unbound("0", 4).await?;
        self.nodes(1, 1).await?;
        self.placed(4).await?;
        let jobsets = self.api("jobset.x-k8s.io/v1alpha2", "JobSet").await?;
        let annotations = jobsets.get("train").await?.annotations().clone();
        ensure!(
            !annotations.contains_key("muster.dev/reviving"),
            "{annotations:?}"
        );
        Ok(())
    }

    /// Applies a gang with that in its pods' spec. It waits, and starts with one more node of one
    /// CPU; returns the nodes of its pods.
    async fn starts_with_one_more(&self, spec: &str, pods: u32) -> Result<BTreeSet<String>> {
        self.apply(&placed_by(pods, spec)).await?;
        self.stays_unbound("0", pods as usize).await?;
        self.nodes(1, 1).await?;
        self.placed(pods as usize).await?;
        let members = self.members("0").await?;
        let node = |pod: &Pod| pod.spec.as_ref()?.node_name.clone();
        Ok(members.iter().filter_map(node).collect())
    }

    /// Waits until so many members have a node. Placeholders are not among them.
    async fn placed(&self, count: usize) -> Result<()> {
        self.wait_for(&format!("{count} placed members"), async || {
            let members = self.members("0").await?;
            let placed = |pod: &&Pod| pod.spec.as_ref().is_some_and(|s| s.node_name.is_some());
            let placed = members.iter().filter(placed).count();
            ensure!(placed == count, "{placed} of {} are", members.len());
            Ok(())
        })
        .await
    }

    /// Writes to the JobSet again and again, for two seconds.
    async fn keep_writing(&self) -> Result<()> {
        for time in 0..100 {
            let written = json!({"metadata": {"annotations": {"written": time.to_string()}}});
            self.patch_jobset(written).await?;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    /// The pod that the placeholders belong to.
    async fn originator(&self) -> Result<String> {
        self.wait_for("a placeholder", async || {
            let pods = self.pods().await?;
            let mut owners = pods.iter().flat_map(|pod| pod.owner_references());
            let owner = owners.find(|owner| owner.kind == "Pod");
            Ok(owner.context("there is none")?.name.clone())
        })
        .await
    }
}
