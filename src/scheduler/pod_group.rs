//! What PodGroups of several schedulers have in common: one object per gang, or one per bundle.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

use kube::core::DynamicObject;
use serde_json::Value;

use crate::gang::name::is_dns_subdomain;
use crate::gang::{Allies, Circle, FieldError, Gang, GangName, Identity, Member, Owner, Plan};
use crate::gang::{SchedulerKind, keys};

use super::object::{Scope, object};

/// The PodGroup of a bundle, or of a gang that is in none.
fn name(identity: &Identity, bundle: Option<&str>) -> GangName {
    match bundle {
        Some(bundle) => identity.shared_name("bundle", bundle),
        None => identity.name(),
    }
}

/// The PodGroup that a member counts for.
pub(crate) fn of_member(member: &Member) -> GangName {
    match member.stamp.bundle.as_deref() {
        None => member.name().clone(),
        bundle => name(member.identity(), bundle),
    }
}

/// The gangs that one PodGroup is for.
pub(crate) struct Group<'g, 'p> {
    pub(crate) name: GangName,
    pub(crate) gangs: Vec<&'g Gang<'p>>,
}

/// Gathers the gangs of each bundle, in the order of the plan.
pub(crate) fn groups<'g, 'p>(gangs: &'g [Gang<'p>]) -> Vec<Group<'g, 'p>> {
    groups_by(gangs, name)
}

/// The same, where `name` says what the object of a bundle, or of a gang that is in none, is called.
fn groups_by<'g, 'p>(
    gangs: &'g [Gang<'p>],
    name: impl Fn(&Identity, Option<&str>) -> GangName,
) -> Vec<Group<'g, 'p>> {
    let mut groups: Vec<Group<'g, 'p>> = Vec::new();
    let mut positions: HashMap<GangName, usize> = HashMap::new();
    for gang in gangs {
        let bundle = gang.part.bundle().map(|bundle| bundle.value.as_str());
        let name = name(&gang.identity, bundle);
        match positions.entry(name) {
            Entry::Occupied(known) => groups[*known.get()].gangs.push(gang),
            Entry::Vacant(new) => {
                groups.push(Group {
                    name: new.key().clone(),
                    gangs: vec![gang],
                });
                new.insert(groups.len() - 1);
            }
        }
    }
    groups
}

/// One PodGroup for each group of gangs.
pub(crate) fn objects(
    api_version: &str,
    owner: &Owner,
    gangs: &[Gang<'_>],
    spec: impl Fn(&Group<'_, '_>) -> Value,
) -> Vec<DynamicObject> {
    let kind = (api_version, "PodGroup");
    groups(gangs)
        .iter()
        .map(|group| object(kind, group.name.clone(), owner, group.scope(), spec(group)))
        .collect()
}

/// The same where the bundles of a circle of workloads have one PodGroup for all of them.
pub(crate) fn shared_objects(
    api_version: &str,
    owner: &Owner,
    gangs: &[Gang<'_>],
    circle: &Circle,
    spec: impl Fn(&Group<'_, '_>) -> Value,
) -> Vec<DynamicObject> {
    let kind = (api_version, "PodGroup");
    let named = |identity: &Identity, bundle: Option<&str>| match bundle {
        Some(bundle) => circle.name(bundle),
        None => identity.name(),
    };
    let groups = groups_by(gangs, named);
    let object = |group: &Group<'_, '_>| {
        let (name, spec) = (group.name.clone(), spec(group));
        let Some(bundle) = group.bundle() else {
            return object(kind, name, owner, group.scope(), spec);
        };
        let scope = Scope::Start(&group.gangs[0].identity);
        let mut shared = object(kind, name, owner, scope, spec);
        let labels = shared.metadata.labels.get_or_insert_with(BTreeMap::new);
        labels.insert(keys::BUNDLE.to_owned(), bundle.to_owned());
        shared
    };
    groups.iter().map(object).collect()
}

impl<'p> Group<'_, 'p> {
    pub(crate) fn scope(&self) -> Scope<'_> {
        match &self.gangs[..] {
            [gang] => Scope::Gang(&gang.identity),
            several => Scope::Start(&several[0].identity),
        }
    }

    /// Members of all its gangs that must fit before any is bound.
    pub(crate) fn quorum(&self) -> u64 {
        self.gangs.iter().map(|gang| u64::from(gang.quorum())).sum()
    }

    /// Whether the user asked for a bundle, if only of one gang.
    pub(crate) fn is_bundle(&self) -> bool {
        self.bundle().is_some()
    }

    /// The bundle that its gangs make.
    pub(crate) fn bundle(&self) -> Option<&'p str> {
        let bundle = self.gangs.first()?.part.bundle()?;
        Some(bundle.value.as_str())
    }

    /// What of other workloads it is for.
    pub(crate) fn allies(&self) -> Option<&Allies> {
        self.gangs.first().map(|gang| &*gang.allies)
    }

    /// The priority class of all its pods, when it is one.
    pub(crate) fn priority_class(&self) -> Option<&'p str> {
        let first = self.gangs.first()?.part.priority_class()?;
        let own = self.gangs.iter().map(|gang| gang.part.priority_class());
        let others = self.allies().into_iter().flat_map(|allies| &allies.gangs);
        let others = others.map(|ally| ally.priority_class.as_deref());
        let alike = own.chain(others).all(|class| class == Some(first));
        alike.then_some(first)
    }
}

/// Refuses bundles with more pods than the `minMember` of one object can say.
pub(crate) fn check_sizes(kind: SchedulerKind, plan: &Plan) -> Vec<FieldError> {
    let mut errors = Vec::new();
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
                format!("the bundle's gangs have {sum} pods, more than {kind} can count"),
            ));
        }
    }
    errors
}

/// Refuses the name of a queue that could not be the name of an object.
pub(crate) fn check_queue(kind: SchedulerKind, plan: &Plan) -> Option<FieldError> {
    let queue = plan.policy.queue.as_ref()?;
    let detail = format!(
        "the name of a {kind} queue is lower case letters, digits, '-' and '.', starting and \
         ending with a letter or digit"
    );
    (!is_dns_subdomain(&queue.value))
        .then(|| FieldError::invalid(queue.at.clone(), queue.value.as_str(), detail))
}
