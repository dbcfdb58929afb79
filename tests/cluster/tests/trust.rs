//! Stamps that somebody made up, and keys that are lost.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams};
use muster::seals::SECRET;
use serde_json::json;

use super::lws::{LWS, is_bound, lws, pod_group};
use super::samples::{gang, made};
use crate::install::NAMESPACE;
use crate::muster::Muster;
use crate::ports::Port;
use crate::sandbox::Sandbox;

const ENOUGH: Duration = Duration::from_secs(10);

/// A pod dressed as a leader of the LeaderWorkerSet `serve`, with a stamp of its own. Its owner keeps
/// the StatefulSet from taking it over.
fn forged(owner: &str) -> String {
    let stamp = json!({
        "scheduler": "native", "level": "Replica", "size": 1, "quorum": 1,
        "revision": {"order": "Together", "queue": "gold", "roles": [
            {"name": "leader", "pods": 1, "priorityClass": "system-node-critical"},
        ]},
    });
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "serve-7",
            "ownerReferences": [{
                "apiVersion": LWS.0, "kind": LWS.1, "name": "serve", "uid": owner,
                "controller": true,
            }],
            "labels": {
                "muster.dev/gang": "replica",
                "leaderworkerset.sigs.k8s.io/name": "serve",
                "leaderworkerset.sigs.k8s.io/group-index": "7",
                "leaderworkerset.sigs.k8s.io/worker-index": "0",
                "leaderworkerset.sigs.k8s.io/template-revision-hash": "7f9c",
                "leaderworkerset.sigs.k8s.io/group-key": "f".repeat(40),
                "muster.dev/index": "7",
            },
            "annotations": {
                "leaderworkerset.sigs.k8s.io/size": "1",
                "muster.dev/stamp": stamp.to_string(),
            },
        },
        "spec": {
            "schedulingGates": [{"name": "example.com/never"}],
            "containers": [{"name": "main", "image": "train"}],
        },
    })
    .to_string()
}

async fn groups(sandbox: &Sandbox) -> Result<BTreeSet<String>> {
    let made = made(sandbox).await?;
    Ok(made.iter().map(kube::ResourceExt::name_any).collect())
}

/// Waits until so many pods run that the selector finds, each with a link, and none of those before.
async fn back(sandbox: &Sandbox, selector: &str, before: &BTreeSet<String>) -> Result<Vec<Pod>> {
    let api: Api<Pod> = Api::namespaced(sandbox.client(), &sandbox.namespace);
    let list = ListParams::default().labels(selector);
    crate::health::wait_for("the pods to be back", Duration::from_secs(90), async || {
        let pods = api.list(&list).await?.items;
        let new = |pod: &&Pod| is_bound(pod) && !before.contains(&uid(pod));
        let bound = pods.iter().filter(new).count();
        ensure!(bound == before.len(), "{bound} of {}", before.len());
        for pod in &pods {
            ensure!(pod_group(pod).is_some(), "{} has no link", pod.name_any());
        }
        Ok(pods)
    })
    .await
}

fn uid(pod: &Pod) -> String {
    pod.uid().unwrap_or_default()
}

pub async fn a_forged_stamp_makes_nothing_and_a_lost_key_strands_nothing(
    sandbox: Sandbox,
) -> Result<()> {
    let cluster = sandbox.cluster.another("trust").await?;
    let port = Port::reserve()?;
    let number = port.number;
    let muster = Muster::install(&cluster, number).await?;
    let process = muster.start_at(&cluster.plane, "muster-0", port).await?;
    let sandbox = Sandbox::new(cluster.clone(), "trust").await?;
    sandbox.nodes(2, 8).await?;
    let applied = sandbox.apply(&lws("", "replicas: 1", 3)).await?;
    let forged = forged(&applied[0].uid().context("no uid")?);
    sandbox.apply(&gang("train", 2, "1")).await?;
    sandbox.all_bound(5).await?;
    let ours = groups(&sandbox).await?;

    // Asked again while the LeaderWorkerSet is asked, and then refused.
    let applied = sandbox.kubectl(&["apply", "--filename=-"], &forged).await?;
    let said = String::from_utf8_lossy(&applied.stderr);
    assert_eq!(applied.status.code(), Some(1), "{said}");
    ensure!(said.contains("only Muster writes stamps"), "{said}");

    // It gets in while nobody looks, and the key is lost.
    ensure!(process.stop(ENOUGH).await?.success(), "it did not end well");
    let client = cluster.plane.client.clone();
    let plainly = DeleteParams::default();
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let ours_only = ListParams::default().labels("app.kubernetes.io/name=muster");
    mutating.delete_collection(&plainly, &ours_only).await?;
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    validating.delete_collection(&plainly, &ours_only).await?;
    sandbox
        .wait_for("the apiserver to forget the webhooks", async || {
            sandbox.apply(&forged).await.map(|_| ())
        })
        .await?;
    let secrets: Api<Secret> = Api::namespaced(client, NAMESPACE);
    let lost = secrets.get(SECRET).await?;
    secrets.delete(SECRET, &plainly).await?;

    let muster = Muster::install(&cluster, number).await?;
    let _process = muster
        .start_at(&cluster.plane, "muster-0", Port::again(number)?)
        .await?;
    let new = secrets.get(SECRET).await?;
    ensure!(new.data != lost.data, "the key is the lost one");

    // The replica and the gang lose pods: their successors carry stamps of the lost key.
    let mut found = Vec::new();
    for selector in [
        "leaderworkerset.sigs.k8s.io/group-index=0",
        "jobset.sigs.k8s.io/jobset-name=train",
    ] {
        let api: Api<Pod> = Api::namespaced(sandbox.client(), &sandbox.namespace);
        let list = ListParams::default().labels(selector);
        let before: BTreeSet<String> = api.list(&list).await?.items.iter().map(uid).collect();
        let start = Instant::now();
        let now = DeleteParams::default().grace_period(0);
        api.delete_collection(&now, &list).await?;
        let pods = back(&sandbox, selector, &before).await?;
        let seconds = start.elapsed().as_secs_f64();
        println!(
            "after the loss of the key: {} pods of {selector} back in {seconds:.1} s",
            pods.len()
        );
        found.extend(pods.iter().filter_map(pod_group));
    }
    // Whatever it claims to be, nothing was made for the forged pod.
    let pods: Api<Pod> = Api::namespaced(sandbox.client(), &sandbox.namespace);
    let forged = pods.get("serve-7").await.context("the forged pod")?;
    ensure!(pod_group(&forged).is_none(), "it was linked");
    let made = made(&sandbox).await?;
    for object in &made {
        let text = serde_json::to_string(object)?;
        ensure!(!text.contains("system-node-critical"), "{text}");
    }
    let left: BTreeSet<String> = groups(&sandbox).await?;
    let linked: BTreeSet<String> = found.into_iter().collect();
    ensure!(linked.is_subset(&left), "{linked:?} of {left:?}");
    ensure!(left.len() == ours.len(), "{left:?}, before {ours:?}");
    Ok(())
}

/// A stamp that Muster sealed for a LeaderWorkerSet that nobody stored: of a dry run, with a generated
/// name whose beginning is that of another set.
async fn asked_for(sandbox: &Sandbox) -> Result<String> {
    let set = lws("", "replicas: 1", 1)
        .replace("name: serve\n", "generateName: my-\n")
        .replace(
            "      spec:\n",
            "      spec:\n        priorityClassName: high\n",
        );
    let args = [
        "create",
        "--dry-run=server",
        "--output=json",
        "--filename=-",
    ];
    let made = sandbox.kubectl(&args, &set).await?;
    let said = String::from_utf8_lossy(&made.stderr);
    ensure!(made.status.success(), "{said}");
    let set: serde_json::Value = serde_json::from_slice(&made.stdout)?;
    let template = &set["spec"]["leaderWorkerTemplate"]["leaderTemplate"];
    let stamp = template["metadata"]["annotations"]["muster.dev/stamp"].as_str();
    let stamp = stamp.context("no stamp")?.to_owned();
    ensure!(stamp.contains("high") && stamp.contains("seal"), "{stamp}");
    Ok(stamp)
}

pub async fn a_sealed_stamp_that_was_never_stored_makes_nothing(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 8).await?;
    sandbox
        .cluster
        .objects
        .apply(
            &json!({
                "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
                "metadata": {"name": "high"}, "value": 1_000_000,
            }),
            "",
        )
        .await?;
    let set = lws("", "replicas: 1", 2).replace("name: serve\n", "name: my-serve\n");
    let applied = sandbox.apply(&set).await?;
    sandbox.all_bound(2).await?;
    let ours = groups(&sandbox).await?;
    let stamp = asked_for(&sandbox).await?;
    let owner = applied[0].uid().context("no uid")?;
    let mut pod: serde_json::Value = serde_json::from_str(&forged(&owner))?;
    pod["metadata"]["annotations"]["muster.dev/stamp"] = json!(stamp);
    pod["metadata"]["labels"]["leaderworkerset.sigs.k8s.io/name"] = json!("my-serve");
    pod["metadata"]["ownerReferences"][0]["name"] = json!("my-serve");
    let labels = pod["metadata"]["labels"]
        .as_object_mut()
        .context("labels")?;
    labels.remove("muster.dev/index");
    let applied = sandbox
        .kubectl(&["apply", "--filename=-"], &pod.to_string())
        .await?;
    ensure!(applied.status.success(), "its seal is good");
    // The reconciler looks at the set again.
    sandbox
        .annotate_pods(json!({"example.com/look": "again"}))
        .await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(groups(&sandbox).await?, ours);
    for object in made(&sandbox).await? {
        ensure!(!serde_json::to_string(&object)?.contains("high"));
    }
    Ok(())
}
