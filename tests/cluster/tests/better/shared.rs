//! Gangs of several workloads of one namespace that share a PodGroup on Volcano, which knows nothing of
//! workloads: it counts the pods that say they are in it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams};
use serde_json::{Value, json};

use super::super::lws::is_bound;
use super::super::matrix::CHANCE;
use super::super::samples::{events, jobset};
use crate::sandbox::Sandbox;

const BUNDLE: &str = "muster.dev/scheduler: volcano, muster.dev/bundle: ring";
const API: &str = "scheduling.volcano.sh/v1beta1";

/// A JobSet of two pods.
fn side(name: &str, with: &str) -> String {
    let annotations =
        format!("muster.dev/gang-mode: Gang, {BUNDLE}, muster.dev/bundle-with: '{with}'");
    jobset(name, &annotations, 2, "1")
}

/// The same, recreated by JobSet when one of its pods fails.
fn restarting(name: &str, with: &str) -> String {
    side(name, with)
        .replace("backoffLimit: 6", "backoffLimit: 0")
        .replace("suspend: false", "failurePolicy: {maxRestarts: 1}")
}

/// A Job of two pods.
fn job(name: &str, with: &str) -> String {
    format!(
        "
apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
  annotations: {{muster.dev/gang-mode: Gang, {BUNDLE}, muster.dev/bundle-with: '{with}'}}
spec:
  parallelism: 2
  completions: 2
  template:
    spec:
      restartPolicy: Never
      containers: [{{name: main, image: train, resources: {{requests: {{cpu: '1'}}}}}}]
"
    )
}

/// A pod of the gang `ring`, which needs two.
fn pod(number: u32, with: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Pod
metadata:
  name: ring-{number}
  annotations:
    muster.dev/gang-name: ring
    muster.dev/min-count: '2'
    muster.dev/bundle-with: '{with}'
    {}
spec:
  containers: [{{name: main, image: train, resources: {{requests: {{cpu: '1'}}}}}}]
",
        BUNDLE.replace(", ", "\n    ")
    )
}

impl Sandbox {
    /// The pods whose names begin like this and that are neither done nor going.
    async fn live(&self, prefix: &str) -> Result<Vec<Pod>> {
        let mut pods = self.pods().await?;
        pods.retain(|pod| {
            let phase = pod.status.as_ref().and_then(|s| s.phase.as_deref());
            let ended = matches!(phase, Some("Succeeded" | "Failed"));
            let going = pod.metadata.deletion_timestamp.is_some();
            pod.name_any().starts_with(prefix) && !ended && !going
        });
        Ok(pods)
    }

    async fn side_runs(&self, prefix: &str, count: usize) -> Result<()> {
        self.wait_for(&format!("{count} bound pods of {prefix}"), async || {
            let pods = self.live(prefix).await?;
            let bound = pods.iter().filter(|pod| is_bound(pod)).count();
            ensure!(bound == count, "{bound} of {} are bound", pods.len());
            Ok(())
        })
        .await
    }

    /// Sees pods that exist and are not placed, for a while.
    async fn side_waits(&self, prefix: &str, count: usize) -> Result<()> {
        self.wait_for(&format!("{count} pods of {prefix}"), async || {
            let pods = self.live(prefix).await?;
            let new = pods.iter().filter(|pod| !is_bound(pod)).count();
            ensure!(
                pods.len() == count && new == count,
                "{new} of {}",
                pods.len()
            );
            Ok(())
        })
        .await?;
        let end = Instant::now() + CHANCE;
        while Instant::now() < end {
            let pods = self.live(prefix).await?;
            let bound = pods.iter().filter(|pod| is_bound(pod)).count();
            ensure!(bound == 0, "{bound} of {prefix} are bound");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    async fn one_fails(&self, prefix: &str) -> Result<()> {
        let pods = self.live(prefix).await?;
        let name = pods.first().context("no pod")?.name_any();
        self.annotate(&name, "fake/outcome=fail").await
    }

    async fn gone(&self, kind: &str, name: &str) -> Result<()> {
        let output = self.kubectl(&["delete", kind, name, "--wait"], "").await?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "cannot delete {kind} {name}: {said}"
        );
        Ok(())
    }

    /// Waits until something is told of a workload.
    async fn is_told(&self, kind: &str, text: &str) -> Result<()> {
        self.wait_for(&format!("{text:?} to be told"), async || {
            let all = events(self).await?;
            let of_kind = all.iter().filter(|e| e.data["regarding"]["kind"] == kind);
            let notes: Vec<String> = of_kind.map(|e| e.data["note"].to_string()).collect();
            ensure!(notes.iter().any(|note| note.contains(text)), "{notes:?}");
            Ok(())
        })
        .await
    }

    async fn podgroups(&self) -> Result<Vec<DynamicObject>> {
        let groups = self.api(API, "PodGroup").await?;
        Ok(groups.list(&ListParams::default()).await?.items)
    }

    /// A node that a side's pods are on.
    async fn node_of(&self, prefix: &str) -> Result<String> {
        let bound = self.bound().await?;
        let found = bound.into_iter().find(|(pod, _)| pod.starts_with(prefix));
        Ok(found.context("no pod is bound")?.1)
    }
}

pub async fn gangs_of_three_kinds_share_a_podgroup(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 5).await?;
    // One side never comes: nothing starts, and the others say for whom they wait.
    sandbox
        .apply(&job("prep", "Pod:ring, JobSet:train"))
        .await?;
    let with = "Job:prep, JobSet:train";
    sandbox.apply(&pod(0, with)).await?;
    sandbox.apply(&pod(1, with)).await?;
    sandbox.side_waits("", 4).await?;
    let missing = format!(
        "waits for JobSet {}/train: it does not exist, or",
        sandbox.namespace
    );
    sandbox.is_told("Job", &missing).await?;
    sandbox.is_told("Pod", &missing).await?;
    // All are there, and one CPU short.
    sandbox.apply(&side("train", "Job:prep, Pod:ring")).await?;
    sandbox.side_waits("", 6).await?;
    let groups = sandbox.podgroups().await?;
    ensure!(groups.len() == 1, "{} PodGroups", groups.len());
    ensure!(groups[0].data["spec"]["minMember"] == 6);
    ensure!(groups[0].owner_references().len() >= 3);
    sandbox.nodes(1, 1).await?;
    sandbox.side_runs("", 6).await?;
    for kind in ["Job", "Pod", "JobSet"] {
        sandbox.told_of(kind, "GangScheduled").await?;
    }
    // A side is deleted. The others run on and replace their pods.
    sandbox.gone("job", "prep").await?;
    let pods: Api<Pod> = Api::namespaced(sandbox.client(), &sandbox.namespace);
    pods.delete("ring-0", &DeleteParams::default()).await?;
    sandbox.apply(&pod(2, with)).await?;
    sandbox.side_runs("ring-", 2).await?;
    sandbox.one_fails("train").await?;
    sandbox.side_runs("train", 2).await?;
    // It is recreated beside them, where one pod of it would fit: all or nothing.
    let full = sandbox.nodes(1, 1).await?;
    sandbox.cordon(&full[0]).await?;
    sandbox
        .apply(&job("prep", "Pod:ring, JobSet:train"))
        .await?;
    sandbox.side_runs("prep", 2).await?;
    sandbox.gone("job", "prep").await?;
    let filler = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "filler"},
        "spec": {"containers": [{"name": "main", "image": "x",
            "resources": {"requests": {"cpu": "1"}}}]}});
    sandbox.apply(&filler.to_string()).await?;
    sandbox.side_runs("filler", 1).await?;
    sandbox
        .apply(&job("prep", "Pod:ring, JobSet:train"))
        .await?;
    sandbox.side_waits("prep", 2).await?;
    sandbox.uncordon(&full[0]).await?;
    sandbox.side_runs("prep", 2).await?;
    // The PodGroup goes with the last of them.
    sandbox.gone("job", "prep").await?;
    sandbox.gone("jobset", "train").await?;
    let left = sandbox.podgroups().await?.len();
    ensure!(left == 1, "{left} PodGroups while the pods live");
    let all = ListParams::default();
    pods.delete_collection(&DeleteParams::default(), &all)
        .await?;
    sandbox.left_nothing().await
}

/// Volcano would place what the PodGroup does not count yet, pod by pod.
pub async fn a_side_that_is_recreated_beside_one_that_runs_is_all_or_nothing(
    sandbox: Sandbox,
) -> Result<()> {
    sandbox.nodes(4, 1).await?;
    sandbox.apply(&side("train", "Job:prep")).await?;
    let prep = job("prep", "JobSet:train");
    sandbox.apply(&prep).await?;
    sandbox.side_runs("", 4).await?;
    let late = sandbox.node_of("prep").await?;
    sandbox.cordon(&late).await?;
    for _ in 0..5 {
        sandbox.gone("job", "prep").await?;
        sandbox.apply(&prep).await?;
        sandbox.side_waits("prep", 2).await?;
    }
    // A pod of the other that is to be replaced waits with it, where both do not fit.
    sandbox.one_fails("train").await?;
    sandbox.side_runs("train", 1).await?;
    tokio::time::sleep(CHANCE).await;
    sandbox.side_runs("train", 1).await?;
    sandbox.uncordon(&late).await?;
    sandbox.side_runs("", 4).await
}

pub async fn a_side_of_a_shared_podgroup_restarts(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(4, 1).await?;
    sandbox.apply(&side("a", "b")).await?;
    sandbox.apply(&restarting("b", "a")).await?;
    sandbox.side_runs("", 4).await?;
    let running = names(&sandbox, "a-").await?;
    // All or nothing again, though the other side runs.
    let late = sandbox.node_of("b-").await?;
    sandbox.cordon(&late).await?;
    sandbox.one_fails("b-").await?;
    sandbox.stays_unbound("1", 2).await?;
    ensure!(names(&sandbox, "a-").await? == running, "a's pods changed");
    sandbox.uncordon(&late).await?;
    sandbox.side_runs("b-", 2).await?;
    ensure!(names(&sandbox, "a-").await? == running, "a's pods changed");
    sandbox.one_fails("a-").await?;
    sandbox.side_runs("a-", 2).await
}

async fn names(sandbox: &Sandbox, prefix: &str) -> Result<Vec<String>> {
    let pods = sandbox.live(prefix).await?;
    Ok(pods.iter().map(|pod| pod.name_any()).collect())
}

pub async fn sides_of_a_shared_podgroup_that_both_restart_start_together(
    sandbox: Sandbox,
) -> Result<()> {
    sandbox.nodes(4, 1).await?;
    sandbox.apply(&restarting("a", "b")).await?;
    sandbox.apply(&restarting("b", "a")).await?;
    sandbox.side_runs("", 4).await?;
    let late = [sandbox.node_of("a-").await?, sandbox.node_of("b-").await?];
    for (node, side) in late.iter().zip(["a-", "b-"]) {
        sandbox.cordon(node).await?;
        sandbox.one_fails(side).await?;
    }
    sandbox.stays_unbound("1", 4).await?;
    // Either would fit by itself.
    sandbox.uncordon(&late[0]).await?;
    sandbox.stays_unbound("1", 4).await?;
    sandbox.uncordon(&late[1]).await?;
    sandbox.side_runs("", 4).await
}

/// Both wait for room when one is deleted and recreated with other numbers.
pub async fn a_side_that_waits_follows_its_recreated_partner_in_one_podgroup(
    sandbox: Sandbox,
) -> Result<()> {
    sandbox.nodes(1, 3).await?;
    sandbox.apply(&side("a", "Job:b")).await?;
    sandbox.apply(&job("b", "JobSet:a")).await?;
    sandbox.side_waits("", 4).await?;
    sandbox.gone("job", "b").await?;
    // Its pods go after it, and are a part of the gang as long as they are there.
    sandbox
        .wait_for("its pods to go", async || {
            let mut left = sandbox.pods().await?;
            left.retain(|pod| pod.name_any().starts_with("b-"));
            ensure!(left.is_empty(), "{} are left", left.len());
            Ok(())
        })
        .await?;
    sandbox.nodes(1, 1).await?;
    sandbox.side_waits("a-", 2).await?;
    // Of its three pods, two would do for the one that was deleted.
    let larger = job("b", "JobSet:a")
        .replace("parallelism: 2", "parallelism: 3")
        .replace("completions: 2", "completions: 3");
    sandbox.apply(&larger).await?;
    sandbox.side_waits("", 5).await?;
    sandbox.nodes(1, 1).await?;
    sandbox.side_runs("", 5).await?;
    // All of them are deleted and recreated at once, before what was made for the first is gone.
    sandbox.gone("job", "b").await?;
    sandbox.gone("jobset", "a").await?;
    sandbox.apply(&side("a", "Job:b")).await?;
    sandbox.apply(&larger).await?;
    sandbox.side_runs("", 5).await
}

pub async fn a_side_of_a_shared_podgroup_goes_on_when_its_partner_is_gone(
    sandbox: Sandbox,
) -> Result<()> {
    sandbox.nodes(1, 4).await?;
    sandbox.apply(&side("train", "Job:prep")).await?;
    sandbox.apply(&job("prep", "JobSet:train")).await?;
    sandbox.side_runs("", 4).await?;
    for pod in sandbox.live("prep").await? {
        sandbox
            .annotate(&pod.name_any(), "fake/outcome=succeed")
            .await?;
    }
    let jobs = sandbox.api("batch/v1", "Job").await?;
    sandbox
        .wait_for("the Job to end", async || {
            let status = jobs.get("prep").await?.data["status"].clone();
            ensure!(status["completionTime"] != Value::Null, "{status}");
            Ok(())
        })
        .await?;
    sandbox.one_fails("train").await?;
    sandbox.side_runs("train", 2).await?;
    // A new start is another matter: it waits for its partner.
    let suspend = |to: bool| json!({"spec": {"suspend": to}});
    sandbox.patch_jobset(suspend(true)).await?;
    sandbox
        .wait_for("the pods to go", async || {
            let left = sandbox.live("train").await?.len();
            ensure!(left == 0, "{left} are left");
            Ok(())
        })
        .await?;
    sandbox.patch_jobset(suspend(false)).await?;
    sandbox.is_told("JobSet", "/prep: it has ended").await?;
    sandbox.side_waits("train", 2).await?;
    // Its successor brings both to life.
    sandbox.gone("job", "prep").await?;
    sandbox.apply(&job("prep", "JobSet:train")).await?;
    sandbox.side_runs("", 4).await
}
