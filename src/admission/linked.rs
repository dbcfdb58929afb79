//! A stamped child held against its gang: what it must carry, and what it must not.

use super::children::deny;
use super::patch::{PatchBuilder, has_link};
use super::{Decided, Decision, Phase, Review};
use crate::gang::link::LinkPlace;
use crate::gang::{FieldError, FieldPath, Member, Round, Stamp};
use crate::scheduler::{self, Marks, Scheduler, Snapshot};
use crate::workload::child::{self, Pod, PodSpec};
use crate::workload::keys;
use crate::workload::view::Meta;

/// A stamped child's gang and what it must carry.
pub struct Linked {
    member: Member,
    marks: Marks,
    pub backend: &'static dyn Scheduler,
}

pub fn link(
    meta: &Meta<'_>,
    spec: &PodSpec<'_>,
    review: &Review<'_>,
    round: Round,
    cluster: &Snapshot,
) -> Result<Linked, Vec<FieldError>> {
    let member = |stamp, backend: &dyn Scheduler| {
        child::member(meta, review.namespace(), stamp, backend.round(round))
    };
    link_as(member, meta, spec, cluster)
}

pub fn link_as(
    member: impl FnOnce(Stamp, &dyn Scheduler) -> Result<Member, Vec<FieldError>>,
    meta: &Meta<'_>,
    spec: &PodSpec<'_>,
    cluster: &Snapshot,
) -> Result<Linked, Vec<FieldError>> {
    let stamp = child::stamp(meta).map_err(|error| vec![error])?;
    let word = stamp.scheduler.clone();
    let backend = scheduler::stamped(&stamp, cluster).map_err(|unavailable| {
        let detail = unavailable.to_string();
        vec![FieldError::invalid(
            child::stamp_path(),
            word.as_str(),
            detail,
        )]
    })?;
    let member = member(stamp, backend)?;
    let mut marks = backend.link(&member, &|| spec.shape(meta));
    marks.labels.insert(keys::INDEX, member.index().to_string());
    Ok(Linked {
        member,
        marks,
        backend,
    })
}

impl Linked {
    pub fn decide_pod(&self, phase: Phase, pod: &Pod<'_>, patch: PatchBuilder) -> Decided {
        let meta = Some(&pod.metadata);
        let foreign = self.foreign_link(&FieldPath::default(), meta, &pod.spec);
        if let Some(error) = foreign {
            return deny(vec![error]);
        }
        if phase == Phase::Mutate {
            return self.patch(patch, &[], meta, &pod.spec);
        }
        let errors: Vec<FieldError> = [
            self.lost_link(meta, &pod.spec),
            self.other_scheduler(&pod.spec),
        ]
        .into_iter()
        .flatten()
        .collect();
        if errors.is_empty() {
            Decision::untouched().about(self.name())
        } else {
            deny(errors)
        }
    }

    pub fn name(&self) -> String {
        self.member.name().to_string()
    }

    pub fn patch(
        &self,
        mut patch: PatchBuilder,
        base: &[&str],
        meta: Option<&Meta<'_>>,
        spec: &PodSpec<'_>,
    ) -> Decided {
        patch.marks(base, meta, spec, &self.marks);
        Decision::allow(patch.finish(), Vec::new()).about(self.name())
    }

    /// A link that is not this gang's: the pod would count elsewhere, and the gang wait for it.
    pub fn foreign_link(
        &self,
        base: &FieldPath,
        meta: Option<&Meta<'_>>,
        spec: &PodSpec<'_>,
    ) -> Option<FieldError> {
        let link = child::existing_link(meta, spec).filter(|_| !self.is_ours(meta, spec))?;
        let metadata = base.child("metadata");
        let at = match link.place {
            LinkPlace::Label => metadata.child("labels").key(link.key),
            LinkPlace::Annotation => metadata.child("annotations").key(link.key),
            LinkPlace::Field => base.child("spec").child(link.key),
        };
        let detail = format!(
            "the pod belongs to the gang {}, which would wait for it; remove this link, or ask for \
             no gang on the workload",
            self.name()
        );
        Some(FieldError::forbidden(at, detail))
    }

    /// A pod of a gang that reaches the second phase without its link would be scheduled alone.
    fn lost_link(&self, meta: Option<&Meta<'_>>, spec: &PodSpec<'_>) -> Option<FieldError> {
        if self.is_ours(meta, spec) {
            return None;
        }
        let metadata = FieldPath::new("metadata");
        let marks = &self.marks;
        let mut annotations = marks.annotations.keys().filter(|key| is_link(key));
        let mut labels = marks.labels.keys().filter(|key| is_link(key));
        let at = match (&marks.link_field, annotations.next(), labels.next()) {
            (Some((field, _)), _, _) => FieldPath::new("spec").child(field),
            (_, Some(key), _) => metadata.child("annotations").key(key),
            (_, _, Some(key)) => metadata.child("labels").key(key),
            (None, None, None) => metadata,
        };
        Some(FieldError::required(at, self.backend.lost_link()))
    }

    /// A pod that another scheduler would bind, by itself.
    fn other_scheduler(&self, spec: &PodSpec<'_>) -> Option<FieldError> {
        let name = spec
            .scheduler_name
            .as_deref()
            .unwrap_or("default-scheduler");
        let entry = self.backend.entry();
        let hint = scheduler::named(name).map_or("", |other| other.stray_name_hint);
        (!entry.fits(name)).then(|| {
            let detail = format!(
                "the pod's gang is for {}, which listens to {:?}; another scheduler would \
                 start the pod without the others{hint}",
                entry.kind,
                entry.default_scheduler_name()
            );
            FieldError::invalid(FieldPath::new("spec").child("schedulerName"), name, detail)
        })
    }

    fn is_ours(&self, meta: Option<&Meta<'_>>, spec: &PodSpec<'_>) -> bool {
        let marks = &self.marks;
        let label = |key: &str| meta.and_then(|m| m.label(key));
        let annotation = |key: &str| meta.and_then(|m| m.annotation(key));
        let links = marks.labels.iter().filter(|(key, _)| **key != keys::INDEX);
        let labels = links.into_iter().all(|(k, v)| holds(k, label(k), v));
        let mut annotations = marks.annotations.iter();
        let annotations = annotations.all(|(k, v)| holds(k, annotation(k), v));
        let field = marks.link_field.as_ref();
        let field = field.is_none_or(|(field, link)| has_link(spec, field, link));
        labels && annotations && field
    }
}

fn is_link(key: &str) -> bool {
    scheduler::links().any(|link| link.key == key)
}

/// Whether a mark is there. A link says whose member the pod is; what else it carries may have
/// changed with the pod (YuniKorn's task groups repeat its node selector).
fn holds(key: &str, current: Option<&str>, wanted: &str) -> bool {
    current.is_some_and(|current| current == wanted || !is_link(key))
}
