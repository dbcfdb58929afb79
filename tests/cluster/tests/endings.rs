//! However a JobSet ends, nothing of its gangs is left behind.

use std::time::Duration;

use anyhow::{Result, ensure};
use kube::api::DeleteParams;
use serde_json::json;

use super::words::{WHOLE, group, jobset};
use crate::health::wait_for;
use crate::sandbox::Sandbox;

/// A gang of two that runs; then its pods end that way.
async fn ends(sandbox: &Sandbox, spec: &str, outcome: &str) -> Result<()> {
    sandbox.nodes(1, 2).await?;
    sandbox
        .apply(&jobset(WHOLE, spec, &[group("workers", 1, 2, "")]))
        .await?;
    sandbox.all_bound(2).await?;
    sandbox
        .annotate_pods(json!({"fake/outcome": outcome}))
        .await
}

async fn nothing_is_left(sandbox: &Sandbox) -> Result<()> {
    sandbox
        .wait_for("the gang's objects to go", async || {
            let mut names = sandbox.names("PodGroup").await?;
            names.extend(sandbox.names("Workload").await?);
            ensure!(names.is_empty(), "there are {names:?}");
            Ok(())
        })
        .await
}

async fn state(sandbox: &Sandbox) -> Result<String> {
    let jobsets = sandbox.api("jobset.x-k8s.io/v1alpha2", "JobSet").await?;
    let state = jobsets.get("train").await?.data["status"]["terminalState"].clone();
    Ok(state.as_str().unwrap_or_default().to_owned())
}

pub async fn a_finished_gang_leaves_nothing(sandbox: Sandbox) -> Result<()> {
    ends(&sandbox, "", "succeed").await?;
    nothing_is_left(&sandbox).await?;
    assert_eq!(state(&sandbox).await?, "Completed");
    Ok(())
}

pub async fn a_failed_gang_leaves_nothing(sandbox: Sandbox) -> Result<()> {
    ends(&sandbox, "", "fail").await?;
    nothing_is_left(&sandbox).await?;
    assert_eq!(state(&sandbox).await?, "Failed");
    Ok(())
}

pub async fn a_finished_jobset_that_times_out_leaves_nothing(sandbox: Sandbox) -> Result<()> {
    ends(&sandbox, "ttlSecondsAfterFinished: 1", "succeed").await?;
    let jobsets = sandbox.api("jobset.x-k8s.io/v1alpha2", "JobSet").await?;
    sandbox
        .wait_for("the JobSet to go", async || {
            ensure!(jobsets.get_opt("train").await?.is_none(), "it is there");
            Ok(())
        })
        .await?;
    nothing_is_left(&sandbox).await
}

/// The apiserver keeps a PodGroup until its last pod is gone, by a finalizer.
pub async fn a_deleted_jobset_or_namespace_takes_its_gang_along(sandbox: Sandbox) -> Result<()> {
    let name = format!("{}-gone", sandbox.namespace);
    let gone = Sandbox::new(sandbox.cluster.clone(), &name).await?;
    gone.nodes(1, 4).await?;
    let text = jobset(WHOLE, "", &[group("workers", 2, 2, "")]);
    gone.apply(&text).await?;
    gone.all_bound(4).await?;
    gone.wait_for("the PodGroup to be protected", async || {
        let groups = gone.made("PodGroup").await?;
        let finalizers = groups[0].metadata.finalizers.clone().unwrap_or_default();
        let protected = finalizers
            .iter()
            .any(|f| f.ends_with("podgroup-protection"));
        ensure!(protected, "its finalizers are {finalizers:?}");
        Ok(())
    })
    .await?;
    let delete = ["delete", "jobset", "train", "--wait"];
    ensure!(gone.kubectl(&delete, "").await?.status.success());
    nothing_is_left(&gone).await?;

    // And all at once, in whichever order the namespace's controller goes.
    gone.apply(&text).await?;
    gone.all_bound(4).await?;
    let namespaces = gone.api("v1", "Namespace").await?;
    namespaces.delete(&name, &DeleteParams::default()).await?;
    // Its controller looks again only after half of the pods' grace period, each time.
    wait_for(
        "the namespace to go",
        Duration::from_secs(120),
        async || {
            let left = namespaces.get_opt(&name).await?;
            let status = left.map(|namespace| namespace.data["status"].clone());
            ensure!(status.is_none(), "{status:?}");
            Ok(())
        },
    )
    .await
}
