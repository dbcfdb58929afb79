//! Volcano: one PodGroup per gang, or one per bundle with a subgroup policy per part.

use std::collections::BTreeMap;

use kube::core::DynamicObject;
use serde_json::{Value, json};

use crate::gang::resources::ResourceList;
use crate::gang::{FieldError, Gang, Member, Owner, Part, Plan, SchedulerKind, Shape, link};

use super::abilities::{Abilities, Bundles, Later, LinkSite, NewRoom, Priorities, QuorumChange};
use super::abilities::{Resume, Support, Timeouts};
use super::pod_group::{self, Group};
use super::{Entry, Listens, Marks, Queue, Scheduler, SubGroups};

struct Volcano(SubGroups);

impl SchedulerKind {
    /// The Volcano scheduler.
    pub const VOLCANO: Self = Self::new("volcano");
}

pub static ENTRY: Entry = Entry {
    kind: SchedulerKind::VOLCANO,
    listens: Listens::To("volcano"),
    stray_name_hint: "",
    backend: |cluster, _| Ok(backend(cluster.sub_groups)),
    rows: &[("volcano", &Volcano(SubGroups::Known))],
};

const ABILITIES: Abilities = Abilities {
    bundle: Bundles::WithinWorkload(
        "a bundle is one PodGroup, of one workload; remove it, or use koordinator",
    ),
    queue: Support::Yes,
    non_strict: Support::No("a gang that does not fit always gives its room back; use Strict"),
    priorities: Priorities::Carried,
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

fn backend(sub_groups: SubGroups) -> &'static dyn Scheduler {
    match sub_groups {
        SubGroups::Known => &Volcano(SubGroups::Known),
        SubGroups::Missing => &Volcano(SubGroups::Missing),
    }
}

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
        match self.0 {
            SubGroups::Known => &WITH_SUB_GROUPS,
            SubGroups::Missing => &WITHOUT_SUB_GROUPS,
        }
    }

    fn check(&self, plan: &Plan) -> Vec<FieldError> {
        let queue = pod_group::check_queue(self.kind(), plan);
        let sizes = pod_group::check_sizes(self.kind(), plan);
        queue.into_iter().chain(sizes).collect()
    }

    fn link(&self, member: &Member, _pod: &dyn Fn() -> Shape) -> Marks {
        let name = pod_group::of_member(member);
        Marks {
            annotations: BTreeMap::from([(link::VOLCANO.key, name.into_string())]),
            ..Marks::default()
        }
    }

    fn objects(&self, owner: &Owner, plan: &Plan, gangs: &[Gang<'_>]) -> Vec<DynamicObject> {
        pod_group::objects("scheduling.volcano.sh/v1beta1", owner, gangs, |group| {
            spec(plan, group)
        })
    }

    /// In an unknown queue a gang waits without a word, in a closed one for want of room (1.14).
    fn queue(&self, plan: &Plan) -> Option<Queue> {
        let queue = plan.policy.queue.as_ref();
        Some(Queue {
            api_version: "scheduling.volcano.sh/v1beta1",
            name: queue.map_or("default", |queue| &queue.value).to_owned(),
        })
    }
}

fn spec(plan: &Plan, group: &Group<'_, '_>) -> Value {
    let mut spec = json!({"minMember": group.quorum()});
    // Without minResources Volcano enqueues the gang whatever its queue has left.
    if let Some(resources) = min_resources(&group.gangs) {
        spec["minResources"] = json!(resources);
    }
    if let Some(queue) = &plan.policy.queue {
        spec["queue"] = json!(queue.value);
    }
    if let Some(class) = group.priority_class() {
        spec["priorityClassName"] = json!(class);
    }
    if group.is_bundle() {
        spec["subGroupPolicy"] = sub_groups(&group.gangs);
    }
    spec
}

fn min_resources(gangs: &[&Gang<'_>]) -> Option<ResourceList> {
    let mut total = ResourceList::default();
    for gang in gangs {
        // A sum that no quantity can hold is left out: the gang's minMember still holds.
        total.checked_add(gang.part.min_resources()).ok()?;
    }
    (!total.is_empty()).then_some(total)
}

/// One policy per part: so many subgroups (gangs), each of so many pods. Volcano puts a pod into a
/// policy only if `matchLabelKeys` is not empty and the pod has all of its keys (1.14).
fn sub_groups(gangs: &[&Gang<'_>]) -> Value {
    let mut parts: Vec<&Part> = Vec::new();
    for gang in gangs {
        if !parts.iter().any(|part| part.name() == gang.part.name()) {
            parts.push(gang.part);
        }
    }
    parts
        .into_iter()
        .map(|part| {
            json!({
                "name": part.name().as_str(),
                "labelSelector": {"matchLabels": {"muster.dev/gang": part.name().as_str()}},
                "matchLabelKeys": ["muster.dev/index"],
                "subGroupSize": part.quorum(),
                "minSubGroups": part.replicas(),
            })
        })
        .collect()
}
