//! Koordinator counts gated pods as placed, and says nothing of a gang that lacks pods.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::json;

use super::super::samples::jobset;
use crate::sandbox::Sandbox;

const GANG: &str = "muster.dev/gang-mode: Gang, muster.dev/scheduler: koordinator";

pub async fn a_gang_with_a_scheduling_gate_is_refused(sandbox: Sandbox) -> Result<()> {
    let text = jobset("train", GANG, 4, "1").replace(
        "restartPolicy: Never",
        "restartPolicy: Never\n            schedulingGates: [{name: example.com/later}]",
    );
    let output = sandbox.kubectl(&["apply", "-f", "-"], &text).await?;
    let said = String::from_utf8_lossy(&output.stderr);
    let reason = "koordinator counts a gated pod as placed";
    ensure!(
        output.status.code() == Some(1) && said.contains(reason),
        "{said}"
    );
    Ok(())
}

/// The third pod is refused by an admission policy of the cluster's owner, as a quota would.
pub async fn a_gang_that_lacks_pods_is_told(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 4).await?;
    let name = format!("{}-last", sandbox.namespace);
    let expression = "!(has(object.metadata.generateName) \
                      && object.metadata.generateName.startsWith('train-workers-0-2-'))";
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "namespaceSelector": {"matchLabels": {
                    "kubernetes.io/metadata.name": sandbox.namespace,
                }},
                "resourceRules": [{
                    "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"],
                    "operations": ["CREATE"],
                }],
            },
            "validations": [{"expression": expression}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    });
    sandbox.cluster.objects.apply(&policy, "").await?;
    sandbox.cluster.objects.apply(&binding, "").await?;
    // A policy holds a moment after it was written.
    tokio::time::sleep(Duration::from_secs(2)).await;
    sandbox.apply(&jobset("train", GANG, 3, "1")).await?;
    let note = sandbox.told("GangWaiting").await?;
    ensure!(note.contains("only 2 of its pods exist"), "{note}");
    ensure!(sandbox.bound().await?.is_empty());
    Ok(())
}

/// A gang that was once complete is none any more for Koordinator; a resumed one is a new gang.
pub async fn a_resumed_gang_is_all_or_nothing_again(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 3).await?;
    let late = sandbox.nodes(1, 1).await?.remove(0);
    sandbox.apply(&jobset("train", GANG, 4, "1")).await?;
    sandbox.all_bound(4).await?;
    let suspend = async |to: bool| {
        let patch = json!({"spec": {"suspend": to}}).to_string();
        let args = ["patch", "jobset", "train", "--type=merge", "-p", &patch];
        ensure!(sandbox.kubectl(&args, "").await?.status.success());
        anyhow::Ok(())
    };
    suspend(true).await?;
    sandbox
        .wait_for("the pods to go", async || {
            let pods = sandbox.pods().await?.len();
            ensure!(pods == 0, "{pods} are left");
            Ok(())
        })
        .await?;
    ensure!(
        sandbox
            .kubectl(&["cordon", &late], "")
            .await?
            .status
            .success()
    );
    suspend(false).await?;
    sandbox.none_bound(4).await?;
    let end = Instant::now() + Duration::from_secs(4);
    while Instant::now() < end {
        let bound = sandbox.bound().await?;
        ensure!(bound.is_empty(), "bound though not all fit: {bound:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let open = sandbox.kubectl(&["uncordon", &late], "").await?;
    ensure!(open.status.success());
    sandbox.all_bound(4).await?;
    Ok(())
}
