//! What pods of one gang must agree on, what they may change, and what is told of them.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Api, PostParams};
use serde_json::json;

use super::bare;
use crate::sandbox::Sandbox;

/// More than enough: two pods that are sent together are seldom seen one after the other.
const TRIES: usize = 50;

/// With other schedulers to disagree about.
pub async fn a_pod_that_disagrees_is_refused_until_the_others_are_gone(
    sandbox: Sandbox,
) -> Result<()> {
    let said = |quorum: u32, queue: &str, scheduler: &str| {
        let queue = match queue {
            "" => String::new(),
            queue => format!(", muster.dev/queue: {queue}"),
        };
        format!("muster.dev/min-count: '{quorum}', muster.dev/scheduler: {scheduler}{queue}")
    };
    let stands = |key: &str, problem: &str, value: &str| {
        format!(
            "metadata.annotations[muster.dev/{key}]: {problem}: the gang \"ring\" stands with \
             {value:?}, set by the pod \"a\""
        )
    };
    let disagree = [
        (
            said(2, "gold", "volcano"),
            stands("min-count", "Invalid value: \"2\"", "3"),
        ),
        (
            said(3, "silver", "volcano"),
            stands("queue", "Invalid value: \"silver\"", "gold"),
        ),
        (
            said(3, "", "volcano"),
            stands("queue", "Required value", "gold"),
        ),
        (
            said(3, "gold", "kai"),
            stands("scheduler", "Invalid value: \"kai\"", "volcano"),
        ),
    ];
    sandbox
        .apply(&bare("a", &said(3, "gold", "volcano")))
        .await?;
    for (declared, why) in &disagree {
        // The first one counts once the watch has shown it.
        sandbox
            .wait_for("a pod to be refused", async || {
                let args = ["apply", "--dry-run=server", "--filename=-"];
                let output = sandbox.kubectl(&args, &bare("b", declared)).await?;
                let said = String::from_utf8_lossy(&output.stderr);
                ensure!(said.contains(why), "{said}");
                Ok(())
            })
            .await?;
    }
    // Under another name it is another gang.
    let other = bare("other", &disagree[0].0).replace("gang-name: ring", "gang-name: chain");
    sandbox.apply(&other).await?;
    sandbox.delete_ring(&["a"]).await?;
    sandbox
        .wait_for("the others to be gone", async || {
            sandbox.apply(&bare("b", &disagree[0].0)).await?;
            Ok(())
        })
        .await
}

/// Each is admitted while the other is on its way: nobody could know of it.
pub async fn pods_that_disagree_and_came_at_once_are_told(sandbox: Sandbox) -> Result<()> {
    let api: Api<Pod> = Api::namespaced(sandbox.client(), &sandbox.namespace);
    let pod = |gang: &str, name: &str, quorum: &str| -> Result<Pod> {
        Ok(serde_json::from_value(json!({
            "metadata": {"name": format!("{gang}-{name}"), "annotations": {
                "muster.dev/gang-name": gang, "muster.dev/min-count": quorum,
            }},
            "spec": {"containers": [{
                "name": "main", "image": "train", "resources": {"requests": {"cpu": "1"}},
            }]},
        }))?)
    };
    sandbox.nodes(1, 2).await?;
    for number in 0..TRIES {
        let gang = format!("ring{number}");
        let (two, three) = (pod(&gang, "a", "2")?, pod(&gang, "b", "3")?);
        let params = PostParams::default();
        let both = tokio::join!(api.create(&params, &two), api.create(&params, &three));
        let (Ok(_), Ok(_)) = both else {
            continue;
        };
        let note = sandbox.told_of("Pod", "GangBroken").await?;
        // Within one second the name decides.
        let first =
            format!("is 2 on {gang}-a, which counts because it came first, and 3 on {gang}-b");
        let later =
            format!("is 3 on {gang}-b, which counts because it came first, and 2 on {gang}-a");
        ensure!(note.contains("muster.dev/min-count"), "{note}");
        let quorum = match (note.contains(&first), note.contains(&later)) {
            (true, false) => 2,
            (false, true) => 3,
            _ => anyhow::bail!("{note}"),
        };
        let groups = sandbox.made("PodGroup").await?;
        let of = |g: &&kube::api::DynamicObject| g.name_any().starts_with(&gang);
        let groups: Vec<_> = groups.iter().filter(of).collect();
        assert_eq!(groups.len(), 1, "one gang");
        assert_eq!(
            groups[0].data["spec"]["schedulingPolicy"]["gang"]["minCount"],
            quorum
        );
        return Ok(());
    }
    anyhow::bail!("one of two pods was refused {TRIES} times")
}

pub async fn what_a_stored_pod_declares_cannot_change(sandbox: Sandbox) -> Result<()> {
    let declared = "muster.dev/min-count: '2', muster.dev/timeout: 1h";
    sandbox.apply(&bare("a", declared)).await?;
    let say = async |verb: &str, what: &str| {
        let args = [verb, "pod", "a", what, "--overwrite"];
        let output = sandbox.kubectl(&args, "").await?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        anyhow::Ok((output.status.success(), said))
    };
    // A policy holds a moment after it was written.
    sandbox
        .wait_for("the policy to hold", async || {
            let what = "muster.dev/min-count=1";
            let args = [
                "annotate",
                "pod",
                "a",
                what,
                "--overwrite",
                "--dry-run=server",
            ];
            let tried = sandbox.kubectl(&args, "").await?;
            ensure!(!tried.status.success(), "it does not");
            Ok(())
        })
        .await?;
    for (verb, what) in [
        ("annotate", "muster.dev/min-count=1"),
        ("annotate", "muster.dev/gang-name=chain"),
        ("annotate", "muster.dev/gang-name-"),
        ("annotate", "muster.dev/queue=gold"),
        ("annotate", "muster.dev/scheduler=volcano"),
        ("annotate", "muster.dev/stamp={}"),
        ("annotate", "muster.dev/round=7"),
        ("label", "muster.dev/gang-name=chain"),
        ("label", "muster.dev/gang-name-"),
        ("label", "muster.dev/index-"),
        ("label", "muster.dev/gang=all"),
    ] {
        let (changed, said) = say(verb, what).await?;
        let told = said.contains("cannot change while it lives: recreate the pod");
        ensure!(!changed && told, "{verb} {what}: {said}");
    }
    for (verb, what) in [
        ("annotate", "muster.dev/timeout=2h"),
        ("annotate", "muster.dev/timeout-"),
        ("annotate", "muster.dev/timeout=1s"),
        ("annotate", "team=ml"),
        ("label", "team=ml"),
    ] {
        let (changed, said) = say(verb, what).await?;
        ensure!(changed, "{verb} {what}: {said}");
    }
    // The new timeout counts.
    let note = sandbox.told_of("Pod", "GangTimedOut").await?;
    ensure!(
        note.contains("waits longer than 1s: it keeps waiting"),
        "{note}"
    );
    Ok(())
}

pub async fn a_gang_that_waits_is_told_of_its_first_pod(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 1).await?;
    let declared = "muster.dev/min-count: '2', muster.dev/timeout: 3s";
    sandbox.apply(&bare("a", declared)).await?;
    sandbox.gangs(1).await?;
    sandbox.apply(&bare("b", declared)).await?;
    let regarding = async |reason: &str| {
        let events = sandbox.api("events.k8s.io/v1", "Event").await?;
        let all = events.list(&Default::default()).await?;
        let told = all.iter().filter(|event| event.data["reason"] == reason);
        let told = told.map(|e| {
            e.data["regarding"]["name"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        });
        anyhow::Ok(told.collect::<Vec<_>>())
    };
    let created = sandbox.told_of("Pod", "GangCreated").await?;
    ensure!(
        created.starts_with("1 gang(s) ready for their pods: ring"),
        "{created}"
    );
    let waits = sandbox.told_of("Pod", "GangWaiting").await?;
    ensure!(waits.contains("0 of 2 pods placed, 2 needed"), "{waits}");
    sandbox.told_of("Pod", "GangTimedOut").await?;
    sandbox.nodes(1, 1).await?;
    sandbox.all_bound(2).await?;
    sandbox.told_of("Pod", "GangScheduled").await?;
    for reason in [
        "GangCreated",
        "GangWaiting",
        "GangTimedOut",
        "GangScheduled",
    ] {
        assert_eq!(regarding(reason).await?, ["a"], "{reason}");
    }
    // Another pod that says the same is placed by itself.
    sandbox.nodes(1, 1).await?;
    sandbox.apply(&bare("c", declared)).await?;
    sandbox.all_bound(3).await?;
    sandbox.quorum(2).await
}
