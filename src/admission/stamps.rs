//! The stamps of a JobSet's templates: written when it is created, looked for ever after.

use std::collections::BTreeMap;

use super::judge::Judged;
use super::patch::PatchBuilder;
use crate::gang::{FieldError, FieldPath, Part, Plan, Role, Stamp};
use crate::scheduler::Scheduler;
use crate::workload::jobset::update;
use crate::workload::jobset::view::{JobSet, ReplicatedJob};
use crate::workload::keys;
use crate::workload::view::Meta;

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

/// A ReplicatedJob's place in the plan.
#[derive(Clone, Copy)]
struct Seat<'p> {
    ordinal: usize,
    part: &'p Part,
    role: &'p Role,
}

/// The part and the role that a ReplicatedJob's pods belong to.
fn seat<'p>(plan: &'p Plan, job: &ReplicatedJob<'_>) -> Option<Seat<'p>> {
    plan.parts.iter().enumerate().find_map(|(ordinal, part)| {
        let mut roles = part.roles().iter();
        let role = roles.find(|role| *role.name == *job.name)?;
        Some(Seat {
            ordinal,
            part,
            role,
        })
    })
}

/// What Muster writes on both templates of a ReplicatedJob.
fn stamp_marks(
    plan: &Plan,
    seat: Seat<'_>,
    backend: &dyn Scheduler,
) -> (
    BTreeMap<&'static str, String>,
    BTreeMap<&'static str, String>,
) {
    let mut stamp = Stamp::new(backend.kind(), seat.ordinal, seat.part);
    backend.extend_stamp(plan, seat.part, seat.role, &mut stamp);
    (
        BTreeMap::from([(keys::GANG, seat.part.name().as_str().to_owned())]),
        BTreeMap::from([(keys::STAMP, stamp.to_json())]),
    )
}

/// Stamps a new JobSet: the scheduler on itself, and on each template of a gang what a link will
/// need. Stamps of a copied manifest that no longer hold are removed.
pub fn stamp(patch: &mut PatchBuilder, jobset: &JobSet<'_>, judged: &Judged) {
    if jobset.metadata.annotation(keys::ROUND).is_some() {
        patch.remove(&["metadata", "annotations", keys::ROUND]);
    }
    if let Some(backend) = judged.backend {
        let scheduler = BTreeMap::from([(keys::SCHEDULER, backend.kind().as_str().to_owned())]);
        patch.metadata(&[], Some(&jobset.metadata), &BTreeMap::new(), &scheduler);
    }
    for (i, job) in jobset.spec.replicated_jobs.iter().enumerate() {
        let index = i.to_string();
        let seat = seat(&judged.plan, job);
        let marks = judged.backend.zip(seat).map(|(backend, seat)| {
            let (labels, annotations) = stamp_marks(&judged.plan, seat, backend);
            (
                labels,
                annotations,
                backend.template_marks(&judged.plan, seat.role),
            )
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
        if let Some((_, _, marks)) = &marks {
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
pub enum Stamps {
    /// As they would be written now.
    Exact,
    /// There, for the right part: a JobSet may have been scaled since it was stamped.
    Present,
}

/// A JobSet that is stored without its stamps would run without a gang.
pub fn missing_stamps(jobset: &JobSet<'_>, judged: &Judged, how: Stamps) -> Vec<FieldError> {
    let Some(backend) = judged.backend else {
        return Vec::new();
    };
    let jobs = jobset.spec.replicated_jobs.iter().enumerate();
    let members = jobs.filter_map(|(i, job)| Some((i, job, seat(&judged.plan, job)?)));
    let mut errors = Vec::new();
    for (i, job, seat) in members {
        let (labels, annotations) = stamp_marks(&judged.plan, seat, backend);
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
        let stamped_marks = backend.template_marks(&judged.plan, seat.role);
        let named = stamped_marks.scheduler_name.is_none();
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

/// Puts back what the scheduler was promised on pod templates and an update has dropped with its
/// list of ReplicatedJobs: the scheduler's name, and labels and annotations of its own.
pub fn keep_marks(
    patch: &mut PatchBuilder,
    old: &JobSet<'_>,
    new: &JobSet<'_>,
    plan: &Plan,
    backend: Option<&dyn Scheduler>,
) {
    let Some(backend) = backend else {
        return;
    };
    for (i, job) in new.spec.replicated_jobs.iter().enumerate() {
        let before = old.spec.replicated_jobs.iter().find(|b| b.name == job.name);
        let Some((before, seat)) = before.zip(seat(plan, job)) else {
            continue;
        };
        let index = i.to_string();
        let base = pods_path(&index);
        let (before, template) = (&before.template.spec.template, &job.template.spec.template);
        let (was, meta) = (before.metadata.as_ref(), template.metadata.as_ref());
        let mut marks = backend.template_marks(plan, seat.role);
        marks.labels.retain(|key, value| {
            was.and_then(|m| m.label(key)) == Some(value)
                && meta.and_then(|m| m.label(key)).is_none()
        });
        marks.annotations.retain(|key, value| {
            was.and_then(|m| m.annotation(key)) == Some(value)
                && meta.and_then(|m| m.annotation(key)).is_none()
        });
        patch.metadata(&base, meta, &marks.labels, &marks.annotations);
        let name = before.spec.scheduler_name.as_deref();
        let dropped = template.spec.scheduler_name.is_none() && template.spec.present;
        // Kubernetes fills in its own name by itself.
        let kept = name.filter(|_| dropped && !backend.entry().is_filled_in());
        marks.scheduler_name = kept.map(str::to_owned);
        patch.scheduler_name(&base, None, &marks);
    }
}

/// Writes the round that the update leaves the JobSet in: on itself, and on the pod templates of
/// its gangs, from where JobSet merges it into the Jobs that it resumes.
pub fn stamp_round(patch: &mut PatchBuilder, old: &JobSet<'_>, new: &JobSet<'_>) {
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
