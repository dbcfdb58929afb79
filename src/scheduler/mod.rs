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
//!    which objects must exist. `stamp()` needs writing only if something besides
//!    `schedulerName` is known when the workload is created, `fill()` only if a link needs more
//!    of the plan than the part's numbers.
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
pub use kube::core::DynamicObject;
pub use marks::{Marks, NativeLink};
pub use resolve::{check_scheduler_names, fits, resolve};

use crate::gang::{
    FieldError, Gang, KoordinatorWay, Member, Owner, Part, Plan, Role, Round, SchedulerKind, Shape,
    Stamp,
};

/// One scheduler's way of making gangs.
pub trait Scheduler: Sync {
    fn kind(&self) -> SchedulerKind;

    /// What it can and cannot do, as data.
    fn abilities(&self) -> &'static Abilities;

    /// What is known from the spec alone, for the pods of one role.
    fn stamp(&self, _plan: &Plan, role: &Role) -> Marks {
        Marks {
            scheduler_name: scheduler_name(self.kind(), role),
            ..Marks::default()
        }
    }

    /// What a link will need beyond the part's numbers.
    fn fill(&self, _plan: &Plan, _part: &Part, _role: &Role, _stamp: &mut Stamp) {}

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

/// The `schedulerName` that a role's pods still need.
fn scheduler_name(kind: SchedulerKind, role: &Role) -> Option<String> {
    let named = role.shape.scheduler_name.is_some();
    // Kubernetes fills in its own name; writing it would only be noise.
    let default = kind == SchedulerKind::Native;
    (!named && !default).then(|| kind.default_scheduler_name().to_owned())
}

/// Why a scheduler cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    #[error("the cluster does not serve native gangs: {}", lacks(*.0))]
    NoNativeApi(Option<Release>),
    #[error(
        "the cluster does not serve {kind}'s PodGroups: install {kind} first, or name a scheduler \
         that is there ({})",
        names(.served)
    )]
    NotServed {
        kind: SchedulerKind,
        served: Vec<SchedulerKind>,
    },
}

/// YuniKorn serves no API, and is always a choice.
fn names(served: &[SchedulerKind]) -> String {
    let names = served.iter().chain([&SchedulerKind::Yunikorn]);
    let names: Vec<&str> = names.map(|kind| kind.as_str()).collect();
    names.join(", ")
}

fn lacks(release: Option<Release>) -> String {
    release.map_or_else(
        || {
            "Kubernetes 1.35 to 1.37 with the feature gate GenericWorkload and the API \
             scheduling.k8s.io/v1alpha1, v1alpha2 or v1beta1 is needed"
                .to_owned()
        },
        Release::lacks,
    )
}

/// Every backend, by the name that people know it by.
pub fn known() -> Vec<(String, &'static dyn Scheduler)> {
    let native = |dialect: Dialect| (format!("native {dialect}"), native::backend(dialect));
    let mut known: Vec<(String, &'static dyn Scheduler)> = Dialect::ALL.map(native).into();
    let others: [(&str, &'static dyn Scheduler); 6] = [
        ("volcano", volcano::backend(SubGroups::Known)),
        ("coscheduling", &coscheduling::Coscheduling),
        (
            "koordinator",
            koordinator::backend(KoordinatorWay::PodGroup),
        ),
        (
            "koordinator, annotations",
            koordinator::backend(KoordinatorWay::Annotations),
        ),
        ("yunikorn", &yunikorn::Yunikorn),
        ("kai", &kai::Kai),
    ];
    known.extend(others.map(|(name, backend)| (name.to_owned(), backend)));
    known
}

/// The backend of a gang that was stamped, also when the cluster or the configuration has changed
/// since.
pub fn stamped(stamp: &Stamp, cluster: &Snapshot) -> Result<&'static dyn Scheduler, Unavailable> {
    of(stamp.scheduler, stamp.way, cluster)
}

/// The backend of a scheduler on this cluster, for a new gang.
pub fn backend(
    kind: SchedulerKind,
    cluster: &Snapshot,
) -> Result<&'static dyn Scheduler, Unavailable> {
    let needs_api = match kind {
        // Its own error says what is missing.
        SchedulerKind::Native | SchedulerKind::Yunikorn => false,
        SchedulerKind::Koordinator => cluster.koordinator == KoordinatorWay::PodGroup,
        SchedulerKind::Volcano | SchedulerKind::Coscheduling | SchedulerKind::Kai => true,
    };
    if needs_api && !cluster.served.contains(&kind) {
        let served = cluster.served.clone();
        return Err(Unavailable::NotServed { kind, served });
    }
    of(kind, cluster.koordinator, cluster)
}

fn of(
    kind: SchedulerKind,
    way: KoordinatorWay,
    cluster: &Snapshot,
) -> Result<&'static dyn Scheduler, Unavailable> {
    match kind {
        SchedulerKind::Native => {
            let dialect = cluster
                .native
                .ok_or(Unavailable::NoNativeApi(cluster.release))?;
            Ok(native::backend(dialect))
        }
        SchedulerKind::Volcano => Ok(volcano::backend(cluster.sub_groups)),
        SchedulerKind::Coscheduling => Ok(&coscheduling::Coscheduling),
        SchedulerKind::Kai => Ok(&kai::Kai),
        SchedulerKind::Koordinator => Ok(koordinator::backend(way)),
        SchedulerKind::Yunikorn => Ok(&yunikorn::Yunikorn),
    }
}
