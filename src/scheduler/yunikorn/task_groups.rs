//! The task groups of an application: one for each role, with what its pods have in common.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::placeholder::{self, Kin, TaskGroup, TaskGroups};
use super::selector::Labels;
use super::wishes::Wishes;
use super::{APPLICATION, MAX_DESCRIPTION, QUEUE};
use crate::gang::{
    FieldError, Level, Member, Part, Plan, Role, RoleShape, RoleStamp, Shape, Words,
};

/// The parts of a part's application. Placeholders hold the room of those that come later too.
fn application_of<'p>(plan: &'p Plan, part: &'p Part) -> impl Iterator<Item = &'p Part> {
    let together: Vec<&Part> = match is_ordered(plan) {
        true => plan.parts.iter().collect(),
        false => plan.bundle_of(part).collect(),
    };
    together.into_iter()
}

/// The pods of an application, or why they cannot all be described.
pub(super) type SharedKin = Result<Arc<[Kin]>, FieldError>;

/// Each part of a plan with the pods of its application, or with the error where they are too much
/// to describe. What an application has is read once, however many parts it has.
pub(super) fn applications(plan: &Plan) -> Vec<(&Part, SharedKin)> {
    let ordered = is_ordered(plan);
    let mut known: HashMap<Option<&str>, Result<Arc<[Kin]>, FieldError>> = HashMap::new();
    let parts = plan.parts.iter();
    parts
        .map(|part| {
            let bundle = part.bundle().map(|bundle| bundle.value.as_str());
            if bundle.is_none() && !ordered {
                return (part, kin(plan, part));
            }
            let known = known.entry(bundle.filter(|_| !ordered));
            (part, known.or_insert_with(|| kin(plan, part)).clone())
        })
        .collect()
}

/// The pods of a part's application.
fn kin(plan: &Plan, part: &Part) -> Result<Arc<[Kin]>, FieldError> {
    let described = application_of(plan, part).flat_map(|part| part.roles());
    let bytes: usize = described.map(|role| weight(&role.shape)).sum();
    if bytes > MAX_DESCRIPTION {
        return Err(FieldError::forbidden(part.at().clone(), too_large(bytes)));
    }
    let parts = application_of(plan, part);
    let roles = parts.flat_map(|part| wishes(part).into_iter().map(move |wishes| (part, wishes)));
    let kin = roles.map(|(part, wishes)| (wishes.labels(), members(part, wishes.role)));
    Ok(kin.collect())
}

/// What is wrong with an application of so many bytes.
pub(super) fn too_large(bytes: usize) -> String {
    format!(
        "yunikorn wants all pods of a gang described on each of them, and this takes {bytes} \
         bytes; at most {MAX_DESCRIPTION} are written: use fewer pod templates, or less affinity"
    )
}

/// About how long the task group of a role is, without its labels.
fn weight(shape: &Shape) -> usize {
    let words = [&shape.tolerations, &shape.affinity, &shape.spread];
    let words = words.into_iter().flatten().map(Words::len);
    let selector = shape.node_selector.iter();
    let selector = selector.map(|(key, value)| key.len() + value.len() + 6);
    let requests = shape.requests.iter().map(|(name, _)| name.len() + 16);
    words.chain(selector).chain(requests).sum::<usize>() + GROUP_WEIGHT
}

/// What a task group has besides: its name, its numbers, and the application's label.
const GROUP_WEIGHT: usize = 160;

/// About how long the description of a member's application will be.
pub(super) fn described(member: &Member, own: &str, pod: &Shape) -> usize {
    let stamp = &member.stamp;
    let shared = pod.controller_labels.shared().chain([QUEUE]);
    let shared = shared.filter_map(|key| Some(key.len() + pod.labels.get(key)?.len()));
    let each = GROUP_WEIGHT + shared.sum::<usize>();
    let lengths: Vec<usize> = stamp.shapes.iter().map(length).collect();
    let roles = stamp.roles.iter().map(|role| match &role.shape {
        Some(RoleShape::Shared(position)) if role.name != own => {
            lengths.get(*position).copied().unwrap_or_default()
        }
        Some(RoleShape::Own(shape)) if role.name != own => length(shape),
        _ => weight(pod),
    });
    roles.map(|bytes| bytes + each).sum()
}

fn length(value: &Value) -> usize {
    value.to_string().len()
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
    for (field, words) in [
        ("tolerations", &shape.tolerations),
        ("affinity", &shape.affinity),
    ] {
        let value: Option<Value> = words.as_ref().and_then(Words::read);
        if let Some(value) = value.filter(|value| !value.is_null()) {
            group.insert(field.into(), value);
        }
    }
    let spread: Option<Vec<Value>> = shape.spread.as_ref().and_then(Words::read);
    if let Some(spread) = spread.filter(|spread| !spread.is_empty()) {
        group.insert(placeholder::SPREAD.into(), spread.into());
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
    let group = |role: &RoleStamp| match member.stamp.shape_of(role) {
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
