//! Which scheduler a gang goes to, and what is said when it cannot.

use anyhow::{Context, Error, Result, bail, ensure};
use kube::ResourceExt as _;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::samples::gang;
use crate::install::{Installed, jobset};
use crate::muster::Muster;
use crate::ports::Port;
use crate::release::Release;
use crate::sandbox::Sandbox;

async fn label(sandbox: &Sandbox, scheduler: &str) -> Result<()> {
    let namespaces = sandbox.api("v1", "Namespace").await?;
    let patch = Patch::Merge(json!({"metadata": {"labels": {"muster.dev/scheduler": scheduler}}}));
    let name = &sandbox.namespace;
    namespaces
        .patch(name, &PatchParams::default(), &patch)
        .await?;
    Ok(())
}

pub async fn the_namespaces_label_chooses_the_scheduler(sandbox: Sandbox) -> Result<()> {
    let apply = ["apply", "--filename=-", "--dry-run=server", "--output=json"];
    label(&sandbox, "volcano").await?;
    let chosen: Value = sandbox
        .wait_for("Volcano to be chosen", async || {
            let output = sandbox.kubectl(&apply, &gang("train", 2, "1")).await?;
            let chosen: Value = serde_json::from_slice(&output.stdout)?;
            let scheduler = &chosen["metadata"]["annotations"]["muster.dev/scheduler"];
            ensure!(scheduler == "volcano", "it is {scheduler}");
            Ok(chosen)
        })
        .await?;
    let template = &chosen["spec"]["replicatedJobs"][0]["template"]["spec"]["template"];
    assert_eq!(template["spec"]["schedulerName"], "volcano");

    label(&sandbox, "vulcano").await?;
    sandbox
        .wait_for("the mistake to be told", async || {
            let output = sandbox.kubectl(&apply, &gang("train", 2, "1")).await?;
            let said = String::from_utf8_lossy(&output.stderr);
            let told = said.contains("label muster.dev/scheduler is \"vulcano\"");
            ensure!(told && output.status.code() == Some(1), "{said}");
            Ok(())
        })
        .await
}

/// What `kubectl apply` would store, or says.
async fn tried(sandbox: &Sandbox, jobset: &str) -> Result<Result<Value, String>> {
    let apply = ["apply", "--filename=-", "--dry-run=server", "--output=json"];
    let output = sandbox.kubectl(&apply, jobset).await?;
    if output.status.success() {
        return Ok(Ok(serde_json::from_slice(&output.stdout)?));
    }
    Ok(Err(String::from_utf8_lossy(&output.stderr).into_owned()))
}

/// Every scheduler is there: nothing is taken by itself.
pub async fn where_several_are_served_the_nearest_word_counts(sandbox: Sandbox) -> Result<()> {
    let silent = gang("train", 2, "1");
    let Err(said) = tried(&sandbox, &silent).await? else {
        bail!("admitted");
    };
    let all = "(native, volcano, coscheduling, koordinator, kai)";
    ensure!(said.contains(all), "{said}");

    label(&sandbox, "volcano").await?;
    let is_chosen = async |jobset: &str, expected: &str| {
        sandbox
            .wait_for(&format!("{expected} to be chosen"), async || {
                let stored = tried(&sandbox, jobset).await?.map_err(Error::msg)?;
                let scheduler = &stored["metadata"]["annotations"]["muster.dev/scheduler"];
                ensure!(scheduler == expected, "it is {scheduler}");
                Ok(())
            })
            .await
    };
    is_chosen(&silent, "volcano").await?;
    let named = silent.replace(
        "restartPolicy: Never",
        "restartPolicy: Never\n            schedulerName: kai-scheduler",
    );
    is_chosen(&named, "kai").await?;
    let annotated = |jobset: &str| {
        jobset.replace(
            "gang-mode: Gang",
            "gang-mode: Gang, muster.dev/scheduler: koordinator",
        )
    };
    is_chosen(&annotated(&silent), "koordinator").await?;
    let Err(said) = tried(&sandbox, &annotated(&named)).await? else {
        bail!("admitted");
    };
    ensure!(said.contains("the gang is for koordinator"), "{said}");
    Ok(())
}

/// On Kubernetes alone.
pub async fn a_scheduler_that_is_not_there_is_refused(sandbox: Sandbox) -> Result<()> {
    let annotated = |scheduler: &str| {
        let annotation = format!("gang-mode: Gang, muster.dev/scheduler: {scheduler}");
        gang("train", 2, "1").replace("gang-mode: Gang", &annotation)
    };
    let Err(said) = tried(&sandbox, &annotated("kai")).await? else {
        bail!("admitted");
    };
    let reason = "the cluster does not serve kai's PodGroups";
    ensure!(
        said.contains(reason) && said.contains("(native, yunikorn)"),
        "{said}"
    );
    let yunikorn = tried(&sandbox, &annotated("yunikorn")).await?;
    yunikorn.map_err(Error::msg)?;
    Ok(())
}

/// Waits until both pods of that attempt of a JobSet are bound, each by that scheduler.
async fn runs(sandbox: &Sandbox, jobset: &str, attempt: &str, scheduler: &str) -> Result<()> {
    let what = format!("attempt {attempt} of {jobset} to run on {scheduler}");
    sandbox
        .wait_for(&what, async || {
            let mut pods = sandbox.members(attempt).await?;
            pods.retain(|pod| pod.name_any().starts_with(&format!("{jobset}-")));
            let specs = pods.iter().filter_map(|pod| pod.spec.as_ref());
            let right = specs.filter(|spec| {
                spec.node_name.is_some() && spec.scheduler_name.as_deref() == Some(scheduler)
            });
            let right = right.count();
            ensure!(right == 2, "{right} of {} do", pods.len());
            Ok(())
        })
        .await
}

pub async fn a_running_gang_keeps_its_scheduler_when_the_namespace_moves(
    sandbox: Sandbox,
) -> Result<()> {
    sandbox.nodes(1, 4).await?;
    let restarts = |name: &str| {
        let jobset = gang(name, 2, "1").replace("backoffLimit: 6", "backoffLimit: 0");
        jobset.replace(
            "suspend: false",
            "suspend: false\n  failurePolicy: {maxRestarts: 1}",
        )
    };
    label(&sandbox, "volcano").await?;
    sandbox
        .wait_for("the label to count", async || {
            sandbox.apply(&restarts("old")).await
        })
        .await?;
    runs(&sandbox, "old", "0", "volcano").await?;
    label(&sandbox, "kai").await?;
    sandbox
        .wait_for("the new label to count", async || {
            let stored = tried(&sandbox, &restarts("new"))
                .await?
                .map_err(Error::msg)?;
            let scheduler = &stored["metadata"]["annotations"]["muster.dev/scheduler"];
            ensure!(scheduler == "kai", "it is {scheduler}");
            Ok(())
        })
        .await?;
    sandbox.apply(&restarts("new")).await?;
    runs(&sandbox, "new", "0", "kai-scheduler").await?;
    runs(&sandbox, "old", "0", "volcano").await?;
    // A restart recreates Jobs, pods and PodGroup, after the namespace has moved.
    let pods = sandbox.members("0").await?;
    let mut old = pods.iter().filter(|p| p.name_any().starts_with("old-"));
    let victim = old.next().context("no pod")?.name_any();
    sandbox.annotate(&victim, "fake/outcome=fail").await?;
    runs(&sandbox, "old", "1", "volcano").await?;
    let groups = sandbox.api("scheduling.volcano.sh/v1beta1", "PodGroup");
    let groups = groups.await?.list(&ListParams::default()).await?.items;
    let made = groups
        .iter()
        .any(|g| g.name_any().starts_with("old-all-1-"));
    ensure!(made, "attempt 1 has no PodGroup of Volcano's");
    Ok(())
}

pub async fn native_gangs_that_are_not_served_are_refused_with_what_is_missing(
    sandbox: Sandbox,
) -> Result<()> {
    let port = Port::reserve()?;
    let plane = sandbox
        .cluster
        .plane
        .another(Release::V1_37WithoutGangs, "no-gangs")
        .await?;
    let installed = Installed::on(plane, port.number).await?;
    let muster = Muster::installed(&installed.plane).await?;
    let _process = muster.start_at(&installed.plane, "muster-0", port).await?;
    let mut native = jobset("train");
    native["metadata"]["annotations"] =
        json!({"muster.dev/gang-mode": "Gang", "muster.dev/scheduler": "native"});
    let refused = installed.kubectl_apply(&native).err().context("admitted")?;
    let said = refused.to_string();
    for part in [
        "metadata.annotations[muster.dev/scheduler]: Invalid value: \"native\"",
        "Kubernetes 1.37 needs the feature gate GenericWorkload",
        "the API scheduling.k8s.io/v1beta1",
    ] {
        ensure!(said.contains(part), "{said}");
    }
    Ok(())
}
