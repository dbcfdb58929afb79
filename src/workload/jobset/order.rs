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

/// Why JobSet has not made all Jobs of a gang yet, if it waits for another ReplicatedJob. As JobSet
/// (v0.12) decides it, by its own counts.
pub(crate) fn awaited(jobset: &JobSet<'_>, part: &Part) -> Option<String> {
    let jobs = &jobset.spec.replicated_jobs;
    let counts = |name: &str| {
        let mut groups = jobset.status.replicated_jobs_status.iter();
        let group = groups.find(|group| &*group.name == name);
        group.map_or((0, 0), |g| (g.succeeded, g.failed + g.ready + g.succeeded))
    };
    let wanted = |name: &str| {
        let mut jobs = jobs.iter();
        jobs.find(|job| &*job.name == name)
            .map_or(0, |job| job.jobs())
    };
    let is_ready = |name: &str| counts(name).1 == wanted(name);
    for (position, job) in jobs.iter().enumerate() {
        if !part.roles().iter().any(|role| role.name == *job.name) {
            continue;
        }
        if jobset.in_order()
            && let Some(first) = jobs.iter().take(position).find(|job| !is_ready(&job.name))
        {
            let first = &*first.name;
            return Some(format!(
                "its pods are made once {first:?} is ready (startupPolicyOrder: InOrder)"
            ));
        }
        for dependency in job.depends_on.iter() {
            let (name, complete) = (
                &*dependency.name,
                dependency.status.as_deref() == Some("Complete"),
            );
            let reached = match complete {
                true => counts(name).0 == wanted(name),
                false => is_ready(name),
            };
            if !reached {
                let state = if complete { "complete" } else { "ready" };
                return Some(format!(
                    "its pods are made once {name:?} is {state} (dependsOn)"
                ));
            }
        }
    }
    None
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::workload::{Unasked, Workload};

    /// What the workers of a JobSet wait for that come after others, of which so many Jobs are so far.
    fn workers_await(status: Value, workers: Value, spec: Value) -> Option<String> {
        let group = |name: &str, rest: &Value| {
            let pods = json!({"spec": {"parallelism": 3, "completions": 3}});
            let mut group = json!({"name": name, "replicas": 2, "template": pods});
            for (field, value) in rest.as_object().unwrap() {
                group[field] = value.clone();
            }
            group
        };
        let mut workers = group("workers", &workers);
        workers["template"]["metadata"] = json!({"annotations": {"muster.dev/gang-mode": "Gang"}});
        let mut jobset = json!({
            "metadata": {"name": "train"},
            "spec": {"replicatedJobs": [group("prepare", &json!({})), workers]},
            "status": status,
        });
        for (field, value) in spec.as_object().unwrap() {
            jobset["spec"][field] = value.clone();
        }
        let text = jobset.to_string();
        let jobset: JobSet<'_> = serde_json::from_str(&text).unwrap();
        let plan = jobset.read(Unasked::NoGang).plan;
        awaited(&jobset, &plan.parts[0])
    }

    #[test]
    fn a_gang_waits_for_what_its_jobs_depend_on_as_jobset_counts_it() {
        let counts = |ready: u32, succeeded: u32| {
            let prepare = json!({"name": "prepare", "ready": ready, "succeeded": succeeded});
            json!({"replicatedJobsStatus": [prepare]})
        };
        let on = |status: &str| json!({"dependsOn": [{"name": "prepare", "status": status}]});
        let depends = |status: Value, on: Value| workers_await(status, on, json!({}));
        assert_eq!(
            depends(json!({}), on("Complete")).unwrap(),
            "its pods are made once \"prepare\" is complete (dependsOn)"
        );
        assert_eq!(
            depends(counts(1, 0), on("Ready")).unwrap(),
            "its pods are made once \"prepare\" is ready (dependsOn)"
        );
        assert_eq!(depends(counts(1, 1), on("Ready")), None);
        assert!(depends(counts(1, 1), on("Complete")).is_some());
        assert_eq!(depends(counts(0, 2), on("Complete")), None);
        assert_eq!(depends(counts(0, 0), json!({})), None);
        let in_order = json!({"startupPolicy": {"startupPolicyOrder": "InOrder"}});
        assert_eq!(
            workers_await(counts(0, 0), json!({}), in_order.clone()).unwrap(),
            "its pods are made once \"prepare\" is ready (startupPolicyOrder: InOrder)"
        );
        assert_eq!(workers_await(counts(2, 0), json!({}), in_order), None);
    }
}
