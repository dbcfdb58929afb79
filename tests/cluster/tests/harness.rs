//! The harness itself: real components, working together.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::runner::{Test, second_chances, test};
use crate::sandbox::Sandbox;

const JOBSET: &str = "
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: train}
spec:
  replicatedJobs:
  - name: leader
    template:
      spec:
        template:
          spec: {containers: [{name: main, image: train}]}
  - name: workers
    replicas: 2
    template:
      spec:
        parallelism: 2
        completions: 2
        template:
          spec: {containers: [{name: main, image: train, resources: {requests: {cpu: '1'}}}]}
";

const SERVE: &str = "
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: serve}
spec:
  replicas: 2
  leaderWorkerTemplate:
    size: 3
    workerTemplate: {spec: {containers: [{name: main, image: serve}]}}
";

pub async fn jobset_is_defaulted_by_its_own_webhook(sandbox: Sandbox) -> Result<()> {
    let applied = sandbox.apply(JOBSET).await?;
    let spec = &applied[0].data["spec"];
    assert_eq!(spec["successPolicy"]["operator"], "All");
    assert_eq!(spec["network"]["enableDNSHostnames"], true);
    let job = &spec["replicatedJobs"][0]["template"]["spec"];
    assert_eq!(job["completionMode"], "Indexed");
    assert_eq!(job["template"]["spec"]["restartPolicy"], "OnFailure");
    Ok(())
}

pub async fn leaderworkerset_gets_its_pods(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 8).await?;
    sandbox.apply(SERVE).await?;
    let bound = sandbox.all_bound(6).await?;
    // Named by the leader's StatefulSet, then by one StatefulSet of workers per group.
    assert!(bound.contains_key("serve-1"), "{bound:?}");
    assert!(bound.contains_key("serve-1-2"), "{bound:?}");
    Ok(())
}

pub async fn jobset_runs_to_completion(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(2, 4).await?;
    sandbox.apply(JOBSET).await?;
    sandbox.all_bound(5).await?;
    sandbox
        .annotate_pods(json!({"fake/outcome": "succeed"}))
        .await?;
    let jobsets = sandbox.api("jobset.x-k8s.io/v1alpha2", "JobSet").await?;
    sandbox
        .wait_for("the JobSet to complete", async || {
            let jobset = jobsets.get("train").await?;
            let state = &jobset.data["status"]["terminalState"];
            ensure!(state == "Completed", "its terminal state is {state}");
            Ok(())
        })
        .await
}

pub async fn invalid_jobset_is_refused_by_kubectl_apply(sandbox: Sandbox) -> Result<()> {
    let invalid = JOBSET.replace("replicas: 2", "dependsOn: [{name: nobody, status: Ready}]");
    let output = sandbox
        .kubectl(&["apply", "--filename=-"], &invalid)
        .await?;
    let said = String::from_utf8(output.stderr)?;
    assert_eq!(output.status.code(), Some(1), "{said}");
    let reason = "replicatedJob: workers cannot depend on replicatedJob: nobody";
    assert!(said.contains(reason), "{said}");
    Ok(())
}

pub async fn pods_stay_on_the_nodes_of_their_test(sandbox: Sandbox) -> Result<()> {
    let own = sandbox.nodes(2, 4).await?;
    let name = format!("{}-other", sandbox.namespace);
    let other = Sandbox::new(sandbox.cluster.clone(), &name).await?;
    other.nodes(1, 64).await?;
    sandbox.apply(JOBSET).await?;
    for (pod, node) in sandbox.all_bound(5).await? {
        assert!(own.contains(&node), "{pod} is on {node}");
    }
    other.clear().await.context("the second sandbox")
}

pub async fn process_ends_when_asked(sandbox: Sandbox) -> Result<()> {
    let mut command = Command::new("sleep");
    command.arg("600");
    let process = sandbox.cluster.plane.spawn("sleep", command, Vec::new())?;
    ensure!(process.exited().is_none(), "it should run");
    let status = process.stop(Duration::from_secs(5)).await?;
    assert_eq!(status.signal(), Some(15));
    Ok(())
}

/// One that fails beside others may have failed for want of time. "None fails" has no such excuse.
pub async fn what_must_never_fail_is_not_tried_twice(_: Sandbox) -> Result<()> {
    let again = |failed: Vec<Test>| -> Vec<usize> {
        let failed = failed.into_iter().enumerate().collect();
        let again = second_chances(failed).into_iter();
        again.map(|(number, _)| number).collect()
    };
    let usual = || test(process_ends_when_asked);
    assert_eq!(again(vec![usual(), usual().strict(), usual()]), [0, 2]);
    // So many at once have failed for a reason.
    assert!(again(vec![usual(), usual(), usual(), usual()]).is_empty());
    Ok(())
}
