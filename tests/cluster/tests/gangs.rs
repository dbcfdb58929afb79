//! Native gangs through Muster, on the real scheduler: what exists, what is linked, what is bound.

use anyhow::{Context, Result, ensure};
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use serde_json::json;

use crate::sandbox::Sandbox;

/// A ReplicatedJob of one-CPU pods.
fn group(name: &str, replicas: u32, pods: u32, rest: &str) -> String {
    format!(
        "
  - name: {name}
    replicas: {replicas}
{rest}
    template:
      spec:
        parallelism: {pods}
        completions: {pods}
        backoffLimit: 0
        template:
          spec:
            restartPolicy: Never
            containers: [{{name: main, image: train, resources: {{requests: {{cpu: '1'}}}}}}]"
    )
}

fn jobset(annotations: &str, spec: &str, groups: &[String]) -> String {
    format!(
        "
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: train
  annotations: {{{annotations}}}
spec:
  {spec}
  replicatedJobs: {}
",
        groups.concat()
    )
}

const WHOLE: &str = "muster.dev/gang-mode: Gang";

impl Sandbox {
    async fn made(&self, kind: &str) -> Result<Vec<DynamicObject>> {
        let api = self.api("scheduling.k8s.io/v1beta1", kind).await?;
        Ok(api.list(&ListParams::default()).await?.items)
    }

    async fn names(&self, kind: &str) -> Result<Vec<String>> {
        let made = self.made(kind).await?;
        Ok(made.into_iter().filter_map(|o| o.metadata.name).collect())
    }

    /// Waits until so many PodGroups exist, and returns their names.
    async fn gangs(&self, count: usize) -> Result<Vec<String>> {
        self.wait_for(&format!("{count} PodGroups"), async || {
            let names = self.names("PodGroup").await?;
            ensure!(names.len() == count, "there are {names:?}");
            Ok(names)
        })
        .await
    }

    async fn patch_jobset(&self, patch: serde_json::Value) -> Result<()> {
        let api = self.api("jobset.x-k8s.io/v1alpha2", "JobSet").await?;
        let patch = Patch::Merge(patch);
        api.patch("train", &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Waits for an event of Muster's on the JobSet, and returns what it says.
    async fn told(&self, reason: &str) -> Result<String> {
        let events = self.api("events.k8s.io/v1", "Event").await?;
        self.wait_for(&format!("the event {reason}"), async || {
            let all = events.list(&ListParams::default()).await?;
            let found = all.iter().find(|event| {
                event.data["reason"] == reason && event.data["regarding"]["kind"] == "JobSet"
            });
            let note = found.context("not yet")?.data["note"].as_str();
            Ok(note.unwrap_or_default().to_owned())
        })
        .await
    }
}

pub async fn a_whole_jobset_binds_nothing_until_it_fits(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 8).await?;
    let groups = [group("driver", 1, 1, ""), group("workers", 2, 4, "")];
    sandbox.apply(&jobset(WHOLE, "", &groups)).await?;
    let gangs = sandbox.gangs(1).await?;
    sandbox.none_bound(9).await?;
    for pod in sandbox.pods().await? {
        let spec = serde_json::to_value(pod.spec)?;
        assert_eq!(spec["schedulingGroup"]["podGroupName"], gangs[0]);
    }
    let group = &sandbox.made("PodGroup").await?[0];
    assert_eq!(
        group.data["spec"]["schedulingPolicy"]["gang"]["minCount"],
        9
    );
    let workloads = sandbox.names("Workload").await?;
    assert_eq!(
        group.data["spec"]["workloadRef"]["workloadName"],
        workloads[0]
    );
    sandbox.nodes(1, 1).await?;
    sandbox.all_bound(9).await?;
    let note = sandbox.told("GangScheduled").await?;
    ensure!(note.contains(&gangs[0]), "{note}");
    Ok(())
}

pub async fn each_replicated_job_starts_by_itself(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 4).await?;
    let mode = "    template:\n      metadata: {annotations: {muster.dev/gang-mode: Gang}}";
    // The annotation goes into the template that the group already has.
    let annotated = |name: &str, replicas, pods| {
        group(name, replicas, pods, "").replace(
            "    template:\n      spec:",
            &format!("{mode}\n      spec:"),
        )
    };
    let groups = [annotated("small", 1, 3), annotated("large", 2, 4)];
    sandbox.apply(&jobset("", "", &groups)).await?;
    sandbox.gangs(2).await?;
    let bound = sandbox.all_bound(3).await?;
    ensure!(
        bound.keys().all(|pod| pod.starts_with("train-small-")),
        "{bound:?}"
    );
    sandbox.nodes(1, 8).await?;
    sandbox.all_bound(11).await?;
    Ok(())
}

pub async fn each_job_replica_starts_by_itself(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 5).await?;
    let mode =
        "    template:\n      metadata: {annotations: {muster.dev/gang-mode: ReplicatedGang}}";
    let groups = [group("workers", 3, 2, "").replace(
        "    template:\n      spec:",
        &format!("{mode}\n      spec:"),
    )];
    sandbox.apply(&jobset("", "", &groups)).await?;
    sandbox.gangs(3).await?;
    // Two of the three fit; of the third, nothing is bound although one CPU is free.
    sandbox.all_bound(4).await?;
    sandbox.nodes(1, 1).await?;
    sandbox.all_bound(6).await?;
    Ok(())
}

pub async fn gangs_that_depend_on_each_other_start_in_order(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 8).await?;
    let mode = "    template:\n      metadata: {annotations: {muster.dev/gang-mode: Gang}}";
    let annotated = |name: &str, pods, rest: &str| {
        group(name, 1, pods, rest).replace(
            "    template:\n      spec:",
            &format!("{mode}\n      spec:"),
        )
    };
    let groups = [
        annotated("driver", 2, ""),
        annotated(
            "workers",
            4,
            "    dependsOn: [{name: driver, status: Ready}]",
        ),
    ];
    sandbox.apply(&jobset("", "", &groups)).await?;
    sandbox.gangs(2).await?;
    sandbox.all_bound(6).await?;
    Ok(())
}

pub async fn a_restart_is_a_new_gang_and_the_old_one_goes(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 4).await?;
    let spec = "failurePolicy: {maxRestarts: 1}";
    sandbox
        .apply(&jobset(WHOLE, spec, &[group("workers", 2, 2, "")]))
        .await?;
    let first = sandbox.gangs(1).await?;
    sandbox.all_bound(4).await?;
    sandbox
        .annotate_pods(json!({"fake/fail-attempts": "0", "fake/outcome": "hold"}))
        .await?;
    sandbox
        .wait_for("attempt 1 to run in a gang of its own", async || {
            let names = sandbox.names("PodGroup").await?;
            ensure!(
                names.len() == 1 && names != first,
                "the gangs are {names:?}"
            );
            let bound = sandbox.bound().await?;
            ensure!(bound.len() == 4, "{} pods are bound", bound.len());
            Ok(())
        })
        .await
}

pub async fn a_suspended_gang_is_removed_and_comes_back_when_resumed(
    sandbox: Sandbox,
) -> Result<()> {
    sandbox.nodes(1, 4).await?;
    sandbox
        .apply(&jobset(WHOLE, "", &[group("workers", 2, 2, "")]))
        .await?;
    sandbox.all_bound(4).await?;
    sandbox
        .patch_jobset(json!({"spec": {"suspend": true}}))
        .await?;
    sandbox.gangs(0).await?;
    sandbox
        .patch_jobset(json!({"spec": {"suspend": false}}))
        .await?;
    sandbox.gangs(1).await?;
    sandbox.all_bound(4).await?;
    Ok(())
}

pub async fn a_finished_gang_leaves_nothing(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 2).await?;
    sandbox
        .apply(&jobset(WHOLE, "", &[group("workers", 1, 2, "")]))
        .await?;
    sandbox.all_bound(2).await?;
    sandbox
        .annotate_pods(json!({"fake/outcome": "succeed"}))
        .await?;
    sandbox.gangs(0).await?;
    sandbox
        .wait_for("the Workload to go", async || {
            let names = sandbox.names("Workload").await?;
            ensure!(names.is_empty(), "there are {names:?}");
            Ok(())
        })
        .await
}

pub async fn a_jobset_created_anew_under_its_name_gets_a_gang_of_its_own(
    sandbox: Sandbox,
) -> Result<()> {
    sandbox.nodes(1, 4).await?;
    let text = jobset(WHOLE, "", &[group("workers", 2, 2, "")]);
    sandbox.apply(&text).await?;
    let first = sandbox.gangs(1).await?;
    sandbox.all_bound(4).await?;
    let deleted = sandbox
        .kubectl(&["delete", "jobset", "train", "--wait"], "")
        .await?;
    ensure!(deleted.status.success());
    sandbox.apply(&text).await?;
    sandbox
        .wait_for("a gang of another name, with its pods", async || {
            let names = sandbox.names("PodGroup").await?;
            ensure!(
                names.len() == 1 && names != first,
                "the gangs are {names:?}"
            );
            let bound = sandbox.bound().await?;
            ensure!(bound.len() == 4, "{} pods are bound", bound.len());
            Ok(())
        })
        .await
}

pub async fn a_replacement_is_placed_after_members_have_finished(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 3).await?;
    let text = jobset(WHOLE, "", &[group("workers", 1, 3, "")]);
    sandbox
        .apply(&text.replace("backoffLimit: 0", "backoffLimit: 6"))
        .await?;
    sandbox.all_bound(3).await?;
    let pods = sandbox.pods().await?;
    let name = |i: usize| pods[i].metadata.name.clone().unwrap_or_default();
    let annotate = async |name: String, how: &str| {
        let output = sandbox
            .kubectl(&["annotate", "pod", &name, how], "")
            .await?;
        ensure!(output.status.success());
        Ok(())
    };
    annotate(name(0), "fake/outcome=succeed").await?;
    sandbox
        .wait_for("the quorum to follow", async || {
            let groups = sandbox.made("PodGroup").await?;
            let count = &groups[0].data["spec"]["schedulingPolicy"]["gang"]["minCount"];
            ensure!(*count == 2, "minCount is {count}");
            Ok(())
        })
        .await?;
    annotate(name(1), "fake/outcome=fail").await?;
    sandbox
        .wait_for("the failed member's replacement to be placed", async || {
            let pods = sandbox.pods().await?;
            let running = pods.iter().filter(|pod| {
                let phase = pod.status.as_ref().and_then(|s| s.phase.as_deref());
                phase == Some("Running")
            });
            let running = running.count();
            ensure!(
                running == 2 && pods.len() >= 4,
                "{running} of {} run",
                pods.len()
            );
            Ok(())
        })
        .await
}

pub async fn every_violation_is_printed_by_kubectl_apply(sandbox: Sandbox) -> Result<()> {
    let annotations = "muster.dev/gang-mode: Gang, muster.dev/min-count: '12', \
                       muster.dev/timeuot: 10m";
    let spec = "startupPolicy: {startupPolicyOrder: InOrder}";
    let groups = [group("driver", 1, 1, ""), group("workers", 2, 4, "")];
    let text = jobset(annotations, spec, &groups);
    let output = sandbox.kubectl(&["apply", "-f", "-"], &text).await?;
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    for part in [
        "did you mean \"muster.dev/timeout\"?",
        "must not exceed the gang's 9 pods",
        "the whole-JobSet gang waits for itself",
    ] {
        ensure!(said.contains(part), "{said}");
    }
    Ok(())
}

pub async fn a_gang_that_waits_says_why(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 2).await?;
    sandbox
        .apply(&jobset(WHOLE, "", &[group("workers", 1, 3, "")]))
        .await?;
    let created = sandbox.told("GangCreated").await?;
    ensure!(created.contains("train-all-0-"), "{created}");
    let note = sandbox.told("GangWaiting").await?;
    ensure!(note.contains("0 of 3 pods placed, 3 needed"), "{note}");
    Ok(())
}

pub async fn a_gang_that_waits_too_long_is_suspended(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 2).await?;
    let annotations = "muster.dev/gang-mode: Gang, muster.dev/timeout: 3s, \
                       muster.dev/timeout-action: Suspend";
    sandbox
        .apply(&jobset(annotations, "", &[group("workers", 1, 3, "")]))
        .await?;
    sandbox.told("GangTimedOut").await?;
    let jobsets = sandbox.api("jobset.x-k8s.io/v1alpha2", "JobSet").await?;
    sandbox
        .wait_for("the JobSet to be suspended", async || {
            let jobset = jobsets.get("train").await?;
            ensure!(jobset.data["spec"]["suspend"] == true, "it is not");
            Ok(())
        })
        .await
}

pub async fn a_users_own_gang_is_respected(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 4).await?;
    sandbox
        .apply(
            "
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: mine}
spec: {schedulingPolicy: {gang: {minCount: 4}}}
",
        )
        .await?;
    let text = jobset(WHOLE, "", &[group("workers", 2, 2, "")]);
    let own = "schedulingGroup: {podGroupName: mine}\n            restartPolicy: Never";
    sandbox
        .apply(&text.replace("restartPolicy: Never", own))
        .await?;
    sandbox.all_bound(4).await?;
    assert_eq!(sandbox.names("PodGroup").await?, ["mine"]);
    Ok(())
}
