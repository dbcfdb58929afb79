//! Koordinator, in the two ways that it has: a PodGroup per gang, linked by label, or annotations
//! on the pods and no object at all.
//!
//! Which one is the configuration's choice, and stamped: a gang keeps its way when the
//! configuration changes. A bundle is a gang group: each of its gangs names all of them.

mod annotations;
mod pod_group;

use annotations::ByAnnotations;
use pod_group::ByPodGroup;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::gang::link::LinkKey;
use crate::gang::{
    FieldError, FieldPath, Gang, GangName, Identity, Plan, Role, SchedulerKind, Strictness,
};

use super::abilities::{Abilities, Bundles, Later, LinkSite, NewRoom, Priorities, QuorumChange};
use super::abilities::{Resume, Support, Timeouts};
use super::entry::POD_GROUPS;
use super::{Api, Entry, Listens, Marks, Unavailable, pod_group as shared, scheduler_name};

/// On the pod, or on the PodGroup.
const TOTAL_NUMBER: &str = "gang.scheduling.koordinator.sh/total-number";
const MODE: &str = "gang.scheduling.koordinator.sh/mode";
const MATCH_POLICY: &str = "gang.scheduling.koordinator.sh/match-policy";
const GROUPS: &str = "gang.scheduling.koordinator.sh/groups";
/// On the pod: Koordinator's queues are quotas.
const QUOTA: &str = "quota.scheduling.koordinator.sh/name";

/// Waiting and bound pods count. By default a gang that was once complete is not treated as a gang
/// again (1.8): pods that come back would start one by one. If waiting pods alone counted, a single
/// replacement would never start.
const COUNTED: &str = "waiting-and-running";

/// Each gang names all gangs of its bundle, with up to 130 letters each: this many are 52 KB of the
/// 256 KiB that an object's annotations may hold.
const MAX_BUNDLE: usize = 400;

/// The names that all gangs of one workload list together, at most: 20 MB of text, of which the
/// reconciler holds two copies while it looks at the workload.
const MAX_NAMES: usize = MAX_BUNDLE * MAX_BUNDLE;

/// By annotations; PodGroups reach further.
const ABILITIES: Abilities = Abilities {
    bundle: Bundles::WithinWorkload(
        "its gangs are written on the pods when they are made, and the others' names are not \
         known then; remove it, or start Muster with --koordinator podgroup",
    ),
    queue: Support::Yes,
    non_strict: Support::Yes,
    priorities: Priorities::OnPodsOnly,
    preemption_policy: Support::Yes,
    link_site: LinkSite::JobTemplate,
    resume: Resume::NewGang,
    // Bound pods count until they are deleted, finished or not (1.8).
    quorum_change: QuorumChange::NotNeeded,
    // A nudge would not help: a write to a PodGroup wakes a gang only by completing it (1.8).
    new_room: NewRoom::Noticed,
    caution: None,
    timeout: Timeouts::CarriedToo,
    min_resources: false,
    later: Later::Unknown,
    made_for: "Koordinator 1.8.0",
};

impl SchedulerKind {
    /// Koordinator's scheduler.
    pub const KOORDINATOR: Self = Self::new("koordinator");
}

/// Scheduler-plugins up to 0.24 served the same; they are long out of support.
const API: &str = "scheduling.sigs.k8s.io/v1alpha1";

/// Koordinator's PodGroups.
const POD_GROUP: LinkKey = LinkKey::label(
    SchedulerKind::KOORDINATOR,
    "pod-group.scheduling.sigs.k8s.io",
);
/// Koordinator's gangs without an object.
const GANG_NAME: LinkKey = LinkKey::annotation(
    SchedulerKind::KOORDINATOR,
    "gang.scheduling.koordinator.sh/name",
);

pub(crate) static ENTRY: Entry = Entry {
    kind: SchedulerKind::KOORDINATOR,
    listens: Listens::To("koord-scheduler"),
    stray_name_hint: "",
    links: &[POD_GROUP, GANG_NAME],
    apis: &[Api {
        version: API,
        resources: &[POD_GROUPS],
        probes: &[],
    }],
    backend: |_, variant| match variant {
        None | Some(BY_POD_GROUP) => Ok(&ByPodGroup),
        Some(ANNOTATIONS) => Ok(&ByAnnotations),
        Some(other) => {
            let (other, kind) = (other.to_owned(), SchedulerKind::KOORDINATOR);
            Err(Unavailable::UnknownVariant(other, kind))
        }
    },
    rows: &[
        ("koordinator", &ByPodGroup),
        ("koordinator, annotations", &ByAnnotations),
    ],
    queues: None,
    tells: None,
};

/// The variants: the default one, which is stamped by saying nothing, and that without objects.
const BY_POD_GROUP: &str = "podgroup";
const ANNOTATIONS: &str = "annotations";

#[derive(Debug, clap::Args)]
pub(crate) struct KoordinatorArgs {
    /// How Koordinator is told of new gangs; those that exist keep their way
    #[arg(
        long,
        env = "MUSTER_KOORDINATOR",
        value_name = "WAY",
        value_enum,
        default_value_t
    )]
    koordinator: KoordinatorWay,
}

/// How Koordinator is told of gangs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
enum KoordinatorWay {
    /// A PodGroup per gang.
    #[default]
    #[value(name = BY_POD_GROUP)]
    PodGroup,
    /// Annotations on the pods, no object.
    #[value(name = ANNOTATIONS)]
    Annotations,
}

impl KoordinatorArgs {
    /// The variant of new gangs, where it is not the default one.
    pub(crate) fn variant(&self) -> Option<(SchedulerKind, &'static str)> {
        match self.koordinator {
            KoordinatorWay::PodGroup => None,
            KoordinatorWay::Annotations => Some((SchedulerKind::KOORDINATOR, ANNOTATIONS)),
        }
    }
}

/// A gang's name. In a bundle without the restarts of its replica alone, which its siblings, who
/// must name it, cannot know; that replica's old pods are gone before the new ones come.
fn name(identity: &Identity, bundled: bool) -> GangName {
    if bundled && identity.attempt.own != 0 {
        let mut identity = identity.clone();
        identity.attempt.own = 0;
        return identity.name();
    }
    identity.name()
}

/// A gang as `groups` names it.
fn id(namespace: &str, name: &GangName) -> String {
    format!("{namespace}/{name}")
}

/// The value of `groups`: the same on each gang of a bundle.
fn groups(ids: Vec<String>) -> String {
    serde_json::Value::from(ids).to_string()
}

/// What holds for all gangs of a plan, on the pod or on the PodGroup.
fn manner(plan: &Plan) -> BTreeMap<&'static str, String> {
    let strictness = plan.policy.strictness.as_ref().map(|s| s.value);
    let mode = match strictness.unwrap_or_default() {
        Strictness::Strict => "Strict",
        Strictness::NonStrict => "NonStrict",
    };
    BTreeMap::from([(MODE, mode.to_owned()), (MATCH_POLICY, COUNTED.to_owned())])
}

/// How long members may hold room for the others: as long as the user lets the gang wait.
fn patience(plan: &Plan) -> Option<Duration> {
    plan.policy.timeout.as_ref().map(|timeout| timeout.value)
}

/// What the templates carry in both ways.
fn template_marks(plan: &Plan, role: &Role) -> Marks {
    let queue = plan.policy.queue.as_ref();
    Marks {
        labels: queue
            .map(|q| (QUOTA, q.value.clone()))
            .into_iter()
            .collect(),
        scheduler_name: scheduler_name(&ENTRY, role),
        ..Marks::default()
    }
}

/// What neither way can do.
fn check(plan: &Plan) -> Vec<FieldError> {
    let kind = SchedulerKind::KOORDINATOR;
    let mut errors: Vec<FieldError> = shared::check_queue(kind, plan).into_iter().collect();
    if let Some(queue) = plan.policy.queue.as_ref().filter(|q| q.value.len() > 63) {
        let detail = "it becomes the value of a label: at most 63 characters";
        errors.push(FieldError::invalid(
            queue.at.clone(),
            queue.value.as_str(),
            detail,
        ));
    }
    let mut bundles: BTreeMap<&str, (usize, &FieldPath)> = BTreeMap::new();
    for part in &plan.parts {
        for role in part.roles().iter().filter(|role| role.shape.gated) {
            let detail = "koordinator counts a gated pod as placed and would start the others \
                          without it; remove the gates (for Kueue's, its label), or use another \
                          scheduler";
            let at = role.at.child("schedulingGates");
            errors.push(FieldError::forbidden(at, detail));
        }
        if let Some(bundle) = part.bundle() {
            let name = bundle.value.as_str();
            let (gangs, at) = bundles.entry(name).or_insert((0, &bundle.at));
            *gangs = gangs.saturating_add(part.replicas() as usize);
            *at = &bundle.at;
        }
    }
    errors.extend(check_bundles(plan, bundles.into_values()));
    errors
}

/// Each gang of a bundle names all of them, and those of other workloads.
fn check_bundles<'p>(
    plan: &Plan,
    bundles: impl Iterator<Item = (usize, &'p FieldPath)>,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut names: usize = 0;
    for (gangs, at) in bundles {
        // How many the others have is not known yet.
        let listed = match plan.policy.bundle_with {
            Some(_) => gangs.max(MAX_BUNDLE),
            None => gangs,
        };
        names = names.saturating_add(gangs.saturating_mul(listed));
        if gangs > MAX_BUNDLE {
            errors.push(FieldError::forbidden(
                at.clone(),
                format!(
                    "the bundle has {gangs} gangs, and each must name all: koordinator's \
                     annotation holds {MAX_BUNDLE}; use Gang, or fewer replicas"
                ),
            ));
        } else if names > MAX_NAMES {
            let detail = format!(
                "each gang names all gangs of its bundle, and the bundles of this object need \
                 {names} names by now; at most {MAX_NAMES} are written: use smaller bundles, Gang, \
                 or fewer replicas"
            );
            errors.push(FieldError::forbidden(at.clone(), detail));
            break;
        }
    }
    errors
}

fn is_bundled(gang: &Gang<'_>) -> bool {
    gang.part.bundle().is_some()
}
