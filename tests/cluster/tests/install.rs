//! The manifests on a real apiserver, with Muster down: what is called, and what is spared.

use std::fs;

use anyhow::{Context, Result, bail, ensure};
use kube::api::{
    Api, DeleteParams, DynamicObject, ListParams, ObjectMeta, Patch, PatchParams, PostParams,
};
use serde_json::{Value, json};

use crate::control_plane::flag;
use crate::health::{PATIENCE, wait_for};
use crate::install::{CLOSED_PORT, Installed, NAMESPACE, OLDER, jobset, pod_template};
use crate::sandbox::Sandbox;

const GANG: &str = "muster.dev/gang";
const MODE: &str = "muster.dev/gang-mode";
const REFUSED: &str = "connection refused";

impl Installed {
    /// Refused because the webhook of that name was called, and nobody answered.
    async fn calls(&self, webhook: &str, object: &Value) -> Result<()> {
        match self.objects.try_create(object, "default").await {
            Ok(_) => bail!("{webhook} was not called for {object}"),
            Err(error) => called(webhook, error),
        }
    }

    async fn spares(&self, object: &Value) -> Result<()> {
        let created = self.objects.try_create(object, "default").await;
        created.context("an object without a gang").map(|_| ())
    }

    /// New configurations reach the apiserver's admission a moment after they are stored.
    async fn in_force(&self) -> Result<()> {
        wait_for("the webhooks to be in force", PATIENCE, async || {
            self.calls("jobsets.muster.dev", &with_mode(jobset("a"), "/metadata"))
                .await?;
            self.calls("stamped-jobs.muster.dev", &stamped(job())).await
        })
        .await
    }

    async fn jobsets(&self) -> Result<Api<DynamicObject>> {
        let api = self
            .objects
            .api("jobset.x-k8s.io/v1alpha2", "JobSet", "default");
        api.await
    }
}

fn called(webhook: &str, error: anyhow::Error) -> Result<()> {
    let said = format!("{error:#}");
    let expected = format!("failed calling webhook \"{webhook}\"");
    ensure!(said.contains(&expected) && said.contains(REFUSED), "{said}");
    Ok(())
}

fn with_mode(mut object: Value, metadata: &str) -> Value {
    let (parent, _) = metadata.rsplit_once('/').unwrap();
    let parent = object.pointer_mut(parent).unwrap();
    if parent["metadata"].is_null() {
        parent["metadata"] = json!({});
    }
    parent["metadata"]["annotations"] = json!({MODE: "Gang"});
    object
}

fn stamped(mut object: Value) -> Value {
    object["metadata"]["labels"] = json!({GANG: "workers"});
    object
}

fn job() -> Value {
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "job"},
        "spec": {"template": pod_template()},
    })
}

/// Kubernetes' own controllers of pods.
const CONTROLLERS: [&str; 5] = [
    "Deployment",
    "StatefulSet",
    "ReplicaSet",
    "DaemonSet",
    "ReplicationController",
];

fn controller(kind: &str) -> Value {
    let (version, selector) = match kind {
        "ReplicationController" => ("v1", json!({"app": "a"})),
        _ => ("apps/v1", json!({"matchLabels": {"app": "a"}})),
    };
    let mut template = pod_template();
    template["metadata"] = json!({"labels": {"app": "a"}});
    template["spec"]["restartPolicy"] = json!("Always");
    json!({
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": "controller"},
        "spec": {"selector": selector, "template": template},
    })
}

fn cronjob() -> Value {
    json!({
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "cronjob"},
        "spec": {"schedule": "0 3 1 1 *", "jobTemplate": {"spec": {"template": pod_template()}}},
    })
}

fn pod() -> Value {
    let mut pod = pod_template();
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"] = json!({"name": "pod"});
    pod
}

/// As GKE configures its apiservers.
const LIMITED: &str = r#"
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: ResourceQuota
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: ResourceQuotaConfiguration
    limitedResources:
    - resource: pods
      matchScopes:
      - scopeName: PriorityClass
        operator: In
        values: [system-node-critical, system-cluster-critical]
"#;

/// Under the restricted standard, as the namespace is labelled.
pub async fn replicas_are_created_where_a_quota_must_allow_their_priority(
    sandbox: Sandbox,
) -> Result<()> {
    let shared = &sandbox.cluster.plane;
    let plane = shared.another_with("limited", |dir, _| {
        let file = dir.join("admission.yaml");
        fs::write(&file, LIMITED)?;
        Ok(vec![flag("admission-control-config-file", file.display())])
    });
    let installed = Installed::on(plane.await?, CLOSED_PORT).await?;
    let further = ",resourcequota-controller";
    let _manager = installed
        .plane
        .start_controller_manager_with(further)
        .await?;
    let pods = installed.objects.api("v1", "Pod", NAMESPACE).await?;
    wait_for("two replicas", PATIENCE, async || {
        let found = pods.list(&ListParams::default()).await?.items.len();
        ensure!(found == 2, "{found} pods");
        Ok(())
    })
    .await?;
    let quotas = installed.objects.api("v1", "ResourceQuota", NAMESPACE);
    quotas
        .await?
        .delete("muster-critical-pods", &DeleteParams::default())
        .await?;
    let mut further = pods.list(&ListParams::default()).await?.items.remove(0);
    further.metadata = ObjectMeta {
        name: Some("further".to_owned()),
        ..ObjectMeta::default()
    };
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    wait_for(
        "the apiserver to want a quota",
        PATIENCE,
        async || match pods.create(&dry_run, &further).await {
            Ok(_) => bail!("admitted without a quota"),
            Err(error) => wants_a_quota(&error.to_string()),
        },
    )
    .await
}

fn wants_a_quota(said: &str) -> Result<()> {
    ensure!(
        said.contains("insufficient quota to match these scopes"),
        "{said}"
    );
    Ok(())
}

pub async fn objects_without_a_gang_never_reach_muster(sandbox: Sandbox) -> Result<()> {
    let installed = Installed::get(&sandbox).await?;
    installed.in_force().await?;
    installed.spares(&jobset("plain")).await?;
    installed.spares(&job()).await?;
    installed.spares(&pod()).await?;
    for kind in CONTROLLERS {
        installed.spares(&controller(kind)).await?;
    }
    installed.spares(&cronjob()).await?;
    // As LeaderWorkerSet makes it from a stamped template.
    let mut stamped = controller("StatefulSet");
    stamped["metadata"]["name"] = json!("stamped");
    stamped["spec"]["template"]["metadata"]["labels"][GANG] = json!("replica");
    stamped["spec"]["template"]["metadata"]["annotations"] = json!({"muster.dev/stamp": "{}"});
    installed.spares(&stamped).await?;
    let mut other = jobset("other");
    other["metadata"]["annotations"] = json!({"example.com/a": "b"});
    other["metadata"]["labels"] = json!({"example.com/a": "b"});
    installed.spares(&other).await
}

pub async fn objects_with_a_gang_are_refused_while_muster_is_down(sandbox: Sandbox) -> Result<()> {
    let installed = Installed::get(&sandbox).await?;
    installed.in_force().await?;
    for metadata in [
        "/metadata",
        "/spec/replicatedJobs/0/template/metadata",
        "/spec/replicatedJobs/0/template/spec/template/metadata",
    ] {
        let ganged = with_mode(jobset("ganged"), metadata);
        installed.calls("jobsets.muster.dev", &ganged).await?;
    }
    let mut labelled = jobset("labelled");
    labelled["metadata"]["labels"] = json!({MODE: "Gang"});
    installed.calls("jobsets.muster.dev", &labelled).await?;
    let (job, pod) = (job(), pod());
    let calls = [
        ("stamped-jobs.muster.dev", stamped(job.clone())),
        ("stamped-pods.muster.dev", stamped(pod.clone())),
        ("jobs.muster.dev", with_mode(job.clone(), "/metadata")),
        ("jobs.muster.dev", with_mode(job, "/spec/template/metadata")),
        ("declaring-pods.muster.dev", with_mode(pod, "/metadata")),
    ];
    for (webhook, object) in calls {
        installed.calls(webhook, &object).await?;
    }
    for kind in CONTROLLERS {
        for metadata in ["/metadata", "/spec/template/metadata"] {
            let declares = with_mode(controller(kind), metadata);
            installed.calls("makers.muster.dev", &declares).await?;
        }
    }
    for metadata in ["/metadata", "/spec/jobTemplate/metadata"] {
        let declares = with_mode(cronjob(), metadata);
        installed.calls("makers.muster.dev", &declares).await?;
    }
    Ok(())
}

pub async fn the_system_is_spared_even_with_a_gang(sandbox: Sandbox) -> Result<()> {
    let installed = Installed::get(&sandbox).await?;
    installed.in_force().await?;
    for namespace in ["kube-system", NAMESPACE] {
        let ganged = with_mode(jobset("ganged"), "/metadata");
        installed.objects.try_create(&ganged, namespace).await?;
    }
    Ok(())
}

pub async fn malformed_jobsets_get_the_schemas_answer(sandbox: Sandbox) -> Result<()> {
    let installed = Installed::get(&sandbox).await?;
    installed.in_force().await?;
    let template =
        |template: Value| json!({"replicatedJobs": [{"name": "a", "template": template}]});
    for spec in [
        json!("text"),
        json!(null),
        json!({"replicatedJobs": "text"}),
        json!({"replicatedJobs": {"a": 1}}),
        json!({"replicatedJobs": ["text", null, 7]}),
        template(json!(7)),
        template(json!({"metadata": "text", "spec": {}})),
        template(json!({"metadata": {"annotations": "text", "labels": [1]}, "spec": 7})),
        template(json!({"spec": {"template": {"metadata": {"annotations": [1]}}}})),
        template(json!({"spec": {"template": "text"}})),
    ] {
        let mut malformed = jobset("malformed");
        malformed["spec"] = spec.clone();
        if let Err(error) = installed.spares(&malformed).await {
            let said = format!("{error:#}");
            let ours = ["webhook", "matchCondition", "match condition", "expression"];
            let ours = ours.iter().any(|word| said.contains(word));
            ensure!(!ours, "{spec}: {said}");
        }
    }
    Ok(())
}

pub async fn gang_fields_count_once_the_crd_has_them(sandbox: Sandbox) -> Result<()> {
    let installed = Installed::get(&sandbox).await?;
    installed.in_force().await?;
    let declare = |at: &str, field: &str| {
        let mut declaring = jobset("fields");
        declaring.pointer_mut(at).unwrap()[field] = json!({"gangMode": "Gang"});
        declaring
    };
    let declaring = [
        declare("/spec", "gangConfig"),
        declare("/spec", "groupSchedulingConfig"),
        declare("/spec/replicatedJobs/0", "gangConfig"),
    ];
    // The stock CRD prunes them, before any webhook could look.
    for object in &declaring {
        installed.spares(object).await?;
    }

    let crd = "jobsets.jobset.x-k8s.io";
    let field = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
    let patch: json_patch::Patch = serde_json::from_value(json!([
        {"op": "add", "path": format!("{spec}/gangConfig"), "value": field},
        {"op": "add", "path": format!("{spec}/groupSchedulingConfig"), "value": field},
        {
            "op": "add",
            "path": format!("{spec}/replicatedJobs/items/properties/gangConfig"),
            "value": field,
        },
    ]))?;
    let crds = installed
        .objects
        .api("apiextensions.k8s.io/v1", "CustomResourceDefinition", "");
    let extended = Patch::<()>::Json(patch);
    crds.await?
        .patch(crd, &PatchParams::default(), &extended)
        .await?;
    for object in &declaring {
        wait_for("the new fields", PATIENCE, async || {
            installed.calls("jobsets.muster.dev", object).await
        })
        .await?;
    }
    installed.spares(&jobset("plain")).await
}

pub async fn removing_the_last_gang_field_still_reaches_muster(sandbox: Sandbox) -> Result<()> {
    let installed = Installed::get(&sandbox).await?;
    installed.in_force().await?;
    let jobsets = installed.jobsets().await?;
    let removal = Patch::Merge(json!({"metadata": {"annotations": {MODE: null}}}));
    let removed = jobsets
        .patch(OLDER[0], &PatchParams::default(), &removal)
        .await;
    let error = removed.err().context("the gang was removed unseen")?;
    called("jobsets.muster.dev", error.into())
}

pub async fn a_ganged_jobset_can_be_deleted_while_muster_is_down(sandbox: Sandbox) -> Result<()> {
    let installed = Installed::get(&sandbox).await?;
    installed.in_force().await?;
    let (api, [_, held]) = (installed.jobsets().await?, OLDER);
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    let early = api.patch(held, &PatchParams::default(), &free).await;
    called(
        "jobsets.muster.dev",
        early.err().context("not called")?.into(),
    )?;

    api.delete(held, &Default::default()).await?;
    api.patch(held, &PatchParams::default(), &free).await?;
    ensure!(api.get_opt(held).await?.is_none(), "it is still there");
    Ok(())
}
