//! Gangs of two JobSets in two namespaces on Koordinator, which knows gang groups but cannot name
//! a gang before it exists, and says nothing of one that is missing.
//!
//! Each namespace has nodes of its own, so that each side's room is chosen by itself.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use kube::ResourceExt as _;
use kube::api::{DynamicObject, ListParams};
use serde_json::json;

use super::super::samples::jobset;
use crate::sandbox::Sandbox;

const GANG: &str =
    "muster.dev/gang-mode: Gang, muster.dev/scheduler: koordinator, muster.dev/bundle: ring";
const API: &str = "scheduling.sigs.k8s.io/v1alpha1";
const PODS: usize = 4;

/// A second namespace.
async fn other(sandbox: &Sandbox) -> Result<Sandbox> {
    let name = format!("{}-twin", sandbox.namespace);
    Sandbox::new(sandbox.cluster.clone(), &name).await
}

/// A JobSet of four pods that names the one of the other namespace.
fn side(other: &Sandbox) -> String {
    let namespace = &other.namespace;
    let annotations = format!("{GANG}, muster.dev/bundle-with: {namespace}/train");
    jobset("train", &annotations, PODS as u32, "1")
}

/// The same, recreated by JobSet when one of its pods fails.
fn restarting(other: &Sandbox) -> String {
    side(other)
        .replace("backoffLimit: 6", "backoffLimit: 0")
        .replace("suspend: false", "failurePolicy: {maxRestarts: 1}")
}

async fn groups(sandbox: &Sandbox) -> Result<Vec<DynamicObject>> {
    let api = sandbox.api(API, "PodGroup").await?;
    Ok(api.list(&ListParams::default()).await?.items)
}

async fn uids(sandbox: &Sandbox) -> Result<BTreeSet<String>> {
    let pods = sandbox.pods().await?;
    Ok(pods.iter().filter_map(|pod| pod.uid()).collect())
}

async fn both_bound(a: &Sandbox, b: &Sandbox) -> Result<()> {
    a.all_bound(PODS).await?;
    b.all_bound(PODS).await?;
    Ok(())
}

/// Waits until each side's PodGroup lists so many gangs.
async fn lists(sandbox: &Sandbox, count: usize) -> Result<()> {
    sandbox
        .wait_for(&format!("a PodGroup that lists {count}"), async || {
            let groups = groups(sandbox).await?;
            let group = groups.first().context("no PodGroup yet")?;
            let text = &group.annotations()["gang.scheduling.koordinator.sh/groups"];
            let listed: Vec<String> = serde_json::from_str(text)?;
            ensure!(groups.len() == 1 && listed.len() == count, "{text}");
            Ok(())
        })
        .await
}

pub async fn gangs_of_two_namespaces_start_together(a: Sandbox) -> Result<()> {
    let b = other(&a).await?;
    a.nodes(1, 4).await?;
    b.nodes(1, 4).await?;
    a.apply(&side(&b)).await?;
    a.stays_unbound("0", PODS).await?;
    let note = a.told("GangWaiting").await?;
    let missing = format!(
        "waits for JobSet {}/train: it does not exist, or",
        b.namespace
    );
    ensure!(note.contains(&missing), "{note}");
    b.apply(&side(&a)).await?;
    both_bound(&a, &b).await?;
    a.told("GangScheduled").await?;
    b.told("GangScheduled").await?;
    b.clear().await
}

pub async fn gangs_of_two_namespaces_that_do_not_both_fit_wait(a: Sandbox) -> Result<()> {
    let b = other(&a).await?;
    a.nodes(1, 4).await?;
    b.nodes(1, 3).await?;
    a.apply(&side(&b)).await?;
    b.apply(&side(&a)).await?;
    lists(&a, 2).await?;
    lists(&b, 2).await?;
    a.stays_unbound("0", PODS).await?;
    b.stays_unbound("0", PODS).await?;
    b.nodes(1, 1).await?;
    both_bound(&a, &b).await?;
    b.clear().await
}

pub async fn a_partner_that_does_not_name_back_is_told(a: Sandbox) -> Result<()> {
    let b = other(&a).await?;
    a.nodes(1, 4).await?;
    b.nodes(1, 4).await?;
    a.apply(&side(&b)).await?;
    // Another gang of that name, which wants nothing of the first.
    let alone = GANG.replace(", muster.dev/bundle: ring", "");
    b.apply(&jobset("train", &alone, PODS as u32, "1")).await?;
    b.all_bound(PODS).await?;
    a.stays_unbound("0", PODS).await?;
    let note = a.told("GangWaiting").await?;
    let unnamed = format!("it does not exist, or does not name {}/train", a.namespace);
    ensure!(note.contains(&unnamed), "{note}");
    b.clear().await
}

/// Both wait for room when one is deleted and recreated: its gang has another name then, and the
/// other's PodGroup is changed while its pods wait.
pub async fn a_side_that_waits_follows_its_recreated_partner(a: Sandbox) -> Result<()> {
    let b = other(&a).await?;
    a.nodes(1, 4).await?;
    b.nodes(1, 3).await?;
    a.apply(&side(&b)).await?;
    b.apply(&side(&a)).await?;
    a.none_bound(PODS).await?;
    let before = groups(&a).await?;
    let delete = ["delete", "jobset", "train", "--wait"];
    ensure!(b.kubectl(&delete, "").await?.status.success());
    b.nodes(1, 1).await?;
    a.stays_unbound("0", PODS).await?;
    b.apply(&side(&a)).await?;
    both_bound(&a, &b).await?;
    let after = groups(&a).await?;
    ensure!(
        before[0].uid() == after[0].uid(),
        "the PodGroup was replaced"
    );
    b.clear().await
}

pub async fn a_side_that_restarts_does_not_harm_the_other(a: Sandbox) -> Result<()> {
    let b = other(&a).await?;
    a.nodes(1, 4).await?;
    b.nodes(1, 3).await?;
    let late = b.nodes(1, 1).await?.remove(0);
    a.apply(&side(&b)).await?;
    b.apply(&restarting(&a)).await?;
    both_bound(&a, &b).await?;
    lists(&a, 1).await?;
    lists(&b, 1).await?;
    let running = uids(&a).await?;
    // All or nothing again, though the other side runs.
    b.cordon(&late).await?;
    let victim = b.pods().await?[0].name_any();
    b.annotate(&victim, "fake/outcome=fail").await?;
    b.stays_unbound("1", PODS).await?;
    b.uncordon(&late).await?;
    b.all_bound(PODS).await?;
    ensure!(uids(&a).await? == running, "the other side's pods changed");
    ensure!(a.bound().await?.len() == PODS);
    replaces_a_member(&a).await?;
    b.clear().await
}

/// The one that restarts first waits by itself, until the other restarts too.
pub async fn sides_that_both_restart_start_together_again(a: Sandbox) -> Result<()> {
    let b = other(&a).await?;
    let mut late = Vec::new();
    for one in [&a, &b] {
        one.nodes(1, 3).await?;
        late.extend(one.nodes(1, 1).await?);
    }
    a.apply(&restarting(&b)).await?;
    b.apply(&restarting(&a)).await?;
    both_bound(&a, &b).await?;
    for (one, late) in [&a, &b].into_iter().zip(&late) {
        one.cordon(late).await?;
        let victim = one.pods().await?[0].name_any();
        one.annotate(&victim, "fake/outcome=fail").await?;
        one.stays_unbound("1", PODS).await?;
    }
    lists(&a, 2).await?;
    lists(&b, 2).await?;
    a.uncordon(&late[0]).await?;
    a.stays_unbound("1", PODS).await?;
    b.uncordon(&late[1]).await?;
    both_bound(&a, &b).await?;
    b.clear().await
}

pub async fn a_side_goes_on_when_its_partner_is_gone(a: Sandbox) -> Result<()> {
    let b = other(&a).await?;
    a.nodes(1, 4).await?;
    b.nodes(1, 4).await?;
    a.apply(&restarting(&b).replace("backoffLimit: 0", "backoffLimit: 6"))
        .await?;
    b.apply(&side(&a)).await?;
    both_bound(&a, &b).await?;
    b.annotate_pods(json!({"fake/outcome": "succeed"})).await?;
    b.wait_for("the PodGroup to go", async || {
        let left = groups(&b).await?.len();
        ensure!(left == 0, "{left} are left");
        Ok(())
    })
    .await?;
    replaces_a_member(&a).await?;
    // A new start is another matter: it waits for its partner.
    let suspend = async |to: bool| {
        let patch = json!({"spec": {"suspend": to}});
        a.patch_jobset(patch).await
    };
    suspend(true).await?;
    a.wait_for("the pods to go", async || {
        let left = a.pods().await?.iter().filter(|p| is_live(p)).count();
        ensure!(left == 0, "{left} are left");
        Ok(())
    })
    .await?;
    suspend(false).await?;
    let ended = format!("JobSet {}/train: it has ended", b.namespace);
    a.wait_for("the event", async || {
        let notes = notes(&a).await?;
        ensure!(notes.iter().any(|note| note.contains(&ended)), "{notes:?}");
        Ok(())
    })
    .await?;
    let live = a.pods().await?.into_iter().filter(is_live);
    ensure!(
        live.into_iter()
            .all(|pod| pod.spec.is_some_and(|s| s.node_name.is_none()))
    );
    b.clear().await
}

fn is_live(pod: &k8s_openapi::api::core::v1::Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|s| s.phase.as_deref());
    !matches!(phase, Some("Succeeded" | "Failed"))
}

async fn notes(sandbox: &Sandbox) -> Result<Vec<String>> {
    let events = super::super::samples::events(sandbox).await?;
    let notes = events.iter().map(|event| event.data["note"].to_string());
    Ok(notes.collect())
}

/// Fails one member, which its Job replaces: a gang that listed one that is gone would wait.
async fn replaces_a_member(sandbox: &Sandbox) -> Result<()> {
    let victim = sandbox.pods().await?[0].name_any();
    sandbox.annotate(&victim, "fake/outcome=fail").await?;
    // The failed one keeps its node.
    sandbox.all_bound(PODS + 1).await?;
    Ok(())
}
