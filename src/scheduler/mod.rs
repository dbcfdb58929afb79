//! Scheduler backends: a plan in; marks for pods, objects and refusals out.
//!
//! A backend knows one scheduler and no workload kind. All of it is pure, so `muster render`
//! prints what a cluster would get and a test needs no cluster.
//!
//! # Adding a scheduler
//!
//! One file and one line. Say it is KAI:
//!
//! 1. `scheduler/kai.rs`: a unit struct with `impl Scheduler`. `abilities()` returns a `static`
//!    [`Abilities`]: what it cannot do goes there as data, and becomes a field error at admission
//!    ([`refusals`]). `link()` says what a pod carries once its gang is known; `objects()` says
//!    which objects must exist. `template_marks()` needs writing only if something
//!    besides `schedulerName` is known when the workload is created, `extend_stamp()` only if a
//!    link needs more of the plan than the part's numbers.
//! 2. The scheduler's line in [`backend`], and in [`known`] for `muster schedulers`.
//! 3. Its link's key in [`crate::gang::link`], if it is not there yet, so that a link which the
//!    user wrote is respected.
//! 4. The API that its objects need, among the candidates of `controller::discovery`.
//! 5. Fixtures: run the tests once with `INSTA_UPDATE=always` and read the new snapshots.
//!
//! Admission, `check`, `render` and the reconciler call it without a change of their own.

pub mod abilities;
pub mod cluster;
mod coscheduling;
mod entry;
mod kai;
mod koordinator;
pub mod marks;
mod native;
pub mod object;
mod pod_group;
mod resolve;
mod volcano;
mod yunikorn;

pub use abilities::{Abilities, LinkSite, Resume, refusals};
pub use cluster::{Dialect, JobTemplates, Release, Snapshot, SubGroups};
pub use entry::{Entry, Listens};
pub use koordinator::KoordinatorWay;
pub use kube::core::DynamicObject;
pub use marks::{Marks, NativeLink};
pub use resolve::{check_scheduler_names, resolve};

use std::str::FromStr;

use crate::gang::policy::UnknownWord;
use crate::gang::{
    FieldError, Gang, Member, Owner, Part, Plan, Role, Round, SchedulerKind, Shape, Stamp,
};

/// Every scheduler that Muster knows, in the order in which they are listed.
static TABLE: [&Entry; 6] = [
    &native::ENTRY,
    &volcano::ENTRY,
    &coscheduling::ENTRY,
    &koordinator::ENTRY,
    &yunikorn::ENTRY,
    &kai::ENTRY,
];

/// All values of `muster.dev/scheduler`, for error messages and `--help`.
pub fn names() -> [&'static str; TABLE.len()] {
    TABLE.map(|entry| entry.kind.as_str())
}

/// The scheduler that a word names.
pub fn parse(word: &str) -> Option<SchedulerKind> {
    Some(entry(word)?.kind)
}

fn entry(word: &str) -> Option<&'static Entry> {
    TABLE.into_iter().find(|entry| entry.kind.as_str() == word)
}

/// As any word of a declaration is read.
impl FromStr for SchedulerKind {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        parse(word).ok_or_else(|| UnknownWord(word.to_owned()))
    }
}

/// The scheduler that a pod's `schedulerName` points at, when the name says so by itself.
pub fn from_scheduler_name(name: &str) -> Option<SchedulerKind> {
    Some(named(name)?.kind)
}

/// The table's line of the scheduler that a pod's `schedulerName` points at, when the name says so
/// by itself.
pub fn named(scheduler_name: &str) -> Option<&'static Entry> {
    let mut entries = TABLE.into_iter();
    entries.find(|entry| entry.is_named_by(scheduler_name))
}

/// One scheduler's way of making gangs.
pub trait Scheduler: Sync {
    /// Its line in the table.
    fn entry(&self) -> &'static Entry;

    fn kind(&self) -> SchedulerKind {
        self.entry().kind
    }

    /// What it can and cannot do, as data.
    fn abilities(&self) -> &'static Abilities;

    /// Whether its gangs need the API of one of its objects.
    fn needs_api(&self) -> bool {
        true
    }

    /// What the templates of one role's pods carry: all that is known from the spec alone.
    fn template_marks(&self, _plan: &Plan, role: &Role) -> Marks {
        Marks {
            scheduler_name: scheduler_name(self.entry(), role),
            ..Marks::default()
        }
    }

    /// Adds to a stamp what a link will need beyond the part's numbers.
    fn extend_stamp(&self, _plan: &Plan, _part: &Part, _role: &Role, _stamp: &mut Stamp) {}

    /// What of a plan its objects could not say, beyond what the abilities tell.
    fn check(&self, _plan: &Plan) -> Vec<FieldError> {
        Vec::new()
    }

    /// What of a plan it does otherwise than a user would think.
    fn warnings(&self, _plan: &Plan) -> Vec<String> {
        Vec::new()
    }

    /// What ties a member to its gang. `pod` reads the member's own shape, for schedulers that
    /// want it described.
    fn link(&self, member: &Member, pod: &dyn Fn() -> Shape) -> Marks;

    /// Where the link is written on this cluster.
    fn link_site(&self, _cluster: &Snapshot) -> LinkSite {
        self.abilities().link_site
    }

    /// What it means that a member arrives without its link.
    fn lost_link(&self) -> &'static str {
        "the pod's link to its gang was removed, and it would start without the others"
    }

    /// What may be wrong when it places a part of a gang.
    fn suspect(&self) -> &'static str {
        "look whether its gang plugin is on, and whether the pods reached it"
    }

    /// The objects that must exist for the gangs of one start of a workload.
    fn objects(&self, owner: &Owner, plan: &Plan, gangs: &[Gang<'_>]) -> Vec<DynamicObject>;

    /// Why a gang that waits never starts once a waiting member is deleted, if so.
    fn orphans(&self) -> Option<&'static str> {
        None
    }

    /// The queue that the plan's gangs wait in, where it is an object.
    fn queue(&self, _plan: &Plan) -> Option<Queue> {
        None
    }

    /// The round as far as this scheduler's gangs tell rounds apart.
    fn round(&self, round: Round) -> Round {
        match self.abilities().resume {
            Resume::NewGang => round,
            Resume::SameGang => Round::default(),
        }
    }
}

/// A queue that is an object of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Queue {
    pub api_version: &'static str,
    pub name: String,
}

/// The `schedulerName` that a role's pods still need. Where Kubernetes fills it in, writing it would
/// only be noise.
fn scheduler_name(entry: &Entry, role: &Role) -> Option<String> {
    let named = role.shape.scheduler_name.is_some();
    (!named && !entry.is_filled_in()).then(|| entry.default_scheduler_name().to_owned())
}

/// Why a scheduler cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    #[error("{0:?} is no scheduler that Muster knows; known are {names}", names = names().join(", "))]
    Unknown(String),
    #[error("{0:?} is no way that Muster makes gangs of {1}")]
    UnknownVariant(String, SchedulerKind),
    /// The backend's own words on what the cluster lacks.
    #[error("{0}")]
    Lacking(String),
    #[error(
        "the cluster does not serve {kind}'s PodGroups: install {kind} first, or name a scheduler \
         that is there ({})",
        .there.join(", ")
    )]
    NotServed {
        kind: SchedulerKind,
        there: Vec<&'static str>,
    },
}

/// Every backend, by the name that people know it by.
pub fn known() -> impl Iterator<Item = (&'static str, &'static dyn Scheduler)> {
    TABLE.iter().flat_map(|entry| entry.rows).copied()
}

/// The backend of a gang that was stamped, also when the cluster or the configuration has changed
/// since.
pub fn stamped(stamp: &Stamp, cluster: &Snapshot) -> Result<&'static dyn Scheduler, Unavailable> {
    let word = &stamp.scheduler;
    let entry = entry(word).ok_or_else(|| Unavailable::Unknown(word.clone()))?;
    (entry.backend)(cluster, stamp.variant.as_deref())
}

/// The backend of a scheduler on this cluster, for a new gang.
pub fn backend(
    kind: SchedulerKind,
    cluster: &Snapshot,
) -> Result<&'static dyn Scheduler, Unavailable> {
    let word = kind.as_str();
    let entry = entry(word).ok_or_else(|| Unavailable::Unknown(word.to_owned()))?;
    let backend = (entry.backend)(cluster, cluster.variant(kind))?;
    if backend.needs_api() && !cluster.served.contains(&kind) {
        let served = cluster.served.iter().map(|kind| kind.as_str());
        let there = served.chain(["yunikorn"]).collect();
        return Err(Unavailable::NotServed { kind, there });
    }
    Ok(backend)
}
