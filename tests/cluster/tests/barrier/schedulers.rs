//! A gang at a start barrier on each of the other schedulers: bound together, and started together. The
//! container that waits is the largest of its pods, so a scheduler must count it.

use anyhow::Result;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use super::super::words::{group, jobset};
use super::waiter::all_pass;
use crate::fleet::Home;
use crate::runner::{Test, named};
use crate::sandbox::Sandbox;

const SCHEDULERS: [&str; 5] = ["volcano", "coscheduling", "koordinator", "yunikorn", "kai"];

const PODS: usize = 3;

/// Less than the 50m and 32Mi of the container that waits.
const SMALL: &str = "requests: {cpu: 10m, memory: 8Mi}";

/// Of two pods, by the container that waits; of twelve, by the others.
const TOO_LITTLE: &str = "120m";

pub fn all() -> Vec<Test> {
    let test = |scheduler: &'static str| {
        let name = format!("barrier::schedulers::a_gang_waits_at_its_barrier_on_{scheduler}");
        named(name, Home::Schedulers, move |sandbox| {
            a_gang_waits_at_its_barrier(sandbox, scheduler)
        })
    };
    SCHEDULERS.map(test).into()
}

async fn a_gang_waits_at_its_barrier(sandbox: Sandbox, scheduler: &'static str) -> Result<()> {
    sandbox.small_node(TOO_LITTLE).await?;
    let annotations = format!(
        "muster.dev/gang-mode: Gang, muster.dev/scheduler: {scheduler}, \
         muster.dev/start-barrier: 60s"
    );
    let workers = group("workers", 1, PODS as u32, "").replace("requests: {cpu: '1'}", SMALL);
    sandbox.apply(&jobset(&annotations, "", &[workers])).await?;
    sandbox.stays_unbound("0", PODS).await?;
    sandbox.small_node("60m").await?;
    let mut waiters = sandbox.waiters(PODS).await?;
    all_pass(&sandbox, &mut waiters).await?;
    sandbox.started(PODS).await
}

impl Sandbox {
    /// A node with that much CPU.
    async fn small_node(&self, cpu: &str) -> Result<()> {
        let name = self.nodes(1, 1).await?.remove(0);
        let api: Api<Node> = Api::all(self.client());
        let room = json!({"cpu": cpu, "memory": "1Gi", "pods": "20"});
        let patch = Patch::Merge(json!({"status": {"capacity": room, "allocatable": room}}));
        let params = PatchParams::default();
        api.patch_status(&name, &params, &patch).await?;
        Ok(())
    }
}
