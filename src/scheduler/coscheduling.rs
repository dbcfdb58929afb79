//! Coscheduling of `kubernetes-sigs/scheduler-plugins`: one PodGroup per gang, linked by label.

use std::collections::BTreeMap;

use kube::core::DynamicObject;
use serde_json::json;

use crate::gang::link::LinkKey;
use crate::gang::{Gang, Member, Owner, Plan, SchedulerKind, Shape};

use super::abilities::{Abilities, Bundles, Later, LinkSite, NewRoom, Priorities, QuorumChange};
use super::abilities::{Resume, Support, Timeouts};
use super::entry::POD_GROUPS;
use super::object::{Scope, object};
use super::{Api, Entry, Listens, Marks, Scheduler};

pub(crate) struct Coscheduling;

impl SchedulerKind {
    /// The plugin of scheduler-plugins.
    pub const COSCHEDULING: Self = Self::new("coscheduling");
}

const API: &str = "scheduling.x-k8s.io/v1alpha1";

const POD_GROUP: LinkKey =
    LinkKey::label(SchedulerKind::COSCHEDULING, "scheduling.x-k8s.io/pod-group");

pub(crate) static ENTRY: Entry = Entry {
    kind: SchedulerKind::COSCHEDULING,
    // The name in scheduler-plugins' Helm chart; any profile with the plugin works too.
    listens: Listens::Profile("scheduler-plugins-scheduler"),
    stray_name_hint: "",
    links: &[POD_GROUP],
    apis: &[Api {
        version: API,
        resources: &[POD_GROUPS],
        probes: &[],
    }],
    backend: |_, _| Ok(&Coscheduling),
    rows: &[("coscheduling", &Coscheduling)],
    queues: None,
    tells: None,
};

static ABILITIES: Abilities = Abilities {
    bundle: Bundles::No(
        "each PodGroup is admitted by itself, so a bundle could start by halves; remove the \
         bundle, or use Volcano",
    ),
    queue: Support::No("it has no queues; remove the annotation"),
    non_strict: Support::No("a gang that does not fit always gives its room back; use Strict"),
    priorities: Priorities::OnPodsOnly,
    preemption_policy: Support::Yes,
    link_site: LinkSite::JobTemplate,
    // Pods of the previous round still count under the old name (scheduler-plugins 0.34).
    resume: Resume::NewGang,
    // Pods count by name until they are deleted, finished or not (0.34).
    quorum_change: QuorumChange::NotNeeded,
    // Node events requeue no rejected member; the next look is five minutes later (0.34.7).
    new_room: NewRoom::WhenNudged,
    caution: None,
    timeout: Timeouts::Muster,
    min_resources: false,
    later: Later::Counted,
    made_for: "scheduler-plugins 0.34.7",
};

impl Scheduler for Coscheduling {
    fn entry(&self) -> &'static Entry {
        &ENTRY
    }

    fn abilities(&self) -> &'static Abilities {
        &ABILITIES
    }

    fn link(&self, member: &Member, _pod: &dyn Fn() -> Shape) -> Marks {
        let name = member.name().to_string();
        Marks {
            labels: BTreeMap::from([(POD_GROUP.key, name)]),
            ..Marks::default()
        }
    }

    fn objects(&self, owner: &Owner, _plan: &Plan, gangs: &[Gang<'_>]) -> Vec<DynamicObject> {
        gangs
            .iter()
            .map(|gang| {
                let mut spec = json!({"minMember": gang.quorum()});
                // No minResources, but for those that come later: the pre-check rejects every
                // member at once, and then nothing but a write to the PodGroup wakes the gang when
                // room appears (0.34.7).
                if !gang.part.later().is_empty() {
                    spec["minResources"] = json!(gang.part.min_resources());
                }
                let kind = (API, "PodGroup");
                object(kind, gang.name(), owner, Scope::Gang(&gang.identity), spec)
            })
            .collect()
    }
}
