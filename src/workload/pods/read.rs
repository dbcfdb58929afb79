//! What a pod, or a template of pods, says of its gang in whichever dialect: a plan of one gang, and
//! everything that is wrong with it at once.

use std::collections::BTreeMap;

use super::facts::{CONTROLLER_LABELS, KIND, KNOBS, POD};
use super::name::{MAX_NAME, itself, revision_key};
use super::stamp::said;
use crate::gang::name::is_dns_subdomain;
use crate::gang::{
    BundleName, Circle, FieldError, FieldPath, Level, Located, Named, PartDraft, PartName,
    PartnerRef, Plan, Policy, Role,
};
use crate::workload::child::Pods;
use crate::workload::declaration::dialect;
use crate::workload::view::Meta;
use crate::workload::{Reading, declaration, keys};

/// What its pods are in a gang.
pub(crate) const ROLE: &str = "pods";

/// The bundle of gangs that name each other in a dialect that has no names for bundles.
const NAMELESS: &str = "groups";

/// What pods declare, before it is checked against their number.
struct Declared {
    min_count: Option<Located<i64>>,
    bundle: Option<Located<BundleName>>,
    policy: Policy,
    /// Where the gang is asked for.
    asked: FieldPath,
    /// Whether the name is one.
    named: bool,
}

/// Reads what pods declare.
pub(in crate::workload) fn read(pods: &Pods<'_>) -> Reading {
    let mut reading = Reading::default();
    let Some(meta) = pods.meta else {
        return reading;
    };
    let (at, errors) = (pods.at(), &mut reading.errors);
    let metadata = at.child("metadata");
    errors.extend(keys::check(&POD, &metadata, Some(meta)));
    let declared = match speaks_dialect(meta) {
        true => in_dialect(meta, &metadata, errors),
        false => in_own_words(meta, &metadata, errors),
    };
    reading.asked = Some(declared.asked.clone());
    reading.plan.policy = declared.policy;
    let Some(min_count) = declared.min_count else {
        return reading;
    };
    if !(1..=i64::from(i32::MAX)).contains(&min_count.value) {
        let detail = format!(
            "must be from 1 to {}, the most that a scheduler counts",
            i32::MAX
        );
        let error = FieldError::invalid(min_count.at, min_count.value, detail);
        errors.push(error);
        return reading;
    }
    let spec = at.child("spec");
    let (mut shape, counted) = pods.spec.shape(Some(meta));
    if counted.is_err() {
        errors.push(FieldError::forbidden(
            spec.clone(),
            "the pod's resource requests add up to more than a quantity can hold",
        ));
    }
    if pods.spec.node_name.is_some() {
        errors.push(FieldError::forbidden(
            spec.child("nodeName"),
            "no scheduler places a pod that names its node: it cannot start together with others",
        ));
    }
    shape.controller_labels = CONTROLLER_LABELS;
    let wanted = u64::try_from(min_count.value).unwrap_or(1);
    let draft = PartDraft {
        name: PartName::whole(),
        level: Level::Whole,
        replicas: 1,
        roles: vec![Role {
            name: ROLE.to_owned(),
            pods: wanted,
            completions: wanted,
            shape,
            at: spec,
        }],
        later: Vec::new(),
        min_count: Some(min_count),
        bundle: declared.bundle,
        at: declared.asked,
    };
    match draft.build() {
        // Without a name it is nobody's gang.
        Ok(part) => reading.plan.parts.extend(part.filter(|_| declared.named)),
        Err(error) => reading.errors.push(error),
    }
    if !reading.plan.parts.is_empty() {
        declaration::check_partners("Pod", &reading.plan, &mut reading.errors);
    }
    let with = reading.plan.policy.bundle_with.as_ref();
    if let Some(with) = with.filter(|_| revision_key(meta).is_some()) {
        let detail = "each revision is a gang of its own, which others cannot name";
        let error = FieldError::forbidden(with.at.clone(), detail);
        reading.errors.push(error);
    }
    reading
}

/// Muster's own words.
fn in_own_words(meta: &Meta<'_>, at: &FieldPath, errors: &mut Vec<FieldError>) -> Declared {
    let annotations = at.child("annotations");
    let named = gang_name(meta, at, errors).is_some();
    revision_label(meta, &annotations, errors);
    let min_count = declaration::min_count(meta, &annotations, errors);
    if min_count.is_none() && meta.annotation(keys::MIN_COUNT).is_none() {
        errors.push(FieldError::required(
            annotations.key(keys::MIN_COUNT),
            "how many pods start together: pods alone do not tell how many there will be",
        ));
    }
    Declared {
        min_count,
        bundle: declaration::bundle(meta, &annotations, errors),
        policy: declaration::policy(meta, &annotations, &itself(meta), errors),
        asked: annotations.key(keys::GANG_NAME),
        named,
    }
}

/// Another scheduler's words, which may stand beside Muster's where both say the same.
fn in_dialect(meta: &Meta<'_>, at: &FieldPath, errors: &mut Vec<FieldError>) -> Declared {
    let annotations = at.child("annotations");
    let namespace = meta.namespace.as_deref().unwrap_or("default");
    let itself = itself(meta);
    let mut policy = declaration::policy(meta, &annotations, &itself, errors);
    let mut bundle = declaration::bundle(meta, &annotations, errors);
    let Some(words) = dialect::read(meta, namespace, at, errors) else {
        return Declared {
            min_count: None,
            bundle,
            policy,
            asked: annotations,
            named: false,
        };
    };
    errors.extend(words.contradictions(meta, at));
    let dialect::Words {
        name,
        min_count,
        timeout,
        strictness,
        groups,
        ..
    } = words;
    policy.timeout = policy.timeout.or(timeout);
    policy.strictness = policy.strictness.or(strictness);
    if let Some(groups) = groups {
        let nameless = BundleName::new(NAMELESS);
        bundle = bundle.or(nameless.map(|name| Located::new(name, groups.at.clone())));
        let others = groups.value.into_iter();
        let others = others.map(|gang| PartnerRef::new(KIND.name, gang));
        let circle = Circle::new(itself, others.collect(), Named::ByUser);
        let groups = Located::new(circle, groups.at);
        policy.bundle_with = policy.bundle_with.or(Some(groups));
    }
    let fits = name.value.len() <= MAX_NAME;
    if !fits {
        errors.push(FieldError::too_long(name.at.clone(), MAX_NAME));
    }
    Declared {
        min_count: Some(min_count),
        bundle,
        policy,
        asked: name.at,
        named: fits,
    }
}

/// Whether a pod asks for its gang in another scheduler's words. On a pod that Muster has linked or
/// stamped they may be Muster's own.
pub(crate) fn speaks_dialect(meta: &Meta<'_>) -> bool {
    let ours = [keys::INDEX, keys::GANG];
    dialect::asked(meta) && ours.iter().all(|key| meta.label(key).is_none())
}

/// What a plan says in Muster's own words, for a pod that says it in others: whatever reads the pod later
/// reads these.
pub(crate) fn translated(plan: &Plan, meta: &Meta<'_>) -> BTreeMap<&'static str, String> {
    let name = dialect::name_of(meta).filter(|_| speaks_dialect(meta));
    let Some(name) = name else {
        return BTreeMap::new();
    };
    let timeout = plan.policy.timeout.as_ref();
    let timeout = timeout.map(|t| format!("{}s", t.value.as_secs().max(1)));
    let timeout = timeout.map(|timeout| (keys::TIMEOUT, timeout));
    let said = said(plan).chain(timeout);
    let said = said.chain([(keys::GANG_NAME, name.to_owned())]);
    said.filter(|(key, _)| meta.annotation(key).is_none())
        .collect()
}

/// Refuses keys of Muster's in a template that declares no gang. What Muster stamps there it has
/// written itself.
pub(crate) fn undeclared(at: &FieldPath, meta: Option<&Meta<'_>>) -> Vec<FieldError> {
    let mut errors: Vec<FieldError> = keys::check(&POD, at, meta).collect();
    let annotations = at.child("annotations");
    let found = meta.into_iter().flat_map(Meta::annotations);
    let idle = found.filter(|(key, _)| KNOBS.contains(key));
    errors.extend(idle.map(|(key, _)| {
        FieldError::forbidden(
            annotations.key(key),
            format!(
                "it does nothing without {}: add that too, or remove it",
                keys::GANG_NAME
            ),
        )
    }));
    errors
}

/// Reads `muster.dev/gang-name`.
fn gang_name<'m>(
    meta: &'m Meta<'_>,
    at: &FieldPath,
    errors: &mut Vec<FieldError>,
) -> Option<&'m str> {
    let annotations = at.child("annotations");
    let before = errors.len();
    let Some((name, at_name)) = declaration::text(meta, &annotations, keys::GANG_NAME, errors)
    else {
        if errors.len() == before {
            let at = at.child("labels").key(keys::GANG_NAME);
            let detail = "the gang is declared by the annotation of that name, and Muster writes the \
                          label: move it to annotations";
            errors.push(FieldError::forbidden(at, detail));
        }
        return None;
    };
    if is_dns_subdomain(name) && name.len() <= MAX_NAME {
        return Some(name);
    }
    errors.push(FieldError::invalid(
        at_name,
        name,
        "must be at most 63 lower case letters, digits, '-' or '.', starting and ending with a letter \
         or digit",
    ));
    None
}

fn revision_label(meta: &Meta<'_>, at: &FieldPath, errors: &mut Vec<FieldError>) {
    let found = declaration::text(meta, at, keys::REVISION_LABEL, errors);
    if let Some((text, at)) = found.filter(|(text, _)| text.is_empty()) {
        let detail = "must be the key of a label that the pods' controller writes";
        errors.push(FieldError::invalid(at, text, detail));
    }
}
