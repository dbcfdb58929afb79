//! Koordinator's own words on a pod, read into the model's types: a dialect of the declaration, for
//! whichever scheduler is in use.
//!
//! Koordinator falls back to a default where it cannot read a value, or leaves the pods waiting
//! without a word. Here it is an error. What it takes for "not set", an empty text of an optional
//! key, is taken for that.
//!
//! The older spelling, `pod-group.scheduling.sigs.k8s.io/…`, Koordinator reads as labels, and its
//! proposal lists it among annotations. Both are read.

mod reader;
#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::gang::field::shorten;
use crate::gang::{
    FieldError, FieldPath, Located, SchedulerKind, Strictness, WorkloadRef, duration,
};
use crate::workload::keys;
use crate::workload::view::Meta;

use reader::{Reader, count, name};

use super::{MAX_PARTNERS, go_duration, min_count, text, word};

const NAME: &str = "gang.scheduling.koordinator.sh/name";
const MIN_AVAILABLE: &str = "gang.scheduling.koordinator.sh/min-available";
const TOTAL_NUMBER: &str = "gang.scheduling.koordinator.sh/total-number";
const WAITING_TIME: &str = "gang.scheduling.koordinator.sh/waiting-time";
const MODE: &str = "gang.scheduling.koordinator.sh/mode";
const GROUPS: &str = "gang.scheduling.koordinator.sh/groups";
const OLDER_NAME: &str = "pod-group.scheduling.sigs.k8s.io/name";
const OLDER_MIN_AVAILABLE: &str = "pod-group.scheduling.sigs.k8s.io/min-available";

const KEYS: [&str; 6] = [
    NAME,
    MIN_AVAILABLE,
    TOTAL_NUMBER,
    WAITING_TIME,
    MODE,
    GROUPS,
];
const OLDER_KEYS: [&str; 2] = [OLDER_NAME, OLDER_MIN_AVAILABLE];

/// This gang, and as many others as a workload may name.
const MAX_GANGS: usize = MAX_PARTNERS + 1;
/// So many of the longest names fit, with spaces to spare.
const MAX_GROUPS_TEXT: usize = 8 * 1024;

/// Who understands the words by itself.
pub(crate) const SPOKEN_BY: SchedulerKind = SchedulerKind::KOORDINATOR;

/// The name that a pod says, as it stands there.
pub(crate) fn name_of<'m>(meta: &'m Meta<'_>) -> Option<&'m str> {
    meta.annotation(NAME)
        .or_else(|| meta.label(OLDER_NAME))
        .or_else(|| meta.annotation(OLDER_NAME))
}

/// What a pod says of its gang.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Words {
    /// A DNS subdomain: Koordinator itself checks no name, and has the same one for a gang by
    /// annotations and for the object of a gang that has one.
    pub(crate) name: Located<String>,
    /// The quorum, a positive int32.
    pub(crate) min_count: Located<i64>,
    /// All pods of the gang, an int32 that is not below the quorum.
    pub(crate) total: Option<Located<i64>>,
    pub(crate) timeout: Option<Located<Duration>>,
    pub(crate) strictness: Option<Located<Strictness>>,
    /// The other gangs that this one starts together with; at least one.
    pub(crate) groups: Option<Located<Vec<WorkloadRef>>>,
}

/// Whether any of the words is there. Pods that Muster has linked for Koordinator by annotations
/// bear them too.
pub(crate) fn asked(meta: &Meta<'_>) -> bool {
    let older = |key: &str| OLDER_KEYS.contains(&key);
    let mut annotations = meta.annotations().map(|(key, _)| key);
    annotations.any(|key| KEYS.contains(&key) || older(key))
        || meta.labels().any(|(key, _)| older(key))
}

/// Reads the words of a pod of `namespace`, whose metadata stands at `at`. `None` where there are
/// none, or where one of them is wrong.
pub(crate) fn read(
    meta: &Meta<'_>,
    namespace: &str,
    at: &FieldPath,
    errors: &mut Vec<FieldError>,
) -> Option<Words> {
    if !asked(meta) {
        return None;
    }
    let before = errors.len();
    let mut reader = Reader { meta, at, errors };
    let name = reader.needed(NAME, OLDER_NAME, name);
    let min_count = reader.needed(MIN_AVAILABLE, OLDER_MIN_AVAILABLE, count);
    let total = reader.optional(TOTAL_NUMBER, count);
    let timeout = reader.optional(WAITING_TIME, |text| {
        duration::parse(text).map_err(|error| error.to_string())
    });
    let strictness = reader.mode();
    let groups = reader.groups(namespace, name.as_ref());
    reader.check_total(min_count.as_ref(), total.as_ref());
    if errors.len() > before {
        return None;
    }
    Some(Words {
        name: name?,
        min_count: min_count?,
        total,
        timeout,
        strictness,
        groups,
    })
}

impl Words {
    /// Where Muster's own annotations on the same pod say otherwise. What is malformed of those
    /// their own reader refuses.
    pub(crate) fn contradictions(&self, meta: &Meta<'_>, at: &FieldPath) -> Vec<FieldError> {
        let at = &at.child("annotations");
        let elsewhere = &mut Vec::new();
        let raw = |key: &str| meta.annotation(key).unwrap_or_default().to_owned();
        let name = text(meta, at, keys::GANG_NAME, elsewhere);
        let name = name.map(|(text, at)| Located::new(text.to_owned(), at));
        let min_count = min_count(meta, at, elsewhere);
        let timeout = go_duration(meta, at, keys::TIMEOUT, elsewhere);
        let strictness = word(meta, at, keys::STRICTNESS, &Strictness::NAMES, elsewhere);
        [
            differ(
                Some(&self.name),
                name,
                self.name.value.clone(),
                raw(keys::GANG_NAME),
            ),
            differ(
                Some(&self.min_count),
                min_count,
                self.min_count.value.to_string(),
                raw(keys::MIN_COUNT),
            ),
            differ(
                self.timeout.as_ref(),
                timeout,
                raw(WAITING_TIME),
                raw(keys::TIMEOUT),
            ),
            differ(
                self.strictness.as_ref(),
                strictness,
                raw(MODE),
                raw(keys::STRICTNESS),
            ),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// Refuses one of two values that should be the same, and names the place of the other. The texts
/// are what a user wrote there.
fn differ<T: PartialEq>(
    one: Option<&Located<T>>,
    other: Option<Located<T>>,
    text: String,
    other_text: String,
) -> Option<FieldError> {
    let (one, other) = (one?, other?);
    (one.value != other.value).then(|| {
        let detail = format!(
            "disagrees with {}, which is {:?}; set one of them, or both alike",
            other.at,
            shorten(other_text)
        );
        FieldError::invalid(one.at.clone(), text, detail)
    })
}
