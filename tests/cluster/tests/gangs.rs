//! Native gangs through Muster, on the real scheduler: what exists, what is linked, what is bound.

use anyhow::{Result, ensure};

use super::words::{WHOLE, group, jobset, with_mode};
use crate::sandbox::Sandbox;

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
    sandbox.condition("InsufficientResources").await?;
    sandbox.nodes(1, 1).await?;
    sandbox.all_bound(9).await?;
    let wait = "wait --for=condition=muster.dev/GangScheduled jobset/train --timeout=20s";
    let wait: Vec<&str> = wait.split(' ').collect();
    ensure!(sandbox.kubectl(&wait, "").await?.status.success());
    let note = sandbox.told("GangScheduled").await?;
    ensure!(note.contains(&gangs[0]), "{note}");
    Ok(())
}

pub async fn each_replicated_job_starts_by_itself(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 4).await?;
    let annotated =
        |name: &str, replicas, pods| with_mode("Gang", &group(name, replicas, pods, ""));
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
    let groups = [with_mode("ReplicatedGang", &group("workers", 3, 2, ""))];
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
    let annotated = |name: &str, pods, rest: &str| with_mode("Gang", &group(name, 1, pods, rest));
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

/// Two events of one reason, each in its own words.
pub async fn each_of_two_gangs_that_wait_is_told(sandbox: Sandbox) -> Result<()> {
    let groups = [with_mode("ReplicatedGang", &group("workers", 2, 2, ""))];
    sandbox.apply(&jobset("", "", &groups)).await?;
    sandbox
        .wait_for("an event for each gang", async || {
            let mut events = super::samples::events(&sandbox).await?;
            events.retain(|event| event.data["reason"] == "GangWaiting");
            let notes: Vec<&str> = events
                .iter()
                .filter_map(|e| e.data["note"].as_str())
                .collect();
            for gang in ["train-workers-0-0-", "train-workers-1-0-"] {
                ensure!(notes.iter().any(|note| note.starts_with(gang)), "{notes:?}");
            }
            Ok(())
        })
        .await
}

pub async fn a_gang_that_waits_too_long_is_suspended(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 2).await?;
    let annotations = "muster.dev/gang-mode: Gang, muster.dev/timeout: 3s, \
                       muster.dev/timeout-action: Suspend";
    sandbox
        .apply(&jobset(annotations, "", &[group("workers", 1, 3, "")]))
        .await?;
    sandbox.told("GangTimedOut").await?;
    let timeouts = r#"muster_gang_timeouts_total{action="Suspend"}"#;
    sandbox.counted(timeouts).await?;
    let jobsets = sandbox.api("jobset.x-k8s.io/v1alpha2", "JobSet").await?;
    sandbox
        .wait_for("the JobSet to be suspended", async || {
            let jobset = jobsets.get("train").await?;
            ensure!(jobset.data["spec"]["suspend"] == true, "it is not");
            Ok(())
        })
        .await
}

pub async fn a_suspension_that_is_refused_is_told(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 2).await?;
    let jobsets = ("jobset.x-k8s.io", "v1alpha2", "jobsets");
    let expression = "!has(object.spec.suspend) || !object.spec.suspend";
    sandbox.deny(jobsets, expression).await?;
    let annotations = "muster.dev/gang-mode: Gang, muster.dev/timeout: 3s, \
                       muster.dev/timeout-action: Suspend";
    sandbox
        .apply(&jobset(annotations, "", &[group("workers", 1, 3, "")]))
        .await?;
    let said = sandbox.told("GangRefused").await?;
    ensure!(said.contains("cannot suspend the JobSet"), "{said}");
    // And it goes on looking after the gang.
    sandbox.condition("InsufficientResources").await?;
    sandbox.nodes(1, 1).await?;
    sandbox.condition("GangScheduled").await?;
    Ok(())
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

pub async fn suspending_a_gang_that_kueue_governs_is_refused(sandbox: Sandbox) -> Result<()> {
    let annotations = "muster.dev/gang-mode: Gang, muster.dev/timeout: 3s, \
                       muster.dev/timeout-action: Suspend";
    let text = jobset(annotations, "", &[group("workers", 1, 3, "")]);
    let queue = "metadata:\n  labels: {kueue.x-k8s.io/queue-name: team}";
    let text = text.replacen("metadata:", queue, 1);
    let output = sandbox.kubectl(&["apply", "-f", "-"], &text).await?;
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        said.contains("timeout-action") && said.contains("Kueue"),
        "{said}"
    );
    Ok(())
}

/// A client-side apply replaces the list of ReplicatedJobs, and drops what Muster wrote in it.
/// JobSet's own defaults are spelled out: without them JobSet itself refuses the second apply.
pub async fn the_same_manifest_can_be_applied_again(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 2).await?;
    let group = group("workers", 1, 2, "    groupName: default");
    let group = group.replace(
        "backoffLimit: 0",
        "backoffLimit: 0\n        completionMode: Indexed",
    );
    let annotations = format!("{WHOLE}, muster.dev/scheduler: volcano, muster.dev/timeout: 10m");
    let text = jobset(&annotations, "suspend: false", &[group]);
    for text in [&text, &text, &text.replace("timeout: 10m", "timeout: 20m")] {
        let output = sandbox.kubectl(&["apply", "-f", "-"], text).await?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{said}");
    }
    let args = ["get", "jobset", "train", "-o", "yaml"];
    let stored = sandbox.kubectl(&args, "").await?.stdout;
    let stored = String::from_utf8_lossy(&stored);
    for kept in ["muster.dev/stamp", "schedulerName: volcano", "timeout: 20m"] {
        ensure!(stored.contains(kept), "no {kept} in {stored}");
    }
    sandbox.all_bound(2).await?;
    Ok(())
}
