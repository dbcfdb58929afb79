//! LeaderWorkerSets: read, resolve the scheduler, refuse or stamp.
//!
//! A change of `leaderWorkerTemplate` replaces every replica, so Muster never makes one: stamps are
//! written when the set is created, and later only together with a change of the user's own. What
//! an update drops of them is put back, and the template is then the stored one again.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::judge::{Judged, choose};
use super::patch::PatchBuilder;
use super::{Decided, Decision, Patch, Phase, Review};
use crate::gang::{FieldError, FieldPath, Order, Part, Plan, Role, Stamp, Unasked};
use crate::scheduler::{self, Marks, Scheduler, Snapshot};
use crate::workload::lws;
use crate::workload::lws::replica::{LEADER, REPLICA, WORKERS, stamp_of};
use crate::workload::lws::view::{LEADER_TEMPLATE, LeaderWorkerSet, template_path};
use crate::workload::view::Meta;
use crate::workload::{keys, template::PodTemplate};

/// What an update may not change by itself.
const REMEDY: &str = "change leaderWorkerTemplate in the same update, which replaces every replica \
                      anyway, or create the LeaderWorkerSet anew";

/// Reads a LeaderWorkerSet that is stamped now, and holds its plan against its scheduler.
pub fn judge(lws: &LeaderWorkerSet<'_>, namespace: &str, cluster: &Snapshot) -> Judged {
    let reading = lws::read(lws, cluster.leader_worker_sets);
    Judged::of(reading, |plan| choose(plan, namespace, cluster))
}

/// The same for one whose replicas keep what was stamped on them.
pub fn judge_stored(lws: &LeaderWorkerSet<'_>, namespace: &str, cluster: &Snapshot) -> Judged {
    Judged::of(lws::read(lws, Unasked::Alone), |plan| {
        let kept = stored_stamp(lws).map(|stamp| scheduler::stamped(&stamp, cluster));
        match kept {
            Some(Ok(backend)) => Ok(backend),
            _ => choose(plan, namespace, cluster),
        }
    })
}

fn stored_stamp(lws: &LeaderWorkerSet<'_>) -> Option<Stamp> {
    lws.templates().find_map(|(_, template)| {
        let text = template.metadata.as_ref()?.annotation(keys::STAMP)?;
        Stamp::parse(text).ok()
    })
}

pub fn decide(
    phase: Phase,
    review: &Review<'_>,
    new: &LeaderWorkerSet<'_>,
    old: Option<&LeaderWorkerSet<'_>>,
    cluster: &Snapshot,
) -> Decided {
    if new.metadata.deleting() {
        return Decided::untouched();
    }
    let namespace = review.namespace();
    if let Some(old) = old {
        let before = judge_stored(old, namespace, cluster);
        let kept = put_back(old, new, &before);
        if is_same(old, new, &kept) {
            let now = judge_stored(new, namespace, cluster);
            return keep(phase, old, new, before, now, kept);
        }
    }
    let mut judged = judge(new, namespace, cluster);
    let gang = judged.gang();
    let mut patch = PatchBuilder::default();
    match phase {
        Phase::Mutate => stamp(&mut patch, new, old, &judged),
        Phase::Validate if judged.errors.is_empty() => judged.errors = missing(new, &judged),
        Phase::Validate => {}
    }
    finish(phase, judged.errors, judged.warnings, patch.finish()).about(gang)
}

fn finish(
    phase: Phase,
    errors: Vec<FieldError>,
    mut warnings: Vec<String>,
    patch: Patch,
) -> Decision {
    if phase == Phase::Mutate {
        // The second phase says them, on the final object.
        warnings.clear();
    }
    if errors.is_empty() {
        return Decision::allow(patch, warnings);
    }
    Decision::Deny { errors, warnings }
}

/// An update that leaves the template as it is: the gangs stay what they are.
fn keep(
    phase: Phase,
    old: &LeaderWorkerSet<'_>,
    new: &LeaderWorkerSet<'_>,
    before: Judged,
    mut now: Judged,
    mut patch: PatchBuilder,
) -> Decided {
    let gang = now.gang();
    // An error that the stored object already has must not hold up other updates.
    now.errors.retain(|error| !before.errors.contains(error));
    now.errors.extend(changed_knobs(old, new));
    let stamped = stored_stamp(old).is_some();
    if stamped && old.order() != new.order() {
        let detail = format!("its gangs are made for the order that it has; {REMEDY}");
        let at = FieldPath::new("spec").child("startupPolicy");
        let value = new.spec.startup_policy.as_deref().unwrap_or_default();
        now.errors.push(FieldError::invalid(at, value, detail));
    }
    if !stamped && !now.plan.parts.is_empty() {
        now.warnings.push(
            "this LeaderWorkerSet was created without Muster, and its replicas are no gangs until \
             its leaderWorkerTemplate changes"
                .to_owned(),
        );
    }
    // `kubectl replace` drops what Muster wrote.
    let scheduler = old.metadata.annotation(keys::SCHEDULER);
    if let (Some(scheduler), None) = (scheduler, new.metadata.annotation(keys::SCHEDULER)) {
        let choice = BTreeMap::from([(keys::SCHEDULER, scheduler.to_owned())]);
        patch.metadata(&[], Some(&new.metadata), &BTreeMap::new(), &choice);
    }
    let patch = match phase {
        Phase::Mutate => patch.finish(),
        Phase::Validate => PatchBuilder::default().finish(),
    };
    finish(phase, now.errors, now.warnings, patch).about(gang)
}

/// The `muster.dev/` annotations that differ, but for the timeouts and a dropped choice.
fn changed_knobs(old: &LeaderWorkerSet<'_>, new: &LeaderWorkerSet<'_>) -> Vec<FieldError> {
    let ours = |key: &&str| key.starts_with(keys::PREFIX) && !keys::is_mutable(key);
    let all = [old, new].into_iter();
    let all = all.flat_map(|lws| lws.metadata.annotations().map(|(key, _)| key));
    let mut all: Vec<&str> = all.filter(ours).collect();
    all.sort_unstable();
    all.dedup();
    let annotations = FieldPath::new("metadata").child("annotations");
    let mut errors = Vec::new();
    for key in all {
        let (was, is) = (old.metadata.annotation(key), new.metadata.annotation(key));
        let dropped_choice = key == keys::SCHEDULER && is.is_none();
        if was != is && !dropped_choice {
            let before = was.map_or("was not set".to_owned(), |was| format!("was {was:?}"));
            let detail = format!("it {before}, and the replicas keep their gangs; {REMEDY}");
            let value = is.map_or(Value::Null, Value::from);
            errors.push(FieldError::invalid(annotations.key(key), value, detail));
        }
    }
    errors
}

fn base(field: &'static str) -> [&'static str; 3] {
    ["spec", "leaderWorkerTemplate", field]
}

/// The part and the role that a template's pods belong to.
fn seat<'p>(plan: &'p Plan, field: &str) -> Option<(&'p Part, &'p Role)> {
    let name = match field {
        LEADER_TEMPLATE => LEADER,
        _ => WORKERS,
    };
    let mut roles = plan
        .parts
        .iter()
        .flat_map(|part| part.roles().iter().map(move |role| (part, role)));
    roles.find(|(_, role)| role.name == name)
}

/// What Muster writes on a template: its own keys, and what the scheduler is told.
fn marks(
    lws: &LeaderWorkerSet<'_>,
    plan: &Plan,
    backend: &dyn Scheduler,
    field: &str,
) -> Option<Marks> {
    let (part, role) = seat(plan, field)?;
    let mut stamp = Stamp::new(backend.kind(), 0, part);
    let order = lws.order();
    if order == Order::LeaderFirst {
        stamp.size = u32::try_from(lws.size()).unwrap_or(u32::MAX);
        stamp.quorum = stamp.size;
    }
    stamp.revision = Some(stamp_of(order, plan));
    backend.fill(plan, part, role, &mut stamp);
    let mut marks = backend.stamp(plan, role);
    marks.labels.insert(keys::GANG, REPLICA.to_owned());
    marks.annotations.insert(keys::STAMP, stamp.to_json());
    Some(marks)
}

fn stamp(
    patch: &mut PatchBuilder,
    lws: &LeaderWorkerSet<'_>,
    old: Option<&LeaderWorkerSet<'_>>,
    judged: &Judged,
) {
    if let Some(backend) = judged.backend {
        // What was asked for by configuration is written down: it holds when that changes.
        let stored = old.and_then(|old| old.metadata.annotation(keys::SCHEDULER));
        let choice = stored.unwrap_or(backend.kind().as_str());
        let mut own = BTreeMap::from([(keys::GANG_MODE, "ReplicatedGang".to_owned())]);
        if lws.metadata.annotation(keys::SCHEDULER).is_none() {
            own.insert(keys::SCHEDULER, choice.to_owned());
        }
        patch.metadata(&[], Some(&lws.metadata), &BTreeMap::new(), &own);
    }
    for (field, template) in lws.templates() {
        let base = base(field);
        let meta = template.metadata.as_ref();
        let backend = judged.backend;
        let marks = backend.and_then(|backend| marks(lws, &judged.plan, backend, field));
        match marks {
            Some(marks) => {
                let spec = [&base[..], &["spec"]].concat();
                patch.parents(&[
                    (&base, is_there(lws, field)),
                    (&spec, template.spec.present),
                ]);
                write(patch, &base, template, meta, &marks);
            }
            None => remove_stale(patch, &base, meta),
        }
    }
}

fn is_there(lws: &LeaderWorkerSet<'_>, field: &str) -> bool {
    field == LEADER_TEMPLATE || lws.spec.leader_worker_template.worker_template.present
}

fn write(
    patch: &mut PatchBuilder,
    base: &[&str],
    template: &PodTemplate<'_>,
    meta: Option<&Meta<'_>>,
    marks: &Marks,
) {
    patch.metadata(base, meta, &marks.labels, &marks.annotations);
    let name = template.spec.scheduler_name.as_deref();
    patch.scheduler_name(base, name, marks);
}

/// Stamps of a copied manifest that no longer hold.
fn remove_stale(patch: &mut PatchBuilder, base: &[&str], meta: Option<&Meta<'_>>) {
    if meta.is_some_and(|m| m.annotation(keys::STAMP).is_some()) {
        patch.remove(&[base, &["metadata", "annotations", keys::STAMP]].concat());
    }
    if meta.is_some_and(|m| m.label(keys::GANG).is_some()) {
        patch.remove(&[base, &["metadata", "labels", keys::GANG]].concat());
    }
}

/// A template that is stored without its stamp would run without a gang.
fn missing(lws: &LeaderWorkerSet<'_>, judged: &Judged) -> Vec<FieldError> {
    let Some(backend) = judged.backend else {
        return Vec::new();
    };
    let lacks = |(field, template): &(&'static str, &PodTemplate<'_>)| {
        let Some(marks) = marks(lws, &judged.plan, backend, field) else {
            return false;
        };
        let meta = template.metadata.as_ref();
        let label = |key: &&str| meta.and_then(|m| m.label(key));
        let annotation = |key: &&str| meta.and_then(|m| m.annotation(key));
        let labels = marks.labels.iter().all(|(k, v)| label(k) == Some(v));
        let mut annotations = marks.annotations.iter();
        let annotations = annotations.all(|(k, v)| annotation(k) == Some(v));
        !labels || !annotations || marks.scheduler_name.is_some()
    };
    let error = |(field, _): (&'static str, &PodTemplate<'_>)| {
        let labels = template_path(field).child("metadata").child("labels");
        FieldError::required(
            labels.key(keys::GANG),
            "this template lacks the stamp of its gang, and its pods would start alone: a webhook \
             changed it after Muster's mutating webhook",
        )
    };
    lws.templates().filter(lacks).map(error).collect()
}

/// What Muster wrote into the stored templates and the update lacks.
fn put_back(old: &LeaderWorkerSet<'_>, new: &LeaderWorkerSet<'_>, before: &Judged) -> PatchBuilder {
    let mut patch = PatchBuilder::default();
    let Some(backend) = before.backend.filter(|_| stored_stamp(old).is_some()) else {
        return patch;
    };
    for (field, template) in new.templates() {
        let Some((_, was)) = old.templates().find(|(other, _)| *other == field) else {
            continue;
        };
        let Some(mut marks) = marks(old, &before.plan, backend, field) else {
            continue;
        };
        let (was_meta, meta) = (was.metadata.as_ref(), template.metadata.as_ref());
        let label =
            |m: Option<&Meta<'_>>, key: &str| m.and_then(|m| m.label(key)).map(str::to_owned);
        let annotation =
            |m: Option<&Meta<'_>>, key: &str| m.and_then(|m| m.annotation(key)).map(str::to_owned);
        // The stored values, and not what would be written now: another version may have written
        // them, and any difference would replace every replica.
        keep_dropped(&mut marks.labels, |key| {
            label(was_meta, key).filter(|_| label(meta, key).is_none())
        });
        keep_dropped(&mut marks.annotations, |key| {
            annotation(was_meta, key).filter(|_| annotation(meta, key).is_none())
        });
        let name = was.spec.scheduler_name.as_deref();
        let dropped = template.spec.scheduler_name.is_none() && template.spec.present;
        marks.scheduler_name = name.filter(|_| dropped).map(str::to_owned);
        write(&mut patch, &base(field), template, meta, &marks);
    }
    patch
}

fn keep_dropped(
    marks: &mut BTreeMap<&'static str, String>,
    dropped: impl Fn(&str) -> Option<String>,
) {
    let keys: Vec<&'static str> = marks.keys().copied().collect();
    for key in keys {
        match dropped(key) {
            Some(value) => marks.insert(key, value),
            None => marks.remove(key),
        };
    }
}

/// Whether the update, with what Muster wrote put back, leaves the template as it is stored.
fn is_same(old: &LeaderWorkerSet<'_>, new: &LeaderWorkerSet<'_>, kept: &PatchBuilder) -> bool {
    let read = |lws: &LeaderWorkerSet<'_>| {
        let raw = lws.spec.leader_worker_template.raw;
        let value: Option<Value> = raw.and_then(|raw| serde_json::from_str(raw.get()).ok());
        json!({"spec": {"leaderWorkerTemplate": value}})
    };
    let mut now = read(new);
    json_patch::patch(&mut now, &kept.clone().finish()).is_ok() && now == read(old)
}
