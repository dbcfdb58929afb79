//! Start order and gangs: members that are created one after the other never all exist at once.
//!
//! JobSet creates a ReplicatedJob under `InOrder` only when the one before it is ready, and under
//! `dependsOn` when its dependencies are ready or complete. A gang binds nothing before a quorum
//! exists. Together the two deadlock.

use std::collections::{BTreeMap, HashMap};

use crate::gang::{FieldError, FieldPath, Part};

use super::group_path;
use super::view::JobSet;

/// Who is created after whom.
pub(crate) struct Order<'j> {
    jobset: &'j JobSet<'j>,
    positions: HashMap<&'j str, usize>,
    /// The ReplicatedJobs that wait for the one at each position.
    followers: Vec<Vec<usize>>,
}

impl<'j> Order<'j> {
    pub(crate) fn new(jobset: &'j JobSet<'j>) -> Self {
        let jobs = &jobset.spec.replicated_jobs;
        let mut positions = HashMap::with_capacity(jobs.len());
        for (position, job) in jobs.iter().enumerate() {
            positions.entry(&*job.name).or_insert(position);
        }
        let mut followers = vec![Vec::new(); jobs.len()];
        for (position, job) in jobs.iter().enumerate() {
            for dependency in job.depends_on.iter() {
                if let Some(first) = positions.get(&*dependency.name) {
                    followers[*first].push(position);
                }
            }
        }
        Self {
            jobset,
            positions,
            followers,
        }
    }

    /// Where the ReplicatedJob of a name stands.
    pub(super) fn position(&self, name: &str) -> Option<usize> {
        self.positions.get(name).copied()
    }

    /// The groups that are members or wait for one, be it by way of others.
    fn after(&self, members: &[usize]) -> Vec<bool> {
        let jobs = &self.jobset.spec.replicated_jobs;
        let mut after = vec![false; jobs.len()];
        let mut open = members.to_vec();
        while let Some(position) = open.pop() {
            // Without Jobs a group is ready at once; with Jobs that run no pods it still waits its
            // turn.
            if jobs[position].jobs() > 0 && !std::mem::replace(&mut after[position], true) {
                open.extend(&self.followers[position]);
            }
        }
        after
    }

    /// Refuses an order between the ReplicatedJobs at `members`. Groups without pods do not count:
    /// JobSet takes them for ready at once.
    pub(super) fn check(
        &self,
        members: &[usize],
        what: &str,
        remedy: &str,
        errors: &mut Vec<FieldError>,
    ) {
        if members.len() < 2 {
            return;
        }
        if self.jobset.in_order() {
            errors.push(FieldError::invalid(
                FieldPath::new("spec")
                    .child("startupPolicy")
                    .child("startupPolicyOrder"),
                "InOrder",
                format!(
                    "{what}: InOrder creates a ReplicatedJob only when the one before it is \
                     ready; {remedy}"
                ),
            ));
        }
        let after = self.after(members);
        for &position in members {
            let job = &self.jobset.spec.replicated_jobs[position];
            for (k, dependency) in job.depends_on.iter().enumerate() {
                if !self.position(&dependency.name).is_some_and(|p| after[p]) {
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
}

/// Refuses an order between the members of a bundle.
pub(crate) fn check_bundles(order: &Order<'_>, parts: &[Part], errors: &mut Vec<FieldError>) {
    let mut bundles: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for part in parts {
        let position = order.position(part.name().as_str());
        if let (Some(bundle), Some(position)) = (part.bundle(), position) {
            let members = bundles.entry(bundle.value.as_str()).or_default();
            members.push(position);
        }
    }
    for (name, members) in bundles {
        order.check(
            &members,
            &format!("the bundle {name:?} waits for itself"),
            "leave one of them out of the bundle, or start them in any order",
            errors,
        );
    }
}
