//! Which gangs a JobSet asks for: `gangConfig` fields and `muster.dev/gang-mode` annotations.

use crate::gang::{FieldError, FieldPath, Located};
use crate::workload::declaration::{self, Mode};
use crate::workload::keys;
use crate::workload::view::Meta;

use super::group_path;
use super::view::{GangConfig, JobSet};
use crate::workload::Reading;

/// On the JobSet.
const WHOLE: declaration::Modes = declaration::Modes {
    allowed: &[Mode::Off, Mode::Gang],
    why_not: Some("a gang per Job replica is asked for on the ReplicatedJob, not on the JobSet"),
};

/// On a ReplicatedJob.
const GROUP: declaration::Modes = declaration::Modes {
    allowed: &[Mode::Off, Mode::Gang, Mode::ReplicatedGang],
    why_not: None,
};

/// The modes of both levels, each with the place where it was written.
#[derive(Debug)]
pub(crate) struct Modes {
    pub(crate) whole: Option<Located<Mode>>,
    /// One entry per ReplicatedJob.
    pub(crate) groups: Vec<Option<Located<Mode>>>,
}

impl Modes {
    /// The first place that asks for a gang.
    pub(crate) fn first_gang(&self) -> Option<&FieldPath> {
        std::iter::once(&self.whole)
            .chain(&self.groups)
            .flatten()
            .find(|mode| mode.value != Mode::Off)
            .map(|mode| &mode.at)
    }
}

/// Reads the modes and checks that the two levels and the two forms agree.
pub(crate) fn read(jobset: &JobSet<'_>, reading: &mut Reading) -> Modes {
    let spec = FieldPath::new("spec");
    let whole = level(
        jobset.spec.gang_config.map(|raw| raw.get()),
        spec.child("gangConfig"),
        &["spec", "gangConfig", "gangMode"],
        Some(&jobset.metadata),
        &FieldPath::new("metadata"),
        WHOLE,
        reading,
    );
    let groups: Vec<_> = jobset
        .spec
        .replicated_jobs
        .iter()
        .enumerate()
        .map(|(i, job)| {
            let at = group_path(i);
            level(
                job.gang_config.map(|raw| raw.get()),
                at.child("gangConfig"),
                &[
                    "spec",
                    "replicatedJobs",
                    &i.to_string(),
                    "gangConfig",
                    "gangMode",
                ],
                job.template.metadata.as_ref(),
                &at.child("template").child("metadata"),
                GROUP,
                reading,
            )
        })
        .collect();
    if let Some(whole) = whole.as_ref().filter(|m| m.value == Mode::Gang) {
        for group in groups.iter().flatten() {
            if group.value == Mode::Off {
                reading.warnings.push(format!(
                    "{}: Off does not take this ReplicatedJob out of the gang that {} makes of \
                     the whole JobSet",
                    group.at, whole.at
                ));
                continue;
            }
            reading.errors.push(FieldError::forbidden(
                group.at.clone(),
                format!(
                    "{} already makes the whole JobSet one gang; \
                     ask for gangs at one level only",
                    whole.at
                ),
            ));
        }
    }
    Modes { whole, groups }
}

/// One level's mode, from the field or the annotation, which must agree when both are there.
fn level(
    config: Option<&str>,
    config_at: FieldPath,
    tokens: &[&str],
    meta: Option<&Meta<'_>>,
    meta_at: &FieldPath,
    known: declaration::Modes,
    reading: &mut Reading,
) -> Option<Located<Mode>> {
    let annotations_at = meta_at.child("annotations");
    let errors = &mut reading.errors;
    let annotation =
        meta.and_then(|m| declaration::mode_annotation(m, &annotations_at, known, errors));
    let field = config.and_then(|raw| field(raw, &config_at, known, errors));
    if let Some(field) = field.as_ref().filter(|f| f.unquoted) {
        let warning = format!(
            "{}: YAML reads an unquoted Off as the boolean false; taken as \"Off\", \
             but write it in quotes",
            field.mode.at
        );
        let tokens = tokens.iter().map(|&token| token.to_owned()).collect();
        reading.unquoted_off.push((tokens, warning));
    }
    let field = field.map(|f| f.mode);
    match (field, annotation) {
        (Some(field), Some(annotation)) if field.value != annotation.value => {
            reading.errors.push(FieldError::invalid(
                field.at.clone(),
                field.value.as_str(),
                format!(
                    "disagrees with {}, which is {:?}; set one of them, or both alike",
                    annotation.at,
                    annotation.value.as_str()
                ),
            ));
            Some(field)
        }
        (field, annotation) => field.or(annotation),
    }
}

fn field(
    raw: &str,
    at: &FieldPath,
    known: declaration::Modes,
    errors: &mut Vec<FieldError>,
) -> Option<declaration::ModeRead> {
    let mode_at = at.child("gangMode");
    let Ok(config) = serde_json::from_str::<GangConfig<'_>>(raw) else {
        let value: serde_json::Value = serde_json::from_str(raw).unwrap_or_default();
        let detail = "must be an object such as {\"gangMode\": \"Gang\"}";
        errors.push(FieldError::invalid(at.clone(), value, detail));
        return None;
    };
    let Some(value) = config.gang_mode else {
        let names = known.names().join(", ");
        let detail = format!("one of {names}; or use {}", keys::GANG_MODE);
        errors.push(FieldError::required(mode_at, detail));
        return None;
    };
    declaration::mode_field(&value, mode_at, known, errors)
}
