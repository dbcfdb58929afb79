//! Jobs and pods: link those that carry a stamp, and refuse gangs that this version cannot make.
//!
//! The link is written at the highest object where the gang is known: one call per Job, not per
//! pod. Pods are linked themselves where a Job's template cannot keep the link.

use std::collections::BTreeMap;

use super::patch::{PatchBuilder, has_link};
use super::{Decided, Decision, Operation, Phase, Review};
use crate::gang::link::{ALL as LINKS, LinkPlace};
use crate::gang::{FieldError, FieldPath, Member, Round, SchedulerKind, Stamp};
use crate::scheduler::{self, LinkSite, Marks, Resume, Scheduler, Snapshot};
use crate::workload::child::{self, Job, Pod, PodSpec};
use crate::workload::jobset::update;
use crate::workload::keys;
use crate::workload::lws::replica;
use crate::workload::view::Meta;

/// Its admission controller (1.8) gives YuniKorn every pod outside of kube-system, whatever
/// scheduler the pod names.
const TAKEN_BY_YUNIKORN: &str = "; if YuniKorn's admission controller has written it, annotate \
    the namespace with yunikorn.apache.org/namespace.enableYuniKorn: \"false\"";

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
        let template = &job.spec.template;
        let linked = child::existing_link(template.metadata.as_ref(), &template.spec).is_some();
        return declarer(review, &job.metadata, linked, "plain Jobs");
    }
    let template = &job.spec.template;
    let round = template.metadata.as_ref().map(update::round);
    let round = round.unwrap_or_default();
    let linked = match link(&job.metadata, &template.spec, review, round, cluster) {
        Ok(linked) => linked,
        Err(errors) => return deny(errors),
    };
    let resumes =
        old.is_some_and(|old| old.spec.suspend == Some(true) && job.spec.suspend != Some(true));
    let relink = resumes && linked.backend.abilities().resume == Resume::NewGang;
    let links_here = linked.backend.link_site(cluster) == LinkSite::JobTemplate;
    let wanted = phase == Phase::Mutate && links_here;
    if !wanted || !(relink || review.operation == Operation::Create) {
        return Decision::untouched().about(linked.name());
    }
    let meta = template.metadata.as_ref();
    let at = FieldPath::new("spec").child("template");
    match linked.foreign_link(&at, meta, &template.spec) {
        // A resume moves the link from the old round's gang to the new one's.
        Some(error) if !relink => deny(vec![error]),
        _ => {
            let patch = PatchBuilder::default();
            linked.patch(patch, &["spec", "template"], meta, &template.spec)
        }
    }
}

pub fn decide_pod(phase: Phase, review: &Review<'_>, pod: &Pod<'_>, cluster: &Snapshot) -> Decided {
    // A pod's link cannot change after it was created, and a deletion must not be held up.
    if review.operation != Operation::Create || pod.metadata.deleting() {
        return Decided::untouched();
    }
    if !child::is_stamped(&pod.metadata) {
        let linked = child::existing_link(Some(&pod.metadata), &pod.spec).is_some();
        return declarer(review, &pod.metadata, linked, "single pods");
    }
    if replica::is_member(&pod.metadata) {
        return decide_replica(phase, review, pod, cluster);
    }
    let round = update::round(&pod.metadata);
    match link(&pod.metadata, &pod.spec, review, round, cluster) {
        Ok(linked) => linked.decide_pod(phase, pod, PatchBuilder::default()),
        Err(errors) => deny(errors),
    }
}

/// A pod of a LeaderWorkerSet. Leaders come twice: before LeaderWorkerSet's webhook, for a key of
/// their own, and after it, when their index is known too.
fn decide_replica(phase: Phase, review: &Review<'_>, pod: &Pod<'_>, cluster: &Snapshot) -> Decided {
    let meta = &pod.metadata;
    if replica::is_ganged_already(meta) {
        let warning = "LeaderWorkerSet makes this pod's gang itself: Muster stands aside";
        let patch = PatchBuilder::default().finish();
        return Decision::allow(patch, vec![warning.to_owned()]).about(String::new());
    }
    let mut patch = PatchBuilder::default();
    let key = match phase {
        Phase::Mutate => replica::key(meta, &review.uid),
        Phase::Validate => meta.label(replica::GROUP_KEY).map(str::to_owned),
    };
    if let Some(key) = &key {
        let labels = BTreeMap::from([(replica::GROUP_KEY, key.clone())]);
        patch.metadata(&[], Some(meta), &labels, &BTreeMap::new());
    }
    if phase == Phase::Mutate && (replica::is_raw(meta) || key.is_none()) {
        return Decision::allow(patch.finish(), Vec::new()).about(String::new());
    }
    let member =
        |stamp, _: &dyn Scheduler| replica::member(meta, key.as_deref(), review.namespace(), stamp);
    match link_as(member, meta, &pod.spec, cluster) {
        Ok(linked) => linked.decide_pod(phase, pod, patch),
        Err(errors) => deny(errors),
    }
}

impl Linked {
    fn decide_pod(&self, phase: Phase, pod: &Pod<'_>, patch: PatchBuilder) -> Decided {
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

fn link_as(
    member: impl FnOnce(Stamp, &dyn Scheduler) -> Result<Member, Vec<FieldError>>,
    meta: &Meta<'_>,
    spec: &PodSpec<'_>,
    cluster: &Snapshot,
) -> Result<Linked, Vec<FieldError>> {
    let stamp = child::stamp(meta).map_err(|error| vec![error])?;
    let kind = stamp.scheduler;
    let backend = scheduler::stamped(&stamp, cluster).map_err(|unavailable| {
        let detail = unavailable.to_string();
        vec![FieldError::invalid(
            child::stamp_path(),
            kind.as_str(),
            detail,
        )]
    })?;
    let member = member(stamp, backend)?;
    let mut marks = backend.link(&member, &|| spec.shape());
    marks.labels.insert(keys::INDEX, member.index().to_string());
    Ok(Linked {
        member,
        marks,
        backend,
    })
}

impl Linked {
    fn name(&self) -> String {
        self.member.name().to_string()
    }

    fn patch(
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
    fn foreign_link(
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
        let at = match (&marks.native, annotations.next(), labels.next()) {
            (Some(link), _, _) => FieldPath::new("spec").child(link.field()),
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
        let kind = self.backend.kind();
        let hint = if name == SchedulerKind::Yunikorn.default_scheduler_name() {
            TAKEN_BY_YUNIKORN
        } else {
            ""
        };
        (!scheduler::fits(kind, name)).then(|| {
            let detail = format!(
                "the pod's gang is for {kind}, which listens to {:?}; another scheduler would \
                 start the pod without the others{hint}",
                kind.default_scheduler_name()
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
        let native = marks.native.as_ref();
        let native = native.is_none_or(|link| has_link(spec, link));
        labels && annotations && native
    }
}

fn is_link(key: &str) -> bool {
    LINKS.iter().any(|link| link.key == key)
}

/// Whether a mark is there. A link says whose member the pod is; what else it carries may have
/// changed with the pod (YuniKorn's task groups repeat its node selector).
fn holds(key: &str, current: Option<&str>, wanted: &str) -> bool {
    current.is_some_and(|current| current == wanted || !is_link(key))
}

/// An object that is no child but asks for a gang itself, in a way that this version cannot serve.
fn declarer(review: &Review<'_>, meta: &Meta<'_>, linked: bool, what: &str) -> Decided {
    let asks = |key: &&str| !matches!(meta.annotation(key), None | Some("Off"));
    let asked = [keys::GANG_MODE, keys::GANG_NAME].into_iter().find(asks);
    let Some(key) = asked.filter(|_| review.operation == Operation::Create) else {
        return Decided::untouched();
    };
    let at = FieldPath::new("metadata").child("annotations").key(key);
    if meta.controller_kind() != Some("JobSet") {
        let detail = format!("this version of Muster makes no gangs of {what}; use a JobSet");
        return deny(vec![FieldError::forbidden(at, detail)]);
    }
    // JobSet copies the annotation to its Jobs. A link of the user's own is why it has no stamp.
    if linked {
        return Decided::untouched();
    }
    let warning = format!(
        "{at}: the JobSet was created without Muster, so this Job is no gang; create it anew"
    );
    let patch = PatchBuilder::default().finish();
    Decision::allow(patch, vec![warning]).about(String::new())
}
