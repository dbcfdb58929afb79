//! What is watched of others, and for how long: as the apiserver counts watches.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hyper::Request;
use kube::Client;
use kube::api::DeleteParams;
use serde_json::json;

use super::super::samples::JOBSET;
use super::Scheduler;
use super::gang::Gang;
use crate::health::wait_for;
use crate::sandbox::Sandbox;

/// A minute after the last gang that waited, and what a busy machine needs.
const LINGER: Duration = Duration::from_secs(60);
const SOON: Duration = Duration::from_secs(30);

/// Before each look.
const PAUSE: Duration = Duration::from_millis(500);

/// How many watches of the whole cluster are open, by whomever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Watches {
    nodes: u64,
    pods: u64,
    events: u64,
}

impl Watches {
    async fn count(client: &Client) -> Result<Self> {
        // Megabytes, and as much work for the API server as a hundred other questions.
        tokio::time::sleep(PAUSE).await;
        let request = Request::get("/metrics").body(Vec::new())?;
        let page = client.request_text(request).await?;
        let of = |resource: &str| -> Result<u64> {
            let resource = format!("resource=\"{resource}\"");
            let mut lines = page.lines().filter(|line| {
                line.starts_with("apiserver_longrunning_requests{")
                    && line.contains("group=\"\"")
                    && line.contains("scope=\"cluster\"")
                    && line.contains("verb=\"WATCH\"")
                    && line.contains(&resource)
            });
            let count = lines.next().and_then(|line| line.rsplit(' ').next());
            Ok(count.unwrap_or("0").parse::<f64>()? as u64)
        };
        Ok(Self {
            nodes: of("nodes")?,
            pods: of("pods")?,
            events: of("events")?,
        })
    }
}

/// Nodes and the pods of others only while all pods of a gang exist and wait for one; what controllers are
/// refused while any gang waits; and nothing of it a minute later.
pub async fn others_are_watched_only_while_a_gang_waits_for_them(sandbox: Sandbox) -> Result<()> {
    // Of its own: gangs of other tests wait in the others.
    let cluster = sandbox.cluster.another_with("explain-watches", &[], &[]);
    let sandbox = Sandbox::new(cluster.await?, &sandbox.namespace).await?;
    let client = sandbox.client();
    let until = async |what: &str, within: Duration, holds: &dyn Fn(Watches) -> bool| {
        wait_for(what, within, async || {
            let now = Watches::count(&client).await?;
            ensure!(holds(now), "there are {now:?}");
            Ok(now)
        })
        .await
    };
    sandbox.nodes(1, 3).await?;
    let gang = Gang::on(Scheduler::Native);
    // One that does not wait, so that Muster watches all that it always does where JobSets are.
    gang.clone()
        .named("idle")
        .suspended()
        .apply(&sandbox)
        .await?;
    sandbox
        .condition_of((JOBSET, "idle"), "GangSuspended")
        .await?;
    let mut calm = (Watches::count(&client).await?, Instant::now());
    let none = wait_for("as many watches for three seconds", SOON, async || {
        let now = Watches::count(&client).await?;
        if now != calm.0 {
            calm = (now, Instant::now());
        }
        ensure!(
            calm.1.elapsed() > Duration::from_secs(3),
            "{now:?} just now"
        );
        Ok(now)
    })
    .await?;

    // One whose pods are made later, and refused perhaps.
    let prepare =
        json!({"template": {"metadata": {"annotations": {"muster.dev/gang-mode": "Off"}}}});
    let after = json!([{"name": "prepare", "status": "Complete"}]);
    let later = gang.clone().named("later").apart();
    let later = later.after("prepare", prepare, json!({}));
    later.group("dependsOn", after).apply(&sandbox).await?;
    sandbox
        .condition_of((JOBSET, "later"), "DependencyPending")
        .await?;
    let refusals = until("events", SOON, &|now| now.events > none.events).await?;
    let (nodes, pods) = (refusals.nodes, refusals.pods);
    ensure!(
        (nodes, pods) == (none.nodes, none.pods),
        "{refusals:?} while no pod waits, {none:?} before"
    );

    // One whose pods wait for a node.
    gang.apply(&sandbox).await?;
    sandbox.condition("InsufficientResources").await?;
    let all = Watches {
        nodes: none.nodes + 1,
        pods: none.pods + 1,
        ..refusals
    };
    until("nodes and the pods on them", SOON, &|now| now == all).await?;

    // None any more.
    let jobsets = sandbox.api(JOBSET.0, JOBSET.1).await?;
    jobsets.delete("later", &DeleteParams::default()).await?;
    sandbox.nodes(1, 1).await?;
    sandbox.condition("GangScheduled").await?;
    let placed = Instant::now();
    until("as before", LINGER + SOON, &|now| now == none).await?;
    let lingered = placed.elapsed();
    println!(
        "{none:?} without a gang that waits, {refusals:?} and {all:?} with one; closed after \
         {lingered:?}"
    );
    (lingered > LINGER / 2)
        .then_some(())
        .context("they were closed at once: another gang would open them again")
}
