//! What a gang lives through: restarts, suspension, growth, replacements.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use super::words::{WHOLE, group, jobset, with_mode};
use crate::sandbox::Sandbox;

async fn restarts_as_a_new_gang(sandbox: &Sandbox, policy: &str) -> Result<()> {
    sandbox.nodes(1, 4).await?;
    let spec = format!("failurePolicy: {policy}");
    sandbox
        .apply(&jobset(WHOLE, &spec, &[group("workers", 2, 2, "")]))
        .await?;
    let first = sandbox.gangs(1).await?;
    sandbox.all_bound(4).await?;
    sandbox
        .annotate_pods(json!({"fake/fail-attempts": "0", "fake/outcome": "hold"}))
        .await?;
    runs_as_another_gang(sandbox, &first).await
}

/// Waits until four pods run in one gang that is not one of those, and the old ones are gone.
pub async fn runs_as_another_gang(sandbox: &Sandbox, before: &[String]) -> Result<()> {
    sandbox
        .wait_for("a gang of another name, with its pods", async || {
            let names = sandbox.names("PodGroup").await?;
            ensure!(
                names.len() == 1 && names != before,
                "the gangs are {names:?}"
            );
            let bound = sandbox.bound().await?;
            ensure!(bound.len() == 4, "{} pods are bound", bound.len());
            Ok(())
        })
        .await
}

pub async fn a_restart_is_a_new_gang_and_the_old_one_goes(sandbox: Sandbox) -> Result<()> {
    restarts_as_a_new_gang(&sandbox, "{maxRestarts: 1}").await
}

pub async fn a_restart_that_waits_for_the_old_pods_is_a_new_gang_too(
    sandbox: Sandbox,
) -> Result<()> {
    let policy = "{maxRestarts: 1, restartStrategy: BlockingRecreate}";
    restarts_as_a_new_gang(&sandbox, policy).await
}

pub async fn a_job_that_restarts_alone_leaves_the_other_gangs_in_place(
    sandbox: Sandbox,
) -> Result<()> {
    sandbox.nodes(1, 4).await?;
    let spec = "failurePolicy: {maxRestarts: 1, rules: [{name: alone, action: RestartJob}]}";
    let groups = [with_mode("ReplicatedGang", &group("workers", 2, 2, ""))];
    sandbox.apply(&jobset("", spec, &groups)).await?;
    let before = sandbox.gangs(2).await?;
    sandbox.all_bound(4).await?;
    for pod in sandbox.pods().await? {
        let name = pod.name_any();
        if name.starts_with("train-workers-1-") {
            sandbox.annotate(&name, "fake/outcome=fail").await?;
        }
    }
    let after = sandbox
        .wait_for("one new gang, with its pods", async || {
            let names = sandbox.names("PodGroup").await?;
            let new = names.iter().filter(|name| !before.contains(name)).count();
            ensure!(names.len() == 2 && new == 1, "the gangs are {names:?}");
            let running = running(&sandbox.pods().await?);
            ensure!(running == 4, "{running} pods run");
            Ok(names)
        })
        .await?;
    let kept = before.iter().find(|name| after.contains(name));
    ensure!(
        kept.is_some_and(|name| name.starts_with("train-workers-0-")),
        "{before:?} became {after:?}"
    );
    Ok(())
}

fn running(pods: &[Pod]) -> usize {
    let phase = |pod: &Pod| pod.status.as_ref()?.phase.clone();
    let running = pods
        .iter()
        .filter(|p| phase(p).as_deref() == Some("Running"));
    running.count()
}

pub async fn a_suspended_gang_is_removed_and_comes_back_when_resumed(
    sandbox: Sandbox,
) -> Result<()> {
    sandbox.nodes(1, 4).await?;
    sandbox
        .apply(&jobset(WHOLE, "", &[group("workers", 2, 2, "")]))
        .await?;
    sandbox.all_bound(4).await?;
    sandbox
        .patch_jobset(json!({"spec": {"suspend": true}}))
        .await?;
    sandbox.gangs(0).await?;
    // JobSet writes a condition of its own beside it.
    sandbox.condition("GangSuspended").await?;
    sandbox
        .patch_jobset(json!({"spec": {"suspend": false}}))
        .await?;
    sandbox.gangs(1).await?;
    sandbox.all_bound(4).await?;
    sandbox.condition("GangScheduled").await?;
    Ok(())
}

/// Holds back what is deleted, as a long grace period would.
const SLOW: &str = "example.com/slow";

/// Changes the finalizers of each pod. The Job controller writes them too, so a conflict is tried
/// again.
pub async fn change_finalizers(sandbox: &Sandbox, change: fn(&mut Vec<String>)) -> Result<()> {
    let api: Api<Pod> = Api::namespaced(sandbox.client(), &sandbox.namespace);
    let all = async || {
        for pod in sandbox.pods().await? {
            let mut finalizers = pod.finalizers().to_vec();
            change(&mut finalizers);
            if finalizers != pod.finalizers() {
                let version = pod.resource_version();
                let patch =
                    json!({"metadata": {"finalizers": finalizers, "resourceVersion": version}});
                let params = PatchParams::default();
                api.patch(&pod.name_any(), &params, &Patch::Merge(patch))
                    .await?;
            }
        }
        Ok(())
    };
    sandbox.wait_for("the pods' finalizers", all).await
}

pub fn hold(finalizers: &mut Vec<String>) {
    release(finalizers);
    finalizers.push(SLOW.to_owned());
}

pub fn release(finalizers: &mut Vec<String>) {
    finalizers.retain(|finalizer| finalizer != SLOW);
}

/// The node is full of dying pods, so that none of the new ones can be placed.
pub async fn a_gang_that_is_resumed_while_its_old_pods_die_is_not_said_to_be_placed(
    sandbox: Sandbox,
) -> Result<()> {
    sandbox.nodes(1, 4).await?;
    sandbox
        .apply(&jobset(WHOLE, "", &[group("workers", 2, 2, "")]))
        .await?;
    sandbox.all_bound(4).await?;
    sandbox.condition("GangScheduled").await?;
    change_finalizers(&sandbox, hold).await?;
    for suspend in [true, false] {
        sandbox
            .patch_jobset(json!({"spec": {"suspend": suspend}}))
            .await?;
        match suspend {
            true => drop(sandbox.condition("GangSuspended").await?),
            false => sandbox.waits().await?,
        }
        // JobSet suspends its Jobs one after another: a Job that never was keeps its pods.
        sandbox
            .wait_for("the old pods to be going", async || {
                let pods = sandbox.pods().await?;
                let stays = |pod: &&Pod| pod.metadata.deletion_timestamp.is_none();
                let left = pods.iter().filter(stays).count();
                ensure!(!suspend || left == 0, "{left} are not");
                Ok(())
            })
            .await?;
    }
    sandbox
        .wait_for("the pods of both rounds", async || {
            let pods = sandbox.pods().await?.len();
            // The Job controller does not replace all of them while they are being deleted.
            ensure!(pods > 4, "{pods} pods exist");
            Ok(())
        })
        .await?;
    sandbox.waits().await?;
    change_finalizers(&sandbox, release).await?;
    sandbox.all_bound(4).await?;
    sandbox.condition("GangScheduled").await?;
    Ok(())
}

pub async fn a_jobset_recreated_under_its_name_gets_a_gang_of_its_own(
    sandbox: Sandbox,
) -> Result<()> {
    sandbox.nodes(1, 4).await?;
    let text = jobset(WHOLE, "", &[group("workers", 2, 2, "")]);
    sandbox.apply(&text).await?;
    let first = sandbox.gangs(1).await?;
    sandbox.all_bound(4).await?;
    let deleted = sandbox
        .kubectl(&["delete", "jobset", "train", "--wait"], "")
        .await?;
    ensure!(deleted.status.success());
    sandbox.apply(&text).await?;
    runs_as_another_gang(&sandbox, &first).await
}

pub async fn a_replacement_is_placed_after_members_have_finished(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 3).await?;
    let text = jobset(WHOLE, "", &[group("workers", 1, 3, "")]);
    sandbox
        .apply(&text.replace("backoffLimit: 0", "backoffLimit: 6"))
        .await?;
    sandbox.all_bound(3).await?;
    let pods = sandbox.pods().await?;
    sandbox
        .annotate(&pods[0].name_any(), "fake/outcome=succeed")
        .await?;
    sandbox.quorum(2).await?;
    sandbox
        .annotate(&pods[1].name_any(), "fake/outcome=fail")
        .await?;
    sandbox
        .wait_for("the failed member's replacement to be placed", async || {
            let pods = sandbox.pods().await?;
            let running = running(&pods);
            let all = pods.len();
            ensure!(running == 2 && all >= 4, "{running} of {all} run");
            Ok(())
        })
        .await
}

pub async fn a_gang_that_grows_asks_for_its_new_size(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 4).await?;
    let text = |pods| jobset(WHOLE, "", &[group("workers", 1, pods, "")]);
    sandbox.apply(&text(2)).await?;
    let before = sandbox.gangs(1).await?;
    sandbox.all_bound(2).await?;
    for pods in [4, 3] {
        sandbox.apply(&text(pods)).await?;
        sandbox.quorum(pods).await?;
        sandbox.all_bound(pods as usize).await?;
    }
    assert_eq!(sandbox.gangs(1).await?, before, "the gang stays the same");
    Ok(())
}
