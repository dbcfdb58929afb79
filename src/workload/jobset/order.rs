//! Start order and gangs: members that are created one after the other never all exist at once.
//!
//! JobSet creates a ReplicatedJob under `InOrder` only when the one before it is ready, and under
//! `dependsOn` when its dependencies are ready or complete. A gang binds nothing before a quorum
//! exists. Together the two deadlock.

use std::collections::BTreeMap;

use crate::gang::{FieldError, FieldPath, Part, Plan};

use super::group_path;
use super::view::JobSet;

/// Refuses an order between the ReplicatedJobs at `members`. Groups without pods do not count:
/// JobSet takes them for ready at once.
pub(crate) fn check(
    jobset: &JobSet<'_>,
    members: &[usize],
    what: &str,
    remedy: &str,
    errors: &mut Vec<FieldError>,
) {
    if members.len() < 2 {
        return;
    }
    if jobset.in_order() {
        errors.push(FieldError::invalid(
            FieldPath::new("spec")
                .child("startupPolicy")
                .child("startupPolicyOrder"),
            "InOrder",
            format!(
                "{what}: InOrder creates a ReplicatedJob only when the one before it is ready; \
                 {remedy}"
            ),
        ));
    }
    for &position in members {
        let job = &jobset.spec.replicated_jobs[position];
        for (k, dependency) in job.depends_on.iter().enumerate() {
            if !reaches(jobset, &dependency.name, members) {
                continue;
            }
            let at = group_path(position).child("dependsOn").index(k);
            errors.push(FieldError::invalid(
                at.child("name"),
                &*dependency.name,
                format!(
                    "{what}: {:?} is created only after {:?} is ready; {remedy}",
                    &*job.name, &*dependency.name
                ),
            ));
        }
    }
}

/// Whether the group called `from`, or one that it waits for in turn, is a member.
fn reaches(jobset: &JobSet<'_>, from: &str, members: &[usize]) -> bool {
    let jobs = &jobset.spec.replicated_jobs;
    let mut seen = vec![false; jobs.len()];
    let mut open = vec![from];
    while let Some(name) = open.pop() {
        let Some(position) = jobs.iter().position(|job| &*job.name == name) else {
            continue;
        };
        // Without Jobs a group is ready at once; with Jobs that run no pods it still waits its turn.
        if std::mem::replace(&mut seen[position], true) || jobs[position].jobs() == 0 {
            continue;
        }
        if members.contains(&position) {
            return true;
        }
        open.extend(jobs[position].depends_on.iter().map(|d| &*d.name));
    }
    false
}

/// Refuses to name partners for bundles that are not there.
pub(crate) fn check_partners(plan: &Plan, errors: &mut Vec<FieldError>) {
    let bundled = plan.parts.iter().any(|part| part.bundle().is_some());
    if let Some(with) = plan.policy.bundle_with.as_ref().filter(|_| !bundled) {
        let detail = "no gang of this JobSet is in a bundle: set muster.dev/bundle to the name \
                      that the others' gangs have, or remove it";
        errors.push(FieldError::forbidden(with.at.clone(), detail));
    }
}

/// Refuses an order between the members of a bundle.
pub(crate) fn check_bundles(jobset: &JobSet<'_>, parts: &[Part], errors: &mut Vec<FieldError>) {
    let mut bundles: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for part in parts {
        let Some(bundle) = part.bundle() else {
            continue;
        };
        let jobs = jobset.spec.replicated_jobs.iter();
        let position = jobs
            .enumerate()
            .find(|(_, job)| *job.name == *part.name().as_str());
        if let Some((position, _)) = position {
            let members = bundles.entry(bundle.value.as_str()).or_default();
            members.push(position);
        }
    }
    for (name, members) in bundles {
        check(
            jobset,
            &members,
            &format!("the bundle {name:?} waits for itself"),
            "leave one of them out of the bundle, or start them in any order",
            errors,
        );
    }
}
