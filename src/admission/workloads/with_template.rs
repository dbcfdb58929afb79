//! Updates of workloads whose gang fields change with their template.
//!
//! A change of the template replaces every replica, so Muster never makes one: stamps are written
//! when the workload is created, and later only together with a change of the user's own. What an
//! update drops of them is put back, and the template is then the stored one again.

use std::collections::BTreeMap;

use serde_json::Value;

use super::changes::{Change, Links, changes};
use super::{Update, finish, forgive, write};
use crate::admission::patch::PatchBuilder;
use crate::admission::stamps::{self, Pen};
use crate::admission::{Decided, Phase, Unanswerable};
use crate::gang::FieldError;
use crate::judge::{self, Judged};
use crate::workload::{Template, Transition, Unasked, Workload, keys, site};

pub(crate) fn decide(update: &Update<'_>, remedy: &str) -> Result<Decided, Unanswerable> {
    let Update {
        phase,
        review,
        old,
        new,
        cluster,
    } = *update;
    let namespace = review.namespace();
    let before = judge::stored(old, namespace, cluster, Unasked::NoGang);
    let kept = stamps::put_back(old, new, &before);
    let lost = lost_by_accident(update);
    if is_same(old, new, &kept) {
        let now = judge::stored(new, namespace, cluster, lost.unwrap_or_default());
        return Ok(keep(update, remedy, &before, now, kept));
    }
    let unasked = lost.unwrap_or_else(|| judge::unasked(new.facts(), cluster));
    let mut judged = judge::new(new, Some(old), namespace, cluster, unasked);
    let stamp = site::stamp(old);
    if let Some(stamp) = &stamp {
        replace(&mut judged, new.transition(old, stamp, Template::Replaced));
    }
    if judged.backend.is_none() {
        judged.warnings.extend(stamps::taken_back(old, new));
    }
    let mut patch = PatchBuilder::default();
    if stamp.is_some() {
        stamps::take_back(&mut patch, old, new, &before, &judged);
    }
    let pen = Pen::new(cluster, namespace);
    write(phase, review, new, judged, patch, pen)
}

/// Whether the update, with what Muster wrote put back, leaves the template as it is stored.
fn is_same(old: &dyn Workload, new: &dyn Workload, kept: &PatchBuilder) -> bool {
    let mut now = new.template();
    json_patch::patch(&mut now, &kept.clone().finish()).is_ok() && now == old.template()
}

/// An update that leaves the template as it is: the gangs stay what they are.
fn keep(
    update: &Update<'_>,
    remedy: &str,
    before: &Judged,
    mut now: Judged,
    mut patch: PatchBuilder,
) -> Decided {
    let Update {
        phase, old, new, ..
    } = *update;
    forgive(&mut now.errors, &before.errors);
    let stamp = site::stamp(old);
    if let Some(stamp) = &stamp {
        now.errors.extend(changed_knobs(old, new, remedy));
        replace(&mut now, new.transition(old, stamp, Template::Kept));
    } else if !now.plan.parts.is_empty() {
        let kind = new.facts().kind.name;
        now.warnings.push(format!(
            "this {kind} was created without Muster, and its replicas do not run as gangs until \
             its template changes"
        ));
    }
    // `kubectl replace` drops what Muster wrote; the mode only where its loss is an accident.
    let mut own = BTreeMap::new();
    for (key, accident) in [
        (keys::SCHEDULER, stamp.is_some()),
        (keys::GANG_MODE, !now.plan.parts.is_empty()),
    ] {
        let was = old.meta().annotation(key);
        if let (Some(was), None, true) = (was, new.meta().annotation(key), accident) {
            own.insert(key, was.to_owned());
        }
    }
    patch.metadata(&[], Some(new.meta()), &BTreeMap::new(), &own);
    if phase == Phase::Mutate && own.contains_key(keys::GANG_MODE) {
        now.errors.clear();
    }
    finish(phase, now, Vec::new(), patch)
}

/// The mode was dropped and is to be put back: by a controller whose types do not know it, or where
/// every workload of its kind is ganged and Muster itself had written it.
fn lost_by_accident(update: &Update<'_>) -> Option<Unasked> {
    let Update {
        review,
        old,
        new,
        cluster,
        ..
    } = *update;
    let dropped = old
        .meta()
        .annotation(keys::GANG_MODE)
        .is_some_and(|mode| mode != "Off")
        && new.meta().annotation(keys::GANG_MODE).is_none();
    let all = judge::unasked(new.facts(), cluster) == Unasked::Gang;
    (dropped && (all || review.by_service_account())).then_some(Unasked::Gang)
}

/// Takes over what a transition says, in the place of other errors of the same field.
fn replace(judged: &mut Judged, transition: Transition) {
    let better = transition.errors;
    judged
        .errors
        .retain(|error| better.iter().all(|other| other.field != error.field));
    judged.errors.extend(better);
    judged.warnings.extend(transition.warnings);
}

/// The `muster.dev/` annotations that differ, but for the timeouts and a dropped choice.
fn changed_knobs(old: &dyn Workload, new: &dyn Workload, remedy: &str) -> Vec<FieldError> {
    let place = new.facts().keys;
    let refused = |change: &Change| {
        let key = change.own_annotation()?;
        // A key that does not exist has its own error.
        let unknown = keys::check_annotation(place, &change.field, key).is_some();
        if unknown || change.is_choice() && change.is_drop() {
            return None;
        }
        let before = match &change.old {
            None => "was not set".to_owned(),
            Some(was) => format!("was {was}"),
        };
        let detail = format!("it {before}, and the replicas keep their gangs; {remedy}");
        let value = change.new.clone().unwrap_or(Value::Null);
        Some(FieldError::invalid(change.field.clone(), value, detail))
    };
    changes(old, new, Links::Free)
        .iter()
        .filter_map(refused)
        .collect()
}
