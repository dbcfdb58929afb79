//! Jobs and pods: link those that carry a stamp, and refuse gangs that this version cannot make.
//!
//! The link is written at the highest object where the gang is known: one call per Job, not per
//! pod. Pods are linked themselves where a Job's template cannot keep the link.

use super::patch::{PatchBuilder, has_link};
use super::{Decided, Decision, Operation, Phase, Review};
use crate::gang::{FieldError, FieldPath, Member, SchedulerKind};
use crate::scheduler::{self, JobTemplates, LinkSite, Marks, Resume, Scheduler, Snapshot};
use crate::workload::child::{self, Job, Pod, PodSpec};
use crate::workload::jobset::update;
use crate::workload::keys;
use crate::workload::view::Meta;

pub fn decide_job(
    phase: Phase,
    review: &Review<'_>,
    job: &Job<'_>,
    old: Option<&Job<'_>>,
    cluster: &Snapshot,
) -> Decided {
    if job.metadata.deleting() {
        return Decided::untouched();
    }
    if !child::is_stamped(&job.metadata) {
        return declarer(review, &job.metadata, keys::GANG_MODE, "plain Jobs");
    }
    let template = &job.spec.template;
    let round = template.metadata.as_ref().map(update::round);
    let linked = match link(&job.metadata, review, round.unwrap_or_default(), cluster) {
        Ok(linked) => linked,
        Err(errors) => return deny(errors),
    };
    let resumes =
        old.is_some_and(|old| old.spec.suspend == Some(true) && job.spec.suspend != Some(true));
    let relink = resumes && linked.backend.abilities().resume == Resume::NewGang;
    let links_here = link_site(linked.backend, cluster) == LinkSite::JobTemplate;
    let wanted = phase == Phase::Mutate && links_here;
    if !wanted || !(relink || review.operation == Operation::Create) {
        return Decision::untouched().about(linked.name());
    }
    let meta = template.metadata.as_ref();
    let base = ["spec", "template"];
    if relink {
        return linked.patch(&base, meta, &template.spec);
    }
    linked.patch_unless_linked(&base, meta, &template.spec)
}

pub fn decide_pod(phase: Phase, review: &Review<'_>, pod: &Pod<'_>, cluster: &Snapshot) -> Decided {
    // A pod's link cannot change after it was created, and a deletion must not be held up.
    if review.operation != Operation::Create || pod.metadata.deleting() {
        return Decided::untouched();
    }
    if !child::is_stamped(&pod.metadata) {
        return declarer(review, &pod.metadata, keys::GANG_NAME, "single pods");
    }
    let round = update::round(&pod.metadata);
    let linked = match link(&pod.metadata, review, round, cluster) {
        Ok(linked) => linked,
        Err(errors) => return deny(errors),
    };
    match phase {
        Phase::Mutate => linked.patch_unless_linked(&[], Some(&pod.metadata), &pod.spec),
        Phase::Validate if child::existing_link(Some(&pod.metadata), &pod.spec).is_none() => {
            deny(vec![lost_link(linked.backend.kind(), &linked.marks)])
        }
        Phase::Validate => Decision::untouched().about(linked.name()),
    }
}

fn deny(errors: Vec<FieldError>) -> Decided {
    let warnings = Vec::new();
    Decision::Deny { errors, warnings }.about(String::new())
}

/// A stamped child's gang and what it must carry.
struct Linked {
    member: Member,
    marks: Marks,
    backend: &'static dyn Scheduler,
}

fn link(
    meta: &Meta<'_>,
    review: &Review<'_>,
    round: crate::gang::Round,
    cluster: &Snapshot,
) -> Result<Linked, Vec<FieldError>> {
    let mut member = child::member(meta, review.namespace(), round)?;
    let backend = scheduler::backend(member.stamp.scheduler, cluster).map_err(|unavailable| {
        let at = FieldPath::new("metadata").child("annotations");
        let kind = member.stamp.scheduler.as_str();
        vec![FieldError::invalid(
            at.key(keys::STAMP),
            kind,
            unavailable.to_string(),
        )]
    })?;
    member.identity.round = backend.round(round);
    let mut marks = backend.link(&member);
    marks.labels.insert(keys::INDEX, member.index().to_string());
    Ok(Linked {
        member,
        marks,
        backend,
    })
}

/// Where the link goes on this cluster.
fn link_site(backend: &dyn Scheduler, cluster: &Snapshot) -> LinkSite {
    match (backend.kind(), cluster.job_templates) {
        (SchedulerKind::Native, JobTemplates::LoseLinks) => LinkSite::Pod,
        _ => backend.abilities().link_site,
    }
}

impl Linked {
    fn name(&self) -> String {
        self.member.identity.name().into_string()
    }

    fn patch(&self, base: &[&str], meta: Option<&Meta<'_>>, spec: &PodSpec<'_>) -> Decided {
        let mut patch = PatchBuilder::default();
        patch.marks(base, meta, spec, &self.marks);
        Decision::allow(patch.finish(), Vec::new()).about(self.name())
    }

    /// What is linked already keeps its link, whoever wrote it.
    fn patch_unless_linked(
        &self,
        base: &[&str],
        meta: Option<&Meta<'_>>,
        spec: &PodSpec<'_>,
    ) -> Decided {
        match child::existing_link(meta, spec) {
            Some(link) if !self.is_ours(meta, spec) => {
                let warning = format!(
                    "{} is set already: Muster leaves the link to its gang {} out",
                    link.key,
                    self.name()
                );
                let patch = PatchBuilder::default().finish();
                Decision::allow(patch, vec![warning]).about(self.name())
            }
            _ => self.patch(base, meta, spec),
        }
    }

    fn is_ours(&self, meta: Option<&Meta<'_>>, spec: &PodSpec<'_>) -> bool {
        let marks = &self.marks;
        let label = |key: &str| meta.and_then(|m| m.label(key));
        let annotation = |key: &str| meta.and_then(|m| m.annotation(key));
        let links = marks.labels.iter().filter(|(key, _)| **key != keys::INDEX);
        let labels = links.into_iter().all(|(k, v)| label(k) == Some(v));
        let annotations = marks
            .annotations
            .iter()
            .all(|(k, v)| annotation(k) == Some(v));
        let native = marks.native.as_ref();
        let native = native.is_none_or(|link| has_link(spec, link));
        labels && annotations && native
    }
}

/// A pod of a gang that reaches the second phase without its link would be scheduled alone.
fn lost_link(kind: SchedulerKind, marks: &Marks) -> FieldError {
    let metadata = FieldPath::new("metadata");
    let at = match (&marks.native, marks.annotations.keys().next()) {
        (Some(link), _) => FieldPath::new("spec").child(link.field()),
        (None, Some(key)) => metadata.child("annotations").key(key),
        (None, None) => metadata.child("labels"),
    };
    let detail = match kind {
        SchedulerKind::Native => {
            "the apiserver dropped the pod's link to its gang: it runs without the feature gate \
             GenericWorkload, and the pod would start without the others"
        }
        _ => "the pod's link to its gang was removed, and it would start without the others",
    };
    FieldError::required(at, detail)
}

/// An object that is no child but asks for a gang itself, in a way that this version cannot serve.
fn declarer(review: &Review<'_>, meta: &Meta<'_>, key: &str, what: &str) -> Decided {
    let asked = meta.annotation(key);
    if review.operation != Operation::Create || matches!(asked, None | Some("Off")) {
        return Decided::untouched();
    }
    let at = FieldPath::new("metadata").child("annotations").key(key);
    if meta.controller_kind() == Some("JobSet") {
        let warning = format!(
            "{at}: the JobSet was created without Muster, so this Job is no gang; create it anew"
        );
        let patch = PatchBuilder::default().finish();
        return Decision::allow(patch, vec![warning]).about(String::new());
    }
    deny(vec![FieldError::forbidden(
        at,
        format!("this version of Muster makes no gangs of {what}; use a JobSet"),
    )])
}
