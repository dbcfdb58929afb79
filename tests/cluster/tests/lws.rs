//! LeaderWorkerSets: each replica is a gang, in each of its lives.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::sandbox::Sandbox;

pub const LWS: (&str, &str) = ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet");
const GROUP: &str = "leaderworkerset.sigs.k8s.io/group-index";

/// Replicas of one-CPU pods.
pub fn lws(annotations: &str, spec: &str, size: u32) -> String {
    format!(
        "
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata:
  name: serve
  annotations: {{muster.dev/gang-mode: ReplicatedGang{annotations}}}
spec:
  {spec}
  leaderWorkerTemplate:
    size: {size}
    leaderTemplate:
      spec:
        containers: [{{name: leader, image: vllm, resources: {{requests: {{cpu: '1'}}}}}}]
    workerTemplate:
      spec:
        containers: [{{name: worker, image: vllm, resources: {{requests: {{cpu: '1'}}}}}}]
"
    )
}

impl Sandbox {
    /// The pods of one replica that are not being deleted.
    pub async fn replica(&self, group: &str) -> Result<Vec<Pod>> {
        let api: Api<Pod> = Api::namespaced(self.client(), &self.namespace);
        let own = ListParams::default().labels(&format!("{GROUP}={group}"));
        let mut pods = api.list(&own).await?.items;
        pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
        Ok(pods)
    }

    pub async fn patch_lws(&self, patch: serde_json::Value) -> Result<()> {
        let api = self.api(LWS.0, LWS.1).await?;
        let patch = Patch::Merge(patch);
        api.patch("serve", &PatchParams::default(), &patch).await?;
        Ok(())
    }

    pub async fn delete_pod(&self, name: &str) -> Result<()> {
        let api: Api<Pod> = Api::namespaced(self.client(), &self.namespace);
        api.delete(name, &DeleteParams::background()).await?;
        Ok(())
    }

    /// Waits until so many replicas of so many pods run, each in a PodGroup of its own, and no
    /// other PodGroup is left. Returns their names.
    async fn replicas_run(&self, replicas: usize, size: usize) -> Result<BTreeSet<String>> {
        self.wait_for(
            &format!("{replicas} replicas to run as gangs"),
            async || {
                let pods = self.pods().await?;
                let bound = pods.iter().filter(|pod| is_bound(pod)).count();
                ensure!(
                    pods.len() == replicas * size && bound == pods.len(),
                    "{bound} of {} pods are bound",
                    pods.len()
                );
                let linked: BTreeSet<String> = pods.iter().filter_map(pod_group).collect();
                let groups: BTreeSet<String> = self.names("PodGroup").await?.into_iter().collect();
                ensure!(
                    linked.len() == replicas && linked == groups,
                    "pods link to {linked:?}, there are {groups:?}"
                );
                Ok(groups)
            },
        )
        .await
    }
}

pub fn is_bound(pod: &Pod) -> bool {
    pod.spec.as_ref().is_some_and(|s| s.node_name.is_some())
}

fn pod_group(pod: &Pod) -> Option<String> {
    let group = pod.spec.as_ref()?.scheduling_group.as_ref()?;
    group.pod_group_name.clone()
}

pub async fn gangs_come_and_go_with_their_replicas(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 8).await?;
    sandbox.apply(&lws("", "replicas: 2", 2)).await?;
    let two = sandbox.replicas_run(2, 2).await?;
    sandbox.patch_lws(json!({"spec": {"replicas": 4}})).await?;
    let four = sandbox.replicas_run(4, 2).await?;
    ensure!(four.is_superset(&two), "{two:?} became {four:?}");
    sandbox.patch_lws(json!({"spec": {"replicas": 1}})).await?;
    let one = sandbox.replicas_run(1, 2).await?;
    ensure!(two.is_superset(&one), "{two:?} became {one:?}");
    // A condition says how they stand, beside LeaderWorkerSet's own.
    let sets = sandbox.api(LWS.0, LWS.1).await?;
    sandbox
        .wait_for("both conditions", async || {
            let status = sets.get("serve").await?.data["status"].clone();
            let conditions = status["conditions"].as_array().context("none yet")?;
            for kind in ["Available", "muster.dev/GangScheduled"] {
                let is = |c: &&Value| c["type"] == kind && c["status"] == "True";
                ensure!(conditions.iter().any(|c| is(&c)), "no {kind} in {status}");
            }
            Ok(())
        })
        .await?;
    sets.delete("serve", &DeleteParams::background()).await?;
    sandbox.replicas_run(0, 2).await?;
    Ok(())
}

/// A replica more than the spec says is made first, and is a gang too, or the rollout would stick.
pub async fn a_rollout_with_a_surge_gangs_every_revision(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 6).await?;
    let rollout = "replicas: 2\n  rolloutStrategy: {type: RollingUpdate, \
                   rollingUpdateConfiguration: {maxSurge: 1, maxUnavailable: 0}}";
    sandbox.apply(&lws("", rollout, 2)).await?;
    let before = sandbox.replicas_run(2, 2).await?;
    let image =
        json!([{"name": "worker", "image": "vllm:2", "resources": {"requests": {"cpu": "1"}}}]);
    sandbox
        .patch_lws(json!({"spec": {"leaderWorkerTemplate": {"workerTemplate": {"spec": {"containers": image}}}}}))
        .await?;
    sandbox
        .wait_for("a surge", async || {
            let surge = sandbox.replica("2").await?.len();
            ensure!(surge == 2, "it has {surge} pods");
            Ok(())
        })
        .await?;
    let after = sandbox
        .wait_for("the new revision alone", async || {
            let names = sandbox.replicas_run(2, 2).await?;
            ensure!(names.is_disjoint(&before), "still {before:?}");
            Ok(names)
        })
        .await?;
    ensure!(after.len() == 2);
    Ok(())
}

/// Replicas below the partition keep their revision, also when they are made anew.
pub async fn under_a_partition_two_revisions_live_side_by_side(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 6).await?;
    let rollout = "replicas: 2\n  rolloutStrategy: {type: RollingUpdate, \
                   rollingUpdateConfiguration: {partition: 1}}";
    sandbox.apply(&lws("", rollout, 2)).await?;
    let before = sandbox.replicas_run(2, 2).await?;
    let image =
        json!([{"name": "worker", "image": "vllm:2", "resources": {"requests": {"cpu": "1"}}}]);
    sandbox
        .patch_lws(json!({"spec": {"leaderWorkerTemplate": {"workerTemplate": {"spec": {"containers": image}}}}}))
        .await?;
    let (old, new) = sandbox
        .wait_for("one replica of the new revision", async || {
            let names = sandbox.replicas_run(2, 2).await?;
            let kept = names.intersection(&before).count();
            ensure!(kept == 1, "{before:?} became {names:?}");
            Ok((
                revision(&sandbox, "0").await?,
                revision(&sandbox, "1").await?,
            ))
        })
        .await?;
    ensure!(old != new, "both are {old}");
    sandbox.delete_pod("serve-0").await?;
    sandbox
        .wait_for("the old replica to be made anew", async || {
            let names = sandbox.replicas_run(2, 2).await?;
            ensure!(names.is_disjoint(&before), "{before:?} became {names:?}");
            Ok(())
        })
        .await?;
    let again = revision(&sandbox, "0").await?;
    ensure!(again == old, "{old} became {again}");
    Ok(())
}

/// The revision in the labels of the PodGroup of a replica.
async fn revision(sandbox: &Sandbox, index: &str) -> Result<String> {
    let groups = sandbox.made("PodGroup").await?;
    let is = |label: &str| {
        groups.iter().find(|g| {
            g.labels()
                .get("muster.dev/index")
                .is_some_and(|i| i == label)
        })
    };
    let group = is(index).context("no such PodGroup")?;
    let revision = group.labels().get("muster.dev/revision");
    revision.cloned().context("no revision")
}

/// Upstream loses the PodGroup of a replica whose leader is deleted (lws#1054).
pub async fn a_replica_whose_leader_is_deleted_is_a_gang_again(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 3).await?;
    sandbox.apply(&lws("", "replicas: 1", 3)).await?;
    let mut seen = sandbox.replicas_run(1, 3).await?;
    for life in 1..=20 {
        sandbox.delete_pod("serve-0").await?;
        let names = sandbox
            .wait_for(&format!("life {life}"), async || {
                let names = sandbox.replicas_run(1, 3).await?;
                ensure!(names.is_disjoint(&seen), "{names:?} is not new");
                Ok(names)
            })
            .await?;
        seen.extend(names);
    }
    ensure!(seen.len() == 21, "{seen:?}");
    Ok(())
}

/// A worker that is lost takes its replica along, which is then a gang again.
pub async fn a_replica_that_loses_a_worker_is_made_anew(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 6).await?;
    sandbox.apply(&lws("", "replicas: 2", 3)).await?;
    let before = sandbox.replicas_run(2, 3).await?;
    sandbox.delete_pod("serve-1-2").await?;
    sandbox
        .wait_for("one replica in a new gang", async || {
            let after = sandbox.replicas_run(2, 3).await?;
            let kept = after.intersection(&before).count();
            ensure!(kept == 1, "{kept} of {before:?} are left");
            Ok(())
        })
        .await
}

/// The same manifest again, a replace that drops what Muster wrote, a scale: none is a rollout.
pub async fn an_update_that_changes_no_template_rolls_nothing(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 4).await?;
    let text = lws("", "replicas: 2", 2);
    let output = sandbox.kubectl(&["apply", "-f", "-"], &text).await?;
    ensure!(output.status.success());
    let before = sandbox.replicas_run(2, 2).await?;
    for command in ["apply", "replace"] {
        let timed = text.replace("ReplicatedGang", "ReplicatedGang, muster.dev/timeout: 5m");
        let output = sandbox.kubectl(&[command, "-f", "-"], &timed).await?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "{command}: {said}");
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    let after = sandbox.replicas_run(2, 2).await?;
    ensure!(before == after, "{before:?} became {after:?}");
    let refused = text.replace("ReplicatedGang", "'Off'");
    let output = sandbox.kubectl(&["apply", "-f", "-"], &refused).await?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        said.contains("change leaderWorkerTemplate in the same update"),
        "{said}"
    );
    Ok(())
}

pub async fn a_subgrouped_replica_is_one_gang(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 4).await?;
    let text = lws("", "replicas: 1", 5).replace(
        "    size: 5",
        "    size: 5\n    subGroupPolicy: {subGroupSize: 2}",
    );
    sandbox.apply(&text).await?;
    sandbox.none_bound(5).await?;
    sandbox.nodes(1, 1).await?;
    sandbox.replicas_run(1, 5).await?;
    Ok(())
}
