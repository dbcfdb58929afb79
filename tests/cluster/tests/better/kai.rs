//! KAI's own podgrouper rewrites links, finished members do not count for KAI, and gangs of one
//! name are one gang to it, whatever their namespaces.

use std::time::Duration;

use anyhow::{Result, ensure};
use hyper::Request;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

use super::super::samples::jobset;
use crate::sandbox::Sandbox;
use crate::schedulers::{Kind, kai};

const GANG: &str = "muster.dev/gang-mode: Gang, muster.dev/scheduler: kai";
/// KAI decides five times a second here, and the podgrouper tries again after milliseconds.
const CHANCE: Duration = Duration::from_secs(4);

/// A cluster of its own: the podgrouper would touch the pods of every other test on KAI.
pub async fn the_podgrouper_does_not_break_a_gang(sandbox: Sandbox) -> Result<()> {
    let cluster = sandbox
        .cluster
        .another_with("podgrouper", &[Kind::Kai], &[]);
    let cluster = cluster.await?;
    let sandbox = Sandbox::new(cluster, "podgrouper").await?;
    links_are_kept(&sandbox).await?;
    let podgrouper = kai::start_podgrouper(&sandbox.cluster.plane)?;
    sandbox.nodes(1, 3).await?;
    sandbox.apply(&jobset("train", GANG, 4, "1")).await?;
    sandbox.none_bound(4).await?;
    // Before the podgrouper has tried, nothing is proven. Not by its events: it also stumbles over
    // itself, and only the first of them are written.
    sandbox
        .wait_for("the podgrouper to be refused", async || {
            let request = Request::get("/metrics").body(Vec::new())?;
            let text = sandbox.client().request_text(request).await?;
            let refused = text.lines().any(|line| {
                line.starts_with("apiserver_validating_admission_policy_check_total{")
                    && line.contains("enforcement_action=\"deny\"")
                    && line.contains("policy=\"muster-links\"")
            });
            ensure!(refused, "the policy has refused nothing yet");
            Ok(())
        })
        .await?;
    tokio::time::sleep(CHANCE).await;
    sandbox.none_bound(4).await?;
    sandbox.nodes(1, 1).await?;
    sandbox.all_bound(4).await?;
    ensure!(podgrouper.exited().is_none(), "the podgrouper has ended");
    Ok(())
}

/// The apiserver takes a new policy up when it comes to it, which can take seconds.
async fn links_are_kept(sandbox: &Sandbox) -> Result<()> {
    // Where no webhook is called, the policy holds all the same.
    let pods: Api<Pod> = Api::namespaced(sandbox.client(), "kube-system");
    let member = json!({
        "metadata": {"name": "member", "labels": {"muster.dev/gang": "all"},
            "annotations": {"pod-group-name": "ours"}},
        "spec": {"schedulerName": "nobody", "containers": [{"name": "main", "image": "train"}]},
    });
    let member: Pod = serde_json::from_value(member)?;
    sandbox
        .wait_for("a pod in kube-system", async || {
            match pods.create(&PostParams::default(), &member).await {
                Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
                other => Ok(other.map(|_| ())?),
            }
        })
        .await?;
    let patch = Patch::Merge(json!({"metadata": {"annotations": {"pod-group-name": "theirs"}}}));
    let only_asked = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    sandbox
        .wait_for("the policy to hold", async || {
            let answer = pods.patch("member", &only_asked, &patch).await;
            ensure!(answer.is_err(), "a link can be changed");
            Ok(())
        })
        .await
}

pub async fn a_replacement_is_placed_after_members_have_finished(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 3).await?;
    sandbox.apply(&jobset("train", GANG, 3, "1")).await?;
    sandbox.all_bound(3).await?;
    let pods = sandbox.pods().await?;
    let ends = async |pod: usize, how: &str| {
        let how = format!("fake/outcome={how}");
        sandbox.annotate(&pods[pod].name_any(), &how).await
    };
    ends(0, "succeed").await?;
    sandbox
        .wait_for("a minimum of 2", async || {
            let minimum = groups(&sandbox).await?[0].data["spec"]["minMember"].clone();
            ensure!(minimum == 2, "it is {minimum}");
            Ok(())
        })
        .await?;
    ends(1, "fail").await?;
    // Those that have ended keep their nodes.
    sandbox.all_bound(4).await?;
    Ok(())
}

pub async fn a_queue_that_does_not_exist_is_told(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 2).await?;
    let annotations = format!("{GANG}, muster.dev/queue: nosuch");
    sandbox
        .apply(&jobset("train", &annotations, 2, "1"))
        .await?;
    let said = sandbox.told("GangWaiting").await?;
    ensure!(said.contains("queue \"nosuch\" does not exist"), "{said}");
    Ok(())
}

async fn groups(sandbox: &Sandbox) -> Result<Vec<DynamicObject>> {
    let groups = sandbox.api("scheduling.run.ai/v2alpha2", "PodGroup");
    Ok(groups.await?.list(&ListParams::default()).await?.items)
}

/// Two and two pods would be the quorum of either.
pub async fn jobsets_of_one_name_in_two_namespaces_are_two_gangs(sandbox: Sandbox) -> Result<()> {
    let name = format!("{}-twin", sandbox.namespace);
    let twin = Sandbox::new(sandbox.cluster.clone(), &name).await?;
    for one in [&sandbox, &twin] {
        one.nodes(1, 2).await?;
        one.apply(&jobset("train", GANG, 4, "1")).await?;
    }
    for one in [&sandbox, &twin] {
        one.none_bound(4).await?;
    }
    tokio::time::sleep(CHANCE).await;
    for one in [&sandbox, &twin] {
        one.none_bound(4).await?;
    }
    sandbox.nodes(1, 2).await?;
    sandbox.all_bound(4).await?;
    twin.none_bound(4).await?;
    twin.clear().await
}

/// Why Muster does not let workloads share a PodGroup there: a part that waits ends those that run. Without
/// Muster, because it would refuse it.
pub async fn a_part_of_a_podgroup_that_waits_ends_those_that_run(sandbox: Sandbox) -> Result<()> {
    let name = format!("{}-shared", sandbox.namespace);
    let pod = |part: &str, number: u32| {
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("{part}-{number}"),
                "labels": {"kai.scheduler/subgroup-name": part},
                "annotations": {"pod-group-name": name}},
            "spec": {"schedulerName": "kai-scheduler", "containers": [{"name": "main", "image": "x",
                "resources": {"requests": {"cpu": "1"}}}]}})
    };
    let shared = |parts: &[&str]| {
        let parts: Vec<_> = parts
            .iter()
            .map(|part| json!({"name": part, "minMember": 2}))
            .collect();
        json!({"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup",
            "metadata": {"name": name},
            "spec": {"minMember": 2 * parts.len(), "queue": "default-queue", "subGroups": parts}})
    };
    sandbox.nodes(1, 3).await?;
    sandbox.apply(&shared(&["runs"]).to_string()).await?;
    for number in 0..2 {
        sandbox.apply(&pod("runs", number).to_string()).await?;
    }
    sandbox.all_bound(2).await?;
    // One that restarts beside it has room for one of its two pods.
    sandbox
        .apply(&shared(&["runs", "waits"]).to_string())
        .await?;
    for number in 0..2 {
        sandbox.apply(&pod("waits", number).to_string()).await?;
    }
    let minute = Duration::from_secs(60);
    let ended =
        crate::health::wait_for("the pods that run to be deleted", 2 * minute, async || {
            let pods = sandbox.pods().await?;
            let left = pods.iter().filter(|pod| pod.name_any().starts_with("runs"));
            let left = left.count();
            ensure!(left == 0, "{left} are left");
            Ok(())
        });
    ended.await
}
