//! Scheduler backends: a plan in; marks for pods, objects and refusals out.
//!
//! A backend knows one scheduler and no workload kind. All of it is pure, so `muster render`
//! prints what a cluster would get and a test needs no cluster.
//!
//! # Adding a scheduler
//!
//! One file and one line. Say it is KAI:
//!
//! 1. `scheduler/kai.rs`: its constant `SchedulerKind::KAI`, its [`Entry`] (the `schedulerName` that
//!    it listens to, its links, the APIs of its objects, its rows of `muster schedulers`), and a
//!    struct with `impl Scheduler`. `abilities()` returns a `static` [`Abilities`]: what it cannot
//!    do goes there as data, and becomes a field error at admission ([`refusals`]). `link()` says
//!    what a pod carries once its gang is known; `objects()` says which objects must exist.
//!    `template_marks()` needs writing only if something besides `schedulerName` is known when the
//!    workload is created, `extend_stamp()` only if a link needs more of the plan than the part's
//!    numbers.
//! 2. The entry's line in [`TABLE`], with the file's `mod` line.
//!
//! Options of its own on the command line are a struct in its file, and a field of
//! [`SchedulerArgs`]. Then fixtures: run the tests once with `INSTA_UPDATE=always` and read the new
//! snapshots. The reconciler's role (`manifests/`) must allow it the new objects.
//!
//! Admission, `check`, `render` and the reconciler call it without a change of their own.

pub(crate) mod abilities;
mod args;
mod cluster;
mod coscheduling;
mod entry;
mod kai;
mod koordinator;
mod marks;
mod namespaces;
mod native;
pub(crate) mod object;
mod pod_group;
pub mod queue;
mod reason;
mod refusals;
mod resolve;
mod volcano;
mod yunikorn;

pub(crate) use abilities::{Abilities, LinkSite, Resume};
pub(crate) use args::SchedulerArgs;
pub use cluster::{JobTemplates, Snapshot};
pub(crate) use cluster::{Release, Served};
pub(crate) use entry::{Api, Entry, FILLED_IN, Listens, Probe};
pub use kube::core::DynamicObject;
pub(crate) use marks::Marks;
pub use namespaces::{Namespaces, NotSeen};
pub use native::Dialect;
pub(crate) use queue::{Queue, QueueTrouble};
pub(crate) use refusals::refusals;
pub(crate) use resolve::{check_scheduler_names, resolve};

use std::str::FromStr;

use crate::gang::link::LinkKey;
use crate::gang::policy::UnknownWord;
use crate::gang::{
    FieldError, Gang, Member, Owner, Part, Plan, Role, Round, SchedulerKind, Shape, Stamp,
};

/// Every scheduler that Muster knows, in the order in which they are listed.
pub static TABLE: &[&Entry] = &[
    &native::ENTRY,
    &volcano::ENTRY,
    &coscheduling::ENTRY,
    &koordinator::ENTRY,
    &yunikorn::ENTRY,
    &kai::ENTRY,
];

/// All values of `muster.dev/scheduler`, for error messages and `--help`.
pub fn names() -> Vec<&'static str> {
    TABLE.iter().map(|entry| entry.kind.as_str()).collect()
}

/// The scheduler with this name.
pub(crate) fn parse(name: &str) -> Option<SchedulerKind> {
    Some(entry(name)?.kind)
}

fn entry(name: &str) -> Option<&'static Entry> {
    let mut entries = TABLE.iter().copied();
    entries.find(|entry| entry.kind.as_str() == name)
}

/// Parsed like every other value of an annotation.
impl FromStr for SchedulerKind {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        parse(word).ok_or_else(|| UnknownWord(word.to_owned()))
    }
}

/// What the scheduler of a gang says in events alone.
pub(crate) fn tells(kind: SchedulerKind) -> Option<&'static entry::Tells> {
    entry(kind.as_str())?.tells.as_ref()
}

/// The links of all schedulers.
pub fn links() -> impl Iterator<Item = LinkKey> {
    TABLE.iter().flat_map(|entry| entry.links).copied()
}

/// The scheduler that a pod's `schedulerName` points at, when the name says so by itself.
pub(crate) fn named(scheduler_name: &str) -> Option<&'static Entry> {
    let mut entries = TABLE.iter().copied();
    entries.find(|entry| entry.is_named_by(scheduler_name))
}

/// Whether a scheduler of the table listens to this `schedulerName` as it comes.
pub(crate) fn listens_to(scheduler_name: &str) -> bool {
    TABLE
        .iter()
        .any(|entry| entry.default_scheduler_name() == scheduler_name)
}

/// One scheduler's way of making gangs.
pub trait Scheduler: Sync {
    /// Its line in the table.
    fn entry(&self) -> &'static Entry;

    /// The name that users know it by.
    fn kind(&self) -> SchedulerKind {
        self.entry().kind
    }

    /// What it can and cannot do, as data.
    fn abilities(&self) -> &'static Abilities;

    /// Whether its gangs need an API of the scheduler.
    fn needs_api(&self) -> bool {
        !self.entry().apis.is_empty()
    }

    /// What the templates of one role's pods carry: all that is known from the spec alone.
    fn template_marks(&self, _plan: &Plan, role: &Role) -> Marks {
        Marks {
            scheduler_name: scheduler_name(self.entry(), role),
            ..Marks::default()
        }
    }

    /// Adds to a stamp what a link will need beyond the part's numbers: the same for all that starts
    /// together with the part.
    fn extend_stamp(&self, _plan: &Plan, _part: &Part, _stamp: &mut Stamp) {}

    /// What of a plan its objects could not say, beyond what the abilities tell.
    fn check(&self, _plan: &Plan) -> Vec<FieldError> {
        Vec::new()
    }

    /// What of a plan it does otherwise than a user would think.
    fn warnings(&self, _plan: &Plan) -> Vec<String> {
        Vec::new()
    }

    /// Why a link would be larger than any that Muster's own stamps lead to, if so. Asked before it
    /// is built: a stamp may come from anybody.
    fn oversize(&self, _member: &Member, _pod: &dyn Fn() -> Shape) -> Option<String> {
        None
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

    /// Why a gang waits, as the scheduler says in the gang's object.
    fn reason(&self, _object: &DynamicObject) -> Option<String> {
        None
    }

    /// What is wrong with the gang's queue, as the scheduler says in the gang's object.
    fn queue_trouble(&self, _object: &DynamicObject) -> Option<QueueTrouble> {
        None
    }

    /// How the names of pods begin by which the scheduler keeps room for a gang, where it does.
    fn placeholders(&self, _gang: &str) -> Option<String> {
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

/// The `schedulerName` that a role's pods still need. Where Kubernetes fills it in, writing it would
/// only be noise.
fn scheduler_name(entry: &Entry, role: &Role) -> Option<String> {
    let named = role.shape.scheduler_name.is_some();
    (!named && !entry.is_filled_in()).then(|| entry.default_scheduler_name().to_owned())
}

/// Why a scheduler cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unavailable {
    /// The stamp names a scheduler that is not in the table.
    #[error("{0:?} is not a scheduler that Muster knows: {names}", names = names().join(", "))]
    Unknown(String),
    /// A stamp's variant that the backend does not have.
    #[error("{0:?} is not a way that Muster knows to make gangs of {1}")]
    UnknownVariant(String, SchedulerKind),
    /// What the cluster lacks, as the backend explains it.
    #[error("{0}")]
    Lacking(String),
    /// None of its APIs is served.
    #[error(
        "the cluster does not serve {kind}'s PodGroups: install {kind} first, or name a scheduler \
         that is there ({})",
        .there.join(", ")
    )]
    NotServed {
        /// The scheduler that was chosen.
        kind: SchedulerKind,
        /// Those that could be chosen.
        there: Vec<&'static str>,
    },
}

/// Every backend, by the name that people know it by.
pub(crate) fn known() -> impl Iterator<Item = (&'static str, &'static dyn Scheduler)> {
    TABLE.iter().flat_map(|entry| entry.rows).copied()
}

/// The backend of a gang that was stamped, also when the cluster or the configuration has changed
/// since.
pub(crate) fn stamped(
    stamp: &Stamp,
    cluster: &Snapshot,
) -> Result<&'static dyn Scheduler, Unavailable> {
    let name = &stamp.scheduler;
    let entry = entry(name).ok_or_else(|| Unavailable::Unknown(name.clone()))?;
    (entry.backend)(cluster, stamp.variant.as_deref())
}

/// The backend of a scheduler on this cluster, for a new gang.
pub(crate) fn backend(
    kind: SchedulerKind,
    cluster: &Snapshot,
) -> Result<&'static dyn Scheduler, Unavailable> {
    let name = kind.as_str();
    let entry = entry(name).ok_or_else(|| Unavailable::Unknown(name.to_owned()))?;
    let backend = (entry.backend)(cluster, cluster.variant(kind))?;
    if backend.needs_api() && cluster.version(kind).is_none() {
        let served = cluster.served.iter().map(|served| served.scheduler);
        let anywhere = TABLE.iter().filter(|entry| entry.apis.is_empty());
        let there = served.chain(anywhere.map(|entry| entry.kind));
        let there = there.map(SchedulerKind::as_str).collect();
        return Err(Unavailable::NotServed { kind, there });
    }
    Ok(backend)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_of_an_unknown_scheduler_or_variant_has_no_backend() {
        let cluster = Snapshot::assumed(SchedulerKind::KOORDINATOR, Dialect::V1_37);
        let why = |scheduler: &str, way: &str| {
            let text = format!(
                r#"{{"scheduler":"{scheduler}","way":"{way}","level":"Whole","size":1,"quorum":1}}"#
            );
            let stamp = Stamp::parse(&text).unwrap();
            stamped(&stamp, &cluster).err().map(|why| why.to_string())
        };
        assert_eq!(why("koordinator", "annotations"), None);
        let unknown = why("other", "annotations").unwrap();
        assert!(unknown.ends_with("yunikorn, kai"), "{unknown}");
        assert!(why("koordinator", "other").is_some());
    }
}
