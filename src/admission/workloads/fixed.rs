//! Updates of workloads whose gang fields never change.

use super::changes::{Links, changes};
use super::{Update, finish, forgive, normalise, own_keys};
use crate::admission::barriers;
use crate::admission::patch::PatchBuilder;
use crate::admission::stamps::{self, Stamps};
use crate::admission::{Decided, Phase, Unanswerable};
use crate::judge;
use crate::workload::{Life, Unasked, Workload, child};

pub(crate) fn decide(update: &Update<'_>) -> Result<Decided, Unanswerable> {
    let Update {
        phase,
        review,
        old,
        new,
        cluster,
    } = *update;
    let dropped = barriers::put_back(old, new);
    if phase == Phase::Mutate && !dropped.0.is_empty() {
        return barriers::decide_again(phase, review, dropped, cluster);
    }
    let namespace = review.namespace();
    let mut judged = judge::stored(new, namespace, cluster, Unasked::NoGang);
    let mut patch = PatchBuilder::default();
    let mut warnings = normalise(&mut patch, &mut judged);

    let before = judge::stored(old, namespace, cluster, Unasked::NoGang);
    let mut unstamped = stamps::missing(new, &judged, Stamps::Present)?;
    let mut stored = stamps::missing(old, &before, Stamps::Present)?;
    stored.extend(before.errors.iter().cloned());
    forgive(&mut judged.errors, &stored);
    forgive(&mut unstamped, &stored);

    let links = match judged.asked || before.asked {
        true => Links::Fixed,
        false => Links::Free,
    };
    let kind = new.facts().kind.name;
    let mut refused = Vec::new();
    let mut restored = false;
    for change in changes(old, new, links) {
        let musters = change.is_stamp() || change.is_choice();
        let accident = musters || review.by_service_account();
        if change.is_drop() && accident && phase == Phase::Mutate {
            change.restore(&mut patch, new);
            restored = true;
            if !change.is_stamp() {
                warnings.push(format!(
                    "{}: dropped by {}, and put back: the field is immutable",
                    change.field,
                    review.username.as_deref().unwrap_or_default()
                ));
            }
            continue;
        }
        let remedy = match change.is_drop() && change.is_stamp() {
            true => format!("Muster wrote it when the {kind} was created, and needs it"),
            false => format!("recreate the {kind} to change it"),
        };
        refused.push(change.error(&remedy));
    }
    // What was put back changes the verdict; the second phase judges the result.
    if restored {
        judged.errors.clear();
    } else if refused.is_empty() {
        judged.errors.extend(unstamped);
    }
    judged.errors.extend(refused);
    let guarded = own_keys::guard(phase, review, Some(old), new, cluster, &mut patch);
    judged.errors.extend(guarded);
    patch.append(stamps::put_back(old, new, &before));
    stamps::stamp_round(&mut patch, old, new, round_after(old, new));
    Ok(finish(phase, judged, warnings, patch))
}

/// The round that an update leaves the workload in: one more when it resumes.
fn round_after(old: &dyn Workload, new: &dyn Workload) -> crate::gang::Round {
    let before = child::round(old.meta());
    let suspended = |workload: &dyn Workload| workload.life() == Life::Suspended;
    match suspended(old) && !suspended(new) && old.may_begin_a_round() {
        true => before.next(),
        false => before,
    }
}
