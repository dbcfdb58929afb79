//! What of a bundle over several workloads may exist yet.
//!
//! Gangs of several workloads start together when each of these names all others. As long as one side is
//! missing, nothing of the bundle is made, and pods without their PodGroup wait (Koordinator 1.8, Volcano
//! 1.14). Once a side has started, one that comes waits for nobody who is missing.
//!
//! Where each gang has an object, all of the bundle are listed on each of them until it has started. Then
//! its gangs list one another only: Koordinator holds back a replacement while any listed gang does not
//! exist, and the other side may restart, end or be deleted. Where one object is for all, see
//! [`super::shared`].
//!
//! Pure.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use kube::core::DynamicObject;

use super::partners::{Partner, PartnerState, Present, Side, Stands};
use super::shared;
use crate::controller::decide::{GangStatus, Grouped};
use crate::controller::gang_objects::with_hash;
use crate::gang::{Allies, Gang, Owner, PartnerRef, Plan, Reference};
use crate::scheduler::Scheduler;
use crate::scheduler::abilities::Bundles;

/// What a bundle of one side does next.
pub(super) enum Next {
    /// Starts by itself, or goes on.
    Alone,
    /// Starts together with these gangs of others.
    Together(Allies),
    /// The same, in an object that is also for the workloads of these references.
    Shares(Allies, Vec<Reference>),
    /// The same, and another workload writes that object.
    KeptBy(PartnerRef),
    Waits(String),
}

/// The side of a workload in a bundle, and what it needs to be looked at.
pub(super) struct Own<'a> {
    pub(super) bundle: &'a str,
    pub(super) grouped: &'a Grouped<'a>,
    pub(super) backend: &'a dyn Scheduler,
    pub(super) plan: &'a Plan,
    pub(super) owner: &'a Owner,
    pub(super) gangs: &'a [Gang<'a>],
}

/// The other sides of a bundle.
#[derive(Default)]
pub(super) struct Others<'a> {
    pub(super) present: Vec<(&'a PartnerRef, &'a Present, &'a Side)>,
    /// Those that are not, each with the reason.
    pub(super) missing: Vec<String>,
}

impl Others<'_> {
    pub(super) fn started(&self) -> bool {
        self.present.iter().any(|(.., side)| side.stands.started)
    }
}

impl<'a> Own<'a> {
    pub(super) fn stands(&self) -> Stands {
        let mut stands = Stands::default();
        for gang in self.gangs {
            stands.add(&self.grouped.members.of(&gang.identity));
        }
        stands
    }

    fn others(&self) -> Others<'a> {
        let mut others = Others::default();
        for Partner { workload, state } in self.grouped.seen.partners {
            let side = match state {
                PartnerState::Absent(why) => Err(why.clone()),
                PartnerState::Present(present) => self.side_of(present),
            };
            match side {
                Ok((present, side)) => others.present.push((workload, present, side)),
                Err(why) => others.missing.push(format!("{workload}: {why}")),
            }
        }
        others
    }

    fn side_of(&self, present: &'a Present) -> Result<(&'a Present, &'a Side), String> {
        let own = self.backend.kind();
        if present.scheduler != own {
            let theirs = present.scheduler;
            return Err(format!("it goes to {theirs}, and this one to {own}"));
        }
        if self.is_shared() {
            shared::same_queue(self, present)?;
        }
        let bundle = self.bundle;
        let side = present.sides.get(bundle);
        let side = side.ok_or(format!("none of its gangs is in the bundle {bundle:?}"))?;
        Ok((present, side))
    }

    fn is_shared(&self) -> bool {
        is_shared(self.backend)
    }

    /// The objects of its gangs together with those of others.
    pub(super) fn objects(&self, allies: Allies, more: &[Reference]) -> Vec<DynamicObject> {
        let allies = Arc::new(allies);
        let mut gangs = self.gangs.to_vec();
        for gang in &mut gangs {
            gang.allies = Arc::clone(&allies);
        }
        let mut owner = self.owner.clone();
        for reference in more {
            if !owner.references.contains(reference) {
                owner.references.push(reference.clone());
            }
        }
        self.backend.objects(&owner, self.plan, &gangs)
    }

    pub(super) fn is_settled(&self, objects: Vec<DynamicObject>) -> bool {
        let made = &self.grouped.made;
        let mut objects = objects.into_iter();
        objects.all(|object| made.is_settled(&with_hash(object)))
    }
}

/// Whether gangs of several workloads share an object there.
pub(super) fn is_shared(backend: &dyn Scheduler) -> bool {
    matches!(backend.abilities().bundle, Bundles::WithinNamespace { .. })
}

/// What is made, and who else is to be looked at.
#[derive(Default)]
pub struct Made {
    /// The objects that may exist now.
    pub objects: Vec<DynamicObject>,
    /// The workloads that write an object which is for this one too.
    pub keepers: BTreeSet<PartnerRef>,
}

/// The objects that may exist now; a gang that waits for a partner says so.
pub fn objects(
    grouped: &Grouped<'_>,
    plan: &Plan,
    backend: &dyn Scheduler,
    owner: &Owner,
    gangs: Vec<Gang<'_>>,
    statuses: &mut [GangStatus],
) -> Made {
    let mut made = Made::default();
    let most = backend.abilities().bundle.of_several();
    let Some(most) = most.filter(|_| !grouped.seen.partners.is_empty()) else {
        made.objects = backend.objects(owner, plan, &gangs);
        return made;
    };
    let mut bundles: BTreeMap<Option<String>, Vec<Gang<'_>>> = BTreeMap::new();
    for gang in gangs {
        let bundle = gang.part.bundle().map(|b| b.value.as_str().to_owned());
        bundles.entry(bundle).or_default().push(gang);
    }
    for (bundle, gangs) in &bundles {
        let Some(bundle) = bundle else {
            made.objects.extend(backend.objects(owner, plan, gangs));
            continue;
        };
        let own = Own {
            bundle,
            grouped,
            backend,
            plan,
            owner,
            gangs,
        };
        let next = match own.is_shared() {
            true => shared::next(&own, own.others(), most),
            false => next(&own, own.others(), most),
        };
        match next {
            Next::Alone => made.objects.extend(own.objects(Allies::default(), &[])),
            Next::Together(allies) => made.objects.extend(own.objects(allies, &[])),
            Next::Shares(allies, more) => made.objects.extend(own.objects(allies, &more)),
            Next::KeptBy(keeper) => {
                made.keepers.insert(keeper);
            }
            Next::Waits(why) => blame(&why, gangs, statuses),
        }
    }
    made
}

fn next(own: &Own<'_>, others: Others<'_>, most: usize) -> Next {
    if own.stands().started {
        return Next::Alone;
    }
    if !others.missing.is_empty() && !others.started() {
        // It was allowed to start alone before: its partner has ended or was deleted since.
        if own.is_settled(own.objects(Allies::default(), &[])) {
            return Next::Alone;
        }
        return waits(own.bundle, &others);
    }
    let waiting = others
        .present
        .iter()
        .filter(|(.., side)| !side.stands.started);
    let gangs = waiting.flat_map(|(.., side)| side.gangs.iter().cloned());
    let allies = Allies {
        gangs: gangs.collect(),
        nobody: None,
    };
    too_many(own, &allies, most).unwrap_or(Next::Together(allies))
}

pub(super) fn waits(bundle: &str, others: &Others<'_>) -> Next {
    let missing = others.missing.join("; ");
    Next::Waits(format!("the bundle {bundle:?} waits for {missing}"))
}

pub(super) fn too_many(own: &Own<'_>, allies: &Allies, most: usize) -> Option<Next> {
    let (bundle, gangs) = (own.bundle, own.gangs.len() + allies.gangs.len());
    (gangs > most).then(|| {
        Next::Waits(format!(
            "the bundle {bundle:?} has {gangs} gangs in all its workloads, and the scheduler can \
             bundle {most}"
        ))
    })
}

fn blame(why: &str, gangs: &[Gang<'_>], statuses: &mut [GangStatus]) {
    let names: HashSet<String> = gangs.iter().map(|g| g.name().into_string()).collect();
    for status in statuses {
        if status.waits() && names.contains(&status.name) {
            status.evidence.partner = Some(why.to_owned());
        }
    }
}
