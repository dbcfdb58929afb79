//! Jobs and pods: link those that carry a stamp, and refuse gangs that this version cannot make.
//!
//! The link is written at the highest object where the gang is known: one call per Job, not per
//! pod. Pods are linked themselves where a Job's template cannot keep the link.

use std::collections::BTreeMap;

use super::linked::{link, link_as};
use super::patch::PatchBuilder;
use super::{Decided, Decision, Operation, Phase, Review};
use crate::gang::{FieldError, FieldPath};
use crate::scheduler::{LinkSite, Resume, Scheduler, Snapshot};
use crate::workload::child::{self, Job, Pod};
use crate::workload::jobset::update;
use crate::workload::keys;
use crate::workload::lws::replica;
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
    if let Some(theirs) = replica::ganged_on(meta)
        && child::stamp(meta).is_ok_and(|stamp| stamp.scheduler == theirs.as_str())
    {
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

pub fn deny(errors: Vec<FieldError>) -> Decided {
    let warnings = Vec::new();
    Decision::Deny { errors, warnings }.about(String::new())
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
