//! What the cluster serves: asked of the apiserver, kept as a snapshot for admission.
//!
//! Probes resources, never groups: `scheduling.k8s.io` always exists for PriorityClasses.

use std::time::Duration;

use kube::Client;
use kube::core::{ApiResource, GroupVersionKind};

use super::kinds::Workloads;
use crate::gang::SchedulerKind;
use crate::scheduler::{Dialect, JobTemplates, Release, Snapshot, SubGroups};

/// How often the cluster is looked at again: CRDs come and go while Muster runs.
pub const REFRESH: Duration = Duration::from_secs(30);

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub native: Option<Dialect>,
    pub served: Vec<SchedulerKind>,
    pub job_templates: JobTemplates,
    /// Whether bundles of Volcano can be made.
    pub sub_groups: SubGroups,
    pub release: Option<Release>,
    /// The workloads that exist here at all.
    pub workloads: Vec<Workloads>,
    /// The kinds of objects that Muster makes on this cluster, as (group/version, kind).
    pub kinds: Vec<(String, String)>,
}

/// The kinds that a scheduler's gangs are made of; served together or not at all.
struct Candidate {
    scheduler: SchedulerKind,
    dialect: Option<Dialect>,
    version: &'static str,
    kinds: &'static [(&'static str, &'static str)],
}

/// YuniKorn is none of them: it serves no API, so it is used only where someone names it.
const CANDIDATES: [Candidate; 7] = [
    Candidate {
        scheduler: SchedulerKind::Native,
        dialect: Some(Dialect::V1_37),
        version: Dialect::V1_37.api(),
        kinds: &[("workloads", "Workload"), ("podgroups", "PodGroup")],
    },
    Candidate {
        scheduler: SchedulerKind::Native,
        dialect: Some(Dialect::V1_36),
        version: Dialect::V1_36.api(),
        kinds: &[("workloads", "Workload"), ("podgroups", "PodGroup")],
    },
    Candidate {
        scheduler: SchedulerKind::Native,
        dialect: Some(Dialect::V1_35),
        version: Dialect::V1_35.api(),
        kinds: &[("workloads", "Workload")],
    },
    Candidate {
        scheduler: SchedulerKind::Volcano,
        dialect: None,
        version: "scheduling.volcano.sh/v1beta1",
        kinds: &[("podgroups", "PodGroup")],
    },
    Candidate {
        scheduler: SchedulerKind::Coscheduling,
        dialect: None,
        version: "scheduling.x-k8s.io/v1alpha1",
        kinds: &[("podgroups", "PodGroup")],
    },
    // Scheduler-plugins up to 0.24 served the same; they are long out of support.
    Candidate {
        scheduler: SchedulerKind::Koordinator,
        dialect: None,
        version: "scheduling.sigs.k8s.io/v1alpha1",
        kinds: &[("podgroups", "PodGroup")],
    },
    Candidate {
        scheduler: SchedulerKind::Kai,
        dialect: None,
        version: "scheduling.run.ai/v2alpha2",
        kinds: &[("podgroups", "PodGroup")],
    },
];

/// What makes bundles of native gangs, where it is served beside them.
const COMPOSITES: (&str, &str) = ("scheduling.k8s.io/v1alpha3", "CompositePodGroup");

/// Looks at the cluster.
pub async fn discover(client: &Client) -> Result<Found, kube::Error> {
    let version = client.apiserver_version().await?;
    let mut found = Found {
        release: Release::read(&version.major, &version.minor),
        native: None,
        served: Vec::new(),
        job_templates: JobTemplates::KeepLinks,
        sub_groups: SubGroups::Missing,
        workloads: Vec::new(),
        kinds: Vec::new(),
    };
    for workloads in Workloads::ALL {
        if serves(client, workloads.api_version(), workloads.plural()).await? {
            found.workloads.push(workloads);
        }
    }
    for candidate in &CANDIDATES {
        let known = found.served.contains(&candidate.scheduler);
        if known || !serves_all(client, candidate).await? {
            continue;
        }
        found.served.push(candidate.scheduler);
        found.native = found.native.or(candidate.dialect);
        let kinds = candidate.kinds.iter();
        let kinds = kinds.map(|(_, kind)| (candidate.version.to_owned(), (*kind).to_owned()));
        found.kinds.extend(kinds);
    }
    if found.served.contains(&SchedulerKind::Volcano) {
        let crd = "podgroups.scheduling.volcano.sh";
        if schema_has(client, crd, "subGroupPolicy").await? {
            found.sub_groups = SubGroups::Known;
        }
    }
    if found.native == Some(Dialect::V1_37)
        && serves(client, COMPOSITES.0, "compositepodgroups").await?
    {
        found.native = Some(Dialect::V1_37Composites);
        let (version, kind) = COMPOSITES;
        found.kinds.push((version.to_owned(), kind.to_owned()));
    }
    if found.native.is_some() && found.workloads.contains(&Workloads::JobSets) {
        found.job_templates = job_templates(client).await?;
    }
    Ok(found)
}

async fn serves_all(client: &Client, candidate: &Candidate) -> Result<bool, kube::Error> {
    for (resource, _) in candidate.kinds {
        if !serves(client, candidate.version, resource).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

async fn serves(client: &Client, version: &str, resource: &str) -> Result<bool, kube::Error> {
    match client.list_api_group_resources(version).await {
        Ok(list) => Ok(list.resources.iter().any(|r| r.name == resource)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether JobSet's types know the native link (v0.12 and later do): its CRD repeats them.
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
            native: self.native,
            default,
            served: self.served.clone(),
            namespaces: last.namespaces.clone(),
            job_templates: self.job_templates,
            sub_groups: self.sub_groups,
            koordinator: last.koordinator,
            leader_worker_sets: last.leader_worker_sets,
            release: self.release,
        }
    }

    /// The kinds as kube's client wants them.
    pub fn resources(&self) -> Vec<ApiResource> {
        let resource = |(version, kind): &(String, String)| {
            let (group, version) = version.split_once('/').unwrap_or(("", version));
            ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
        };
        self.kinds.iter().map(resource).collect()
    }
}
