//! A Job's declaration: its plan of one gang, and everything that is wrong with it at once.

use crate::gang::{Barrier, FieldError, FieldPath, Level, Part, PartDraft, PartName, Role, Target};
use crate::workload::declaration::{self, Mode};
use crate::workload::{Reading, keys};

use super::facts::{CONTROLLER_LABELS, JOB_NAME, KIND};
use super::view::Job;
use super::{ROLE, template_path};

/// The modes of a Job.
const MODES: declaration::Modes = declaration::Modes {
    allowed: &[Mode::Off, Mode::Gang],
    why_not: Some("a Job is one gang: use Gang"),
};

/// Reads a Job's declaration.
pub(super) fn read(job: &Job<'_>) -> Reading {
    let mut reading = Reading {
        errors: declaration::check_keys(job),
        ..Reading::default()
    };
    let meta = &job.metadata;
    let annotations = FieldPath::new("metadata").child("annotations");
    let errors = &mut reading.errors;
    let mode = declaration::mode_annotation(meta, &annotations, MODES, errors);
    reading.plan.policy = declaration::policy(
        meta,
        &annotations,
        &declaration::itself(KIND.name, meta),
        errors,
    );
    reading.plan.barrier = barrier(job, &annotations, errors);
    let Some(mode) = mode.filter(|mode| mode.value != Mode::Off) else {
        // A key that is refused, as a slip of the pen, is not idle too.
        if reading.errors.is_empty() {
            reading.warnings.extend(idle_knobs(job));
        }
        return reading;
    };
    reading.asked = Some(mode.at.clone());
    check_spec(job, &mode.at, &mut reading.errors);
    declaration::check_suspend(KIND.name, job.suspended_by(), &mut reading);
    let min_count = declaration::min_count(meta, &annotations, &mut reading.errors);
    let bundle = declaration::bundle(meta, &annotations, &mut reading.errors);
    let at = template_path().child("spec");
    let template = &job.spec.template;
    let mut shape = template.shape(&at, &mut reading.errors);
    if let Some(link) = template.existing_link(&template_path()) {
        let scheduler = reading.plan.policy.scheduler.as_ref();
        let refused = declaration::refuse_link(&link, scheduler);
        reading.errors.extend(refused);
        reading.warnings.push(format!(
            "{} already links to a gang of {}: Muster leaves this Job alone",
            link.at, link.link.scheduler
        ));
        return reading;
    }
    shape.controller_labels = CONTROLLER_LABELS;
    let name = meta.given_name();
    let known = name.map(|name| (JOB_NAME.to_owned(), name.to_owned()));
    shape.labels.extend(known);
    let draft = PartDraft {
        name: PartName::whole(),
        level: Level::Whole,
        replicas: 1,
        roles: vec![Role {
            name: ROLE.to_owned(),
            pods: job.pods(),
            completions: job.completions(),
            shape,
            at,
        }],
        later: Vec::new(),
        min_count,
        bundle,
        at: mode.at.clone(),
    };
    match draft.build() {
        Ok(part) => reading.plan.parts.extend(part),
        Err(error) if job.is_stamped() && error.field == annotations.key(keys::MIN_COUNT) => {
            let remedy = "it never changes while the Job exists: to run fewer pods, recreate the \
                          Job with a smaller one";
            reading.errors.push(error.hint(remedy));
        }
        Err(error) => reading.errors.push(error),
    }
    warn(job, &mode.at, &mut reading);
    if !reading.plan.parts.is_empty() {
        declaration::check_partners(KIND.name, &reading.plan, &mut reading.errors);
    }
    reading
}

/// The start barrier, where one is asked for.
fn barrier(
    job: &Job<'_>,
    annotations: &FieldPath,
    errors: &mut Vec<FieldError>,
) -> Option<Barrier> {
    let timeout = declaration::barrier::timeout(&job.metadata, annotations, errors)?;
    declaration::barrier::check_pods(&job.spec.template, &template_path(), errors);
    check_selector(job, &format!("the barrier of {}", timeout.at), errors);
    Some(Barrier {
        timeout: timeout.value?,
        targets: vec![Target {
            role: ROLE.to_owned(),
            jobs: 1,
            pods: job.pods(),
            completions: job.completions(),
        }],
    })
}

/// What excludes a gang of Muster's.
fn check_spec(job: &Job<'_>, asked: &FieldPath, errors: &mut Vec<FieldError>) {
    let spec = FieldPath::new("spec");
    if job.spec.scheduling.is_some() {
        errors.push(FieldError::forbidden(
            spec.child("scheduling"),
            format!("Kubernetes' own gang and the gang of {asked} exclude each other; remove one"),
        ));
    }
    check_selector(job, &format!("the gang of {asked}"), errors);
}

fn check_selector(job: &Job<'_>, what: &str, errors: &mut Vec<FieldError>) {
    let at = FieldPath::new("spec").child("manualSelector");
    // A gang and a barrier are refused for it once.
    let told = errors.iter().any(|error| error.field == at);
    if job.spec.manual_selector == Some(true) && !told {
        errors.push(FieldError::forbidden(
            at,
            format!(
                "the pods of such a Job do not tell which Job they belong to, and {what} needs it; \
                 remove it together with the selector"
            ),
        ));
    }
}

fn warn(job: &Job<'_>, asked: &FieldPath, reading: &mut Reading) {
    let warnings = &mut reading.warnings;
    match &reading.plan.parts[..] {
        [] if reading.errors.is_empty() => {
            warnings.push(format!("{asked} asks for a gang, but no pod belongs to it"));
        }
        parts => warnings.extend(parts.iter().filter_map(declaration::one_pod)),
    }
    let quorum = reading.plan.parts.first().map_or(0, Part::quorum);
    let (at, completions) = ("spec.completions", job.spec.completions);
    let last = declaration::last_wave(at, completions, job.parallelism(), 1, quorum);
    reading.warnings.extend(last);
}

fn idle_knobs(job: &Job<'_>) -> Option<String> {
    let others = [keys::GANG_MODE, keys::ROUND, keys::START_BARRIER];
    let instead = format!("set {} to Gang", keys::GANG_MODE);
    declaration::idle_knobs(std::iter::once(&job.metadata), &others, &instead)
}
