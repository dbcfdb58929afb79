//! Where an owner reference that holds up its owner's deletion needs a right to the owner: the admission
//! plugin OwnerReferencesPermissionEnforcement, which is on on OpenShift.

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::control_plane::flag;
use crate::health::{PATIENCE, wait_for};
use crate::install::{Installed, jobset, pod_template};
use crate::muster::Muster;
use crate::ports::Port;
use crate::sandbox::Sandbox;

const PLUGIN: &str = "OwnerReferencesPermissionEnforcement";

fn ganged() -> [Value; 2] {
    let mut set = jobset("train");
    set["metadata"]["annotations"] = json!({"muster.dev/gang-mode": "Gang"});
    let job = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "annotations": {"muster.dev/gang-mode": "Gang"}},
        "spec": {"parallelism": 2, "completions": 2, "template": pod_template()},
    });
    [set, job]
}

pub async fn gangs_get_their_objects_where_owner_references_need_a_right(
    sandbox: Sandbox,
) -> Result<()> {
    let name = format!("owners-{}", sandbox.namespace);
    let shared = &sandbox.cluster.plane;
    let plane = shared.another_with(&name, |_, _| {
        Ok(vec![flag("enable-admission-plugins", PLUGIN)])
    });
    let port = Port::reserve()?;
    let installed = Installed::on(plane.await?, port.number).await?;
    let muster = Muster::installed(&installed.plane).await?;
    let _replica = muster.start_at(&installed.plane, "muster", port).await?;

    let mut owner = None;
    for object in ganged() {
        let applied = async || installed.objects.apply(&object, "default").await;
        let stored = wait_for("a gang to be admitted", PATIENCE, applied).await?;
        let kind = object["kind"].as_str().context("no kind")?;
        wait_for(
            &format!("the PodGroup of the {kind}"),
            PATIENCE,
            async || has_podgroup(&installed, kind).await,
        )
        .await?;
        owner = owner.or(Some(stored));
    }

    // Without the right it would not: the plugin is on.
    let owner = owner.context("no JobSet")?;
    let client = installed.client().await?;
    owns(&client, &owner).await?;
    let roles: Api<ClusterRole> = Api::all(installed.plane.client.clone());
    let mut rules = roles.get("muster").await?.rules.unwrap_or_default();
    rules.retain(|rule| {
        let resources = rule.resources.iter().flatten();
        !resources
            .into_iter()
            .any(|name| name.ends_with("/finalizers"))
    });
    let fewer = Patch::Merge(json!({"rules": rules}));
    roles
        .patch("muster", &PatchParams::default(), &fewer)
        .await?;
    wait_for("the plugin to refuse it", PATIENCE, async || {
        let Err(refused) = owns(&client, &owner).await else {
            bail!("it is allowed");
        };
        let said = format!("{refused:#}");
        ensure!(said.contains("cannot set blockOwnerDeletion"), "{said}");
        Ok(())
    })
    .await
}

async fn has_podgroup(installed: &Installed, kind: &str) -> Result<()> {
    let objects = &installed.objects;
    let groups = objects.api("scheduling.k8s.io/v1beta1", "PodGroup", "default");
    let groups = groups.await?.list(&ListParams::default()).await?;
    let owners = groups.iter().flat_map(|g| &g.metadata.owner_references);
    let mut owners = owners.flatten();
    let held = owners.any(|owner| {
        owner.kind == kind && owner.name == "train" && owner.block_owner_deletion == Some(true)
    });
    ensure!(held, "there is none among {}", groups.items.len());
    Ok(())
}

/// Whether Muster may make something that this object owns; nothing is stored.
async fn owns(client: &kube::Client, owner: &DynamicObject) -> Result<()> {
    let types = owner.types.as_ref().context("no kind")?;
    let owned = json!({
        "metadata": {"name": "owned", "ownerReferences": [{
            "apiVersion": types.api_version, "kind": types.kind,
            "name": owner.metadata.name, "uid": owner.metadata.uid,
            "controller": true, "blockOwnerDeletion": true,
        }]},
    });
    let owned: ConfigMap = serde_json::from_value(owned)?;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    maps.create(&dry_run, &owned).await?;
    Ok(())
}
