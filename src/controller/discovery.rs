//! What the cluster serves: asked of the apiserver, kept as a snapshot for admission.
//!
//! Probes resources, never groups: `scheduling.k8s.io` always exists for PriorityClasses.

use std::time::Duration;

use kube::Client;
use kube::core::{ApiResource, GroupVersionKind};

use super::workloads::Workloads;
use crate::gang::SchedulerKind;
use crate::gang::link::LinkPlace;
use crate::scheduler::{self, Api, Entry, JobTemplates, Probe, Release, Served, Snapshot};

/// How often the cluster is looked at again: CRDs come and go while Muster runs.
pub const REFRESH: Duration = Duration::from_secs(30);

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub served: Vec<Served>,
    /// What else of the schedulers was looked for, and is there.
    pub probes: Vec<Probe>,
    pub job_templates: JobTemplates,
    pub release: Option<Release>,
    /// The workloads that exist here at all.
    pub workloads: Vec<Workloads>,
    /// The kinds of objects that Muster makes on this cluster, as (group/version, kind).
    pub kinds: Vec<(&'static str, &'static str)>,
}

/// Looks at the cluster.
pub async fn discover(client: &Client) -> Result<Found, kube::Error> {
    let version = client.apiserver_version().await?;
    let mut found = Found {
        release: Release::read(&version.major, &version.minor),
        served: Vec::new(),
        probes: Vec::new(),
        job_templates: JobTemplates::KeepLinks,
        workloads: Vec::new(),
        kinds: Vec::new(),
    };
    for workloads in Workloads::ALL {
        if serves(client, workloads.api_version(), workloads.plural()).await? {
            found.workloads.push(workloads);
        }
    }
    let mut by_field = false;
    for entry in scheduler::TABLE {
        let Some(api) = served_api(client, entry).await? else {
            continue;
        };
        let (scheduler, version) = (entry.kind, api.version);
        found.served.push(Served { scheduler, version });
        let kinds = api.resources.iter();
        found.kinds.extend(kinds.map(|r| (version, r.kind)));
        for probe in api.probes {
            if has(client, probe).await? {
                found.probes.push(*probe);
                found.kinds.extend(made_where_found(probe));
            }
        }
        let mut places = entry.links.iter().map(|link| link.place);
        by_field |= places.any(|place| place == LinkPlace::Field);
    }
    if by_field && found.workloads.contains(&Workloads::JobSets) {
        found.job_templates = job_templates(client).await?;
    }
    Ok(found)
}

/// The first of a scheduler's APIs whose resources are all served.
async fn served_api(
    client: &Client,
    entry: &'static Entry,
) -> Result<Option<&'static Api>, kube::Error> {
    for api in entry.apis {
        if serves_all(client, api).await? {
            return Ok(Some(api));
        }
    }
    Ok(None)
}

async fn serves_all(client: &Client, api: &Api) -> Result<bool, kube::Error> {
    for resource in api.resources {
        if !serves(client, api.version, resource.plural).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

async fn has(client: &Client, probe: &Probe) -> Result<bool, kube::Error> {
    match probe {
        Probe::Resource { version, resource } => serves(client, version, resource.plural).await,
        Probe::Field { crd, field } => schema_has(client, crd, field).await,
    }
}

/// The kind of objects that Muster makes where the probe finds it.
fn made_where_found(probe: &Probe) -> Option<(&'static str, &'static str)> {
    match probe {
        Probe::Resource { version, resource } => Some((version, resource.kind)),
        Probe::Field { .. } => None,
    }
}

async fn serves(client: &Client, version: &str, resource: &str) -> Result<bool, kube::Error> {
    match client.list_api_group_resources(version).await {
        Ok(list) => Ok(list.resources.iter().any(|r| r.name == resource)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether JobSet's types know a link that is a field (v0.12 and later do): its CRD repeats them.
async fn job_templates(client: &Client) -> Result<JobTemplates, kube::Error> {
    let known = schema_has(client, "jobsets.jobset.x-k8s.io", "schedulingGroup").await?;
    Ok(match known {
        true => JobTemplates::KeepLinks,
        false => JobTemplates::LoseLinks,
    })
}

/// Whether a field is anywhere in the schema of a CRD.
async fn schema_has(client: &Client, crd: &str, field: &str) -> Result<bool, kube::Error> {
    let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{crd}");
    let request = http::Request::get(path)
        .body(Vec::new())
        .map_err(kube::Error::HttpError)?;
    let crd = client.request_text(request).await?;
    Ok(crd.contains(&format!("{field:?}")))
}

impl Found {
    /// The snapshot that admission decides by. What no look at the cluster's APIs tells is kept
    /// from the last one: the labels of namespaces, and what was configured.
    pub fn snapshot(&self, default: Option<SchedulerKind>, last: &Snapshot) -> Snapshot {
        Snapshot {
            default,
            served: self.served.clone(),
            found: self.probes.clone(),
            variants: last.variants.clone(),
            namespaces: last.namespaces.clone(),
            job_templates: self.job_templates,
            ganged_unasked: last.ganged_unasked.clone(),
            release: self.release,
        }
    }

    /// The kinds as kube's client wants them.
    pub fn resources(&self) -> Vec<ApiResource> {
        let resource = |(version, kind): &(&str, &str)| {
            let (group, version) = version.split_once('/').unwrap_or(("", version));
            ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
        };
        self.kinds.iter().map(resource).collect()
    }
}
