//! Children of workloads: link those that carry a stamp, and refuse gangs that this version cannot
//! make.
//!
//! The link is written at the highest object where the gang is known: one call per Job, not per
//! pod. Pods are linked themselves where a Job's template cannot keep the link.

use std::collections::BTreeMap;

use super::patch::PatchBuilder;
use super::trust::{self, Trust};
use super::{Decided, Decision, Operation, Phase, Review, Unanswerable};
use crate::gang::limits::MAX_ANNOTATIONS;
use crate::gang::{FieldError, FieldPath, Member, SchedulerKind, Stamp};
use crate::judge;
use crate::scheduler::{self, LinkSite, Marks, Resume, Scheduler, Snapshot};
use crate::workload::child::{self, Child, Holder, Marked, Pods, Relabelled};
use crate::workload::facts::{Arrival, Prepared};
use crate::workload::{identify, keys, object, pods};

pub(crate) fn decide(
    phase: Phase,
    review: &Review<'_>,
    child: &Child<'_>,
    old: Option<&Child<'_>>,
    cluster: &Snapshot,
) -> Result<Decided, Unanswerable> {
    // A deletion must not be blocked, and a pod's link cannot change after it was created.
    let created = review.operation == Operation::Create;
    if child.meta.deleting() || child.pods.holder == Holder::Pod && !created {
        return Ok(Decided::untouched());
    }
    if !child.is_stamped() {
        return Ok(declarer(phase, review, child));
    }
    match trust::of(child, review.namespace(), cluster)? {
        Trust::Good => Ok(link(phase, review, child, old, cluster)),
        Trust::Forged(error) if created => Ok(deny(vec![error])),
        // It is no member of any gang, and what is stored can be changed.
        Trust::Forged(_) => Ok(Decided::untouched()),
    }
}

/// Links a child whose stamp is Muster's own.
fn link(
    phase: Phase,
    review: &Review<'_>,
    child: &Child<'_>,
    old: Option<&Child<'_>>,
    cluster: &Snapshot,
) -> Decided {
    let stamp = child::stamp(child.meta);
    let mut patch = PatchBuilder::default();
    let mut labels = BTreeMap::new();
    if let Some(parent) = child::parent(child.meta) {
        let arrival = Arrival {
            meta: child.meta,
            name: child.meta.display_name(),
            request: &review.uid,
            scheduler: stamp.as_ref().ok().map(|stamp| stamp.scheduler.as_str()),
        };
        match ((parent.members.prepare)(&arrival), phase) {
            (Prepared::LeftAlone(warning), _) => return left_alone(warning),
            (Prepared::TooEarly(new), Phase::Mutate) => {
                patch.metadata(&[], Some(child.meta), &new, &BTreeMap::new());
                return Decision::allow(patch.finish(), Vec::new()).about(String::new());
            }
            (Prepared::Labelled(new), Phase::Mutate) => labels = new,
            // In the second phase nothing can be written any more.
            (Prepared::Known | Prepared::Labelled(_) | Prepared::TooEarly(_), _) => {}
        }
        patch.metadata(&[], Some(child.meta), &labels, &BTreeMap::new());
    }
    let relabelled = Relabelled {
        base: child.meta,
        labels: &labels,
    };
    let linked = stamp.map_err(|error| vec![error]);
    let linked = linked
        .and_then(|stamp| Linked::new(child, &relabelled, stamp, review.namespace(), cluster));
    let linked = match linked {
        Ok(linked) => linked,
        Err(errors) => return deny(errors),
    };
    match child.pods.holder {
        Holder::Pod => linked.decide_pod(phase, patch),
        Holder::Template { .. } => {
            linked.decide_template(phase, review.operation, old, cluster, patch)
        }
    }
}

fn left_alone(warning: &str) -> Decided {
    let patch = PatchBuilder::default().finish();
    Decision::allow(patch, vec![warning.to_owned()]).about(String::new())
}

pub(super) fn deny(errors: Vec<FieldError>) -> Decided {
    let warnings = Vec::new();
    Decision::Deny { errors, warnings }.about(String::new())
}

/// An object that is not a stamped child and asks for a gang itself, which this version does not
/// support.
fn declarer(phase: Phase, review: &Review<'_>, child: &Child<'_>) -> Decided {
    let meta = child.meta;
    let asks = |key: &&str| !matches!(meta.annotation(key), None | Some("Off"));
    let asked = [keys::GANG_MODE, keys::GANG_NAME].into_iter().find(asks);
    if review.operation != Operation::Create {
        return Decided::untouched();
    }
    let Some(key) = asked else {
        return stray(phase, child);
    };
    let at = FieldPath::new("metadata").child("annotations").key(key);
    let owner = meta.controller_kind();
    let mut workloads = object::workloads().map(|facts| facts.kind.name);
    let Some(owner) = workloads.find(|kind| owner == Some(kind)) else {
        return deny(vec![FieldError::forbidden(at, child.unserved)]);
    };
    // The controller copies the annotation. A link of the user's own is why it has no stamp.
    if child.pods.existing_link().is_some() {
        return Decided::untouched();
    }
    let kind = review.kind.name;
    left_alone(&format!(
        "{at}: the {owner} was created without Muster, so this {kind} does not run as a gang; \
         recreate the {owner}"
    ))
}

/// A pod with keys that make no gang: most likely a slip of the pen. One that a controller makes is let
/// in with a warning, because nobody could mend it where it is refused.
fn stray(phase: Phase, child: &Child<'_>) -> Decided {
    let metadata = FieldPath::new("metadata");
    let errors = match child.is_pod() {
        true => pods::undeclared(&metadata, Some(child.meta)),
        false => Vec::new(),
    };
    match (child.meta.controller_kind(), phase) {
        _ if errors.is_empty() => Decided::untouched(),
        (None, _) => deny(errors),
        (Some(_), Phase::Mutate) => Decided::untouched(),
        (Some(_), Phase::Validate) => {
            let warnings = errors.iter().map(ToString::to_string);
            Decision::allow(PatchBuilder::default().finish(), warnings.collect())
                .about(String::new())
        }
    }
}

/// A stamped child, its gang, and what it must carry.
pub(super) struct Linked<'c> {
    pub(super) child: &'c Child<'c>,
    pub(super) member: Member,
    pub(super) marks: Marks,
    pub(super) backend: &'static dyn Scheduler,
    /// Whose words the pod asks for its gang in, if not in Muster's: they look like a link.
    pub(super) spoken_by: Option<SchedulerKind>,
}

impl<'c> Linked<'c> {
    fn new(
        child: &'c Child<'c>,
        labels: &dyn Marked,
        stamp: Stamp,
        namespace: &str,
        cluster: &Snapshot,
    ) -> Result<Self, Vec<FieldError>> {
        let backend = scheduler::stamped(&stamp, cluster).map_err(|unavailable| {
            let detail = unavailable.to_string();
            let scheduler = stamp.scheduler.as_str();
            vec![FieldError::invalid(child::stamp_path(), scheduler, detail)]
        })?;
        let round = child
            .pods
            .meta
            .map(|meta| child::round(meta))
            .unwrap_or_default();
        let round = match child::parent(labels) {
            Some(facts) => judge::round(facts, backend, round),
            None => round,
        };
        let member = identify(labels, namespace, stamp, round)?;
        let shape = || child.shape();
        let oversize = |why: String| vec![FieldError::forbidden(child::stamp_path(), why)];
        if let Some(why) = backend.oversize(&member, &shape) {
            return Err(oversize(why));
        }
        let mut marks = backend.link(&member, &shape);
        let others = child.pods.meta.map_or(0, |meta| meta.annotations_size());
        if others <= MAX_ANNOTATIONS && others + marks.annotations_size() > MAX_ANNOTATIONS {
            return Err(oversize(format!(
                "the link that it leads to takes {} bytes, and all annotations of an object hold \
                 {MAX_ANNOTATIONS}",
                marks.annotations_size()
            )));
        }
        marks.labels.insert(keys::INDEX, member.index().to_string());
        Ok(Self {
            child,
            member,
            marks,
            backend,
            spoken_by: None,
        })
    }

    pub(super) fn decide_pod(&self, phase: Phase, patch: PatchBuilder) -> Decided {
        if let Some(error) = self.foreign_link() {
            return deny(vec![error]);
        }
        if phase == Phase::Mutate {
            return self.write(patch);
        }
        let errors = [self.lost_link(), self.other_scheduler()];
        let errors: Vec<FieldError> = errors.into_iter().flatten().collect();
        if errors.is_empty() {
            Decision::untouched().about(self.name())
        } else {
            deny(errors)
        }
    }

    /// Links the pods of a template, when it is created and when it is resumed for a new gang.
    fn decide_template(
        &self,
        phase: Phase,
        operation: Operation,
        old: Option<&Child<'_>>,
        cluster: &Snapshot,
        patch: PatchBuilder,
    ) -> Decided {
        let suspended = |pods: &Pods<'_>| matches!(pods.holder, Holder::Template { suspended, .. } if suspended);
        let resumes = old.is_some_and(|old| suspended(&old.pods) && !suspended(&self.child.pods));
        let relink = resumes && self.backend.abilities().resume == Resume::NewGang;
        let links_here = self.backend.link_site(cluster) == LinkSite::JobTemplate;
        let wanted = phase == Phase::Mutate && links_here;
        if !wanted || !(relink || operation == Operation::Create) {
            return Decision::untouched().about(self.name());
        }
        match self.foreign_link() {
            // A resume moves the link from the old round's gang to the new one's.
            Some(error) if !relink => deny(vec![error]),
            _ => self.write(patch),
        }
    }

    fn name(&self) -> String {
        self.member.name().to_string()
    }

    pub(super) fn write(&self, mut patch: PatchBuilder) -> Decided {
        let pods = &self.child.pods;
        patch.marks(pods.path(), pods.meta, pods.spec, &self.marks);
        Decision::allow(patch.finish(), Vec::new()).about(self.name())
    }

    /// A link that is not this gang's: the pod would count for another gang, and its own gang would wait for it.
    fn foreign_link(&self) -> Option<FieldError> {
        let link = self
            .child
            .pods
            .existing_link()
            .filter(|link| Some(link.link.scheduler) != self.spoken_by)
            .filter(|_| !self.is_ours())?;
        let detail = format!(
            "the pod belongs to the gang {}, which would wait for it; remove this link, or ask for \
             no gang on the workload",
            self.name()
        );
        Some(FieldError::forbidden(link.at, detail))
    }

    /// A pod of a gang that reaches the second phase without its link would be scheduled alone.
    fn lost_link(&self) -> Option<FieldError> {
        if self.is_ours() {
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
        let why = match self.was_mutated() {
            true => self.backend.lost_link(),
            false => NOT_CALLED,
        };
        Some(FieldError::required(at, why))
    }

    /// Whether the first phase has seen the pod: what it writes beside the link is no field that an
    /// apiserver could drop.
    fn was_mutated(&self) -> bool {
        let meta = self.child.pods.meta;
        let index = meta.and_then(|meta| meta.label(keys::INDEX));
        index == Some(&*self.member.index().to_string())
    }

    /// A pod that another scheduler would bind, by itself.
    fn other_scheduler(&self) -> Option<FieldError> {
        let name = self.child.pods.spec.scheduler_name.as_deref();
        let name = name.unwrap_or(scheduler::FILLED_IN);
        let (kind, entry) = (self.backend.kind(), self.backend.entry());
        (!entry.fits(name)).then(|| {
            let hint = scheduler::named(name).map_or("", |entry| entry.stray_name_hint);
            let detail = format!(
                "the pod's gang is for {kind}, which listens to {:?}; another scheduler would \
                 start the pod without the others{hint}",
                entry.default_scheduler_name()
            );
            FieldError::invalid(FieldPath::new("spec").child("schedulerName"), name, detail)
        })
    }

    pub(super) fn is_ours(&self) -> bool {
        let (marks, Pods { meta, spec, .. }) = (&self.marks, self.child.pods);
        let label = |key: &str| meta.and_then(|m| m.label(key));
        let annotation = |key: &str| meta.and_then(|m| m.annotation(key));
        let mut links = marks.labels.iter().filter(|(key, _)| **key != keys::INDEX);
        let labels = links.all(|(k, v)| holds(k, label(k), v));
        let mut annotations = marks.annotations.iter();
        let annotations = annotations.all(|(k, v)| holds(k, annotation(k), v));
        let field = marks.link_field.as_ref();
        let field = field.is_none_or(|(name, value)| spec.has_field(name, value));
        labels && annotations && field
    }
}

/// Where only the second phase is called.
const NOT_CALLED: &str = "Muster's mutating webhook was not called for the pod, which would start \
                          without the others: look whether its MutatingWebhookConfiguration exists \
                          and selects the pod";

fn is_link(key: &str) -> bool {
    scheduler::links().any(|link| link.key == key)
}

/// Whether a mark is there. A link says whose member the pod is; what else it carries may have
/// changed with the pod (a scheduler may have it repeat its node selector).
fn holds(key: &str, current: Option<&str>, wanted: &str) -> bool {
    current.is_some_and(|current| current == wanted || !is_link(key))
}
