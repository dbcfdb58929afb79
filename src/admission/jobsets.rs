//! JobSets: read, resolve the scheduler, refuse or stamp.

use std::collections::BTreeMap;

use serde_json::Value;

use super::judge::{Judged, choose};
use super::patch::PatchBuilder;
use super::stamps::{Stamps, keep_marks, missing_stamps, stamp, stamp_round};
use super::{Decided, Decision, Phase, Review};
use crate::gang::Stamp;
use crate::scheduler::{self, Snapshot};
use crate::workload::jobset::view::JobSet;
use crate::workload::jobset::{self, update};
use crate::workload::keys;

/// Reads a new JobSet and holds its plan against the scheduler that it will go to.
pub fn judge(jobset: &JobSet<'_>, namespace: &str, cluster: &Snapshot) -> Judged {
    Judged::of(jobset::read(jobset), |plan| {
        choose(plan, namespace, cluster)
    })
}

/// The same for a stored JobSet, whose gangs keep what was stamped on them.
pub fn judge_stored(jobset: &JobSet<'_>, namespace: &str, cluster: &Snapshot) -> Judged {
    Judged::of(jobset::read(jobset), |plan| {
        let kind = scheduler::resolve(plan, namespace, cluster)?;
        let kept = stored_stamp(jobset).filter(|stamp| stamp.scheduler == kind.as_str());
        let kept = kept.and_then(|stamp| scheduler::stamped(&stamp, cluster).ok());
        kept.map_or_else(|| choose(plan, namespace, cluster), Ok)
    })
}

/// Any stamp of the JobSet's templates: they agree in what concerns the backend.
fn stored_stamp(jobset: &JobSet<'_>) -> Option<Stamp> {
    let mut jobs = jobset.spec.replicated_jobs.iter();
    jobs.find_map(|job| {
        let text = job.template.metadata.as_ref()?.annotation(keys::STAMP)?;
        Stamp::parse(text).ok()
    })
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
    let mut judged = match old {
        None => judge(new, namespace, cluster),
        Some(_) => judge_stored(new, namespace, cluster),
    };
    let gang = judged.gang();
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
            let mut before = judge_stored(old, namespace, cluster);
            let unstamped = missing_stamps(new, &judged, Stamps::Present);
            // An error that the stored object already has must not hold up other updates.
            let mut stored = missing_stamps(old, &before, Stamps::Present);
            stored.extend(std::mem::take(&mut before.errors));
            judged.errors.retain(|error| !stored.contains(error));
            let unstamped = unstamped.into_iter().filter(|e| !stored.contains(e));
            let mut refused = Vec::new();
            let mut restored = false;
            for change in update::changes(old, new) {
                let musters = change.is_stamp() || change.is_choice();
                let accident = musters || review.by_service_account();
                let restorable = phase == Phase::Mutate && accident;
                match change.old.clone() {
                    Some(value) if change.is_drop() && restorable => {
                        restore(&mut patch, new, &change.tokens, value);
                        restored = true;
                        if change.is_stamp() {
                            continue;
                        }
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
            keep_marks(&mut patch, old, new, &before.plan, before.backend);
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
