//! What a pod, or a template of pods, says of its gang: a plan of one gang, and everything that is
//! wrong with it at once.

use sha2::{Digest, Sha256};

use super::facts::{CONTROLLER_LABELS, KNOBS, POD};
use crate::gang::name::is_dns_label;
use crate::gang::{FieldError, FieldPath, Identity, Level, PartDraft, PartName, Role, Round};
use crate::workload::child::Pods;
use crate::workload::view::Meta;
use crate::workload::{Reading, declaration, keys};

/// What its pods are in a gang.
pub(crate) const ROLE: &str = "pods";

/// The longest value of a label, which the gang's name is.
const MAX_NAME: usize = 63;

/// Between the gang's name and the revision. No gang's own name has it.
const SEPARATOR: char = '.';

/// Reads what pods declare.
pub(in crate::workload) fn read(pods: &Pods<'_>) -> Reading {
    let mut reading = Reading::default();
    let Some(meta) = pods.meta else {
        return reading;
    };
    let at = pods.at();
    let metadata = at.child("metadata");
    let annotations = metadata.child("annotations");
    let errors = &mut reading.errors;
    errors.extend(keys::check(&POD, &metadata, Some(meta)));
    let named = gang_name(meta, &metadata, errors);
    revision_label(meta, &annotations, errors);
    reading.plan.policy = declaration::policy(meta, &annotations, errors);
    let min_count = declaration::min_count(meta, &annotations, errors);
    let bundle = declaration::bundle(meta, &annotations, errors);
    let place = annotations.key(keys::GANG_NAME);
    reading.asked = Some(place.clone());
    let Some(min_count) = min_count else {
        if meta.annotation(keys::MIN_COUNT).is_none() {
            errors.push(FieldError::required(
                annotations.key(keys::MIN_COUNT),
                "how many pods start together: pods alone do not tell how many there will be",
            ));
        }
        return reading;
    };
    let spec = at.child("spec");
    let (mut shape, counted) = pods.spec.shape(Some(meta));
    if counted.is_err() {
        errors.push(FieldError::forbidden(
            spec.clone(),
            "the pod's resource requests add up to more than a quantity can hold",
        ));
    }
    shape.controller_labels = CONTROLLER_LABELS;
    let wanted = u64::try_from(min_count.value).unwrap_or(0).max(1);
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
        bundle,
        at: place,
    };
    match draft.build() {
        // Without a name it is nobody's gang.
        Ok(part) => reading.plan.parts.extend(part.filter(|_| named.is_some())),
        Err(error) => reading.errors.push(error),
    }
    if !reading.plan.parts.is_empty() {
        declaration::check_partners("Pod", &reading.plan, &mut reading.errors);
    }
    reading
}

/// Refuses keys of Muster's in a template that declares no gang. What Muster stamps there it has
/// written itself.
pub(in crate::workload) fn undeclared(at: &FieldPath, meta: Option<&Meta<'_>>) -> Vec<FieldError> {
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
    if is_dns_label(name) {
        return Some(name);
    }
    errors.push(FieldError::invalid(
        at_name,
        name,
        "must be a DNS label: at most 63 lower case letters, digits or '-', starting and ending with \
         a letter or digit",
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

/// The label whose value tells revisions apart, where each has a gang of its own.
pub(in crate::workload) fn revision_key<'m>(meta: &'m Meta<'_>) -> Option<&'m str> {
    meta.annotation(keys::REVISION_LABEL)
}

/// The name of a pod's gang: the one that it declares, and its revision where each has a gang of its
/// own.
pub(crate) fn name(meta: &Meta<'_>) -> Result<String, FieldError> {
    let declared = meta.annotation(keys::GANG_NAME).unwrap_or_default();
    let Some(key) = revision_key(meta) else {
        return Ok(declared.to_owned());
    };
    let metadata = FieldPath::new("metadata");
    let Some(revision) = meta.label(key) else {
        let at = metadata.child("labels").key(key);
        let detail = format!(
            "{} names it, and the pod's controller has not written it",
            keys::REVISION_LABEL
        );
        return Err(FieldError::required(at, detail));
    };
    let name = format!("{declared}{SEPARATOR}{revision}");
    if name.len() > MAX_NAME {
        let at = metadata.child("annotations").key(keys::GANG_NAME);
        let most = MAX_NAME.saturating_sub(revision.len() + 1);
        let detail =
            format!("together with the revision {revision:?} at most {most} characters fit");
        return Err(FieldError::invalid(at, declared, detail));
    }
    Ok(name)
}

/// What tells such a gang from all others of the cluster.
pub(crate) fn identity(namespace: &str, name: &str, round: Round) -> Identity {
    Identity {
        namespace: namespace.to_owned(),
        workload: name.to_owned(),
        uid: uid(namespace, name),
        part: PartName::whole(),
        round,
        ..Identity::default()
    }
}

/// Stands for the uid of an object: such a gang has none.
pub(super) fn uid(namespace: &str, name: &str) -> String {
    let mut hash = Sha256::new();
    hash.update("pods/");
    hash.update(namespace);
    hash.update("/");
    hash.update(name);
    let digest = hash.finalize();
    digest.iter().take(16).map(|b| format!("{b:02x}")).collect()
}
