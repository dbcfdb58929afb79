//! What the cluster serves: asked of the apiserver, kept as a snapshot for admission.
//!
//! Probes resources, never groups: `scheduling.k8s.io` always exists for PriorityClasses.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::Client;
use kube::api::{Api, PostParams};
use kube::core::{ApiResource, GroupVersionKind};

use crate::gang::SchedulerKind;
use crate::gang::link::LinkPlace;
use crate::scheduler::{
    self, Api as SchedulerApi, Entry, JobTemplates, Probe, Release, Served, Snapshot,
};
use crate::workload::{Facts, object};

/// How often the cluster is looked at again: CRDs come and go while Muster runs.
pub const REFRESH: Duration = Duration::from_secs(30);

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The schedulers whose APIs are served.
    pub served: Vec<Served>,
    /// What else of the schedulers was looked for, and is there.
    pub probes: Vec<Probe>,
    /// Whether links in Jobs' templates survive.
    pub job_templates: JobTemplates,
    /// The version of the apiserver.
    pub release: Option<Release>,
    /// The user that Muster is.
    pub own_user: Option<String>,
    /// The workloads that exist here at all.
    pub workloads: Vec<&'static Facts>,
    /// The kinds of objects that Muster makes on this cluster, as (group/version, kind).
    pub kinds: Vec<(&'static str, &'static str)>,
}

/// Whether it is an error that the schemas of CRDs may not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Schemas {
    /// Admission decides by them.
    Needed,
    /// What cannot be read is taken to be as in the newest version.
    IfAllowed,
}

/// Looks at the cluster with the rights of Muster's own role.
pub async fn discover(client: &Client) -> Result<Found, kube::Error> {
    discover_with(client, Schemas::Needed).await
}

/// Looks at the cluster with the rights of a person, who may not read CRDs.
pub(super) async fn discover_as_reader(client: &Client) -> Result<Found, kube::Error> {
    discover_with(client, Schemas::IfAllowed).await
}

async fn discover_with(client: &Client, schemas: Schemas) -> Result<Found, kube::Error> {
    let version = client.apiserver_version().await?;
    let mut found = Found {
        release: Release::read(&version.major, &version.minor),
        own_user: own_user(client).await?,
        served: Vec::new(),
        probes: Vec::new(),
        job_templates: JobTemplates::KeepLinks,
        workloads: Vec::new(),
        kinds: Vec::new(),
    };
    for facts in object::workloads() {
        // Kubernetes' core is always served.
        let core = facts.kind.group.is_empty();
        if core || serves(client, &facts.kind.api_version(), facts.kind.plural).await? {
            found.workloads.push(facts);
        }
    }
    let mut fields = Vec::new();
    for entry in scheduler::TABLE {
        let Some(api) = served_api(client, entry).await? else {
            continue;
        };
        let (scheduler, version) = (entry.kind, api.version);
        found.served.push(Served { scheduler, version });
        let kinds = api.resources.iter();
        found.kinds.extend(kinds.map(|r| (version, r.kind)));
        for probe in api.probes {
            if has(client, probe, schemas).await? {
                found.probes.push(*probe);
                found.kinds.extend(made_where_found(probe));
            }
        }
        let by_field = entry.links.iter();
        let by_field = by_field.filter(|link| link.place == LinkPlace::Field);
        fields.extend(by_field.map(|link| link.key));
    }
    if !fields.is_empty() && !job_types_have(client, &found.workloads, &fields, schemas).await? {
        found.job_templates = JobTemplates::LoseLinks;
    }
    Ok(found)
}

/// Who Muster is to the apiserver; every authenticated user may ask (Kubernetes 1.28 and later).
async fn own_user(client: &Client) -> Result<Option<String>, kube::Error> {
    let api: Api<SelfSubjectReview> = Api::all(client.clone());
    let review = api
        .create(&PostParams::default(), &SelfSubjectReview::default())
        .await?;
    let user = review.status.and_then(|status| status.user_info);
    Ok(user.and_then(|user| user.username))
}

/// The first of a scheduler's APIs whose resources are all served.
async fn served_api(
    client: &Client,
    entry: &'static Entry,
) -> Result<Option<&'static SchedulerApi>, kube::Error> {
    for api in entry.apis {
        if serves_all(client, api).await? {
            return Ok(Some(api));
        }
    }
    Ok(None)
}

async fn serves_all(client: &Client, api: &SchedulerApi) -> Result<bool, kube::Error> {
    for resource in api.resources {
        if !serves(client, api.version, resource.plural).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

async fn has(client: &Client, probe: &Probe, schemas: Schemas) -> Result<bool, kube::Error> {
    match probe {
        Probe::Resource { version, resource } => serves(client, version, resource.plural).await,
        Probe::Field { crd, field } => {
            let schema = schema(client, crd, schemas).await?;
            Ok(schema.is_none_or(|schema| mentions(&schema, field)))
        }
    }
}

/// The kind of objects that Muster makes where the probe finds it.
fn made_where_found(probe: &Probe) -> Option<(&'static str, &'static str)> {
    match probe {
        Probe::Resource { version, resource } => Some((version, resource.kind)),
        Probe::Field { .. } => None,
    }
}

pub(super) async fn serves(
    client: &Client,
    version: &str,
    resource: &str,
) -> Result<bool, kube::Error> {
    match client.list_api_group_resources(version).await {
        Ok(list) => Ok(list.resources.iter().any(|r| r.name == resource)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether the types by which workloads' controllers write Jobs know one of these fields: their
/// CRDs repeat them.
async fn job_types_have(
    client: &Client,
    workloads: &[&Facts],
    fields: &[&str],
    schemas: Schemas,
) -> Result<bool, kube::Error> {
    for crd in workloads.iter().filter_map(|facts| facts.job_types) {
        let schema = schema(client, crd, schemas).await?;
        if schema.is_some_and(|schema| !fields.iter().any(|field| mentions(&schema, field))) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The schema of a CRD; nothing where it may not be read and need not be.
async fn schema(
    client: &Client,
    crd: &str,
    schemas: Schemas,
) -> Result<Option<String>, kube::Error> {
    let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{crd}");
    let request = http::Request::get(path)
        .body(Vec::new())
        .map_err(kube::Error::HttpError)?;
    match client.request_text(request).await {
        Err(kube::Error::Api(status)) if status.code == 403 && schemas == Schemas::IfAllowed => {
            Ok(None)
        }
        read => read.map(Some),
    }
}

fn mentions(schema: &str, field: &str) -> bool {
    schema.contains(&format!("{field:?}"))
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
            namespaces: last.namespaces.watched(),
            job_templates: self.job_templates,
            ganged_unasked: last.ganged_unasked.clone(),
            own_user: self.own_user.clone(),
            seals: Arc::clone(&last.seals),
            vouched: last.vouched.clone(),
            standing: last.standing.watched(),
            release: self.release,
            wait: Arc::clone(&last.wait),
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
