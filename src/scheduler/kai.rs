//! KAI: one PodGroup per gang, or one per bundle with a subgroup for each gang.
//!
//! KAI's own podgrouper makes a PodGroup of one for the pods of every Job. From 0.15 on an
//! annotation keeps it away; before that it rewrites the link of every pod that has an owner, and
//! only the admission policy in `manifests/base/links.yaml` stops it.

use std::collections::BTreeMap;

use kube::core::DynamicObject;
use serde_json::{Value, json};

use crate::gang::link::LinkKey;
use crate::gang::{FieldError, Gang, Member, Owner, Plan, Role, SchedulerKind, Shape};

use super::abilities::{Abilities, Bundles, Later, LinkSite, NewRoom, Priorities, QuorumChange};
use super::abilities::{Resume, Support, Timeouts};
use super::entry::POD_GROUPS;
use super::pod_group::{self, Group};
use super::{Api, Entry, Listens, Marks, Queue, Scheduler, scheduler_name};

pub(crate) struct Kai;

impl SchedulerKind {
    /// The KAI scheduler.
    pub const KAI: Self = Self::new("kai");
}

const API: &str = "scheduling.run.ai/v2alpha2";

const POD_GROUP: LinkKey = LinkKey::annotation(SchedulerKind::KAI, "pod-group-name");
/// Besides the PodGroup, where it has subgroups.
const SUBGROUP: LinkKey = LinkKey::label(SchedulerKind::KAI, "kai.scheduler/subgroup-name");

pub(crate) static ENTRY: Entry = Entry {
    kind: SchedulerKind::KAI,
    listens: Listens::To("kai-scheduler"),
    stray_name_hint: "",
    links: &[POD_GROUP, SUBGROUP],
    apis: &[Api {
        version: API,
        resources: &[POD_GROUPS],
        probes: &[],
    }],
    backend: |_, _| Ok(&Kai),
    rows: &[("kai", &Kai)],
};

static ABILITIES: Abilities = Abilities {
    // 0.12: sixty seconds after a subgroup falls below its minimum, all pods of the PodGroup are deleted.
    bundle: Bundles::WithinWorkload(
        "they would share a PodGroup, and KAI deletes all its pods when one part of it lacks some for \
         a minute: a workload that restarts or is deleted would take the others along; remove it, \
         or use koordinator or volcano",
    ),
    queue: Support::Yes,
    non_strict: Support::No("a gang that does not fit holds nothing; use Strict"),
    priorities: Priorities::Carried,
    link_site: LinkSite::JobTemplate,
    resume: Resume::NewGang,
    // Pods that have succeeded do not count (0.12).
    quorum_change: QuorumChange::Live,
    new_room: NewRoom::Noticed,
    caution: None,
    timeout: Timeouts::Muster,
    min_resources: false,
    later: Later::Unknown,
    made_for: "KAI 0.12.0",
};

/// Keeps the podgrouper away from a pod (0.15; unknown and harmless before).
const SKIP_PODGROUPER: &str = "kai.scheduler/skip-podgrouper";

/// The queue that KAI's chart makes. A PodGroup without one is never scheduled.
const DEFAULT_QUEUE: &str = "default-queue";

impl Scheduler for Kai {
    fn entry(&self) -> &'static Entry {
        &ENTRY
    }

    fn abilities(&self) -> &'static Abilities {
        &ABILITIES
    }

    fn template_marks(&self, _plan: &Plan, role: &Role) -> Marks {
        Marks {
            annotations: BTreeMap::from([(SKIP_PODGROUPER, "true".to_owned())]),
            scheduler_name: scheduler_name(&ENTRY, role),
            ..Marks::default()
        }
    }

    fn check(&self, plan: &Plan) -> Vec<FieldError> {
        let queue = pod_group::check_queue(self.kind(), plan);
        let sizes = pod_group::check_sizes(self.kind(), plan);
        queue.into_iter().chain(sizes).collect()
    }

    fn link(&self, member: &Member, _pod: &dyn Fn() -> Shape) -> Marks {
        let group = pod_group::of_member(member).into_string();
        let mut marks = Marks {
            annotations: BTreeMap::from([(POD_GROUP.key, group)]),
            ..Marks::default()
        };
        if member.stamp.bundle.is_some() {
            let name = member.name().to_string();
            marks.labels.insert(SUBGROUP.key, name);
        }
        marks
    }

    fn objects(&self, owner: &Owner, plan: &Plan, gangs: &[Gang<'_>]) -> Vec<DynamicObject> {
        pod_group::objects(API, owner, gangs, |group| spec(plan, group))
    }

    /// A gang in an unknown queue waits, and KAI does not say why (0.12).
    fn queue(&self, plan: &Plan) -> Option<Queue> {
        Some(Queue {
            api_version: "scheduling.run.ai/v2",
            name: queue(plan).to_owned(),
            // One that exists is open.
            open: None,
        })
    }
}

fn queue(plan: &Plan) -> &str {
    let queue = plan.policy.queue.as_ref();
    queue.map_or(DEFAULT_QUEUE, |queue| &queue.value)
}

/// No `schedulingBackoff`: with 1 the gang is tried once and never again (0.12).
fn spec(plan: &Plan, group: &Group<'_, '_>) -> Value {
    let mut spec = json!({"minMember": group.quorum(), "queue": queue(plan)});
    if let Some(class) = group.priority_class() {
        spec["priorityClassName"] = json!(class);
    }
    if group.is_bundle() {
        let sub_group =
            |gang: &&Gang<'_>| json!({"name": gang.name().as_str(), "minMember": gang.quorum()});
        spec["subGroups"] = group.gangs.iter().map(sub_group).collect();
    }
    spec
}
