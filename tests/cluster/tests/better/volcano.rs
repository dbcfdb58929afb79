//! Volcano says nothing of a queue that cannot serve, holds room for gangs that are over, and
//! leaves in place what was true once.

use anyhow::{Context, Result, ensure};
use kube::ResourceExt as _;
use kube::api::{DynamicObject, ListParams};
use serde_json::json;

use super::super::samples::jobset;
use crate::sandbox::Sandbox;
use crate::schedulers::{Kind, volcano};

const GANG: &str = "muster.dev/gang-mode: Gang, muster.dev/scheduler: volcano";
const API: &str = "scheduling.volcano.sh/v1beta1";

fn in_queue(queue: &str) -> String {
    let annotations = format!("{GANG}, muster.dev/queue: {queue}");
    jobset("train", &annotations, 2, "1")
}

pub async fn a_queue_that_does_not_exist_is_told(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 2).await?;
    sandbox.apply(&in_queue("nosuch")).await?;
    let said = sandbox.told("GangWaiting").await?;
    ensure!(said.contains("queue \"nosuch\" does not exist"), "{said}");
    ensure!(sandbox.bound().await?.is_empty());
    Ok(())
}

/// Closed as `vcctl queue operate --action close` does it.
pub async fn a_closed_queue_is_told(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 2).await?;
    let name = sandbox.namespace.clone();
    let queue = json!({"apiVersion": API, "kind": "Queue", "metadata": {"name": name},
        "spec": {"weight": 1}});
    let queue = sandbox.apply(&queue.to_string()).await?.remove(0);
    is_in_state(&sandbox, "Open").await?;
    let target = json!({"apiVersion": API, "kind": "Queue", "name": name, "controller": true,
        "uid": queue.uid().context("no uid")?});
    let close = json!({"apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command",
        "metadata": {"name": "close"}, "action": "CloseQueue", "target": target});
    sandbox.apply(&close.to_string()).await?;
    is_in_state(&sandbox, "Closed").await?;
    sandbox.apply(&in_queue(&name)).await?;
    let said = sandbox.told("GangWaiting").await?;
    ensure!(
        said.contains(&format!("queue {name:?} is closed")),
        "{said}"
    );
    let queues = sandbox.api(API, "Queue").await?;
    queues.delete(&name, &Default::default()).await?;
    Ok(())
}

async fn is_in_state(sandbox: &Sandbox, state: &str) -> Result<()> {
    let queues = sandbox.api(API, "Queue").await?;
    sandbox
        .wait_for(&format!("the queue to be {state}"), async || {
            let found = queues.get(&sandbox.namespace).await?.data["status"]["state"].clone();
            ensure!(found == state, "it is {found}");
            Ok(())
        })
        .await
}

/// A cluster of its own: the room that Volcano holds back is counted over all nodes.
pub async fn a_gang_that_is_over_holds_no_room(sandbox: Sandbox) -> Result<()> {
    let cluster = sandbox
        .cluster
        .another_with("volcano", &[Kind::Volcano], &[]);
    let sandbox = Sandbox::new(cluster.await?, "volcano").await?;
    sandbox.nodes(1, 4).await?;
    // Finished; its pods go as the controller-manager's pod garbage collection takes them.
    sandbox.apply(&jobset("first", GANG, 4, "1")).await?;
    sandbox.all_bound(4).await?;
    sandbox
        .annotate_pods(json!({"fake/outcome": "succeed"}))
        .await?;
    let jobsets = sandbox.api("jobset.x-k8s.io/v1alpha2", "JobSet").await?;
    sandbox
        .wait_for("the first to finish", async || {
            let state = jobsets.get("first").await?.data["status"]["terminalState"].clone();
            ensure!(state == "Completed", "it is {state}");
            Ok(())
        })
        .await?;
    let gone = ["delete", "pods", "--all", "--force", "--grace-period=0"];
    ensure!(sandbox.kubectl(&gone, "").await?.status.success());
    // Suspended: its pods go, and it may come back.
    sandbox.apply(&jobset("second", GANG, 4, "1")).await?;
    sandbox.all_bound(4).await?;
    let suspend = r#"--patch={"spec":{"suspend":true}}"#;
    let suspend = ["patch", "jobset", "second", "--type=merge", suspend];
    ensure!(sandbox.kubectl(&suspend, "").await?.status.success());
    sandbox
        .wait_for("the second's pods to go", async || {
            let pods = sandbox.pods().await?.len();
            ensure!(pods == 0, "there are {pods}");
            Ok(())
        })
        .await?;
    sandbox.apply(&jobset("third", GANG, 4, "1")).await?;
    sandbox.all_bound(4).await?;
    Ok(())
}

/// Volcano keeps `Unschedulable=True` beside `Scheduled=True`.
pub async fn a_gang_that_waited_once_is_scheduled(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 3).await?;
    sandbox.apply(&jobset("train", GANG, 4, "1")).await?;
    let said = sandbox.told("GangWaiting").await?;
    ensure!(said.contains("3 of 4 pods fit"), "{said}");
    sandbox.condition("InsufficientResources").await?;
    sandbox.nodes(1, 1).await?;
    sandbox.all_bound(4).await?;
    sandbox.condition("GangScheduled").await?;
    sandbox.told("GangScheduled").await?;
    // Without this the test would prove nothing.
    let groups = sandbox.api(API, "PodGroup").await?;
    let group: Vec<DynamicObject> = groups.list(&ListParams::default()).await?.items;
    let conditions = group[0].data["status"]["conditions"].to_string();
    ensure!(
        conditions.contains(r#""type":"Unschedulable""#),
        "Volcano has taken it back: {conditions}"
    );
    Ok(())
}

/// With Volcano's own webhook the PodGroup is refused, and only Muster sees the answer.
pub async fn a_podgroup_that_volcano_refuses_is_told(sandbox: Sandbox) -> Result<()> {
    let cluster = sandbox
        .cluster
        .another_with("volcano-webhook", &[Kind::Volcano], &[]);
    let cluster = cluster.await?;
    let webhook = volcano::start_webhook(&cluster.plane, &cluster.objects).await?;
    let sandbox = Sandbox::new(cluster, "volcano-webhook").await?;
    sandbox.nodes(1, 4).await?;
    let lost = format!("{GANG}, muster.dev/queue: nosuch");
    sandbox.apply(&jobset("lost", &lost, 4, "1")).await?;
    let note = sandbox.told("GangRefused").await?;
    ensure!(note.contains("unable to find queue"), "{note}");
    ensure!(sandbox.bound().await?.is_empty());
    sandbox.apply(&jobset("train", GANG, 4, "1")).await?;
    sandbox.all_bound(4).await?;
    ensure!(webhook.exited().is_none(), "the webhook has ended");
    Ok(())
}
