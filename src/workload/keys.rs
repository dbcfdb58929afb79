//! The `muster.dev/` keys: where each belongs, and which one a typo probably means.
//!
//! Which keys may stand where on a kind of workload its own folder says, as a [`Place`].

use crate::gang::nearest::nearest;
use crate::gang::{FieldError, FieldPath};

use super::view::{Meta, Scalar};

pub use crate::gang::keys::*;

/// Kueue manages a workload that carries this label.
pub(crate) const KUEUE_QUEUE: &str = "kueue.x-k8s.io/queue-name";

/// A place on a workload where keys may stand.
#[derive(Debug)]
pub(crate) struct Place {
    /// What a user may write here.
    pub(crate) user: &'static [&'static str],
    /// What Muster itself writes here as an annotation.
    pub(crate) own: &'static [&'static str],
    /// Which label of Muster's stands here.
    pub(crate) labelled: Labelled,
    /// Where a key that has another place belongs.
    pub(crate) elsewhere: fn(&str) -> Option<&'static str>,
    /// What a typo is compared with.
    pub(crate) nearest: &'static [&'static str],
}

/// A label of Muster's that may stand at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Labelled {
    /// The part that pods belong to.
    Gang,
    /// The workload is ganged.
    Workload,
    /// The pod declares its gang itself.
    GangName,
    No,
}

impl Labelled {
    fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Gang => &[GANG, BARRIER],
            Self::Workload => &[WORKLOAD],
            Self::GangName => &[GANG_NAME, INDEX],
            Self::No => &[],
        }
    }
}

/// Whether the JSON of a workload can ask for a gang or a start barrier at all, by a key or by a
/// field of KEP-1068 or KEP-498.
pub(crate) fn may_ask(json: &str) -> bool {
    [PREFIX, "\"gangConfig\"", "\"groupSchedulingConfig\""]
        .iter()
        .any(|word| json.contains(word))
}

/// The keys that may change while a gang lives: the timeouts, and what Muster itself counts and
/// marks.
pub(crate) fn is_mutable(key: &str) -> bool {
    matches!(key, TIMEOUT | TIMEOUT_ACTION | ROUND | REVIVING)
}

/// Refuses unknown and misplaced `muster.dev/` keys of an object's or template's metadata.
pub(crate) fn check<'k>(
    place: &'static Place,
    at: &FieldPath,
    meta: Option<&'k Meta<'_>>,
) -> impl Iterator<Item = FieldError> + use<'k> {
    let (annotations, labels) = (at.child("annotations"), at.child("labels"));
    let found = meta.into_iter().flat_map(|meta| meta.annotations());
    let annotations = found.filter_map(move |(key, _)| check_annotation(place, &annotations, key));
    let found = meta.into_iter().flat_map(|meta| meta.labels());
    let labels = found.filter_map(move |(key, _)| check_label(place, &labels, key));
    annotations.chain(labels)
}

/// Refuses `muster.dev/` annotations that do not exist or do not belong here.
pub(crate) fn check_annotation(place: &Place, at: &FieldPath, key: &str) -> Option<FieldError> {
    if !key.starts_with(PREFIX) || place.user.contains(&key) || place.own.contains(&key) {
        return None;
    }
    let at = at.key(key);
    let own = [
        GANG,
        INDEX,
        WORKLOAD,
        STAMP,
        ROUND,
        REVIVING,
        BARRIER,
        BARRIER_STAMP,
    ];
    if own.contains(&key) {
        let reason = "Muster alone writes this key; remove it";
        return Some(FieldError::forbidden(at, reason));
    }
    if let Some(reason) = (place.elsewhere)(key) {
        return Some(FieldError::forbidden(at, reason));
    }
    if matches!(key, GANG_NAME | REVISION_LABEL) {
        return Some(FieldError::forbidden(
            at,
            "it is for pods of controllers that know nothing of gangs; \
             here the gang is asked for with muster.dev/gang-mode",
        ));
    }
    Some(unknown(at, key, place))
}

/// Refuses `muster.dev/` labels: apart from Muster's own, its keys are annotations.
fn check_label(place: &Place, at: &FieldPath, key: &str) -> Option<FieldError> {
    let own = place.labelled.keys().contains(&key);
    if !key.starts_with(PREFIX) || own {
        return None;
    }
    let at = at.key(key);
    if place.user.contains(&key) {
        return Some(FieldError::forbidden(
            at,
            "it is read as an annotation, not as a label: move it to annotations",
        ));
    }
    if matches!(key, GANG | INDEX | WORKLOAD | BARRIER) {
        return Some(FieldError::forbidden(at, "Muster alone writes this label"));
    }
    Some(unknown(at, key, place))
}

fn unknown(at: FieldPath, key: &str, place: &Place) -> FieldError {
    let known = place.nearest;
    // Without the common prefix: otherwise every key is near.
    let word = |key: &'static str| key.trim_start_matches(PREFIX);
    let words = known.iter().map(|key| word(key));
    match nearest(key.trim_start_matches(PREFIX), words) {
        Some(meant) => {
            let candidate = format!("{PREFIX}{meant}");
            FieldError::not_supported(at, key, &[&candidate])
                .with_detail(&format!("unknown key, did you mean {candidate:?}?"))
        }
        None => FieldError::not_supported(at, key, known),
    }
}

/// The error for an annotation that arrived as something other than a string.
pub(crate) fn not_a_string(at: FieldPath, value: &Scalar<'_>, allowed: &[&str]) -> FieldError {
    let value = value.to_value();
    if value.is_null() {
        return FieldError::required(
            at,
            "it has no value: write one in quotes, or remove the key",
        );
    }
    let hint = match &value {
        serde_json::Value::Bool(false) if allowed.contains(&"Off") => {
            "must be a string; YAML reads an unquoted Off as the boolean false: \
             write it in quotes, \"Off\""
                .to_owned()
        }
        _ => format!("must be a string: write it in quotes, \"{value}\""),
    };
    FieldError::invalid(at, value, hint)
}
