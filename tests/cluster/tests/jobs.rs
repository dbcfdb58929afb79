//! Jobs by themselves: what they tell, how they are suspended, replaced, queued and made by CronJobs.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::lws::{is_bound, pod_group};
use super::samples::made;
use crate::sandbox::Sandbox;

const JOB: (&str, &str) = ("batch/v1", "Job");

/// A Job of one-CPU pods that is a gang.
fn job(pods: u32, annotations: &str, spec: &str) -> String {
    format!(
        "
apiVersion: batch/v1
kind: Job
metadata:
  name: train
  annotations: {{muster.dev/gang-mode: Gang{annotations}}}
spec:
  parallelism: {pods}
  completions: {pods}
  completionMode: Indexed
  {spec}
  template:
    spec:
      restartPolicy: Never
      containers: [{{name: main, image: train, resources: {{requests: {{cpu: '1'}}}}}}]
"
    )
}

async fn conditions(sandbox: &Sandbox) -> Result<Vec<String>> {
    let jobs = sandbox.api(JOB.0, JOB.1).await?;
    let status = jobs.get("train").await?.data["status"].clone();
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let held = conditions.iter().filter(|c| c["status"] == "True");
    let names = held.filter_map(|c| c["type"].as_str().map(str::to_owned));
    Ok(names.collect())
}

pub async fn a_job_says_how_its_gang_stands_and_leaves_nothing(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 2).await?;
    sandbox.apply(&job(3, "", "")).await?;
    let note = sandbox.told_of("Job", "GangWaiting").await?;
    ensure!(note.contains("0 of 3 pods placed, 3 needed"), "{note}");
    sandbox
        .condition_of((JOB, "train"), "InsufficientResources")
        .await?;
    sandbox.nodes(1, 1).await?;
    sandbox.all_bound(3).await?;
    sandbox
        .condition_of((JOB, "train"), "GangScheduled")
        .await?;
    sandbox.told_of("Job", "GangScheduled").await?;
    sandbox
        .annotate_pods(json!({"fake/outcome": "succeed"}))
        .await?;
    sandbox
        .wait_for("the Job to end", async || {
            let held = conditions(&sandbox).await?;
            // The list is the Job controller's, and Muster's condition is one among its own.
            ensure!(held.contains(&"Complete".to_owned()), "{held:?}");
            let made = made(&sandbox).await?.len();
            ensure!(made == 0, "{made} objects are left");
            Ok(())
        })
        .await
}

pub async fn a_job_that_waits_too_long_is_suspended(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 2).await?;
    let knobs = ", muster.dev/timeout: 3s, muster.dev/timeout-action: Suspend";
    sandbox.apply(&job(3, knobs, "")).await?;
    sandbox.told_of("Job", "GangTimedOut").await?;
    sandbox
        .wait_for("the Job to be suspended", async || {
            let held = conditions(&sandbox).await?;
            ensure!(held.contains(&"Suspended".to_owned()), "{held:?}");
            ensure!(sandbox.pods().await?.is_empty(), "it has pods");
            Ok(())
        })
        .await?;
    sandbox.condition_of((JOB, "train"), "GangTimedOut").await?;
    Ok(())
}

pub async fn a_pod_that_fails_is_replaced_by_itself(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 3).await?;
    sandbox.apply(&job(3, "", "backoffLimit: 5")).await?;
    sandbox.all_bound(3).await?;
    let victim = sandbox.pods().await?[0].name_any();
    sandbox.annotate(&victim, "fake/outcome=fail").await?;
    crate::health::wait_for(
        "its successor",
        std::time::Duration::from_secs(60),
        async || {
            let pods = sandbox.pods().await?;
            let failed =
                |pod: &Pod| pod.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Failed");
            let live: Vec<&Pod> = pods.iter().filter(|pod| !failed(pod)).collect();
            let bound = live.iter().filter(|pod| is_bound(pod)).count();
            ensure!(
                live.len() == 3 && bound == 3,
                "{bound} of {} run",
                live.len()
            );
            let gangs: std::collections::BTreeSet<_> = pods.iter().filter_map(pod_group).collect();
            ensure!(gangs.len() == 1, "{gangs:?}");
            Ok(())
        },
    )
    .await
}

/// As Kueue does it: suspended at first, then node selectors are added and it is resumed.
pub async fn a_job_that_is_admitted_later_starts_as_a_gang(sandbox: Sandbox) -> Result<()> {
    let nodes = sandbox.nodes(1, 2).await?;
    let queue = "metadata:\n  labels: {kueue.x-k8s.io/queue-name: team}";
    let text = job(3, "", "suspend: true").replacen("metadata:", queue, 1);
    sandbox.apply(&text).await?;
    sandbox
        .condition_of((JOB, "train"), "GangSuspended")
        .await?;
    let jobs = sandbox.api(JOB.0, JOB.1).await?;
    let selector = json!({"kubernetes.io/hostname": nodes[0]});
    let admit = json!({
        "spec": {"suspend": false, "template": {"spec": {"nodeSelector": selector}}},
    });
    jobs.patch("train", &PatchParams::default(), &Patch::Merge(admit))
        .await?;
    sandbox.none_bound(3).await?;
    let job = jobs.get("train").await?;
    let annotations = |object: &Value| object["annotations"]["muster.dev/round"].clone();
    let round = annotations(&job.data["spec"]["template"]["metadata"]);
    assert_eq!(round, "1", "a resume is a new gang");
    for pod in sandbox.pods().await? {
        ensure!(pod_group(&pod).is_some(), "{} has no link", pod.name_any());
    }
    Ok(())
}

pub async fn each_job_of_a_cronjob_is_a_gang(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 2).await?;
    let cronjob = |annotations: &str| {
        format!(
            "
apiVersion: batch/v1
kind: CronJob
metadata: {{name: nightly}}
spec:
  schedule: '0 3 1 1 *'
  jobTemplate:
    metadata: {{annotations: {{{annotations}}}}}
    spec:
      parallelism: 3
      completions: 3
      template:
        spec:
          restartPolicy: Never
          containers: [{{name: main, image: train, resources: {{requests: {{cpu: '1'}}}}}}]
"
        )
    };
    let impossible = cronjob("muster.dev/gang-mode: Gang, muster.dev/min-count: '4'");
    let said = sandbox.refused(&impossible).await?;
    let at = "spec.jobTemplate.metadata.annotations[muster.dev/min-count]";
    ensure!(said.contains(at), "{said}");
    sandbox
        .apply(&cronjob("muster.dev/gang-mode: Gang"))
        .await?;
    for job in ["first", "second"] {
        let args = ["create", "job", job, "--from=cronjob/nightly"];
        let made = sandbox.kubectl(&args, "").await?;
        let said = String::from_utf8_lossy(&made.stderr);
        ensure!(made.status.success(), "{said}");
    }
    sandbox.none_bound(6).await?;
    sandbox.nodes(1, 1).await?;
    sandbox
        .wait_for("one of the two Jobs to run", async || {
            let pods = sandbox.pods().await?;
            let bound: Vec<_> = pods.iter().filter(|pod| is_bound(pod)).collect();
            ensure!(bound.len() == 3, "{} pods are bound", bound.len());
            let gangs: std::collections::BTreeSet<_> =
                bound.iter().filter_map(|pod| pod_group(pod)).collect();
            ensure!(gangs.len() == 1, "of {gangs:?}");
            Ok(())
        })
        .await
}

/// On the scheduler that can hold gangs of several workloads together.
pub async fn jobs_of_one_bundle_start_together(sandbox: Sandbox) -> Result<()> {
    let side = |name: &str, other: &str| {
        let knobs = format!(
            ", muster.dev/scheduler: koordinator, muster.dev/bundle: ring, \
             muster.dev/bundle-with: {other}"
        );
        job(2, &knobs, "").replacen("name: train", &format!("name: {name}"), 1)
    };
    sandbox.nodes(1, 3).await?;
    sandbox.apply(&side("actor", "learner")).await?;
    // Alone it would fit, and waits for the other.
    let note = sandbox.told_of("Job", "GangWaiting").await?;
    ensure!(
        note.contains("waits for Job") && note.contains("learner"),
        "{note}"
    );
    sandbox.apply(&side("learner", "actor")).await?;
    sandbox
        .wait_for("the pods of both", async || {
            let pods = sandbox.pods().await?.len();
            ensure!(pods == 4, "there are {pods}");
            Ok(())
        })
        .await?;
    tokio::time::sleep(std::time::Duration::from_secs(4)).await;
    let bound = sandbox.bound().await?;
    ensure!(bound.is_empty(), "{bound:?} are bound, and not all fit");
    sandbox.nodes(1, 1).await?;
    sandbox.all_bound(4).await?;
    Ok(())
}

pub async fn a_mode_is_refused_on_kinds_that_have_none(sandbox: Sandbox) -> Result<()> {
    let text = |kind: &str, own: &str, pods: &str| {
        format!(
            "
apiVersion: apps/v1
kind: {kind}
metadata: {{name: serve, annotations: {{{own}}}}}
spec:
  selector: {{matchLabels: {{app: serve}}}}
  template:
    metadata: {{labels: {{app: serve}}, annotations: {{{pods}}}}}
    spec:
      containers: [{{name: main, image: serve}}]
"
        )
    };
    let gang = "muster.dev/gang-mode: Gang";
    let misplaced = "put it in spec.template.metadata.annotations";
    for (kind, own, pods, why) in [
        ("Deployment", gang, "", "it has no modes"),
        ("StatefulSet", "muster.dev/gang-name: ring", "", misplaced),
        ("ReplicaSet", "", gang, "pods have no modes"),
        ("DaemonSet", gang, "", "they cannot start together"),
        (
            "DaemonSet",
            "",
            "muster.dev/gang-name: ring",
            "they cannot start together",
        ),
    ] {
        let said = sandbox.refused(&text(kind, own, pods)).await?;
        ensure!(said.contains(why), "{kind}: {said}");
        // Without one it is none of Muster's business.
        sandbox.apply(&text(kind, "", "")).await?;
    }
    let misplaced = job(3, "", "").replace(
        "    spec:\n      restartPolicy",
        "    metadata: {annotations: {muster.dev/queue: gold}}\n    spec:\n      restartPolicy",
    );
    let said = sandbox.refused(&misplaced).await?;
    ensure!(said.contains("put it on the Job's own metadata"), "{said}");
    Ok(())
}

impl Sandbox {
    /// What `kubectl apply` says of an object that is refused.
    pub async fn refused(&self, text: &str) -> Result<String> {
        let applied = self.kubectl(&["apply", "--filename=-"], text).await?;
        let said = String::from_utf8_lossy(&applied.stderr).into_owned();
        ensure!(applied.status.code() == Some(1), "it was admitted: {said}");
        Ok(said)
    }
}
