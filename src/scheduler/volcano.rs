//! Volcano: one PodGroup per gang, or one per bundle with a subgroup policy per part.

use std::collections::BTreeMap;

use kube::core::DynamicObject;
use serde_json::{Value, json};

use crate::gang::name::is_dns_subdomain;
use crate::gang::resources::ResourceList;
use crate::gang::{FieldError, Gang, GangName, Identity, Member};
use crate::gang::{Owner, Part, Plan, SchedulerKind, link};

use super::abilities::{Abilities, Bundles, LinkSite, NewRoom, Priorities, QuorumChange};
use super::abilities::{Resume, Support};
use super::object::{Scope, object};
use super::{Marks, Scheduler};

pub struct Volcano;

static ABILITIES: Abilities = Abilities {
    bundle: Bundles::WithinWorkload,
    queue: Support::Yes,
    non_strict: Support::No("a gang that does not fit always gives its room back; use Strict"),
    priorities: Priorities::Carried,
    link_site: LinkSite::JobTemplate,
    resume: Resume::NewGang,
    // Succeeded pods count as ready (1.14).
    quorum_change: QuorumChange::NotNeeded,
    new_room: NewRoom::Noticed,
};

/// The PodGroup of a bundle, or of a gang that is in none.
fn pod_group(identity: &Identity, bundle: Option<&str>) -> GangName {
    match bundle {
        Some(bundle) => identity.shared_name("bundle", bundle),
        None => identity.name(),
    }
}

fn bundle_of(part: &Part) -> Option<&str> {
    part.bundle().map(|bundle| bundle.value.as_str())
}

impl Scheduler for Volcano {
    fn kind(&self) -> SchedulerKind {
        SchedulerKind::Volcano
    }

    fn abilities(&self) -> &'static Abilities {
        &ABILITIES
    }

    fn check(&self, plan: &Plan) -> Vec<FieldError> {
        let queue = plan.policy.queue.iter();
        let mut errors: Vec<FieldError> = queue
            .filter(|queue| !is_dns_subdomain(&queue.value))
            .map(|queue| {
                let detail = "the name of a Volcano queue is lower case letters, digits, '-' and \
                              '.', starting and ending with a letter or digit";
                FieldError::invalid(queue.at.clone(), queue.value.as_str(), detail)
            })
            .collect();
        let mut bundles: BTreeMap<&str, u64> = BTreeMap::new();
        for part in &plan.parts {
            let Some(bundle) = part.bundle() else {
                continue;
            };
            let members = u64::from(part.quorum()).saturating_mul(part.replicas().into());
            let sum = bundles.entry(bundle.value.as_str()).or_default();
            *sum = sum.saturating_add(members);
            if *sum > i32::MAX as u64 {
                errors.push(FieldError::forbidden(
                    bundle.at.clone(),
                    format!("the bundle's gangs have {sum} pods, more than Volcano can count"),
                ));
            }
        }
        errors
    }

    fn link(&self, member: &Member) -> Marks {
        let name = match &member.stamp.bundle {
            Some(_) => pod_group(member.identity(), member.stamp.bundle.as_deref()),
            None => member.name().clone(),
        };
        Marks {
            annotations: BTreeMap::from([(link::VOLCANO.key, name.into_string())]),
            ..Marks::default()
        }
    }

    fn objects(&self, owner: &Owner, plan: &Plan, gangs: &[Gang<'_>]) -> Vec<DynamicObject> {
        let mut groups: Vec<(GangName, Vec<&Gang<'_>>)> = Vec::new();
        for gang in gangs {
            let name = pod_group(&gang.identity, bundle_of(gang.part));
            match groups.iter_mut().find(|(other, _)| *other == name) {
                Some((_, members)) => members.push(gang),
                None => groups.push((name, vec![gang])),
            }
        }
        groups
            .into_iter()
            .map(|(name, members)| {
                let scope = match &members[..] {
                    [gang] => Scope::Gang(&gang.identity),
                    several => Scope::Start(&several[0].identity),
                };
                let spec = spec(plan, &members);
                let kind = ("scheduling.volcano.sh/v1beta1", "PodGroup");
                object(kind, name, owner, scope, spec)
            })
            .collect()
    }
}

fn spec(plan: &Plan, gangs: &[&Gang<'_>]) -> Value {
    let min_member: u64 = gangs.iter().map(|g| u64::from(g.quorum())).sum();
    let mut spec = json!({"minMember": min_member});
    // Without minResources Volcano enqueues the gang whatever its queue has left.
    if let Some(resources) = min_resources(gangs) {
        spec["minResources"] = json!(resources);
    }
    if let Some(queue) = &plan.policy.queue {
        spec["queue"] = json!(queue.value);
    }
    if let Some(class) = priority_class(gangs) {
        spec["priorityClassName"] = json!(class);
    }
    if gangs.iter().any(|gang| gang.part.bundle().is_some()) {
        spec["subGroupPolicy"] = sub_groups(gangs);
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

fn priority_class<'g>(gangs: &[&Gang<'g>]) -> Option<&'g str> {
    let first = gangs.first()?.part.priority_class()?;
    let equal = gangs.iter().all(|g| g.part.priority_class() == Some(first));
    equal.then_some(first)
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
