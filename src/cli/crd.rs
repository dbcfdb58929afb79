//! `muster crd`: add the gang fields to the installed JobSet CRD, keep them there, take them away.

use std::io::Write;
use std::time::Duration;

use futures::StreamExt as _;
use json_patch::{Patch, PatchOperation};
use kube::api::{Api, PatchParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, ResourceExt as _, api};
use serde_json::Value;

use super::connect::{self, ConnectError};
use super::terminal::printable;
use super::yaml;
use crate::args::Target;
use crate::controller::inspect::unseen::reason;
use crate::workload::jobset::crd::{self, CRD, CrdError};

/// The CRD that is extended.
pub const NAME: &str = CRD;

/// What to do with the fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// Add them.
    Extend,
    /// Remove them.
    Revert(InUse),
}

/// What happens to JobSets that use the fields when these go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InUse {
    /// Nothing: the fields stay as long as they are used.
    Refuse,
    /// They lose their gangs.
    Lose,
}

/// Whether to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Write once.
    Once,
    /// Print what would change.
    DryRun,
    /// Go on after a JobSet upgrade has replaced the CRD.
    Watch,
}

/// Why the CRD was not changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No cluster was found.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The apiserver refused a request.
    #[error("cannot read or write the CRD {CRD}: {}", reason(.0))]
    Api(Box<kube::Error>),
    /// The CRD is not one that can be extended.
    #[error(transparent)]
    Crd(#[from] CrdError),
    /// These JobSets use the fields that would be removed.
    #[error(
        "{} JobSet(s) use these fields, and their pods would start without a gang: {}; delete \
         them first, or lose their gangs with --force",
        .0.len(), .0.iter().take(10).cloned().collect::<Vec<_>>().join(", ")
    )]
    InUse(Vec<String>),
    /// The output cannot be written.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        Self::Api(Box::new(error))
    }
}

/// An apiserver ends the watches of a CRD that has changed a second later, and until then shows in them
/// what is created meanwhile without the new fields (customresource_handler.go, 1.37). Muster's own is
/// one of them: who applies a JobSet as the next command would have no gang until the JobSet changes.
const OLD_WATCHES: Duration = Duration::from_secs(2);

/// Runs the command against the cluster of the kubeconfig.
pub async fn run(
    wish: Wish,
    mode: Mode,
    target: &Target,
    out: &mut dyn Write,
) -> Result<(), Error> {
    let client = connect::user(target).await?.client;
    if wish == Wish::Revert(InUse::Refuse) {
        let users = users(client.clone()).await?;
        if !users.is_empty() {
            return Err(Error::InUse(users));
        }
    }
    let api = crds(client);
    step(&api, wish, mode, out).await?;
    if mode != Mode::Watch {
        return Ok(());
    }
    writeln!(out, "watching; Ctrl-C ends it")?;
    let only = watcher::Config::default().fields(&format!("metadata.name={CRD}"));
    let mut changes = std::pin::pin!(
        watcher(api.clone(), only)
            .default_backoff()
            .applied_objects()
    );
    while let Some(change) = changes.next().await {
        match change {
            Ok(_) => step(&api, wish, mode, out).await?,
            Err(error) => {
                let why = printable(&error.to_string());
                writeln!(out, "cannot watch: {why}; trying again")?;
            }
        }
    }
    Ok(())
}

/// The JobSets that use the fields.
async fn users(client: Client) -> Result<Vec<String>, Error> {
    let kind = GroupVersionKind::gvk("jobset.x-k8s.io", "v1alpha2", "JobSet");
    let api: Api<DynamicObject> = Api::all_with(client, &ApiResource::from_gvk(&kind));
    let mut users = Vec::new();
    let mut page = api::ListParams::default().limit(500);
    loop {
        let list = api.list(&page).await?;
        let using = list.items.iter().filter(|jobset| crd::uses(&jobset.data));
        users.extend(using.map(|jobset| {
            let namespace = jobset.namespace().unwrap_or_default();
            format!("{namespace}/{}", jobset.name_any())
        }));
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(users),
        }
    }
}

fn crds(client: Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    Api::all_with(client, &ApiResource::from_gvk(&kind))
}

/// What is to change in the installed CRD.
pub fn patch(wish: Wish, installed: &Value) -> Result<Patch, Error> {
    Ok(match wish {
        Wish::Extend => crd::extend(installed)?,
        Wish::Revert(_) => crd::revert(installed)?,
    })
}

async fn step(
    api: &Api<DynamicObject>,
    wish: Wish,
    mode: Mode,
    out: &mut dyn Write,
) -> Result<(), Error> {
    let installed = api.get(CRD).await?;
    let patch = patch(wish, &installed.data)?;
    if patch.0.is_empty() {
        if mode != Mode::Watch {
            writeln!(out, "{CRD}: nothing to change")?;
        }
        return Ok(());
    }
    write!(out, "{}", diff(&patch))?;
    if mode == Mode::DryRun {
        writeln!(out, "{CRD}: not written (dry run)")?;
        return Ok(());
    }
    let patch: api::Patch<()> = api::Patch::Json(patch);
    api.patch(CRD, &PatchParams::default(), &patch).await?;
    tokio::time::sleep(OLD_WATCHES).await;
    writeln!(out, "{CRD}: written")?;
    Ok(())
}

/// The change for people: paths, and what comes or goes.
fn diff(patch: &Patch) -> String {
    let mut shown = String::new();
    for operation in &patch.0 {
        match operation {
            PatchOperation::Add(add) => {
                shown.push_str(&format!("+ {}\n", add.path));
                for line in yaml::to_string(&add.value).lines() {
                    shown.push_str(&format!("+   {line}\n"));
                }
            }
            other => shown.push_str(&format!("- {}\n", other.path())),
        }
    }
    shown
}
