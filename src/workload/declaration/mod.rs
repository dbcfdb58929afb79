//! What users write in `muster.dev/` annotations, read into the model's types.
//!
//! Every reader takes the place where the value stands and collects errors instead of stopping at
//! the first, because all violations of an object are reported together. Another dialect than
//! Muster's own has a file of its own.

pub(crate) mod barrier;
mod bundles;
pub(crate) mod koordinator;

use std::collections::BTreeSet;
use std::str::FromStr;

use crate::gang::duration;
use crate::gang::{FieldError, FieldPath, Located, Part, Policy};
use crate::gang::{PartnerRef, SchedulerKind, Strictness, TimeoutAction};
use crate::scheduler;

use super::template::ExistingLink;
use super::view::{Meta, Scalar};
use super::{Reading, Workload, keys};

use bundles::MAX_PARTNERS;
pub(crate) use bundles::{bundle, bundle_with, check_partners, circle, itself};

/// The words of others that a pod may ask for a gang with.
pub(crate) use koordinator as dialect;

/// `gangMode`: at which level pods start together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Off,
    Gang,
    ReplicatedGang,
}

impl Mode {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Off => "Off",
            Self::Gang => "Gang",
            Self::ReplicatedGang => "ReplicatedGang",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        [Self::Off, Self::Gang, Self::ReplicatedGang]
            .into_iter()
            .find(|mode| mode.as_str() == word)
    }
}

/// A `gangMode` that has been read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ModeRead {
    pub(crate) mode: Located<Mode>,
    /// It arrived as the boolean false, YAML 1.1's reading of an unquoted `Off`.
    pub(crate) unquoted: bool,
}

/// The modes that a level knows, and why it does not know another that exists.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Modes {
    pub(crate) allowed: &'static [Mode],
    pub(crate) why_not: Option<&'static str>,
}

impl Modes {
    pub(crate) fn names(self) -> Vec<&'static str> {
        self.allowed.iter().map(|mode| mode.as_str()).collect()
    }
}

/// Reads a `gangMode` field. A boolean false is YAML's unquoted `Off` and understood.
pub(crate) fn mode_field(
    value: &Scalar<'_>,
    at: FieldPath,
    modes: Modes,
    errors: &mut Vec<FieldError>,
) -> Option<ModeRead> {
    if *value == Scalar::Other(false.into()) {
        let mode = Located::new(Mode::Off, at);
        return Some(ModeRead {
            mode,
            unquoted: true,
        });
    }
    let mode = mode(value, at, modes, errors)?;
    Some(ModeRead {
        mode,
        unquoted: false,
    })
}

/// Reads the annotation `muster.dev/gang-mode`.
pub(crate) fn mode_annotation(
    meta: &Meta<'_>,
    at: &FieldPath,
    modes: Modes,
    errors: &mut Vec<FieldError>,
) -> Option<Located<Mode>> {
    let value = meta.annotations.as_ref()?.get(keys::GANG_MODE)?;
    let at = at.key(keys::GANG_MODE);
    if value.as_text().is_none() {
        errors.push(keys::not_a_string(at, value, &["Off"]));
        return None;
    }
    mode(value, at, modes, errors)
}

fn mode(
    value: &Scalar<'_>,
    at: FieldPath,
    modes: Modes,
    errors: &mut Vec<FieldError>,
) -> Option<Located<Mode>> {
    let parsed = value.as_text().and_then(Mode::parse);
    match parsed {
        Some(mode) if modes.allowed.contains(&mode) => Some(Located::new(mode, at)),
        _ => {
            let error = FieldError::not_supported(at, value.to_value(), &modes.names());
            errors.push(match (parsed, modes.why_not) {
                (Some(_), Some(why)) => error.hint(why),
                _ => error,
            });
            None
        }
    }
}

/// Reads `muster.dev/min-count`. Its range is checked when the gang's size is known.
pub(crate) fn min_count(
    meta: &Meta<'_>,
    at: &FieldPath,
    errors: &mut Vec<FieldError>,
) -> Option<Located<i64>> {
    let (text, at) = text(meta, at, keys::MIN_COUNT, errors)?;
    match text.parse::<i64>() {
        Ok(count) if !text.starts_with('+') => Some(Located::new(count, at)),
        _ => {
            errors.push(FieldError::invalid(
                at,
                text,
                "must be a whole number of pods, such as \"4\"",
            ));
            None
        }
    }
}

/// Reads the knobs that hold for a whole workload, which others name so.
pub(crate) fn policy(
    meta: &Meta<'_>,
    at: &FieldPath,
    itself: &PartnerRef,
    errors: &mut Vec<FieldError>,
) -> Policy {
    Policy {
        scheduler: word(meta, at, keys::SCHEDULER, &scheduler::names(), errors),
        queue: queue(meta, at, errors),
        timeout: go_duration(meta, at, keys::TIMEOUT, errors),
        timeout_action: word(
            meta,
            at,
            keys::TIMEOUT_ACTION,
            &TimeoutAction::NAMES,
            errors,
        ),
        strictness: word(meta, at, keys::STRICTNESS, &Strictness::NAMES, errors),
        bundle_with: bundle_with(meta, at, itself, errors),
    }
}

/// Unknown and misplaced `muster.dev/` keys, at every place of a workload.
pub(crate) fn check_keys(workload: &dyn Workload) -> Vec<FieldError> {
    let own = FieldPath::new("metadata");
    let own = keys::check(workload.facts().keys, &own, Some(workload.meta()));
    let sites = workload.sites();
    let at_sites = sites.iter().flat_map(|site| {
        let at = site.at.child("metadata");
        keys::check(site.place, &at, site.meta)
    });
    own.chain(at_sites).take(MAX_WRONG_KEYS).collect()
}

/// More than a refusal lists. Finding out about each what was meant takes time.
const MAX_WRONG_KEYS: usize = 100;

/// Says which keys do nothing, because there is no gang; `others` are those that do not need one,
/// `instead` is what to do about it.
pub(crate) fn idle_knobs<'m>(
    metas: impl Iterator<Item = &'m Meta<'m>>,
    others: &[&str],
    instead: &str,
) -> Option<String> {
    let knob = |key: &&str| key.starts_with(keys::PREFIX) && !others.contains(key);
    let found = metas.flat_map(|meta| meta.annotations().map(|(key, _)| key));
    let idle: BTreeSet<&str> = found.filter(knob).collect();
    let idle: Vec<&str> = idle.into_iter().collect();
    (!idle.is_empty()).then(|| {
        format!(
            "{} without a gang: {instead}, or remove it",
            idle.join(", ")
        )
    })
}

/// Who suspends a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SuspendedBy {
    Anybody,
    /// Kueue manages it.
    Kueue,
}

/// Refuses to suspend a workload that Kueue alone may suspend, and warns of an action that never
/// happens.
pub(crate) fn check_suspend(kind: &str, by: SuspendedBy, reading: &mut Reading) {
    let policy = &reading.plan.policy;
    let Some(action) = &policy.timeout_action else {
        return;
    };
    if action.value == TimeoutAction::Suspend && by == SuspendedBy::Kueue {
        let detail = format!(
            "Kueue alone suspends and resumes the {kind}s of its queues; \
             use Wait, or Kueue's waitForPodsReady"
        );
        let error = FieldError::forbidden(action.at.clone(), detail);
        reading.errors.push(error);
    }
    reading.warnings.extend(idle_timeout_action(policy));
}

/// The user's own link beside a gang for another scheduler: the two cannot both hold.
pub(crate) fn refuse_link(
    link: &ExistingLink,
    scheduler: Option<&Located<SchedulerKind>>,
) -> Option<FieldError> {
    let other = scheduler.filter(|scheduler| link.link.scheduler != scheduler.value)?;
    let detail = format!(
        "it links to a gang of {}, but {} says {}; remove one of them",
        link.link.scheduler, other.at, other.value
    );
    Some(FieldError::forbidden(link.at.clone(), detail))
}

/// Warns of a last wave of pods that is smaller than the gang's quorum: nothing is left that could fill
/// it. `at` is where the completions of a Job stand, of which `jobs` are in the gang.
pub(crate) fn last_wave(
    at: &str,
    completions: Option<i64>,
    parallelism: i64,
    jobs: u64,
    quorum: u32,
) -> Option<String> {
    let completions = completions.filter(|c| parallelism > 0 && *c > parallelism)?;
    let last = match completions % parallelism {
        0 => parallelism,
        rest => rest,
    };
    let last = u64::try_from(last).ok()?.saturating_mul(jobs);
    (last < u64::from(quorum)).then(|| {
        format!(
            "{at}: {completions} completions run {parallelism} at a time: the last wave is smaller \
             than the gang's quorum and may wait forever; a {} of at most {last} helps",
            keys::MIN_COUNT
        )
    })
}

/// Warns of a gang that is none.
pub(crate) fn one_pod(part: &Part) -> Option<String> {
    (part.size() == 1).then(|| {
        format!(
            "{}: a gang of one pod: it starts when that pod fits, as it would without a gang",
            part.at()
        )
    })
}

/// Warns of a timeout action without a timeout: it never happens.
pub(crate) fn idle_timeout_action(policy: &Policy) -> Option<String> {
    let idle = policy.timeout_action.is_some() && policy.timeout.is_none();
    idle.then(|| {
        format!(
            "{} has no effect without {}",
            keys::TIMEOUT_ACTION,
            keys::TIMEOUT
        )
    })
}

/// Reads a duration as Go writes it.
pub(crate) fn go_duration(
    meta: &Meta<'_>,
    at: &FieldPath,
    key: &str,
    errors: &mut Vec<FieldError>,
) -> Option<Located<std::time::Duration>> {
    let (text, at) = text(meta, at, key, errors)?;
    match duration::parse(text) {
        Ok(duration) => Some(Located::new(duration, at)),
        Err(error) => {
            errors.push(FieldError::invalid(at, text, error.to_string()));
            None
        }
    }
}

fn queue(meta: &Meta<'_>, at: &FieldPath, errors: &mut Vec<FieldError>) -> Option<Located<String>> {
    /// The longest name of a Kubernetes object, and so of Volcano's and KAI's queues.
    const MAX: usize = 253;
    let (text, at) = text(meta, at, keys::QUEUE, errors)?;
    if text.is_empty() {
        errors.push(FieldError::required(at, "the name of a queue"));
        None
    } else if text.len() > MAX {
        errors.push(FieldError::too_long(at, MAX));
        None
    } else {
        Some(Located::new(text.to_owned(), at))
    }
}

fn word<T: FromStr>(
    meta: &Meta<'_>,
    at: &FieldPath,
    key: &str,
    names: &[&str],
    errors: &mut Vec<FieldError>,
) -> Option<Located<T>> {
    let (text, at) = text(meta, at, key, errors)?;
    match text.parse() {
        Ok(value) => Some(Located::new(value, at)),
        Err(_) => {
            errors.push(FieldError::not_supported(at, text, names));
            None
        }
    }
}

/// An annotation's text and place; an annotation of another type is an error.
pub(crate) fn text<'m>(
    meta: &'m Meta<'_>,
    at: &FieldPath,
    key: &str,
    errors: &mut Vec<FieldError>,
) -> Option<(&'m str, FieldPath)> {
    let value = meta.annotations.as_ref()?.get(key)?;
    let at = at.key(key);
    match value.as_text() {
        Some(text) => Some((text, at)),
        None => {
            errors.push(match (key, value.to_value().as_u64()) {
                (keys::TIMEOUT | keys::START_BARRIER, Some(seconds)) => FieldError::invalid(
                    at,
                    seconds,
                    format!("must be a duration in quotes, such as \"{seconds}s\""),
                ),
                _ => keys::not_a_string(at, value, &[]),
            });
            None
        }
    }
}
