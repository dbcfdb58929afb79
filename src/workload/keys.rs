//! The `muster.dev/` keys: which there are, where each belongs, and the nearest to a typo.

pub use crate::gang::keys::*;

use crate::gang::{FieldError, FieldPath};

use super::view::{Meta, Scalar};

/// Kueue manages a workload that carries this label.
pub const KUEUE_QUEUE: &str = "kueue.x-k8s.io/queue-name";

/// Where on a workload a key may stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The workload's own metadata.
    Workload,
    /// A group's template metadata (a ReplicatedJob's `template.metadata`).
    Group,
    /// A pod template's metadata inside a workload that Muster knows.
    PodTemplate,
    /// The metadata of a LeaderWorkerSet.
    LeaderWorkerSet,
    /// The metadata of a LeaderWorkerSet's templates.
    LeaderWorkerTemplate,
}

impl Place {
    /// What a user may write here.
    fn user_keys(self) -> &'static [&'static str] {
        match self {
            Self::Workload => &[
                GANG_MODE,
                MIN_COUNT,
                BUNDLE,
                BUNDLE_WITH,
                SCHEDULER,
                QUEUE,
                TIMEOUT,
                TIMEOUT_ACTION,
                STRICTNESS,
                START_BARRIER,
                START_BARRIER_TARGETS,
            ],
            Self::Group => &[GANG_MODE, MIN_COUNT, BUNDLE],
            Self::LeaderWorkerSet => &[
                GANG_MODE,
                MIN_COUNT,
                SCHEDULER,
                QUEUE,
                TIMEOUT,
                TIMEOUT_ACTION,
                STRICTNESS,
            ],
            Self::PodTemplate | Self::LeaderWorkerTemplate => &[],
        }
    }

    /// What Muster itself writes here.
    fn own_annotations(self) -> &'static [&'static str] {
        match self {
            Self::Workload => &[ROUND, REVIVING],
            Self::LeaderWorkerSet => &[],
            Self::Group | Self::LeaderWorkerTemplate => &[STAMP],
            Self::PodTemplate => &[STAMP, ROUND],
        }
    }

    fn elsewhere(self, key: &str) -> Option<&'static str> {
        if key == GANG_NAME {
            return Some(
                "it is for pods of controllers that know nothing of gangs; \
                 here the gang is asked for with muster.dev/gang-mode",
            );
        }
        let workload = Self::Workload.user_keys().contains(&key);
        let group = Self::Group.user_keys().contains(&key);
        match self {
            Self::Group if workload => Some("it holds for all gangs: put it on the workload"),
            Self::PodTemplate if group => {
                Some("put it on the workload or in the ReplicatedJob's template.metadata")
            }
            Self::PodTemplate if workload => Some("put it on the workload's own metadata"),
            Self::LeaderWorkerSet if matches!(key, BUNDLE | BUNDLE_WITH) => Some(
                "the replicas of a LeaderWorkerSet start, roll and restart one by one, and make no \
                 bundle",
            ),
            Self::LeaderWorkerSet if workload => Some("a start barrier is for JobSets"),
            Self::LeaderWorkerTemplate if Self::LeaderWorkerSet.user_keys().contains(&key) => {
                Some("put it on the LeaderWorkerSet's own metadata")
            }
            _ => None,
        }
    }
}

/// The keys that may change while a gang lives: the timeouts, and what Muster itself counts and
/// marks.
pub fn is_mutable(key: &str) -> bool {
    matches!(key, TIMEOUT | TIMEOUT_ACTION | ROUND | REVIVING)
}

/// Refuses unknown and misplaced `muster.dev/` keys of an object's or template's metadata.
pub fn check<'k>(
    place: Place,
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
pub fn check_annotation(place: Place, at: &FieldPath, key: &str) -> Option<FieldError> {
    if !key.starts_with(PREFIX)
        || place.user_keys().contains(&key)
        || place.own_annotations().contains(&key)
    {
        return None;
    }
    let at = at.key(key);
    if let Some(reason) = place.elsewhere(key) {
        return Some(FieldError::forbidden(at, reason));
    }
    Some(unknown(at, key, place))
}

/// Refuses `muster.dev/` labels: apart from Muster's own, its keys are annotations.
pub fn check_label(place: Place, at: &FieldPath, key: &str) -> Option<FieldError> {
    let own = !matches!(place, Place::Workload | Place::LeaderWorkerSet) && key == GANG;
    if !key.starts_with(PREFIX) || own {
        return None;
    }
    let at = at.key(key);
    if place.user_keys().contains(&key) {
        return Some(FieldError::forbidden(
            at,
            "it is read as an annotation, not as a label: move it to annotations",
        ));
    }
    if key == GANG || key == INDEX {
        return Some(FieldError::forbidden(at, "Muster alone writes this label"));
    }
    Some(unknown(at, key, place))
}

fn unknown(at: FieldPath, key: &str, place: Place) -> FieldError {
    let known = match place.user_keys() {
        [] if place == Place::LeaderWorkerTemplate => Place::LeaderWorkerSet.user_keys(),
        [] => Place::Group.user_keys(),
        keys => keys,
    };
    // Without the common prefix, and within half of the word: else everything is near.
    let word = |key: &str| key.trim_start_matches(PREFIX).to_owned();
    let nearest = known
        .iter()
        .map(|key_| (strsim::damerau_levenshtein(&word(key), &word(key_)), key_))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, _)| *distance <= 3 && *distance * 2 <= word(key).len());
    match nearest {
        Some((_, candidate)) => FieldError::not_supported(at, key, &[candidate])
            .with_detail(&format!("unknown key, did you mean {candidate:?}?")),
        None => FieldError::not_supported(at, key, known),
    }
}

/// The error for an annotation that arrived as something other than a string.
pub fn not_a_string(at: FieldPath, value: &Scalar<'_>, allowed: &[&str]) -> FieldError {
    let value = value.to_value();
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

#[cfg(test)]
mod tests {
    use super::*;

    fn check(place: Place, key: &str) -> Option<String> {
        check_annotation(place, &FieldPath::new("annotations"), key).map(|e| e.to_string())
    }

    #[test]
    fn known_keys_pass_where_they_belong() {
        assert_eq!(check(Place::Workload, QUEUE), None);
        assert_eq!(check(Place::Group, MIN_COUNT), None);
        assert_eq!(check(Place::PodTemplate, STAMP), None);
        assert_eq!(check(Place::PodTemplate, "example.com/x"), None);
    }

    #[test]
    fn a_typo_gets_the_nearest_key() {
        insta::assert_snapshot!(
            check(Place::Workload, "muster.dev/gangmode").unwrap(),
            @r#"annotations[muster.dev/gangmode]: Unsupported value: "muster.dev/gangmode": unknown key, did you mean "muster.dev/gang-mode"?"#
        );
        insta::assert_snapshot!(
            check(Place::Group, "muster.dev/completely-different").unwrap(),
            @r#"annotations[muster.dev/completely-different]: Unsupported value: "muster.dev/completely-different": supported values: "muster.dev/gang-mode", "muster.dev/min-count", "muster.dev/bundle""#
        );
    }

    #[test]
    fn a_key_in_the_wrong_place_is_told_where_to_go() {
        insta::assert_snapshot!(
            check(Place::Group, QUEUE).unwrap(),
            @"annotations[muster.dev/queue]: Forbidden: it holds for all gangs: put it on the workload"
        );
        assert!(check(Place::PodTemplate, GANG_NAME).is_some());
    }
}
