//! The task groups of an application: one for each role, with what its pods have in common.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::placeholder::{self, Kin, TaskGroup, TaskGroups};
use super::selector::Labels;
use super::wishes::Wishes;
use super::{APPLICATION, QUEUE};
use crate::gang::{Level, Member, Part, Plan, Role, RoleStamp, Shape};

/// The parts of a part's application. Placeholders hold the room of those that come later too.
fn application_of<'p>(plan: &'p Plan, part: &'p Part) -> impl Iterator<Item = &'p Part> {
    let together: Vec<&Part> = match is_ordered(plan) {
        true => plan.parts.iter().collect(),
        false => plan.bundle_of(part).collect(),
    };
    together.into_iter()
}

/// The pods of a part's application.
pub(crate) fn kin(plan: &Plan, part: &Part) -> Vec<Kin> {
    let parts = application_of(plan, part);
    let roles = parts.flat_map(|part| wishes(part).into_iter().map(move |wishes| (part, wishes)));
    roles
        .map(|(part, wishes)| (wishes.labels(), members(part, wishes.role)))
        .collect()
}

/// The roles of a part's application: how many of each room is held for, and what they have in
/// common.
pub(crate) fn groups(plan: &Plan, part: &Part) -> (Vec<u64>, TaskGroups) {
    let roles = application_of(plan, part).flat_map(|part| {
        let roles = part.roles().iter();
        roles.map(move |role| (role, members(part, role)))
    });
    roles
        .map(|(role, members)| (members, (role.name.clone(), shape(&role.shape))))
        .unzip()
}

/// The members of a role that room is held for: of all its gangs, which start together in a
/// bundle and are one each otherwise.
fn members(part: &Part, role: &Role) -> u64 {
    let gangs = match part.bundle() {
        Some(_) => u64::from(part.replicas()),
        None => 1,
    };
    // A quorum below the size exists only for one role of one gang; others were refused.
    role.pods.min(part.quorum().into()).saturating_mul(gangs)
}

/// What all pods of a role have in common, in the words of a task group.
fn shape(shape: &Shape) -> TaskGroup {
    let mut group = Map::new();
    group.insert(placeholder::LABELS.into(), json!(shape.labels));
    group.insert("minResource".into(), json!(shape.requests));
    if !shape.node_selector.is_empty() {
        group.insert("nodeSelector".into(), json!(shape.node_selector));
    }
    for (field, value) in [
        ("tolerations", &shape.tolerations),
        ("affinity", &shape.affinity),
    ] {
        if let Some(value) = value.as_ref().filter(|value| !value.is_null()) {
            group.insert(field.into(), value.clone());
        }
    }
    if let Some(spread) = shape.spread.as_ref().filter(|spread| !spread.is_empty()) {
        group.insert(placeholder::SPREAD.into(), json!(spread));
    }
    group
}

fn is_ordered(plan: &Plan) -> bool {
    plan.parts.iter().any(|part| !part.later().is_empty())
}

/// The roles of a gang, as far as they wish for a place.
pub(crate) fn wishes(part: &Part) -> Vec<Wishes<'_>> {
    // In a bundle the Jobs of a part are one task group, although each is a gang.
    let level = match part.bundle() {
        Some(_) => Level::Group,
        None => part.level(),
    };
    let roles = part.roles().iter();
    roles
        .map(|role| Wishes {
            role,
            level,
            group: shape(&role.shape),
        })
        .collect()
}

/// All task groups of a member's application, of which the pod speaks for those of its own role; and
/// what changes in the pod's own spec.
pub(crate) fn describe(
    member: &Member,
    own: &str,
    application: &str,
    pod: &Shape,
) -> (Value, BTreeMap<&'static str, Value>) {
    let roles = &member.stamp.roles;
    let group = |role: &RoleStamp| match &role.shape {
        Some(Value::Object(stamped)) if role.name != own => stamped.clone(),
        _ => shape(pod),
    };
    let mut groups: TaskGroups = roles.iter().map(|r| (r.name.clone(), group(r))).collect();
    for (role, (_, group)) in roles.iter().zip(&mut groups) {
        group.insert(placeholder::MEMBERS.into(), json!(role.members));
    }
    let namespace = &member.identity().namespace;
    let shared = pod.controller_labels.shared().chain([QUEUE]);
    let mut shared: Labels = shared
        .filter_map(|key| Some((key.to_owned(), pod.labels.get(key)?.clone())))
        .collect();
    shared.insert(APPLICATION.key.to_owned(), application.to_owned());
    placeholder::share_labels(&mut groups, &shared);
    placeholder::confine(&mut groups, application, namespace);
    let mut fields = BTreeMap::new();
    if let Some((_, confined)) = groups.iter().find(|(name, _)| name == own) {
        let was = shape(pod);
        for field in ["affinity", placeholder::SPREAD] {
            let is = confined.get(field).filter(|is| was.get(field) != Some(*is));
            fields.extend(is.map(|is| (field, is.clone())));
        }
    }
    placeholder::as_placeholders(&mut groups, application, namespace);
    let described = groups.into_iter().map(|(name, mut group)| {
        group.insert("name".into(), json!(name));
        Value::Object(group)
    });
    (described.collect(), fields)
}
