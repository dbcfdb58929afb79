//! What the tests of gangs write, and how they ask what came of it.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use serde_json::json;

use super::samples::JOBSET;
use crate::sandbox::Sandbox;

/// A ReplicatedJob of one-CPU pods.
pub fn group(name: &str, replicas: u32, pods: u32, rest: &str) -> String {
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

/// A ReplicatedJob with a gang mode of its own, in the template that it already has.
pub fn with_mode(mode: &str, group: &str) -> String {
    let annotated = format!(
        "    template:\n      metadata: {{annotations: {{muster.dev/gang-mode: {mode}}}}}\n      spec:"
    );
    group.replace("    template:\n      spec:", &annotated)
}

pub fn jobset(annotations: &str, spec: &str, groups: &[String]) -> String {
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

pub const WHOLE: &str = "muster.dev/gang-mode: Gang";

impl Sandbox {
    pub async fn made(&self, kind: &str) -> Result<Vec<DynamicObject>> {
        let api = self.api("scheduling.k8s.io/v1beta1", kind).await?;
        Ok(api.list(&ListParams::default()).await?.items)
    }

    pub async fn names(&self, kind: &str) -> Result<Vec<String>> {
        let made = self.made(kind).await?;
        Ok(made.into_iter().filter_map(|o| o.metadata.name).collect())
    }

    /// Waits until so many PodGroups exist, and returns their names.
    pub async fn gangs(&self, count: usize) -> Result<Vec<String>> {
        self.wait_for(&format!("{count} PodGroups"), async || {
            let names = self.names("PodGroup").await?;
            ensure!(names.len() == count, "there are {names:?}");
            Ok(names)
        })
        .await
    }

    pub async fn patch_jobset(&self, patch: serde_json::Value) -> Result<()> {
        let api = self.api("jobset.x-k8s.io/v1alpha2", "JobSet").await?;
        let patch = Patch::Merge(patch);
        api.patch("train", &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Annotates one pod, as `key=value`.
    pub async fn annotate(&self, pod: &str, how: &str) -> Result<()> {
        let output = self.kubectl(&["annotate", "pod", pod, how], "").await?;
        ensure!(output.status.success(), "cannot annotate {pod}");
        Ok(())
    }

    /// Waits until the only gang asks for so many members.
    pub async fn quorum(&self, count: u32) -> Result<()> {
        self.wait_for(&format!("a quorum of {count}"), async || {
            let groups = self.made("PodGroup").await?;
            let found = &groups[0].data["spec"]["schedulingPolicy"]["gang"]["minCount"];
            ensure!(*found == count, "minCount is {found}");
            Ok(())
        })
        .await
    }

    /// Makes a policy of the cluster's owner: what does not fulfil the expression is refused here.
    pub async fn deny(&self, resource: (&str, &str, &str), expression: &str) -> Result<()> {
        let name = &self.namespace;
        let (group, version, plural) = resource;
        let policy = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}},
                    "resourceRules": [{
                        "apiGroups": [group], "apiVersions": [version], "resources": [plural],
                        "operations": ["CREATE", "UPDATE"],
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
        self.cluster.objects.apply(&policy, "").await?;
        self.cluster.objects.apply(&binding, "").await?;
        // A policy holds a moment after it was written.
        tokio::time::sleep(Duration::from_secs(2)).await;
        Ok(())
    }

    /// Waits until the JobSet's condition has that reason, and returns what it says.
    pub async fn condition(&self, reason: &str) -> Result<String> {
        self.condition_of((JOBSET, "train"), reason).await
    }

    /// The same of a workload of another kind.
    pub async fn condition_of(
        &self,
        (kind, name): ((&str, &str), &str),
        reason: &str,
    ) -> Result<String> {
        let workloads = self.api(kind.0, kind.1).await?;
        self.wait_for(&format!("the condition {reason}"), async || {
            let status = workloads.get(name).await?.data["status"].clone();
            let mut conditions = status["conditions"].as_array().into_iter().flatten();
            let found = conditions.find(|c| c["type"] == "muster.dev/GangScheduled");
            let found = found.context("not yet")?;
            ensure!(found["reason"] == reason, "it is {found}");
            Ok(found["message"].as_str().unwrap_or_default().to_owned())
        })
        .await
    }

    /// Waits until the JobSet's condition says that a gang waits, for whatever cause.
    pub async fn waits(&self) -> Result<()> {
        self.waits_of((JOBSET, "train")).await
    }

    /// The same of a workload of another kind.
    pub async fn waits_of(&self, (kind, name): ((&str, &str), &str)) -> Result<()> {
        let workloads = self.api(kind.0, kind.1).await?;
        self.wait_for("a gang that waits", async || {
            let status = workloads.get(name).await?.data["status"].clone();
            let mut conditions = status["conditions"].as_array().into_iter().flatten();
            let found = conditions.find(|c| c["type"] == "muster.dev/GangScheduled");
            let found = found.context("not yet")?;
            let reason = found["reason"].as_str().unwrap_or_default();
            let caused = !reason.contains("Gang") || reason == "GangWaiting";
            ensure!(found["status"] == "False" && caused, "it is {found}");
            Ok(())
        })
        .await
    }

    /// Waits for an event of Muster's on the JobSet, and returns what it says.
    pub async fn told(&self, reason: &str) -> Result<String> {
        self.told_of("JobSet", reason).await
    }

    /// The same on a workload of another kind.
    pub async fn told_of(&self, kind: &str, reason: &str) -> Result<String> {
        let events = self.api("events.k8s.io/v1", "Event").await?;
        self.wait_for(&format!("the event {reason}"), async || {
            let all = events.list(&ListParams::default()).await?;
            let found = all.iter().find(|event| {
                event.data["reason"] == reason && event.data["regarding"]["kind"] == kind
            });
            let note = found.context("not yet")?.data["note"].as_str();
            Ok(note.unwrap_or_default().to_owned())
        })
        .await
    }
}
