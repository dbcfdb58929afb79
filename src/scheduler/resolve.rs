//! Which scheduler a plan's gangs go to.
//!
//! Annotation on the workload, then its `schedulerName`, then the namespace's label, then the
//! configured default, then what the cluster serves.

use crate::gang::keys::SCHEDULER as KEY;
use crate::gang::{FieldError, FieldPath, Plan, Role, SchedulerKind};

use super::cluster::Snapshot;
use super::{Entry, NotSeen, named, names, parse};

/// Chooses the scheduler.
pub(crate) fn resolve(
    plan: &Plan,
    namespace: &str,
    cluster: &Snapshot,
) -> Result<SchedulerKind, FieldError> {
    if let Some(scheduler) = &plan.policy.scheduler {
        return Ok(scheduler.value);
    }
    if let Some(kind) = roles(plan).find_map(named_scheduler) {
        return Ok(kind);
    }
    // Admission asks to be called again before it comes to this.
    let label = cluster.namespaces.label(namespace).map_err(|NotSeen| {
        FieldError::invalid(
            FieldPath::new("metadata").child("namespace"),
            namespace,
            "Muster has not seen the namespace yet: try again",
        )
    })?;
    if let Some(label) = label {
        return parse(label).ok_or_else(|| {
            FieldError::invalid(
                FieldPath::new("metadata").child("namespace"),
                namespace,
                format!(
                    "the namespace's label {KEY} is {label:?}, but must be one of {}",
                    names().join(", ")
                ),
            )
        });
    }
    if let Some(default) = cluster.default {
        return Ok(default);
    }
    let annotation = FieldPath::new("metadata").child("annotations").key(KEY);
    match cluster.served[..] {
        [only] => Ok(only.scheduler),
        [] => Err(FieldError::required(
            annotation,
            "the cluster serves no scheduler that can gang pods; install one, or name it here",
        )),
        ref several => {
            let names: Vec<&str> = several
                .iter()
                .map(|served| served.scheduler.as_str())
                .collect();
            Err(FieldError::required(
                annotation,
                format!(
                    "the cluster serves several schedulers ({}); name one here or in the \
                     namespace's label {KEY}",
                    names.join(", ")
                ),
            ))
        }
    }
}

fn roles(plan: &Plan) -> impl Iterator<Item = &Role> {
    plan.parts.iter().flat_map(|part| part.roles())
}

fn named_scheduler(role: &Role) -> Option<SchedulerKind> {
    Some(named(role.shape.scheduler_name.as_deref()?)?.kind)
}

/// Refuses templates whose `schedulerName` belongs to another scheduler than the chosen one, and
/// gangs whose pods would go to different ones.
pub(crate) fn check_scheduler_names(plan: &Plan, chosen: &Entry) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let at = |role: &Role| role.at.child("schedulerName");
    for role in roles(plan) {
        let Some(name) = role.shape.scheduler_name.as_deref() else {
            continue;
        };
        if !chosen.fits(name) {
            errors.push(FieldError::invalid(
                at(role),
                name,
                format!(
                    "the gang is for {}, which listens to {:?}; remove it, or set {KEY} to \
                     the scheduler that you mean",
                    chosen.kind,
                    chosen.default_scheduler_name()
                ),
            ));
        }
    }
    if !errors.is_empty() {
        return errors;
    }
    for part in &plan.parts {
        let name = |role: &Role| {
            let name = role.shape.scheduler_name.clone();
            name.unwrap_or_else(|| chosen.default_scheduler_name().to_owned())
        };
        let Some(first) = part.roles().first() else {
            continue;
        };
        for role in part.roles().iter().filter(|r| name(r) != name(first)) {
            errors.push(FieldError::invalid(
                at(role),
                name(role),
                format!(
                    "all pods of a gang must go to one scheduler, and those of {:?} go to {:?}",
                    first.name,
                    name(first)
                ),
            ));
        }
    }
    errors
}
