//! The start barrier's declaration (KEP-498): `groupSchedulingConfig` and its annotations.
//!
//! Only its rules: main containers of the targets wait until all of them have started.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Deserialize;

use crate::gang::nearest::nearest;
use crate::gang::{Barrier, FieldError, FieldPath, Target};
use crate::workload::declaration::{self, barrier};
use crate::workload::keys;
use crate::workload::view::Scalar;

use super::order::Order;
use super::view::{JobSet, ReplicatedJob};
use super::{annotations_path, pods_path};

/// A target that does not exist is compared with so many names that do.
const COMPARED: usize = 100;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Config<'a> {
    #[serde(borrow, default)]
    timeout_after_seconds: Option<Scalar<'a>>,
    #[serde(default)]
    target_replicated_jobs: Option<Vec<String>>,
}

/// A barrier as one of the two forms declares it.
#[derive(Debug)]
struct Declared {
    at: FieldPath,
    timeout: Option<Duration>,
    targets: Vec<(String, FieldPath)>,
}

/// Reads and checks the barrier.
pub(crate) fn read(
    jobset: &JobSet<'_>,
    order: &Order<'_>,
    errors: &mut Vec<FieldError>,
) -> Option<Barrier> {
    let field = field(jobset, errors);
    let annotation = annotation(jobset, errors);
    if let (Some(field), Some(annotation)) = (&field, &annotation)
        && let Some(other) = disagreement(jobset, field, annotation)
    {
        errors.push(FieldError::forbidden(
            field.at.clone(),
            format!("disagrees with {other}; set one of them, or both alike"),
        ));
    }
    let declared = field.or(annotation)?;
    let positions = check_targets(jobset, order, &declared.targets, errors);
    let jobs = &jobset.spec.replicated_jobs;
    let members: Vec<usize> = positions
        .iter()
        .copied()
        .filter(|i| jobs[*i].pods() > 0)
        .collect();
    order.check(
        &members,
        "the start barrier waits for itself",
        "leave one of them out of the targets, or start them in any order",
        errors,
    );
    for position in &positions {
        let template = jobs[*position].pods_template();
        barrier::check_pods(template, &pods_path(*position), errors);
    }
    let target = |i: &usize| Target {
        role: jobs[*i].name.to_string(),
        jobs: jobs[*i].jobs(),
        pods: jobs[*i].pods_per_job(),
        completions: jobs[*i].completions_per_job(),
    };
    Some(Barrier {
        timeout: declared.timeout?,
        targets: positions.iter().map(target).collect(),
    })
}

/// The annotation that says something else than the field, if so. It must be one that is there.
fn disagreement(jobset: &JobSet<'_>, field: &Declared, annotation: &Declared) -> Option<String> {
    let jobs = &jobset.spec.replicated_jobs;
    // None are all.
    let targets = |declared: &Declared| -> BTreeSet<String> {
        match declared.targets.is_empty() {
            true => jobs.iter().map(|job| job.name.to_string()).collect(),
            false => declared.targets.iter().map(|t| t.0.clone()).collect(),
        }
    };
    let (timeout, of_targets) = (keys::START_BARRIER, keys::START_BARRIER_TARGETS);
    let at = annotations_path();
    if field.timeout != annotation.timeout {
        return Some(at.key(timeout).to_string());
    }
    if targets(field) == targets(annotation) {
        return None;
    }
    Some(match annotation.targets.is_empty() {
        false => at.key(of_targets).to_string(),
        true => format!(
            "{}, which is for all ReplicatedJobs where {of_targets} does not name some",
            at.key(timeout)
        ),
    })
}

fn field(jobset: &JobSet<'_>, errors: &mut Vec<FieldError>) -> Option<Declared> {
    let raw = jobset.spec.group_scheduling_config?;
    let at = FieldPath::new("spec").child("groupSchedulingConfig");
    let config: Config<'_> = match serde_json::from_str(raw.get()) {
        Ok(config) => config,
        Err(error) => {
            let value: serde_json::Value = serde_json::from_str(raw.get()).unwrap_or_default();
            errors.push(FieldError::invalid(at, value, error.to_string()));
            return None;
        }
    };
    let timeout_at = at.child("timeoutAfterSeconds");
    let timeout = match &config.timeout_after_seconds {
        None => {
            let detail = "after how many seconds the barrier gives up, such as 300";
            errors.push(FieldError::required(timeout_at, detail));
            None
        }
        Some(value) => {
            let seconds = value.to_value();
            let positive = seconds
                .as_i64()
                .filter(|s| (1..=i64::from(i32::MAX)).contains(s));
            if positive.is_none() {
                let detail = "must be a whole number of seconds greater than zero";
                errors.push(FieldError::invalid(timeout_at, seconds, detail));
            }
            positive.map(|s| Duration::from_secs(s.unsigned_abs()))
        }
    };
    let targets_at = at.child("targetReplicatedJobs");
    let targets = config.target_replicated_jobs.unwrap_or_default();
    Some(Declared {
        timeout,
        targets: targets
            .into_iter()
            .enumerate()
            .map(|(i, name)| (name, targets_at.index(i)))
            .collect(),
        at,
    })
}

fn annotation(jobset: &JobSet<'_>, errors: &mut Vec<FieldError>) -> Option<Declared> {
    let at = annotations_path();
    let meta = &jobset.metadata;
    let targets = declaration::text(meta, &at, keys::START_BARRIER_TARGETS, errors);
    if meta
        .annotations
        .as_ref()?
        .get(keys::START_BARRIER)
        .is_none()
    {
        if let Some((_, targets_at)) = targets {
            let detail = match jobset.spec.group_scheduling_config {
                None => format!(
                    "the barrier's timeout, such as \"5m\"; {targets_at} alone does nothing"
                ),
                Some(_) => format!(
                    "the barrier's timeout, since one form declares all of it: name the targets of \
                     spec.groupSchedulingConfig in its targetReplicatedJobs, and not in {targets_at}"
                ),
            };
            errors.push(FieldError::required(at.key(keys::START_BARRIER), detail));
        }
        return None;
    }
    let timeout = barrier::timeout(meta, &at, errors)?;
    let targets = targets.map_or_else(Vec::new, |(text, at)| {
        text.split(',')
            .map(|name| (name.trim().to_owned(), at.clone()))
            .collect()
    });
    Some(Declared {
        at: timeout.at,
        timeout: timeout.value,
        targets,
    })
}

/// What to do about a target that is none of these.
fn missing(name: &str, known: &[ReplicatedJob<'_>]) -> String {
    let rule = "must be the name of a ReplicatedJob of this JobSet";
    match nearest(name, known.iter().map(|job| &*job.name)) {
        _ if name.is_empty() => format!("{rule}, and not empty: remove it and its comma"),
        Some(near) => format!("{rule}, did you mean {near:?}?"),
        None => rule.to_owned(),
    }
}

/// The positions of the targets that exist; an empty list means all.
fn check_targets(
    jobset: &JobSet<'_>,
    order: &Order<'_>,
    targets: &[(String, FieldPath)],
    errors: &mut Vec<FieldError>,
) -> Vec<usize> {
    let jobs = &jobset.spec.replicated_jobs;
    if targets.is_empty() {
        return (0..jobs.len()).collect();
    }
    let mut positions = Vec::new();
    let mut seen = vec![false; jobs.len()];
    // The first one that is unknown is compared with these: to compare takes time.
    let mut compared = &jobs[..jobs.len().min(COMPARED)];
    for (name, at) in targets {
        match order.position(name) {
            None => {
                let known = std::mem::take(&mut compared);
                let detail = missing(name, known);
                errors.push(FieldError::not_found(at.clone(), name.as_str(), detail));
            }
            Some(position) if std::mem::replace(&mut seen[position], true) => {
                errors.push(FieldError::duplicate(at.clone(), name.as_str()));
            }
            Some(position) => positions.push(position),
        }
    }
    positions
}
