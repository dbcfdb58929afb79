//! The stamps of a LeaderWorkerSet's templates: written together with a change of the user's own, put
//! back as they were when an update drops them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::admission::judge::Judged;
use crate::admission::patch::PatchBuilder;
use crate::gang::{FieldError, Order, Part, Plan, Role, Stamp};
use crate::scheduler::{Marks, Scheduler};
use crate::workload::lws::replica::{LEADER, REPLICA, WORKERS, stamp_of};
use crate::workload::lws::view::{
    LEADER_TEMPLATE, LeaderWorkerSet, is_named_by_muster, template_path,
};
use crate::workload::view::Meta;
use crate::workload::{keys, template::PodTemplate};

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
    backend.extend_stamp(plan, part, role, &mut stamp);
    let mut marks = backend.template_marks(plan, role);
    stamp.scheduler_name.clone_from(&marks.scheduler_name);
    marks.labels.insert(keys::GANG, REPLICA.to_owned());
    marks.annotations.insert(keys::STAMP, stamp.to_json());
    Some(marks)
}

pub fn stamp(patch: &mut PatchBuilder, lws: &LeaderWorkerSet<'_>, judged: &Judged) {
    if let Some(backend) = judged.backend {
        // What was asked for by configuration is written down: it holds when that changes.
        let own = BTreeMap::from([
            (keys::GANG_MODE, "ReplicatedGang".to_owned()),
            (keys::SCHEDULER, backend.kind().as_str().to_owned()),
        ]);
        patch.metadata(&[], Some(&lws.metadata), &BTreeMap::new(), &own);
    }
    for (field, template) in lws.templates() {
        let base = base(field);
        let meta = template.metadata.as_ref();
        let backend = judged.backend;
        let marks = backend.and_then(|backend| marks(lws, &judged.plan, backend, field));
        let renamed = marks.as_ref().is_some_and(|m| m.scheduler_name.is_some());
        if !renamed && is_named_by_muster(template) {
            patch.remove(&[&base[..], &["spec", "schedulerName"]].concat());
        }
        match marks {
            Some(marks) => {
                let spec = [&base[..], &["spec"]].concat();
                patch.parents(&[(&spec, template.spec.present)]);
                write(patch, &base, template, meta, &marks);
            }
            None => remove_stale(patch, &base, meta),
        }
    }
}

/// Says which names of a scheduler are gone: it may be that the user has meant them by now.
pub fn taken_back(old: &LeaderWorkerSet<'_>, new: &LeaderWorkerSet<'_>) -> Vec<String> {
    let was = |field: &str| old.templates().find(|(other, _)| *other == field);
    let gone = new.templates().filter_map(|(field, template)| {
        let (_, was) = was(field).filter(|(_, was)| is_named_by_muster(was))?;
        let name = was.spec.scheduler_name.as_deref()?;
        let at = template_path(field).child("spec").child("schedulerName");
        template.spec.scheduler_name.is_none().then(|| {
            format!(
                "{at}: {name:?} was Muster's word and is taken back: the pods go to the default \
                 scheduler, unless the next update names another"
            )
        })
    });
    gone.collect()
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
pub fn missing(lws: &LeaderWorkerSet<'_>, judged: &Judged) -> Vec<FieldError> {
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
        let name = template.spec.scheduler_name.as_deref();
        let named = marks.scheduler_name.is_none() || marks.scheduler_name.as_deref() == name;
        !labels || !annotations || !named
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

/// Takes what an earlier stamp told the scheduler out of templates that are stamped anew, as far as
/// it stands there unchanged: another scheduler, or none, knows nothing of it.
pub fn take_back(
    patch: &mut PatchBuilder,
    new: &LeaderWorkerSet<'_>,
    before: &Judged,
    now: &Judged,
) {
    for (field, template) in new.templates() {
        let stamped = |judged: &Judged| {
            let (_, role) = seat(&judged.plan, field)?;
            Some(judged.backend?.template_marks(&judged.plan, role))
        };
        let (Some(was), Some(meta)) = (stamped(before), &template.metadata) else {
            continue;
        };
        let is = stamped(now).unwrap_or_default();
        let stale = |was: &BTreeMap<&'static str, String>,
                     is: &BTreeMap<&str, String>,
                     has: &dyn Fn(&str, &str) -> bool| {
            let stale = was
                .iter()
                .filter(|(key, value)| !is.contains_key(*key) && has(key, value));
            stale.map(|(key, _)| *key).collect::<Vec<_>>()
        };
        let labels = stale(&was.labels, &is.labels, &|k, v| meta.label(k) == Some(v));
        let annotations = stale(&was.annotations, &is.annotations, &|k, v| {
            meta.annotation(k) == Some(v)
        });
        for (map, keys) in [("labels", labels), ("annotations", annotations)] {
            for key in keys {
                patch.remove(&[&base(field)[..], &["metadata", map, key]].concat());
            }
        }
    }
}

/// What Muster wrote into the stored templates and the update lacks.
pub fn put_back(
    old: &LeaderWorkerSet<'_>,
    new: &LeaderWorkerSet<'_>,
    before: &Judged,
) -> PatchBuilder {
    let mut patch = PatchBuilder::default();
    let Some(backend) = before.backend.filter(|_| old.stamp().is_some()) else {
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
pub fn is_same(old: &LeaderWorkerSet<'_>, new: &LeaderWorkerSet<'_>, kept: &PatchBuilder) -> bool {
    let read = |lws: &LeaderWorkerSet<'_>| {
        let raw = lws.spec.leader_worker_template.raw;
        let value: Option<Value> = raw.and_then(|raw| serde_json::from_str(raw.get()).ok());
        json!({"spec": {"leaderWorkerTemplate": value}})
    };
    let mut now = read(new);
    json_patch::patch(&mut now, &kept.clone().finish()).is_ok() && now == read(old)
}
