//! Muster installed from its real manifests, on an apiserver of its own, with nothing running:
//! webhooks and roles hold for a whole cluster, and would disturb the tests that share one.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::control_plane::ControlPlane;
use crate::health::{PATIENCE, wait_for};
use crate::manifests::render;
use crate::objects::Objects;
use crate::sandbox::Sandbox;

pub const NAMESPACE: &str = "muster-system";

/// Nothing listens there.
pub const CLOSED_PORT: u16 = 1;

/// JobSets with a gang that were there before Muster; a finalizer holds the second.
pub const OLDER: [&str; 2] = ["older", "held"];

pub const BASE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/manifests/base");

pub const ALL_LEADERWORKERSETS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/manifests/all-leaderworkersets"
);

pub struct Installed {
    pub plane: ControlPlane,
    pub objects: Objects,
}

impl Installed {
    /// Installed by the first test that asks; it ends with the run.
    pub async fn get(sandbox: &Sandbox) -> Result<&'static Installed> {
        static INSTALLED: OnceCell<Installed> = OnceCell::const_new();
        INSTALLED
            .get_or_try_init(async || {
                Installed::new(&sandbox.cluster.plane, "install", CLOSED_PORT).await
            })
            .await
    }

    /// On an apiserver of that name, which calls Muster at that port.
    pub async fn new(shared: &ControlPlane, name: &str, port: u16) -> Result<Installed> {
        let plane = shared.another(shared.release, name).await?;
        Installed::on(plane, port).await
    }

    /// The same on an apiserver that is there.
    pub async fn on(plane: ControlPlane, port: u16) -> Result<Installed> {
        let objects = Objects::new(plane.client.clone());
        let installed = Installed { plane, objects };
        installed.add_jobset_crd().await?;
        for name in OLDER {
            let mut older = jobset(name);
            older["metadata"]["annotations"] = json!({"muster.dev/gang-mode": "Gang"});
            if name == OLDER[1] {
                older["metadata"]["finalizers"] = json!(["e2e.muster.dev/held"]);
            }
            installed.objects.apply(&older, "default").await?;
        }
        // What the controller-manager would do.
        let account = json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "default"},
        });
        installed.objects.apply(&account, "default").await?;

        let manifests = render(installed.plane.components(), Path::new(BASE))?;
        let manifests: Vec<Value> = manifests
            .into_iter()
            .map(|object| to_loopback(object, port))
            .collect();
        installed.objects.apply_all(&manifests, NAMESPACE).await?;
        Ok(installed)
    }

    /// With the rights that the manifests give, and no others.
    pub async fn client(&self) -> Result<Client> {
        self.plane.service_account_client(NAMESPACE, "muster").await
    }

    /// As the README installs Muster.
    pub fn kubectl_apply(&self, object: &Value) -> Result<()> {
        let path = self.plane.dir().join("applied.json");
        fs::write(&path, serde_json::to_vec(object)?)?;
        let mut kubectl = self.plane.components().program("kubectl")?;
        kubectl.env("KUBECONFIG", &self.plane.kubeconfig);
        let output = kubectl.args(["apply", "--filename"]).arg(path).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{said}");
        Ok(())
    }

    /// So that JobSets are served, by nobody.
    pub async fn add_jobset_crd(&self) -> Result<()> {
        let manifests = fs::read(self.plane.components().path("jobset.json")?)?;
        let manifests: Vec<Value> = serde_json::from_slice(&manifests)?;
        let mut crd = manifests
            .into_iter()
            .find(|object| object["metadata"]["name"] == "jobsets.jobset.x-k8s.io")
            .context("JobSet's manifests have no CRD")?;
        // No JobSet controller runs here.
        crd["spec"]["conversion"] = json!({"strategy": "None"});
        self.objects.apply(&crd, "").await?;
        wait_for("JobSets to be served", PATIENCE, async || {
            let api = self
                .objects
                .api("jobset.x-k8s.io/v1alpha2", "JobSet", "default");
            api.await?.get_opt("any").await?;
            Ok(())
        })
        .await
    }
}

/// A JobSet without a gang.
pub fn jobset(name: &str) -> Value {
    json!({
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name},
        "spec": {"replicatedJobs": [{
            "name": "workers",
            "template": {"spec": {"template": pod_template()}},
        }]},
    })
}

pub fn pod_template() -> Value {
    json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "train"}]}})
}

/// The Service and the port in the webhooks' references to it: nothing runs in pods here.
pub fn to_loopback(mut object: Value, port: u16) -> Value {
    if object["kind"] == "Service" {
        object["spec"] = json!({"type": "ExternalName", "externalName": "127.0.0.1"});
    }
    let hooks = object.get_mut("webhooks").and_then(Value::as_array_mut);
    for hook in hooks.into_iter().flatten() {
        hook["clientConfig"]["service"]["port"] = json!(port);
    }
    object
}
