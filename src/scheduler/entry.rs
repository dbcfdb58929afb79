//! A scheduler's line in the table: what the rest of Muster must know of it, as data that the
//! backend's own file holds.

use crate::gang::SchedulerKind;
use crate::gang::link::LinkKey;

use super::queue::QueueTrouble;
use super::{Scheduler, Snapshot, Unavailable};

/// What the table holds of one scheduler.
pub struct Entry {
    /// Its name, which the same file declares as a constant.
    pub kind: SchedulerKind,
    /// The `schedulerName` that reaches it.
    pub(crate) listens: Listens,
    /// Ends the refusal of a pod that is a member of another scheduler's gang and names this one:
    /// what may have written the name, and what to do.
    pub(crate) stray_name_hint: &'static str,
    /// What ties a pod to a gang of the scheduler: a link that the user wrote is respected.
    pub(crate) links: &'static [LinkKey],
    /// The APIs of its objects, of which a cluster serves at most one; the newest first. None where
    /// it has no objects: then it is a choice on any cluster, and used only where someone names it.
    pub(crate) apis: &'static [Api],
    /// Makes the backend for this cluster, in the given variant (`None`: the default one).
    pub(crate) backend: fn(&Snapshot, Option<&str>) -> Result<&'static dyn Scheduler, Unavailable>,
    /// Its rows of `muster schedulers`.
    pub(crate) rows: &'static [(&'static str, &'static dyn Scheduler)],
    /// The group and version of its queues, where these are objects.
    pub(crate) queues: Option<&'static str>,
    /// What it says in events alone.
    pub(crate) tells: Option<Tells>,
}

/// What a scheduler says in events of the pods by which it keeps room for a gang.
pub(crate) struct Tells {
    /// The reason of these events.
    pub(crate) reason: &'static str,
    /// Reads the message of one: what is wrong with the queue, if so.
    pub(crate) queue: fn(&str) -> Option<QueueTrouble>,
}

/// The kinds that a scheduler's gangs are made of; served together or not at all.
pub(crate) struct Api {
    /// The group and version.
    pub(crate) version: &'static str,
    /// All that must be served.
    pub(crate) resources: &'static [Resource],
    /// What else to look for where the API is served.
    pub(crate) probes: &'static [Probe],
}

/// A kind of objects, and its name in URLs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resource {
    /// The kind.
    pub(crate) kind: &'static str,
    /// The name in URLs.
    pub(crate) plural: &'static str,
}

/// What most schedulers call a gang.
pub(crate) const POD_GROUPS: Resource = Resource {
    kind: "PodGroup",
    plural: "podgroups",
};

/// Something that one cluster has and another lacks, and that changes what a backend can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    /// A further kind of objects, which Muster makes where it is served.
    Resource {
        /// The group and version.
        version: &'static str,
        /// The kind of objects.
        resource: Resource,
    },
    /// A field anywhere in the schema of a CRD.
    Field {
        /// The name of the CRD.
        crd: &'static str,
        /// The name of the field.
        field: &'static str,
    },
}

/// Which `schedulerName` reaches a scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listens {
    /// This name alone.
    To(&'static str),
    /// A profile of kube-scheduler: this name by default, but it may have any.
    Profile(&'static str),
    /// The same, and by default the profile whose name Kubernetes fills in by itself. That name
    /// does not tell which scheduler is meant: other plugins may be in that profile too.
    DefaultProfile,
}

/// The scheduler's name that Kubernetes fills in where a pod has none.
pub(crate) const FILLED_IN: &str = "default-scheduler";

impl Listens {
    /// The name by default.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::To(name) | Self::Profile(name) => name,
            Self::DefaultProfile => FILLED_IN,
        }
    }
}

impl Entry {
    /// The `schedulerName` that the scheduler listens to by default.
    pub(crate) fn default_scheduler_name(&self) -> &'static str {
        self.listens.name()
    }

    /// Whether Kubernetes writes its name into a pod that has none.
    pub(crate) fn is_filled_in(&self) -> bool {
        self.listens == Listens::DefaultProfile
    }

    /// Whether this `schedulerName` points at the scheduler by itself.
    pub(super) fn is_named_by(&self, name: &str) -> bool {
        !self.is_filled_in() && self.listens.name() == name
    }

    /// Whether pods with this `schedulerName` reach the scheduler.
    pub(crate) fn fits(&self, name: &str) -> bool {
        match super::named(name) {
            Some(other) => other.kind == self.kind,
            None => match self.listens {
                Listens::To(_) => false,
                Listens::Profile(_) | Listens::DefaultProfile => true,
            },
        }
    }
}
