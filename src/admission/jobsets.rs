//! JobSets: read, resolve the scheduler, refuse or stamp.

use std::collections::BTreeMap;

use serde_json::Value;

use super::patch::PatchBuilder;
use super::{Decided, Decision, Phase, Review};
use crate::gang::{FieldError, FieldPath, Part, Plan, SchedulerKind, Stamp};
use crate::scheduler::{self, Scheduler, Snapshot};
use crate::workload::jobset::view::{JobSet, ReplicatedJob};
use crate::workload::jobset::{self, update};
use crate::workload::keys;
use crate::workload::view::Meta;

/// A JobSet with everything that is wrong with it, and its scheduler when one could be found.
pub struct Judged {
    pub plan: Plan,
    pub errors: Vec<FieldError>,
    pub warnings: Vec<String>,
    pub unquoted_off: Vec<(Vec<String>, String)>,
    pub backend: Option<&'static dyn Scheduler>,
}

/// Reads a JobSet and holds its plan against the scheduler that it will go to.
pub fn judge(jobset: &JobSet<'_>, namespace: &str, cluster: &Snapshot) -> Judged {
    let reading = jobset::read(jobset);
    let mut judged = Judged {
        plan: reading.plan,
        errors: reading.errors,
        warnings: reading.warnings,
        unquoted_off: reading.unquoted_off,
        backend: None,
    };
    if judged.plan.parts.is_empty() {
        return judged;
    }
    match choose(&judged.plan, namespace, cluster) {
        Err(error) => judged.errors.push(error),
        Ok(backend) => {
            let kind = backend.kind();
            let (errors, warnings) = scheduler::refusals(kind, backend.abilities(), &judged.plan);
            judged
                .errors
                .extend(scheduler::check_scheduler_names(&judged.plan, kind));
            judged.errors.extend(errors);
            judged.errors.extend(backend.check(&judged.plan));
            judged.warnings.extend(warnings);
            judged.backend = Some(backend);
        }
    }
    judged
}

fn choose(
    plan: &Plan,
    namespace: &str,
    cluster: &Snapshot,
) -> Result<&'static dyn Scheduler, FieldError> {
    let kind = scheduler::resolve(plan, namespace, cluster)?;
    scheduler::backend(kind, cluster).map_err(|unavailable| {
        let at = match &plan.policy.scheduler {
            Some(scheduler) => scheduler.at.clone(),
            None => annotation(keys::SCHEDULER),
        };
        FieldError::invalid(at, kind.as_str(), unavailable.to_string())
    })
}

fn annotation(key: &str) -> FieldPath {
    FieldPath::new("metadata").child("annotations").key(key)
}

pub fn decide(
    phase: Phase,
    review: &Review<'_>,
    new: &JobSet<'_>,
    old: Option<&JobSet<'_>>,
    cluster: &Snapshot,
) -> Decided {
    let left_alone = new.managed_by_other() && old.is_none_or(JobSet::managed_by_other);
    if left_alone || new.metadata.deleting() {
        return Decided::untouched();
    }
    let namespace = review.namespace();
    let mut judged = judge(new, namespace, cluster);
    let parts: Vec<&str> = judged
        .plan
        .parts
        .iter()
        .map(|p| p.name().as_str())
        .collect();
    let gang = parts.join(",");
    let mut patch = PatchBuilder::default();
    let mut warnings = Vec::new();
    for (pointer, warning) in std::mem::take(&mut judged.unquoted_off) {
        patch.set(pointer.iter().map(String::as_str), Value::from("Off"));
        warnings.push(warning);
    }
    match (old, phase) {
        (None, Phase::Mutate) => stamp(&mut patch, new, &judged),
        // A refused JobSet has no stamps, and needs no telling.
        (None, Phase::Validate) if judged.errors.is_empty() => {
            judged.errors = missing_stamps(new, &judged, Stamps::Exact);
        }
        (None, Phase::Validate) => {}
        (Some(old), _) => {
            let before = judge(old, namespace, cluster);
            let unstamped = missing_stamps(new, &judged, Stamps::Present);
            // An error that the stored object already has must not hold up other updates.
            let mut stored = missing_stamps(old, &before, Stamps::Present);
            stored.extend(before.errors);
            judged.errors.retain(|error| !stored.contains(error));
            let unstamped = unstamped.into_iter().filter(|e| !stored.contains(e));
            let mut refused = Vec::new();
            let mut restored = false;
            for change in update::changes(old, new) {
                let restorable = phase == Phase::Mutate && review.by_service_account();
                match change.old.clone() {
                    Some(value) if change.is_drop() && restorable => {
                        restore(&mut patch, new, &change.tokens, value);
                        restored = true;
                        warnings.push(format!(
                            "{}: dropped by {}, and put back: the field is immutable",
                            change.field,
                            review.username.as_deref().unwrap_or_default()
                        ));
                    }
                    _ => refused.push(change.error()),
                }
            }
            // What was put back changes the verdict; the second phase judges the result.
            if restored {
                judged.errors.clear();
            } else if refused.is_empty() {
                judged.errors.extend(unstamped);
            }
            judged.errors.extend(refused);
            stamp_round(&mut patch, old, new);
        }
    }
    if phase == Phase::Validate {
        warnings.append(&mut judged.warnings);
    }
    if !judged.errors.is_empty() {
        let errors = judged.errors;
        return Decision::Deny { errors, warnings }.about(gang);
    }
    let patch = match phase {
        Phase::Mutate => patch,
        Phase::Validate => PatchBuilder::default(),
    };
    Decision::allow(patch.finish(), warnings).about(gang)
}

/// The path of a ReplicatedJob's pod template.
fn pods_path(index: &str) -> [&str; 6] {
    [
        "spec",
        "replicatedJobs",
        index,
        "template",
        "spec",
        "template",
    ]
}

/// The two metadata of a ReplicatedJob's template: the Job's and its pods'.
fn templates<'j>(
    index: &'j str,
    job: &'j ReplicatedJob<'j>,
) -> [(Vec<&'j str>, Option<&'j Meta<'j>>); 2] {
    let outer = vec!["spec", "replicatedJobs", index, "template"];
    let inner = [&outer[..], &["spec", "template"]].concat();
    [
        (outer, job.template.metadata.as_ref()),
        (inner, job.template.spec.template.metadata.as_ref()),
    ]
}

/// What Muster writes on each template of a part.
fn stamp_marks(
    part: &Part,
    ordinal: usize,
    kind: SchedulerKind,
) -> (
    BTreeMap<&'static str, String>,
    BTreeMap<&'static str, String>,
) {
    let stamp = Stamp::new(kind, ordinal, part);
    (
        BTreeMap::from([(keys::GANG, part.name().as_str().to_owned())]),
        BTreeMap::from([(keys::STAMP, stamp.to_json())]),
    )
}

/// The part that a ReplicatedJob's pods belong to.
fn part_of<'p>(plan: &'p Plan, job: &ReplicatedJob<'_>) -> Option<(usize, &'p Part)> {
    let belongs = |part: &&Part| part.roles().iter().any(|role| *role.name == *job.name);
    plan.parts
        .iter()
        .enumerate()
        .find(|(_, part)| belongs(part))
}

/// Stamps a new JobSet: the scheduler on itself, and on each template of a gang what a link will
/// need. Stamps of a copied manifest that no longer hold are removed.
fn stamp(patch: &mut PatchBuilder, jobset: &JobSet<'_>, judged: &Judged) {
    if jobset.metadata.annotation(keys::ROUND).is_some() {
        patch.remove(&["metadata", "annotations", keys::ROUND]);
    }
    if let Some(backend) = judged.backend {
        let scheduler = BTreeMap::from([(keys::SCHEDULER, backend.kind().as_str().to_owned())]);
        patch.metadata(&[], Some(&jobset.metadata), &BTreeMap::new(), &scheduler);
    }
    for (i, job) in jobset.spec.replicated_jobs.iter().enumerate() {
        let index = i.to_string();
        let part = part_of(&judged.plan, job);
        let marks = judged.backend.zip(part).map(|(backend, (ordinal, part))| {
            let (labels, annotations) = stamp_marks(part, ordinal, backend.kind());
            let role = part.roles().iter().find(|role| *role.name == *job.name);
            (labels, annotations, role.map(|role| backend.stamp(role)))
        });
        if marks.is_some() {
            create_parents(patch, &index, job);
        }
        for (base, meta) in templates(&index, job) {
            let stale = |key| meta.is_some_and(|m| m.annotation(key).is_some());
            if stale(keys::ROUND) {
                patch.remove(&[&base[..], &["metadata", "annotations", keys::ROUND]].concat());
            }
            match &marks {
                Some((labels, annotations, _)) => {
                    patch.metadata(&base, meta, labels, annotations);
                }
                None => {
                    if stale(keys::STAMP) {
                        patch.remove(
                            &[&base[..], &["metadata", "annotations", keys::STAMP]].concat(),
                        );
                    }
                    if meta.is_some_and(|m| m.label(keys::GANG).is_some()) {
                        patch.remove(&[&base[..], &["metadata", "labels", keys::GANG]].concat());
                    }
                }
            }
        }
        if let Some((_, _, Some(marks))) = &marks {
            let base = pods_path(&index);
            let template = &job.template.spec.template;
            let meta = template.metadata.as_ref();
            patch.metadata(&base, meta, &marks.labels, &marks.annotations);
            let name = template.spec.scheduler_name.as_deref();
            patch.scheduler_name(&base, name, marks);
        }
    }
}

/// Creates what a stamp needs and the ReplicatedJob lacks. The schema or the Job's own validation
/// says what else is missing; a patch that does not apply would hide it.
fn create_parents(patch: &mut PatchBuilder, index: &str, job: &ReplicatedJob<'_>) {
    let pods = pods_path(index);
    let pod_spec = [&pods[..], &["spec"]].concat();
    let template = &job.template;
    patch.parents(&[
        (&pods[..4], template.present),
        (&pods[..5], template.spec.present),
        (&pods[..], template.spec.template.present),
        (&pod_spec, template.spec.template.spec.present),
    ]);
}

/// How closely stamps are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stamps {
    /// As they would be written now.
    Exact,
    /// There, for the right part: a JobSet may have been scaled since it was stamped.
    Present,
}

/// A JobSet that is stored without its stamps would run without a gang.
fn missing_stamps(jobset: &JobSet<'_>, judged: &Judged, how: Stamps) -> Vec<FieldError> {
    let Some(backend) = judged.backend else {
        return Vec::new();
    };
    let jobs = jobset.spec.replicated_jobs.iter().enumerate();
    let members = jobs.filter_map(|(i, job)| Some((i, job, part_of(&judged.plan, job)?)));
    let mut errors = Vec::new();
    for (i, job, (ordinal, part)) in members {
        let (labels, annotations) = stamp_marks(part, ordinal, backend.kind());
        let index = i.to_string();
        let stamped = templates(&index, job).into_iter().all(|(base, meta)| {
            let outer = base.len() == 4;
            meta.is_some_and(|meta| {
                let exact = annotations
                    .iter()
                    .all(|(k, v)| meta.annotation(k) == Some(v));
                let present = annotations.keys().all(|k| meta.annotation(k).is_some());
                let label = labels.iter().all(|(k, v)| meta.label(k) == Some(v));
                match how {
                    Stamps::Exact => label && exact,
                    // Jobs are selected by the outer label, which JobSet keeps immutable.
                    Stamps::Present => present && (outer || label),
                }
            })
        });
        let role = part.roles().iter().find(|role| *role.name == *job.name);
        let named = role.is_none_or(|role| backend.stamp(role).scheduler_name.is_none());
        if !stamped || !named {
            let at = FieldPath::new("spec").child("replicatedJobs").index(i);
            let labels = at.child("template").child("metadata").child("labels");
            errors.push(FieldError::required(
                labels.key(keys::GANG),
                "this template lacks the stamp of its gang, and its pods would start alone: it was \
                 no part of the gang when the JobSet was created, or a webhook changed it after \
                 Muster's mutating webhook; create the JobSet anew",
            ));
        }
    }
    errors
}

/// Writes the round that the update leaves the JobSet in: on itself, and on the pod templates of
/// its gangs, from where JobSet merges it into the Jobs that it resumes.
fn stamp_round(patch: &mut PatchBuilder, old: &JobSet<'_>, new: &JobSet<'_>) {
    let round = update::round_after(old, new);
    // By the stored object: an update may have dropped the stamps, which are put back.
    let stamped = |job: &ReplicatedJob<'_>| {
        let before = old.spec.replicated_jobs.iter().find(|b| b.name == job.name);
        let meta = before.and_then(|job| job.template.spec.template.metadata.as_ref());
        meta.is_some_and(|m| m.annotation(keys::STAMP).is_some())
    };
    let annotations = BTreeMap::from([(keys::ROUND, round.0.to_string())]);
    let none = BTreeMap::new();
    let mut any = false;
    for (i, job) in new.spec.replicated_jobs.iter().enumerate() {
        let meta = job.template.spec.template.metadata.as_ref();
        if !stamped(job) {
            continue;
        }
        any = true;
        if meta.map(update::round).unwrap_or_default() != round {
            patch.metadata(&pods_path(&i.to_string()), meta, &none, &annotations);
        }
    }
    if any && update::round(&new.metadata) != round {
        patch.metadata(&[], Some(&new.metadata), &none, &annotations);
    }
}

/// Puts a dropped value back. Its parents may have been dropped with it.
fn restore(patch: &mut PatchBuilder, new: &JobSet<'_>, tokens: &[String], value: Value) {
    let tokens: Vec<&str> = tokens.iter().map(String::as_str).collect();
    let [base @ .., "metadata", map, key] = &tokens[..] else {
        patch.set(tokens, value);
        return;
    };
    let meta = match base {
        [] => Some(&new.metadata),
        [_, _, index, rest @ ..] => {
            let job = index
                .parse()
                .ok()
                .and_then(|i: usize| new.spec.replicated_jobs.get(i));
            match rest.len() {
                1 => job.and_then(|job| job.template.metadata.as_ref()),
                _ => job.and_then(|job| job.template.spec.template.metadata.as_ref()),
            }
        }
        _ => None,
    };
    let text = value.as_str().unwrap_or_default().to_owned();
    let entry = BTreeMap::from([(*key, text)]);
    let none = BTreeMap::new();
    match *map {
        "labels" => patch.metadata(base, meta, &entry, &none),
        _ => patch.metadata(base, meta, &none, &entry),
    }
}
