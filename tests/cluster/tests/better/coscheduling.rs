//! Coscheduling forgets a blocked gang for five minutes; Muster wakes it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams};

use super::super::samples::jobset;
use crate::sandbox::Sandbox;

const REPETITIONS: usize = 20;
/// Gangs that are tried side by side, each in a namespace of its own.
const LANES: usize = 5;
const PODS: usize = 4;
/// By then every member was rejected by the plugin itself, and nothing but Muster wakes them.
const ASLEEP: Duration = Duration::from_secs(4);
/// Muster's promise.
const SOON: Duration = Duration::from_secs(5);

const GANG: &str = "muster.dev/gang-mode: Gang, muster.dev/scheduler: coscheduling";

pub async fn a_blocked_gang_starts_when_a_node_comes(sandbox: Sandbox) -> Result<()> {
    let lanes = (0..LANES).map(async |lane| {
        let name = format!("{}-{lane}", sandbox.namespace);
        let lane = Sandbox::new(sandbox.cluster.clone(), &name).await?;
        lane.nodes(1, PODS as u32 - 1).await?;
        let mut slowest = Duration::ZERO;
        for number in 0..REPETITIONS / LANES {
            let took = wakes(&lane, &format!("train{number}")).await;
            slowest = slowest.max(took.with_context(|| format!("{name}, run {number}"))?);
        }
        lane.clear().await?;
        anyhow::Ok(slowest)
    });
    let slowest = futures::future::try_join_all(lanes).await?;
    let slowest = slowest.into_iter().max().unwrap_or_default();
    let nudges = r#"muster_gang_nudges_total{scheduler="coscheduling"}"#;
    sandbox.counted(nudges).await?;
    println!(
        "{REPETITIONS} of {REPETITIONS} blocked gangs on coscheduling were bound within {:.1} s of \
         the node",
        slowest.as_secs_f64()
    );
    Ok(())
}

/// Lets a gang fall asleep, adds the missing node, and takes everything away again.
async fn wakes(sandbox: &Sandbox, name: &str) -> Result<Duration> {
    sandbox.apply(&jobset(name, GANG, PODS as u32, "1")).await?;
    sandbox.none_bound(PODS).await?;
    tokio::time::sleep(ASLEEP).await;
    let start = Instant::now();
    let node = sandbox.nodes(1, 1).await?.remove(0);
    sandbox.all_bound(PODS).await?;
    let took = start.elapsed();
    ensure!(took < SOON, "bound only after {took:?}");
    let args = ["delete", "jobset", name, "--wait", "--cascade=foreground"];
    ensure!(sandbox.kubectl(&args, "").await?.status.success());
    let gone = sandbox.kubectl(&["delete", "node", &node], "").await?;
    ensure!(gone.status.success());
    Ok(took)
}

pub async fn a_blocked_gang_starts_when_room_is_freed(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, PODS as u32).await?;
    let guest = "
apiVersion: v1
kind: Pod
metadata: {name: guest}
spec:
  containers: [{name: main, image: guest, resources: {requests: {cpu: '1'}}}]
";
    sandbox.apply(guest).await?;
    sandbox.all_bound(1).await?;
    sandbox
        .apply(&jobset("train", GANG, PODS as u32, "1"))
        .await?;
    sandbox.none_of_the_gang(PODS).await?;
    tokio::time::sleep(ASLEEP).await;
    let pods: Api<Pod> = Api::namespaced(sandbox.client(), &sandbox.namespace);
    let now = DeleteParams::default().grace_period(0);
    let start = Instant::now();
    pods.delete("guest", &now).await?;
    sandbox.all_bound(PODS).await?;
    let took = start.elapsed();
    ensure!(took < SOON, "bound only after {took:?}");
    Ok(())
}

impl Sandbox {
    async fn none_of_the_gang(&self, pods: usize) -> Result<()> {
        self.wait_for("the gang's pods", async || {
            let all = self.pods().await?.len();
            ensure!(all == pods + 1, "there are {all} pods");
            Ok(())
        })
        .await?;
        let bound = self.bound().await?;
        ensure!(bound.len() == 1, "{bound:?}");
        Ok(())
    }
}
