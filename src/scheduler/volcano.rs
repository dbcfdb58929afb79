//! Volcano: one PodGroup per gang, or one per bundle: with a subgroup policy per part inside one
//! workload, with a minimum per gang where several workloads of a namespace share it.
//!
//! A PodGroup that workloads share is named after them, and each pod says by its role which gang it
//! counts for. A role has the workload's uid in its name: the pods of one that was deleted and recreated
//! count for nothing until the PodGroup is written anew.

use std::collections::{BTreeMap, HashSet};

use kube::core::DynamicObject;
use serde_json::{Value, json};

use crate::gang::link::LinkKey;
use crate::gang::resources::ResourceList;
use crate::gang::{Allies, Ally, FieldError, Gang, GangName, Member, Owner, Part, Plan};
use crate::gang::{SchedulerKind, Shape, Stamp, keys};

use super::abilities::{Abilities, Bundles, Later, LinkSite, NewRoom, Priorities, QuorumChange};
use super::abilities::{Resume, Support, Timeouts};
use super::entry::POD_GROUPS;
use super::pod_group::{self, Group};
use super::queue::Bounds;
use super::{Api, Entry, Listens, Marks, Probe, Queue, Scheduler, reason};

/// By what the installed release can do.
struct Volcano(&'static Abilities);

static CURRENT: Volcano = Volcano(&WITH_SUB_GROUPS);
static BEFORE_1_14: Volcano = Volcano(&WITHOUT_SUB_GROUPS);

impl SchedulerKind {
    /// The Volcano scheduler.
    pub const VOLCANO: Self = Self::new("volcano");
}

const API: &str = "scheduling.volcano.sh/v1beta1";

/// Whether its PodGroups can hold a bundle (1.14 and later).
const SUB_GROUPS: Probe = Probe::Field {
    crd: "podgroups.scheduling.volcano.sh",
    field: "subGroupPolicy",
};

/// The only key that Volcano's scheduler reads; `scheduling.volcano.sh/group-name` is read nowhere.
const GROUP_NAME: LinkKey =
    LinkKey::annotation(SchedulerKind::VOLCANO, "scheduling.k8s.io/group-name").shared();

/// The role of a pod, by which a PodGroup counts it. No link: alone it ties a pod to nothing.
const ROLE: &str = "volcano.sh/task-spec";

/// The gangs that one PodGroup of several workloads counts, at most: 64 letters each.
const MAX_SHARED: usize = 1000;

pub(crate) static ENTRY: Entry = Entry {
    kind: SchedulerKind::VOLCANO,
    listens: Listens::To("volcano"),
    stray_name_hint: "",
    links: &[GROUP_NAME],
    apis: &[Api {
        version: API,
        resources: &[POD_GROUPS],
        probes: &[SUB_GROUPS],
    }],
    backend: |cluster, _| match cluster.found.contains(&SUB_GROUPS) {
        true => Ok(&CURRENT),
        false => Ok(&BEFORE_1_14),
    },
    rows: &[("volcano", &CURRENT)],
    queues: Some(API),
    tells: None,
};

const ABILITIES: Abilities = Abilities {
    bundle: Bundles::WithinNamespace {
        most: MAX_SHARED,
        why: "the gangs of a bundle share one PodGroup, which is for pods of its own namespace",
    },
    queue: Support::Yes,
    non_strict: Support::No("a gang that does not fit always gives its room back; use Strict"),
    priorities: Priorities::Carried,
    preemption_policy: Support::Yes,
    link_site: LinkSite::JobTemplate,
    resume: Resume::NewGang,
    // Succeeded pods count as ready (1.14).
    quorum_change: QuorumChange::NotNeeded,
    new_room: NewRoom::Noticed,
    caution: None,
    timeout: Timeouts::Muster,
    min_resources: true,
    later: Later::Counted,
    made_for: "Volcano 1.14.1",
};

static WITH_SUB_GROUPS: Abilities = ABILITIES;

static WITHOUT_SUB_GROUPS: Abilities = Abilities {
    bundle: Bundles::No(
        "the installed PodGroups have no subGroupPolicy, which comes with Volcano 1.14; upgrade \
         it, or remove the bundle",
    ),
    ..ABILITIES
};

impl Scheduler for Volcano {
    fn entry(&self) -> &'static Entry {
        &ENTRY
    }

    fn abilities(&self) -> &'static Abilities {
        self.0
    }

    fn check(&self, plan: &Plan) -> Vec<FieldError> {
        let queue = pod_group::check_queue(self.kind(), plan);
        let sizes = pod_group::check_sizes(self.kind(), plan);
        queue.into_iter().chain(sizes).collect()
    }

    fn extend_stamp(&self, plan: &Plan, part: &Part, stamp: &mut Stamp) {
        let circle = plan.policy.bundle_with.as_ref();
        let shared = circle.zip(part.bundle());
        let shared = shared.map(|(circle, bundle)| circle.value.name(bundle.value.as_str()));
        stamp.shared = shared.map(GangName::into_string);
    }

    fn link(&self, member: &Member, _pod: &dyn Fn() -> Shape) -> Marks {
        let annotations = match &member.stamp.shared {
            Some(shared) => BTreeMap::from([
                (GROUP_NAME.key, shared.clone()),
                (ROLE, member.name().to_string()),
            ]),
            None => {
                let name = pod_group::of_member(member);
                BTreeMap::from([(GROUP_NAME.key, name.into_string())])
            }
        };
        Marks {
            annotations,
            ..Marks::default()
        }
    }

    fn objects(&self, owner: &Owner, plan: &Plan, gangs: &[Gang<'_>]) -> Vec<DynamicObject> {
        match &plan.policy.bundle_with {
            None => pod_group::objects(API, owner, gangs, |group| spec(plan, group)),
            Some(with) => {
                pod_group::shared_objects(API, owner, gangs, &with.value, |group| spec(plan, group))
            }
        }
    }

    fn reason(&self, object: &DynamicObject) -> Option<String> {
        reason::last(object, |condition, all| {
            condition["type"] == "Unschedulable"
                && condition["status"] == "True"
                && !is_stale(condition, all)
        })
    }

    /// A gang in an unknown queue waits, and Volcano does not say why; in a closed or full queue it says
    /// that there is no room (1.14). What a queue may hold by its weight is known to the scheduler alone.
    fn queue(&self, plan: &Plan) -> Option<Queue> {
        let queue = plan.policy.queue.as_ref();
        Some(Queue {
            api_version: API,
            name: queue.map_or("default", |queue| &queue.value).to_owned(),
            open: Some("Open"),
            bounds: Some(Bounds {
                limit: "/spec/capability",
                used: "/status/allocated",
            }),
        })
    }
}

/// Volcano (1.14) leaves `Unschedulable=True` in place when the gang is scheduled after all, and
/// adds `Scheduled=True` with its own time; both times are UTC and of one length.
fn is_stale(unschedulable: &Value, conditions: &[Value]) -> bool {
    let time = |c: &Value| c["lastTransitionTime"].as_str().map(str::to_owned);
    let mut scheduled = conditions.iter().filter(|c| c["type"] == "Scheduled");
    scheduled.any(|c| c["status"] == "True" && time(c) >= time(unschedulable))
}

fn spec(plan: &Plan, group: &Group<'_, '_>) -> Value {
    let shared = plan
        .policy
        .bundle_with
        .as_ref()
        .filter(|_| group.is_bundle());
    let none = Allies::default();
    let allies = shared.and(group.allies()).unwrap_or(&none);
    let mut spec = json!({"minMember": group.quorum()});
    // Without minResources Volcano enqueues the gang whatever its queue has left.
    if let Some(resources) = min_resources(&group.gangs, allies) {
        spec["minResources"] = json!(resources);
    }
    if let Some(queue) = &plan.policy.queue {
        spec["queue"] = json!(queue.value);
    }
    if let Some(class) = group.priority_class() {
        spec["priorityClassName"] = json!(class);
    }
    if shared.is_some() {
        let minimums = minimums(&group.gangs, allies);
        // Volcano (1.14) forgets the minimum of each role where their sum is larger.
        spec["minMember"] = json!(minimums.values().copied().fold(0, u64::saturating_add));
        spec["minTaskMember"] = json!(minimums);
    } else if group.is_bundle() {
        spec["subGroupPolicy"] = sub_groups(&group.gangs);
    }
    spec
}

fn min_resources(gangs: &[&Gang<'_>], allies: &Allies) -> Option<ResourceList> {
    let mut total = ResourceList::default();
    let own = gangs.iter().map(|gang| gang.part.min_resources());
    let others = allies.gangs.iter().map(|ally| &ally.min_resources);
    for resources in own.chain(others) {
        // A sum that no quantity can hold is left out: the gang's minMember still holds.
        total.checked_add(resources).ok()?;
    }
    (!total.is_empty()).then_some(total)
}

/// How many pods of each gang must be placed, by the role that these have.
fn minimums(gangs: &[&Gang<'_>], allies: &Allies) -> BTreeMap<String, u64> {
    let own = gangs.iter().map(|gang| (gang.name(), gang.quorum()));
    let other = |ally: &Ally| (ally.identity.name(), ally.quorum);
    let others = allies.gangs.iter().map(other);
    let nobody = allies.nobody.iter().map(|name| (name.clone(), 1));
    let all = own.chain(others).chain(nobody);
    all.map(|(name, quorum)| (name.into_string(), u64::from(quorum)))
        .collect()
}

/// One policy per part: so many subgroups (gangs), each of so many pods. Volcano puts a pod into a
/// policy only if `matchLabelKeys` is not empty and the pod has all of its keys (1.14).
fn sub_groups(gangs: &[&Gang<'_>]) -> Value {
    let mut seen = HashSet::new();
    let parts = gangs.iter().map(|gang| gang.part);
    parts
        .filter(|part| seen.insert(part.name().as_str()))
        .map(|part| {
            json!({
                "name": part.name().as_str(),
                "labelSelector": {"matchLabels": {(keys::GANG): part.name().as_str()}},
                "matchLabelKeys": [keys::INDEX],
                "subGroupSize": part.quorum(),
                "minSubGroups": part.replicas(),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::queue::Wrong;

    fn found(status: Value) -> DynamicObject {
        let object = json!({"metadata": {"name": "night"}, "status": status});
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn what_volcano_said_before_it_scheduled_the_gang_is_not_its_word_any_more() {
        let reason = |scheduled: &str| {
            let condition = |kind: &str, time: &str| json!({"type": kind, "status": "True", "message": kind, "lastTransitionTime": time});
            let group = found(json!({"conditions": [
                condition("Unschedulable", "2026-01-01T00:00:05Z"),
                condition("Scheduled", scheduled),
            ]}));
            CURRENT.reason(&group)
        };
        assert_eq!(reason("2026-01-01T00:00:07Z"), None);
        let again = reason("2026-01-01T00:00:03Z");
        assert_eq!(again.as_deref(), Some("Unschedulable"));
    }

    #[test]
    fn only_a_queue_whose_state_is_not_open_is_in_the_way() {
        let queue = CURRENT.queue(&Plan::default()).unwrap();
        let none = ResourceList::default();
        let said = |status| Some(queue.trouble(Some(&found(status)), &none)?.wrong);
        assert_eq!(said(json!({"state": "Open"})), None);
        assert_eq!(said(json!({})), None);
        let closed = Wrong::NotOpen("closed".to_owned());
        assert_eq!(said(json!({"state": "Closed"})), Some(closed));
    }
}
