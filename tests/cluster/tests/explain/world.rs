//! What is done to a cluster so that a gang waits, where it takes more than a line.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::{Node, PersistentVolume, Pod};
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::Scheduler;
use crate::release::Release;
use crate::sandbox::Sandbox;

pub async fn patch_node(sandbox: &Sandbox, node: &str, patch: Value) -> Result<()> {
    let api: Api<Node> = Api::all(sandbox.client());
    api.patch(node, &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    Ok(())
}

/// Adds a taint to those that a test's node has.
pub async fn taint(sandbox: &Sandbox, node: &str) -> Result<()> {
    let args = ["taint", "node", node, "gpu=only:NoSchedule"];
    let done = sandbox.kubectl(&args, "").await?;
    ensure!(done.status.success(), "cannot taint {node}");
    Ok(())
}

pub fn volume() -> Value {
    json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])
}

/// A claim that is bound to a volume of another zone.
pub async fn bound_volume(sandbox: &Sandbox) -> Result<()> {
    let name = format!("{}-data", sandbox.namespace);
    let volume = format!(
        "
apiVersion: v1
kind: PersistentVolume
metadata: {{name: {name}}}
spec:
  capacity: {{storage: 1Gi}}
  accessModes: [ReadWriteMany]
  storageClassName: ''
  hostPath: {{path: /data}}
  claimRef: {{name: data, namespace: {}}}
  nodeAffinity:
    required:
      nodeSelectorTerms: [{{matchExpressions: [{{key: zone, operator: In, values: [far]}}]}}]
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: data, annotations: {{pv.kubernetes.io/bind-completed: 'yes'}}}}
spec:
  accessModes: [ReadWriteMany]
  storageClassName: ''
  volumeName: {name}
  resources: {{requests: {{storage: 1Gi}}}}
",
        sandbox.namespace
    );
    sandbox.apply(&volume).await?;
    // No controller binds volumes here: what it would write is written by the test.
    let bound = Patch::Merge(json!({"status": {"phase": "Bound"}}));
    let params = PatchParams::default();
    let claims = sandbox.api("v1", "PersistentVolumeClaim").await?;
    claims.patch_status("data", &params, &bound).await?;
    let volumes: Api<PersistentVolume> = Api::all(sandbox.client());
    volumes.patch_status(&name, &params, &bound).await?;
    Ok(())
}

/// No controller counts quotas here: what it would write at first is written by the test.
pub async fn quota(sandbox: &Sandbox, resource: &str, most: &str) -> Result<()> {
    let quota = format!(
        "
apiVersion: v1
kind: ResourceQuota
metadata: {{name: small}}
spec: {{hard: {{{resource}: '{most}'}}}}
"
    );
    sandbox.apply(&quota).await?;
    let quotas = sandbox.api("v1", "ResourceQuota").await?;
    let before = quotas.get("small").await?;
    let used = before.data["status"]["used"][resource].as_str();
    let used = used.unwrap_or("0").to_owned();
    let status = json!({"status": {"hard": {resource: most}, "used": {resource: used}}});
    quotas
        .patch_status("small", &PatchParams::default(), &Patch::Merge(status))
        .await?;
    Ok(())
}

/// A PriorityClass of this test alone; its name.
pub async fn class(sandbox: &Sandbox, value: i32, policy: &str) -> Result<String> {
    let name = format!("{}-{value}-{}", sandbox.namespace, policy.to_lowercase());
    let class = format!(
        "{{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {{name: {name}}}, value: \
         {value}, preemptionPolicy: {policy}}}"
    );
    sandbox.apply(&class).await?;
    Ok(name)
}

/// Waits until so many pods of the gang exist that wait, and are not about to go. Placeholders of a
/// scheduler have other names.
pub async fn waiting(sandbox: &Sandbox, count: usize) -> Result<Vec<Pod>> {
    sandbox
        .wait_for(&format!("{count} pods that wait"), async || {
            let mut pods = sandbox.pods().await?;
            pods.retain(|pod| {
                let spec = pod.spec.as_ref();
                let going = pod.metadata.deletion_timestamp.is_some();
                let own = pod.metadata.name.as_deref().unwrap_or_default();
                let waits = spec.is_some_and(|spec| spec.node_name.is_none()) && !going;
                waits && own.starts_with("train-")
            });
            ensure!(pods.len() == count, "{} wait", pods.len());
            Ok(pods)
        })
        .await
}

/// Says of every pod what a kubelet says that cannot pull its image.
pub async fn no_image(sandbox: &Sandbox) -> Result<()> {
    let waiting = json!({"reason": "ImagePullBackOff", "message": "Back-off pulling image"});
    let container = json!({"name": "main", "image": "train", "imageID": "", "ready": false,
        "restartCount": 0, "state": {"waiting": waiting}});
    let status = Patch::Merge(json!({"status": {"containerStatuses": [container]}}));
    let api: Api<Pod> = Api::namespaced(sandbox.client(), &sandbox.namespace);
    for pod in sandbox.pods().await? {
        let name = pod.metadata.name.unwrap_or_default();
        api.patch_status(&name, &PatchParams::default(), &status)
            .await?;
    }
    Ok(())
}

/// Takes the link of a pod away, as a user or a controller could.
pub async fn unlink(sandbox: &Sandbox, pod: &Pod, scheduler: Scheduler) -> Result<Instant> {
    let (labels, annotations): (&[&str], &[&str]) = match scheduler {
        Scheduler::Native | Scheduler::Kai => bail!("it cannot be taken away"),
        Scheduler::Volcano => (&[], &["scheduling.k8s.io/group-name"]),
        Scheduler::Coscheduling => (&["scheduling.x-k8s.io/pod-group"], &[]),
        Scheduler::Koordinator => (
            &["pod-group.scheduling.sigs.k8s.io"],
            &["gang.scheduling.koordinator.sh/name"],
        ),
        Scheduler::Yunikorn => (
            &["yunikorn.apache.org/app-id"],
            &["yunikorn.apache.org/task-group-name"],
        ),
    };
    let none = |keys: &[&str]| -> Value {
        let keys = keys.iter().map(|key| ((*key).to_owned(), Value::Null));
        Value::Object(keys.collect())
    };
    let patch = json!({"metadata": {"labels": none(labels), "annotations": none(annotations)}});
    let api: Api<Pod> = Api::namespaced(sandbox.client(), &sandbox.namespace);
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    Ok(Instant::now())
}

/// A cluster whose scheduler lacks the gate of its gangs.
pub async fn half_on(sandbox: &Sandbox) -> Result<Sandbox> {
    let cluster = &sandbox.cluster;
    let cluster = cluster.another_release(Release::V1_37HalfOn, "explain-half-on");
    Sandbox::new(cluster.await?, &sandbox.namespace).await
}

/// A cluster whose apiserver calls Muster for workloads and no longer for their Jobs and pods.
pub async fn without_links(sandbox: &Sandbox) -> Result<Sandbox> {
    let cluster = sandbox
        .cluster
        .another_with("explain-no-links", &[], &[])
        .await?;
    let sandbox = Sandbox::new(cluster, &sandbox.namespace).await?;
    let (workloads, params) = (["jobsets.muster.dev"], PostParams::default());
    let api: Api<MutatingWebhookConfiguration> = Api::all(sandbox.client());
    let mut hooks = api.get("muster-mutating").await?;
    let called = hooks.webhooks.get_or_insert_default();
    called.retain(|hook| workloads.contains(&hook.name.as_str()));
    ensure!(called.len() == 1, "no webhook is called {workloads:?}");
    api.replace("muster-mutating", &params, &hooks).await?;
    let api: Api<ValidatingWebhookConfiguration> = Api::all(sandbox.client());
    let mut hooks = api.get("muster-validating").await?;
    let called = hooks.webhooks.get_or_insert_default();
    called.retain(|hook| workloads.contains(&hook.name.as_str()));
    api.replace("muster-validating", &params, &hooks).await?;
    // The apiserver learns of it by a watch.
    tokio::time::sleep(Duration::from_secs(2)).await;
    Ok(sandbox)
}
