//! The schedulers of other projects, beside Kubernetes' own, each as its project runs it.
//!
//! All of them share one control plane: each sees only the pods that name it. They are installed
//! (CRDs, queues) before anything watches, and are started after.

mod coscheduling;
pub mod kai;
mod koordinator;
pub mod volcano;
pub mod yunikorn;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::control_plane::ControlPlane;
use crate::objects::Objects;
use crate::operators::served;
use crate::process::Process;

pub use coscheduling::Retries;

/// A scheduler of another project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Coscheduling,
    Volcano,
    Koordinator(Retries),
    Yunikorn,
    Kai,
}

pub const ALL: &[Kind] = &[
    Kind::Coscheduling,
    Kind::Volcano,
    Kind::Koordinator(Retries::Calm),
    Kind::Yunikorn,
    Kind::Kai,
];

impl Kind {
    /// Installs what it needs before it starts.
    pub async fn install(self, plane: &ControlPlane, objects: &Objects) -> Result<()> {
        match self {
            Self::Coscheduling => define("coscheduling", plane, objects).await,
            Self::Volcano => define("volcano", plane, objects).await,
            Self::Koordinator(_) => define("koordinator", plane, objects).await,
            Self::Yunikorn => yunikorn::install(objects).await,
            Self::Kai => {
                define("kai", plane, objects).await?;
                kai::install(objects).await
            }
        }
    }

    pub async fn start(self, plane: &ControlPlane, objects: &Objects) -> Result<Vec<Process>> {
        Ok(match self {
            Self::Coscheduling => vec![coscheduling::start(plane).await?],
            Self::Volcano => volcano::start(plane, objects).await?.into(),
            Self::Koordinator(retries) => vec![koordinator::start(plane, retries).await?],
            Self::Yunikorn => vec![yunikorn::start(plane)?],
            Self::Kai => kai::start(plane)?.into(),
        })
    }
}

/// Applies its CRDs and waits until they are served.
async fn define(name: &str, plane: &ControlPlane, objects: &Objects) -> Result<()> {
    let path = plane.components().path(&format!("{name}.json"))?;
    let text = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let definitions: Vec<Value> = serde_json::from_slice(&text)?;
    objects.apply_all(&definitions, "").await?;
    for definition in &definitions {
        served(definition, objects).await?;
    }
    Ok(())
}

/// Writes the configuration of a scheduler that is built on kube-scheduler.
fn framework_config(plane: &ControlPlane, name: &str, profile: Value) -> Result<PathBuf> {
    let config = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": plane.kubeconfig, "qps": 1000, "burst": 1000},
        "leaderElection": {"leaderElect": false},
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": 1,
        "profiles": [profile],
    });
    let path = plane.dir().join(format!("{name}.json"));
    fs::write(&path, serde_json::to_vec(&config)?)?;
    Ok(path)
}
