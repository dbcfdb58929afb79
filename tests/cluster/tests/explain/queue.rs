//! Queues that hold four CPUs, as each scheduler has them.

use anyhow::{Result, bail, ensure};
use serde_json::json;

use super::Scheduler;
use super::gang::Gang;
use crate::sandbox::Sandbox;

/// The gang in a queue of its own that holds four CPUs.
pub async fn queue_of_four(sandbox: &Sandbox, scheduler: Scheduler, gang: Gang) -> Result<Gang> {
    let name = format!("{}-full", sandbox.namespace);
    match scheduler {
        Scheduler::Volcano => {
            let queue = json!({
                "apiVersion": "scheduling.volcano.sh/v1beta1",
                "kind": "Queue",
                "metadata": {"name": name},
                "spec": {"weight": 1, "capability": {"cpu": 4}},
            });
            sandbox.apply(&queue.to_string()).await?;
        }
        Scheduler::Kai => {
            let unlimited = json!({"quota": -1, "limit": -1, "overQuotaWeight": 1});
            let four = json!({"quota": 4000, "limit": 4000, "overQuotaWeight": 1});
            let resources = json!({"cpu": four, "gpu": unlimited, "memory": unlimited});
            let queue = json!({
                "apiVersion": "scheduling.run.ai/v2",
                "kind": "Queue",
                "metadata": {"name": name},
                "spec": {"parentQueue": "default-parent-queue", "resources": resources},
            });
            sandbox.apply(&queue.to_string()).await?;
        }
        // Its queues are no objects; that of a namespace is limited by the namespace.
        Scheduler::Yunikorn => {
            let limit = r#"yunikorn.apache.org/namespace.quota={"cpu": "4"}"#;
            let args = ["annotate", "namespace", &sandbox.namespace, limit];
            let done = sandbox.kubectl(&args, "").await?;
            ensure!(done.status.success(), "cannot annotate the namespace");
            return Ok(gang);
        }
        Scheduler::Native | Scheduler::Coscheduling | Scheduler::Koordinator => {
            bail!("{} has no queues", scheduler.name())
        }
    }
    Ok(gang.annotated(&format!("muster.dev/queue: {name}")))
}
