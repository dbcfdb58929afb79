//! Kubernetes' own gangs, in three dialects: each release since 1.35 changed the API's shape.
//!
//! From 1.36 on the scheduler reads PodGroups only; the Workload is a description beside them.
//! One is written as long as its eight templates suffice, and left out beyond.

mod composites;
mod dialect;
mod v1_35;
mod v1_36;
mod v1_37;

pub use dialect::Dialect;

use kube::core::DynamicObject;
use serde_json::{Value, json};

use crate::gang::link::LinkKey;
use crate::gang::{Gang, GangName, Identity, Owner, Plan, SchedulerKind};

use super::abilities::{Abilities, Bundles, Later, LinkSite, NewRoom, Priorities, QuorumChange};
use super::abilities::{Resume, Support, Timeouts};
use super::entry::{POD_GROUPS, Resource};
use super::object::{Scope, object};
use super::{Api, Entry, JobTemplates, Listens, Probe, Release, Scheduler, Snapshot, Unavailable};

/// A member whose field is gone when the object is stored.
const LOST_LINK: &str = "the apiserver dropped the pod's link to its gang: it runs without the \
                         feature gate GenericWorkload, and the pod would start without the others";

/// In the Job's template, unless the controller that owns the Job would lose it there.
fn link_site(cluster: &Snapshot) -> LinkSite {
    match cluster.job_templates {
        JobTemplates::KeepLinks => LinkSite::JobTemplate,
        JobTemplates::LoseLinks => LinkSite::Pod,
    }
}

/// The most templates of a Workload (`WorkloadMaxPodGroupTemplates`).
const MAX_TEMPLATES: usize = 8;

fn backend(dialect: Dialect) -> &'static dyn Scheduler {
    match dialect {
        Dialect::V1_35 => &v1_35::Native,
        Dialect::V1_36 => &v1_36::Native,
        Dialect::V1_37 => &v1_37::Native,
        Dialect::V1_37Composites => &composites::Native,
    }
}

impl SchedulerKind {
    /// Kubernetes' own kube-scheduler.
    pub const NATIVE: Self = Self::new("native");
}

const WORKLOADS: Resource = Resource {
    kind: "Workload",
    plural: "workloads",
};

/// What makes bundles, where it is served beside the rest.
const COMPOSITES: Probe = Probe::Resource {
    version: composites::API,
    resource: Resource {
        kind: "CompositePodGroup",
        plural: "compositepodgroups",
    },
};

/// Kubernetes 1.36 and later.
const SCHEDULING_GROUP: LinkKey = LinkKey::field(SchedulerKind::NATIVE, "schedulingGroup").shared();
/// Kubernetes 1.35 only.
const WORKLOAD_REF: LinkKey = LinkKey::field(SchedulerKind::NATIVE, "workloadRef").shared();

pub(crate) static ENTRY: Entry = Entry {
    kind: SchedulerKind::NATIVE,
    listens: Listens::DefaultProfile,
    stray_name_hint: "",
    links: &[SCHEDULING_GROUP, WORKLOAD_REF],
    apis: &[
        Api {
            version: Dialect::V1_37.api(),
            resources: &[WORKLOADS, POD_GROUPS],
            probes: &[COMPOSITES],
        },
        Api {
            version: Dialect::V1_36.api(),
            resources: &[WORKLOADS, POD_GROUPS],
            probes: &[],
        },
        Api {
            version: Dialect::V1_35.api(),
            resources: &[WORKLOADS],
            probes: &[],
        },
    ],
    backend: |cluster, _| match Dialect::served(cluster) {
        Some(dialect) => Ok(backend(dialect)),
        None => Err(Unavailable::Lacking(lacking(cluster.release))),
    },
    rows: &[
        ("native 1.35", &v1_35::Native),
        ("native 1.36", &v1_36::Native),
        ("native 1.37", &v1_37::Native),
        ("native 1.37-composites", &composites::Native),
    ],
    queues: None,
    tells: None,
};

#[derive(Debug, clap::Args)]
pub(crate) struct NativeArgs {
    /// Kubernetes version, for native gangs where there is no cluster: 1.35, 1.36, 1.37, or 1.37-composites (with CompositePodGroups, for bundles)
    #[arg(
        long,
        env = "MUSTER_KUBERNETES",
        default_value = "1.37",
        value_name = "VERSION"
    )]
    pub(crate) kubernetes: Dialect,
}

/// What the cluster lacks when it serves none of the APIs.
fn lacking(release: Option<Release>) -> String {
    let lacks = release.map_or_else(
        || {
            "Kubernetes 1.35 to 1.37 with the feature gate GenericWorkload and the API \
             scheduling.k8s.io/v1alpha1, v1alpha2 or v1beta1 is needed"
                .to_owned()
        },
        dialect::lacks,
    );
    format!("the cluster does not serve native gangs: {lacks}")
}

const ABILITIES: Abilities = Abilities {
    bundle: Bundles::No(
        "PodGroups are admitted one by one, and the cluster serves no CompositePodGroups \
         (Kubernetes 1.37 with the feature gates CompositePodGroup and \
         TopologyAwareWorkloadScheduling, and scheduling.k8s.io/v1alpha3); remove the bundle, or \
         use another scheduler",
    ),
    queue: Support::No("kube-scheduler has no queues; remove the annotation"),
    non_strict: Support::No("a gang that does not fit holds nothing; use Strict"),
    priorities: Priorities::MustBeEqual,
    preemption_policy: Support::Yes,
    link_site: LinkSite::JobTemplate,
    resume: Resume::SameGang,
    quorum_change: QuorumChange::Never("Kubernetes takes a new minCount only from 1.37 on"),
    new_room: NewRoom::Noticed,
    caution: None,
    timeout: Timeouts::Muster,
    min_resources: false,
    later: Later::Unknown,
    made_for: "Kubernetes",
};

/// The name of the Workload that describes a whole plan; `number` counts them where one is full.
fn workload_name(identity: &Identity, number: usize) -> GangName {
    let name = match number {
        0 => String::new(),
        number => format!("w{number}"),
    };
    identity.shared_name("workload", &name)
}

/// A Workload's spec: its templates under their key, and the workload object. That can never change
/// again, and so it is left out where pods are the owners, which come and go.
fn described(owner: &Owner, key: &str, templates: Vec<Value>) -> Value {
    let mut spec = json!({key: templates});
    if let (Some(owner), None) = (owner.references.first(), &owner.gang_name) {
        let group = owner.api_version.split_once('/').map_or("", |(g, _)| g);
        spec["controllerRef"] = json!({"apiGroup": group, "kind": owner.kind, "name": owner.name});
    }
    spec
}

fn gang_policy(quorum: u32) -> Value {
    json!({"gang": {"minCount": quorum}})
}

/// The templates of a plan's Workload (1.36 and later), without priority: 1.37 wants one priority
/// over a whole Workload, while its PodGroups may differ. `None` when they are too many.
fn workload_spec(owner: &Owner, plan: &Plan) -> Option<Value> {
    if plan.parts.len() > MAX_TEMPLATES {
        return None;
    }
    let template = |part: &crate::gang::Part| json!({"name": part.name().as_str(), "schedulingPolicy": gang_policy(part.quorum())});
    let templates: Vec<Value> = plan.parts.iter().map(template).collect();
    Some(described(owner, "podGroupTemplates", templates))
}

/// A Workload, where it has room for the plan, and a PodGroup per gang (1.36 and later). `group`
/// makes the PodGroup by its gang and the Workload's name.
fn pod_groups(
    api: &str,
    owner: &Owner,
    plan: &Plan,
    gangs: &[Gang<'_>],
    group: impl Fn(&Gang<'_>, Option<&GangName>) -> DynamicObject,
) -> Vec<DynamicObject> {
    let Some(identity) = plan_identity(gangs) else {
        return Vec::new();
    };
    let name = workload_name(identity, 0);
    let workload = workload_spec(owner, plan);
    let described = workload.is_some().then_some(&name);
    let groups = gangs.iter().map(|gang| group(gang, described));
    // The Workload comes first: 1.36 refuses a PodGroup whose Workload does not exist.
    let start = Scope::Start(identity);
    let workload = workload.map(|spec| object((api, "Workload"), name.clone(), owner, start, spec));
    workload.into_iter().chain(groups).collect()
}

/// A gang's PodGroup (1.36 and later).
fn pod_group(api: &str, owner: &Owner, gang: &Gang<'_>, mut spec: Value) -> DynamicObject {
    if let Some(class) = gang.part.priority_class() {
        spec["priorityClassName"] = json!(class);
    }
    let scope = Scope::Gang(&gang.identity);
    object((api, "PodGroup"), gang.name(), owner, scope, spec)
}

/// The identity that names a start of the whole plan, taken from any of its gangs.
fn plan_identity<'g>(gangs: &'g [Gang<'_>]) -> Option<&'g Identity> {
    gangs.first().map(|gang| &gang.identity)
}

/// `PodGroupScheduled` (1.36) or `PodGroupInitiallyScheduled` (1.37) is False.
fn reason(object: &DynamicObject) -> Option<String> {
    super::reason::last(object, |condition, _| {
        let kind = condition["type"].as_str().unwrap_or_default();
        kind.ends_with("Scheduled") && condition["status"] == "False"
    })
}
