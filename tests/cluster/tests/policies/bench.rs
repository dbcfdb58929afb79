//! An apiserver with policies, and nothing else: what it says of objects.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use kube::api::PostParams;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::control_plane::ControlPlane;
use crate::fields::extended;
use crate::health::{PATIENCE, wait_for};
use crate::install::{jobset, pod_template};
use crate::manifests::render;
use crate::objects::Objects;
use crate::release::Release;
use crate::sandbox::Sandbox;

const POLICIES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/manifests/policies");

/// What an apiserver says.
#[derive(Debug)]
pub enum Said {
    Accepted,
    /// Before it asked a policy.
    Before(String),
    /// A policy, and all its errors.
    Refused(String),
}

impl Said {
    pub fn of(outcome: Result<()>) -> Result<Said> {
        let Err(error) = outcome else {
            return Ok(Said::Accepted);
        };
        let Some(kube::Error::Api(status)) = error.downcast_ref() else {
            return Err(error);
        };
        let said = &status.message;
        let Some((_, errors)) = said.split_once(" denied request: ") else {
            return Ok(Said::Before(said.clone()));
        };
        ensure!(!errors.contains("resulted in error"), "{said}");
        // As Kubernetes' own validation.
        ensure!(status.code == 422, "{status:?}");
        Ok(Said::Refused(errors.to_owned()))
    }
}

/// An apiserver with the CRDs, where JobSets have gang fields, and the objects that updates change.
pub struct Bench {
    pub objects: Objects,
    plane: ControlPlane,
}

impl Bench {
    /// With the policies, for tests that store little; it ends with the run.
    pub async fn shared(sandbox: &Sandbox) -> Result<&'static Bench> {
        static SHARED: OnceCell<Bench> = OnceCell::const_new();
        SHARED
            .get_or_try_init(async || {
                let bench = Bench::new(sandbox, Release::V1_37, "policies").await?;
                bench.install_policies().await?;
                Ok(bench)
            })
            .await
    }

    pub async fn new(sandbox: &Sandbox, release: Release, name: &str) -> Result<Bench> {
        let plane = sandbox.cluster.plane.another(release, name).await?;
        let objects = Objects::new(plane.client.clone());
        let bench = Bench { objects, plane };
        for file in ["jobset.json", "lws.json"] {
            let manifests = std::fs::read(bench.plane.components().path(file)?)?;
            let manifests: Vec<Value> = serde_json::from_slice(&manifests)?;
            let is_workload = |object: &Value| {
                object["kind"] == "CustomResourceDefinition"
                    && ["JobSet", "LeaderWorkerSet"]
                        .iter()
                        .any(|kind| object["spec"]["names"]["kind"] == *kind)
            };
            let crd = manifests.into_iter().find(is_workload);
            let mut crd = extended(crd.context("no CRD")?)?;
            // No controller runs here.
            crd["spec"]["conversion"] = json!({"strategy": "None"});
            bench.objects.apply(&crd, "").await?;
        }
        wait_for("JobSets and LeaderWorkerSets", PATIENCE, async || {
            bench.try_create(&jobset("any"), "default").await?;
            bench.try_create(&leaderworkerset(), "default").await
        })
        .await?;
        Ok(bench)
    }

    pub async fn install_policies(&self) -> Result<()> {
        let policies = render(self.plane.components(), Path::new(POLICIES))?;
        ensure!(policies.len() == 8, "a policy and a binding for each file");
        self.objects.apply_all(&policies, "").await?;
        // New policies reach the apiserver's admission a moment after they are stored.
        for object in [jobset("bad"), leaderworkerset(), job(), deployment()] {
            let mut bad = object;
            bad["metadata"]["annotations"] = json!({"muster.dev/gang-mode": "On"});
            wait_for(
                "a policy to be in force",
                PATIENCE,
                async || match Said::of(self.try_create(&bad, "default").await)? {
                    Said::Refused(_) => Ok(()),
                    other => bail!("{}: {other:?}", bad["kind"]),
                },
            )
            .await?;
        }
        Ok(())
    }

    pub async fn add_namespace(&self, name: &str) -> Result<()> {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.objects.apply(&namespace, "").await?;
        Ok(())
    }

    pub async fn try_create(&self, object: &Value, namespace: &str) -> Result<()> {
        let created = self.objects.try_create(object, namespace).await;
        created.map(|_| ())
    }

    /// Creates it for good, and returns what is stored; nothing if the apiserver refuses it.
    pub async fn store(&self, object: &Value, namespace: &str) -> Result<Option<Value>> {
        let (api_version, kind) = (word(object, "apiVersion")?, word(object, "kind")?);
        let api = self.objects.api(api_version, kind, namespace).await?;
        let object = serde_json::from_value(object.clone())?;
        match api.create(&PostParams::default(), &object).await {
            Ok(stored) => Ok(Some(serde_json::to_value(stored)?)),
            Err(kube::Error::Api(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    pub async fn try_replace(&self, object: &Value) -> Result<()> {
        let (api_version, kind) = (word(object, "apiVersion")?, word(object, "kind")?);
        let metadata = &object["metadata"];
        let (namespace, name) = (word(metadata, "namespace")?, word(metadata, "name")?);
        let api = self.objects.api(api_version, kind, namespace).await?;
        let params = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let object = serde_json::from_value(object.clone())?;
        api.replace(name, &params, &object).await?;
        Ok(())
    }
}

pub fn word<'o>(object: &'o Value, field: &str) -> Result<&'o str> {
    object[field]
        .as_str()
        .with_context(|| format!("no {field}: {object}"))
}

pub fn leaderworkerset() -> Value {
    let template = json!({"spec": {"containers": [{"name": "main", "image": "train"}]}});
    json!({
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "any"},
        "spec": {"leaderWorkerTemplate": {"size": 2, "workerTemplate": template}},
    })
}

pub fn job() -> Value {
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "any"},
        "spec": {"template": pod_template()},
    })
}

pub fn deployment() -> Value {
    let labels = json!({"app": "any"});
    let containers = json!([{"name": "main", "image": "train"}]);
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "any"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
        },
    })
}
