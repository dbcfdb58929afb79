//! What the stamps of a plan say, and how long they may be. It writes none.

use std::collections::HashMap;

use crate::gang::limits::{MAX_ANNOTATIONS, MAX_OBJECT, MAX_STAMP};
use crate::gang::limits::{SMALL_STAMPS, STAMPS_PER_BYTE};
use crate::gang::seal::{SEAL, SEAL_QUOTES};
use crate::gang::{FieldError, Part, Plan, Role, Stamp};
use crate::judge::Judged;
use crate::scheduler::Scheduler;
use crate::workload::view::Meta;
use crate::workload::{Site, Workload};

/// The place in the plan of the pods of one role.
#[derive(Clone, Copy)]
pub(super) struct Seat<'p> {
    ordinal: usize,
    pub(super) part: &'p Part,
    pub(super) role: &'p Role,
}

/// The seats of a plan, by role.
pub(super) fn seats(plan: &Plan) -> HashMap<&str, Seat<'_>> {
    let mut seats = HashMap::new();
    for (ordinal, part) in plan.parts.iter().enumerate() {
        for role in part.roles() {
            seats.entry(role.name.as_str()).or_insert(Seat {
                ordinal,
                part,
                role,
            });
        }
    }
    seats
}

/// What stamps of parts that start together have in common.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Together<'p> {
    Bundle(&'p str),
    Part(usize),
}

impl<'p> Together<'p> {
    fn of(seat: Seat<'p>) -> Self {
        match seat.part.bundle() {
            Some(bundle) => Self::Bundle(bundle.value.as_str()),
            None => Self::Part(seat.ordinal),
        }
    }
}

/// Writes the stamps of a plan.
pub(super) struct Stamper<'p> {
    pub(super) workload: &'p dyn Workload,
    pub(super) plan: &'p Plan,
    pub(super) backend: &'static dyn Scheduler,
    /// What is said of all that start together, once for each of them.
    common: HashMap<Together<'p>, Stamp>,
}

impl<'p> Stamper<'p> {
    pub(super) fn new(
        workload: &'p dyn Workload,
        plan: &'p Plan,
        backend: &'static dyn Scheduler,
    ) -> Self {
        Self {
            workload,
            plan,
            backend,
            common: HashMap::new(),
        }
    }

    /// A stamp without what the scheduler's links need of others.
    fn plain(&self, seat: Seat<'_>) -> Stamp {
        let mut stamp = Stamp::new(self.backend.kind(), seat.ordinal, seat.part);
        self.workload.extend_stamp(self.plan, &mut stamp);
        stamp
    }

    fn common(&mut self, seat: Seat<'p>) -> &Stamp {
        let key = Together::of(seat);
        if !self.common.contains_key(&key) {
            let mut stamp = self.plain(seat);
            self.backend.extend_stamp(self.plan, seat.part, &mut stamp);
            self.common.insert(key, stamp);
        }
        &self.common[&key]
    }

    /// The stamp of one role.
    pub(super) fn stamp(&mut self, seat: Seat<'p>) -> Stamp {
        let mut stamp = self.plain(seat);
        let common = self.common(seat);
        stamp.take_over(common, &seat.role.name);
        stamp
    }

    /// Refuses stamps that Kubernetes could not store, before they are written.
    fn check(&mut self, sites: &[Site<'_>], room: Room) -> Result<(), FieldError> {
        let seats = seats(self.plan);
        let mut lengths: HashMap<Together<'p>, (usize, usize)> = HashMap::new();
        let mut all: usize = 0;
        for site in sites {
            let Some(seat) = seats.get(site.role) else {
                continue;
            };
            let (length, written) = match lengths.get(&Together::of(*seat)) {
                Some(known) => *known,
                None => {
                    let text = self.common(*seat).to_json();
                    // As a text in the workload's JSON.
                    let quotes = text.bytes().filter(|b| matches!(b, b'"' | b'\\')).count();
                    let length = text.len() + SEAL;
                    let known = (length, length + quotes + SEAL_QUOTES);
                    lengths.insert(Together::of(*seat), known);
                    known
                }
            };
            let at = || seat.part.at().clone();
            let others = site.meta.map_or(0, Meta::annotations_size);
            if length > MAX_STAMP || others <= MAX_ANNOTATIONS && others + length > MAX_ANNOTATIONS
            {
                let detail = format!(
                    "the stamp of each pod template would take {length} bytes; Muster writes at \
                     most {MAX_STAMP}, and all annotations of an object hold {MAX_ANNOTATIONS}: \
                     let fewer groups of pods start together"
                );
                return Err(FieldError::forbidden(at(), detail));
            }
            all += written;
            if all > room.0 {
                let detail = format!(
                    "each pod template is stamped with all that starts together with it, and this \
                     takes more than the {} bytes that Muster writes into a workload of this \
                     size: let fewer groups of pods start together",
                    room.0
                );
                return Err(FieldError::forbidden(at(), detail));
            }
        }
        Ok(())
    }
}

/// How many bytes all stamps of a workload may take together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room(usize);

impl Room {
    /// Beside a workload of so many bytes that has no stamps yet.
    pub(crate) fn beside(size: usize) -> Self {
        // What is too large without stamps the apiserver refuses by itself.
        let left = MAX_OBJECT.checked_sub(size).unwrap_or(MAX_OBJECT);
        Self(left.min(Self::within(size).0))
    }

    /// In a workload of so many bytes that has them.
    pub(crate) fn within(size: usize) -> Self {
        Self(MAX_OBJECT.min(SMALL_STAMPS.max(size.saturating_mul(STAMPS_PER_BYTE))))
    }
}

/// Refuses a workload whose stamps could not be stored with it.
pub(crate) fn check(
    workload: &dyn Workload,
    judged: &Judged,
    room: Room,
) -> Result<(), FieldError> {
    match judged.backend {
        Some(backend) => {
            Stamper::new(workload, &judged.plan, backend).check(&workload.sites(), room)
        }
        None => Ok(()),
    }
}
