//! Gangs of Kubernetes' own scheduler, written by hand: what Muster builds upon.

use anyhow::{Result, ensure};

use crate::sandbox::Sandbox;

const GROUP: &str = "
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: nine}
spec: {schedulingPolicy: {gang: {minCount: 9}}}
";

fn member(number: usize) -> String {
    format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: member-{number}}}
spec:
  schedulingGroup: {{podGroupName: nine}}
  containers: [{{name: main, image: train, resources: {{requests: {{cpu: '1'}}}}}}]
"
    )
}

pub async fn gang_binds_nothing_until_it_fits(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 8).await?;
    sandbox.apply(GROUP).await?;
    for number in 0..9 {
        sandbox.apply(&member(number)).await?;
    }
    sandbox.none_bound(9).await?;

    let groups = sandbox.api("scheduling.k8s.io/v1beta1", "PodGroup").await?;
    sandbox
        .wait_for("the PodGroup to say that it waits", async || {
            let group = groups.get("nine").await?;
            let condition = &group.data["status"]["conditions"][0];
            let waits =
                condition["type"] == "PodGroupInitiallyScheduled" && condition["status"] == "False";
            ensure!(waits, "its condition is {condition}");
            Ok(())
        })
        .await?;

    let added = sandbox.nodes(1, 1).await?;
    let bound = sandbox.all_bound(9).await?;
    ensure!(
        bound.values().filter(|node| added.contains(node)).count() == 1,
        "one pod should be on the new node: {bound:?}"
    );
    Ok(())
}
