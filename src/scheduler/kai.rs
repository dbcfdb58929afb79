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
use super::queue::{Bounds, Wrong, list};
use super::{Api, Entry, Listens, Marks, Queue, QueueTrouble, Scheduler, scheduler_name};

pub(crate) struct Kai;

impl SchedulerKind {
    /// The KAI scheduler.
    pub const KAI: Self = Self::new("kai");
}

const API: &str = "scheduling.run.ai/v2alpha2";
const QUEUE_API: &str = "scheduling.run.ai/v2";

/// What KAI says of a full queue, or of one above it, and where it says how much that holds.
const FULL: [(&str, Bounds, &str); 2] = [
    (
        "OverLimit",
        Bounds {
            limit: "/queueResourceLimits",
            used: "/queueAllocatedResources",
        },
        "/podGroupRequestedResources",
    ),
    // For gangs that may not be preempted, a queue's quota is its limit.
    (
        "NonPreemptibleOverQuota",
        Bounds {
            limit: "/queueDeservedResources",
            used: "/queueAllocatedNonPreemptibleResources",
        },
        "/podGroupRequestedNonPreemptibleResources",
    ),
];

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
    queues: Some(QUEUE_API),
    tells: None,
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
    // It is read nowhere (0.12): queues and the PodGroups' own priorities decide.
    preemption_policy: Support::No("KAI does not read the preemptionPolicy of pods"),
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
            api_version: QUEUE_API,
            name: queue(plan).to_owned(),
            // One that exists is open; that it is full is said of the gang.
            open: None,
            bounds: None,
        })
    }

    fn queue_trouble(&self, object: &DynamicObject) -> Option<QueueTrouble> {
        let conditions = object.data["status"]["schedulingConditions"].as_array()?;
        let last = conditions.iter().rev().find(|c| c["status"] == "True")?;
        let reasons = last["reasons"].as_array()?;
        FULL.iter().find_map(|(reason, bounds, asked)| {
            let said = reasons.iter().find(|said| said["reason"] == *reason)?;
            let details = &said["details"]["queueDetails"];
            let name = details["name"].as_str()?;
            Some(QueueTrouble {
                queue: name.to_owned(),
                resource: Some("queues.scheduling.run.ai".to_owned()),
                wrong: Wrong::Full(bounds.full(details, &list(details, asked))),
            })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gang::quantity::Quantity;
    use crate::scheduler::queue::{Full, Left};

    /// As KAI 0.12 writes it: an unlimited resource is -1 of the smallest unit.
    #[test]
    fn a_queue_that_is_full_is_read_from_the_pod_group() {
        let read = |reason: &str, status: &str| {
            let details = json!({"queueDetails": {
                "name": "team",
                "queueResourceLimits": {"cpu": "4", "memory": "-1", "nvidia.com/gpu": "-1"},
                "queueAllocatedResources": {"cpu": "2", "memory": "0", "nvidia.com/gpu": "0"},
                "podGroupRequestedResources": {"cpu": "3", "memory": "0", "nvidia.com/gpu": "0"},
            }});
            let condition = json!({"type": "UnschedulableOnNodePool", "status": status,
                "reasons": [{"reason": reason, "message": "x", "details": details}]});
            let group = json!({"metadata": {}, "status": {"schedulingConditions": [condition]}});
            Kai.queue_trouble(&serde_json::from_value(group).unwrap())
        };
        let trouble = read("OverLimit", "True").unwrap();
        assert_eq!(trouble.queue, "team");
        let units = Quantity::from_units;
        let full = Full {
            resource: "cpu".to_owned(),
            asked: units(3),
            left: Left::ForGang {
                limit: units(4),
                used: units(2),
            },
        };
        assert_eq!(trouble.wrong, Wrong::Full(Some(full)));
        assert_eq!(read("OverLimit", "False"), None);
        assert_eq!(read("Unschedulable", "True"), None);
    }
}
