//! What is not Muster's is never touched, even where it stands in a gang's way.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube::ResourceExt as _;
use kube::api::{DynamicObject, Patch, PatchParams};
use muster::gang::{Attempt, Identity, PartName, Round};
use serde_json::json;

use super::samples::{JOBSET, events, gang};
use crate::sandbox::Sandbox;

/// Takes the names that the gang of a JobSet may get: whichever round the resumed JobSet is in, its
/// gang's name is taken.
pub async fn take_names(sandbox: &Sandbox, jobset: &DynamicObject) -> Result<Vec<DynamicObject>> {
    let mut foreign = Vec::new();
    for round in [Round(0), Round(1)] {
        let identity = Identity {
            namespace: sandbox.namespace.clone(),
            workload: "train".to_owned(),
            uid: jobset.uid().context("no uid")?,
            part: PartName::whole(),
            index: None,
            attempt: Attempt::default(),
            round,
            revision: None,
        };
        let group = json!({
            "apiVersion": "scheduling.k8s.io/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": identity.name().as_str(), "labels": {"example.com/owner": "me"}},
            "spec": {"schedulingPolicy": {"gang": {"minCount": 9}}},
        });
        foreign.extend(sandbox.apply(&group.to_string()).await?);
    }
    Ok(foreign)
}

pub async fn a_podgroup_of_the_gangs_name_is_left_alone(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 4).await?;
    let suspended = gang("train", 3, "1").replace("suspend: false", "suspend: true");
    let applied = sandbox.apply(&suspended).await?;
    let foreign = take_names(&sandbox, &applied[0]).await?;
    let jobsets = sandbox.api(JOBSET.0, JOBSET.1).await?;
    let resume = Patch::Merge(json!({"spec": {"suspend": false}}));
    jobsets
        .patch("train", &PatchParams::default(), &resume)
        .await?;

    let note = sandbox
        .wait_for("the event GangRefused", async || {
            let told = events(&sandbox).await?;
            let refused = told.iter().find(|e| e.data["reason"] == "GangRefused");
            let note = refused.context("not yet")?.data["note"].as_str();
            Ok(note.unwrap_or_default().to_owned())
        })
        .await?;
    let named = foreign.iter().any(|group| note.contains(&group.name_any()));
    ensure!(named && note.contains("was not made by Muster"), "{note}");
    // Looked at again and again, as pods change.
    sandbox
        .wait_for("its pods", async || {
            let pods = sandbox.pods().await?.len();
            ensure!(pods == 3, "there are {pods}");
            Ok(())
        })
        .await?;
    let groups = sandbox.api("scheduling.k8s.io/v1beta1", "PodGroup").await?;
    let versions = async || {
        let mut versions = Vec::new();
        for group in &foreign {
            versions.push(groups.get(&group.name_any()).await?.resource_version());
        }
        anyhow::Ok(versions)
    };
    let rested = sandbox
        .wait_for("the scheduler to leave them alone", async || {
            let before = versions().await?;
            tokio::time::sleep(Duration::from_secs(2)).await;
            ensure!(versions().await? == before, "they change");
            Ok(before)
        })
        .await?;
    sandbox
        .annotate_pods(json!({"example.com/look": "again"}))
        .await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(versions().await?, rested, "somebody wrote to them");

    for before in foreign {
        let now = groups.get(&before.name_any()).await?;
        // Its status and finalizer are the scheduler's and the protection controller's.
        assert_eq!(now.data["spec"], before.data["spec"]);
        assert_eq!(now.metadata.labels, before.metadata.labels);
        assert_eq!(now.metadata.annotations, before.metadata.annotations);
        assert_eq!(
            now.metadata.owner_references,
            before.metadata.owner_references
        );
        let managers = now.metadata.managed_fields.unwrap_or_default();
        let muster = managers
            .iter()
            .any(|m| m.manager.as_deref() == Some("muster"));
        ensure!(!muster, "Muster wrote to it: {managers:?}");
    }
    // Still there after JobSet's controller has written the status of the Jobs.
    let said = sandbox.condition("GangRefused").await?;
    ensure!(said.contains("was not made by Muster"), "{said}");
    let told = events(&sandbox).await?;
    let created = told.iter().any(|e| e.data["reason"] == "GangCreated");
    ensure!(!created, "a gang without its object is told as created");
    Ok(())
}
