//! Workloads: read, resolve the scheduler, refuse or stamp. The same for every kind.
//!
//! When its gang fields may change is a fact of the kind: never ([`fixed`]), or with its template
//! ([`with_template`]).

mod changes;
mod fixed;
mod own_keys;
mod with_template;

use serde_json::Value;

use super::barriers;
use super::patch::PatchBuilder;
use super::stamps::{self, Pen, Room, Stamps, UnknownKey};
use super::{Decided, Decision, Phase, Review, Unanswerable};
use crate::gang::FieldError;
use crate::judge::{self, Judged};
use crate::scheduler::Snapshot;
use crate::workload::{GangFields, Life, Unasked, Workload};

pub(crate) fn decide(
    phase: Phase,
    review: &Review<'_>,
    new: &dyn Workload,
    old: Option<&dyn Workload>,
    cluster: &Snapshot,
) -> Result<Decided, Unanswerable> {
    let left_alone = |workload: &dyn Workload| workload.life() == Life::LeftAlone;
    if left_alone(new) && old.is_none_or(left_alone) || new.meta().deleting() {
        return Ok(match (phase, old) {
            (Phase::Validate, None) if left_alone(new) => not_served(new),
            _ => Decided::untouched(),
        });
    }
    let Some(old) = old else {
        return create(phase, review, new, cluster);
    };
    let update = Update {
        phase,
        review,
        old,
        new,
        cluster,
    };
    match new.facts().gang_fields {
        GangFields::Fixed => fixed::decide(&update),
        GangFields::WithTemplate(remedy) => with_template::decide(&update, remedy),
    }
}

/// A new workload that another controller runs: whoever asks for a gang learns that there is none.
fn not_served(new: &dyn Workload) -> Decided {
    let reading = new.read(Unasked::NoGang);
    let kind = new.facts().kind.name;
    let alone = format!("spec.managedBy names another controller: Muster leaves this {kind} alone");
    let warning = match (reading.asked, reading.plan.barrier) {
        (Some(asked), _) => format!("{asked}: {alone}, and it does not run as a gang here"),
        (None, Some(_)) => format!("{alone}, and its pods do not wait at a start barrier here"),
        (None, None) => return Decided::untouched(),
    };
    Decision::allow(PatchBuilder::default().finish(), vec![warning]).about(String::new())
}

/// An update of a workload.
#[derive(Clone, Copy)]
struct Update<'r> {
    phase: Phase,
    review: &'r Review<'r>,
    old: &'r dyn Workload,
    new: &'r dyn Workload,
    cluster: &'r Snapshot,
}

fn create(
    phase: Phase,
    review: &Review<'_>,
    new: &dyn Workload,
    cluster: &Snapshot,
) -> Result<Decided, Unanswerable> {
    let unasked = judge::unasked(new.facts(), cluster);
    let mut judged = judge::new(new, None, review.namespace(), cluster, unasked);
    let pen = Pen::new(cluster, review.namespace());
    let injected = barriers::created(new, &judged, pen, &cluster.wait);
    if phase == Phase::Mutate && !injected.0.is_empty() {
        return barriers::decide_again(phase, review, injected, cluster);
    }
    let mut patch = PatchBuilder::default();
    let guarded = own_keys::guard(phase, review, None, new, cluster, &mut patch);
    judged.errors.extend(guarded);
    write(phase, review, new, judged, patch, pen)
}

/// Stamps a workload in the first phase, and looks for the stamps in the second.
fn write(
    phase: Phase,
    review: &Review<'_>,
    new: &dyn Workload,
    mut judged: Judged,
    mut patch: PatchBuilder,
    pen: Pen<'_>,
) -> Result<Decided, Unanswerable> {
    let normalised = normalise(&mut patch, &mut judged);
    // A refused workload gets no stamps, and needs no telling that it has none.
    if judged.errors.is_empty() {
        let room = match phase {
            Phase::Mutate => Room::beside(review.size),
            Phase::Validate => Room::within(review.size),
        };
        judged
            .errors
            .extend(stamps::check(new, &judged, room).err());
    }
    if judged.errors.is_empty() {
        match phase {
            Phase::Mutate => stamps::stamp(&mut patch, new, &judged, pen),
            Phase::Validate => {
                judged.errors = stamps::missing(new, &judged, Stamps::Exact(pen))?;
                judged.errors.extend(barriers::missing(new, &judged, pen)?);
            }
        }
    }
    Ok(finish(phase, judged, normalised, patch))
}

impl From<UnknownKey> for Unanswerable {
    fn from(UnknownKey: UnknownKey) -> Self {
        Self::KeyNotKnown
    }
}

/// Writes what a user meant by an unquoted `Off`, and says so.
fn normalise(patch: &mut PatchBuilder, judged: &mut Judged) -> Vec<String> {
    let mut warnings = Vec::new();
    for (path, warning) in std::mem::take(&mut judged.unquoted_off) {
        patch.set(path.iter().map(String::as_str), Value::from("Off"));
        warnings.push(warning);
    }
    warnings
}

/// The answer. Errors and warnings are reported by the second phase only, about the final object.
fn finish(phase: Phase, judged: Judged, mut warnings: Vec<String>, patch: PatchBuilder) -> Decided {
    let gang = judged.gang();
    if phase == Phase::Validate {
        warnings.extend(judged.warnings);
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

/// The errors that are new: one that the stored object already has must not block other updates.
pub(super) fn forgive(errors: &mut Vec<FieldError>, stored: &[FieldError]) {
    errors.retain(|error| !stored.contains(error));
}
