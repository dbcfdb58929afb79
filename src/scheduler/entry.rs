//! A scheduler's line in the table: what the rest of Muster must know of it, as data that the
//! backend's own file holds.

use crate::gang::SchedulerKind;

use super::{Scheduler, Snapshot, Unavailable};

/// What the table holds of one scheduler.
pub struct Entry {
    pub kind: SchedulerKind,
    pub listens: Listens,
    /// Ends the refusal of a pod that is a member of another scheduler's gang and names this one:
    /// what may have written the name, and what to do.
    pub stray_name_hint: &'static str,
    /// The backend on this cluster, of that variant where it has several (`None`: the default one).
    pub backend: fn(&Snapshot, Option<&str>) -> Result<&'static dyn Scheduler, Unavailable>,
    /// Its rows of `muster schedulers`.
    pub rows: &'static [(&'static str, &'static dyn Scheduler)],
}

/// Which `schedulerName` reaches a scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listens {
    /// This name alone.
    To(&'static str),
    /// A profile of kube-scheduler: this name by default, but it may have any.
    Profile(&'static str),
    /// The same, and by default the profile whose name Kubernetes fills in by itself. That name
    /// does not tell which scheduler is meant: other plugins may be in that profile too.
    DefaultProfile,
}

impl Listens {
    /// The name by default.
    pub fn name(self) -> &'static str {
        match self {
            Self::To(name) | Self::Profile(name) => name,
            Self::DefaultProfile => "default-scheduler",
        }
    }
}

impl Entry {
    /// The `schedulerName` that the scheduler listens to by default.
    pub fn default_scheduler_name(&self) -> &'static str {
        self.listens.name()
    }

    /// Whether Kubernetes writes its name into a pod that has none.
    pub fn is_filled_in(&self) -> bool {
        self.listens == Listens::DefaultProfile
    }

    /// Whether this `schedulerName` points at the scheduler by itself.
    pub(super) fn is_named_by(&self, name: &str) -> bool {
        !self.is_filled_in() && self.listens.name() == name
    }

    /// Whether pods with this `schedulerName` reach the scheduler.
    pub fn fits(&self, name: &str) -> bool {
        match super::from_scheduler_name(name) {
            Some(kind) => kind == self.kind,
            None => match self.listens {
                Listens::To(_) => false,
                Listens::Profile(_) | Listens::DefaultProfile => true,
            },
        }
    }
}
