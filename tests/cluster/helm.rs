//! The real Helm, and kubectl's kustomize beside it: what the chart and the overlays render.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;

use crate::components::Components;
use crate::manifests;

pub const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/manifests/helm");
pub const RELEASE: &str = "muster";

/// Kind, namespace and name.
pub type Id = (String, String, String);

/// Objects by what they are called.
pub type Rendered = BTreeMap<Id, Value>;

/// Helm with folders of its own, so that a user's settings and caches play no part.
pub struct Helm {
    program: PathBuf,
    home: TempDir,
    kubeconfig: Option<PathBuf>,
}

impl Helm {
    pub fn new(components: &Components) -> Result<Helm> {
        Ok(Helm {
            program: components.path("helm")?.to_owned(),
            home: tempfile::tempdir()?,
            kubeconfig: None,
        })
    }

    /// For a cluster.
    pub fn of(self, kubeconfig: &Path) -> Helm {
        let kubeconfig = Some(kubeconfig.to_owned());
        Helm { kubeconfig, ..self }
    }

    /// A place for files.
    pub fn dir(&self) -> &Path {
        self.home.path()
    }

    pub fn run(&self, args: &[&str]) -> Result<Output> {
        let mut command = Command::new(&self.program);
        for folder in ["CACHE", "CONFIG", "DATA"] {
            command.env(format!("HELM_{folder}_HOME"), self.home.path().join(folder));
        }
        let none = self.home.path().join("no-kubeconfig");
        command.env("KUBECONFIG", self.kubeconfig.as_deref().unwrap_or(&none));
        let output = command.args(args).output();
        output.with_context(|| format!("cannot run helm {args:?}"))
    }

    /// What a command prints that must succeed.
    pub fn printed(&self, args: &[&str]) -> Result<String> {
        let output = self.run(args)?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "helm {}: {said}", args.join(" "));
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Why a command that must fail does.
    pub fn refused(&self, args: &[&str]) -> Result<String> {
        let output = self.run(args)?;
        let refused = !output.status.success();
        ensure!(refused, "helm {} succeeds", args.join(" "));
        Ok(String::from_utf8(output.stderr)?)
    }

    /// What a chart renders in that namespace, with and without its hooks.
    pub fn template(&self, chart: &str, namespace: &str, values: &[&str]) -> Result<Rendered> {
        let args = ["template", RELEASE, chart, "--namespace", namespace];
        by_name(manifests::parse(&self.printed(&[&args, values].concat())?)?)
    }
}

/// What a kustomization renders.
pub fn kustomize(components: &Components, kustomization: &Path) -> Result<Rendered> {
    by_name(manifests::render(components, kustomization)?)
}

/// Each object once: a second one of a name would replace the first.
pub fn by_name(objects: Vec<Value>) -> Result<Rendered> {
    let mut rendered = Rendered::new();
    for object in objects {
        // A document of comments alone.
        if object.is_null() {
            continue;
        }
        let word = |at: &str| {
            let word = object.pointer(at).and_then(Value::as_str);
            word.unwrap_or_default().to_owned()
        };
        let id = (
            word("/kind"),
            word("/metadata/namespace"),
            word("/metadata/name"),
        );
        let known = rendered.insert(id.clone(), object);
        ensure!(known.is_none(), "two of {id:?}");
    }
    Ok(rendered)
}

/// Whether Helm makes it only for a command such as `helm test`.
pub fn is_hook(object: &Value) -> bool {
    !object["metadata"]["annotations"]["helm.sh/hook"].is_null()
}
