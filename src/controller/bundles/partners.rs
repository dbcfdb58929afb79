//! Bundles over several workloads: who the others are, and what of a bundle may exist yet.
//!
//! Gangs of several workloads start together when each of these names all others. Then each
//! PodGroup of the bundle lists the gangs of all sides. As long as one side is missing, nothing
//! of the bundle is made, and pods without their PodGroup wait (Koordinator 1.8). Once a side has
//! started, its gangs list one another only: Koordinator holds back a replacement while any
//! listed gang does not exist, and the other side may restart, end or be deleted.
//!
//! Pure: the others are found by [`super::partner_index`].

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use kube::core::DynamicObject;

use crate::controller::bundles::missing_pods;
use crate::controller::decide::{self, GangStatus, Grouped, Seen, State};
use crate::controller::gang_members::{GangMembers, Members};
use crate::controller::gang_objects::with_hash;
use crate::gang::{FieldPath, Gang, Identity, Owner, PartnerRef, Plan, WorkloadRef};
use crate::judge;
use crate::scheduler::abilities::Bundles;
use crate::scheduler::{Scheduler, Snapshot};
use crate::workload::facts::Watched;
use crate::workload::seen::PodPhase;
use crate::workload::{Life, SeenPod, Unasked, Workload, declaration, keys, site};

/// The workloads that start together: one, and those that it names. The same for each of them.
pub type Circle = BTreeSet<PartnerRef>;

/// Another workload of the circle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partner {
    /// Its kind, namespace and name.
    pub workload: PartnerRef,
    /// What is seen of it.
    pub state: PartnerState,
}

/// What is seen of a partner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartnerState {
    /// Nothing can start together with it, and why.
    Absent(String),
    /// Its side of each bundle.
    Present(BTreeMap<String, Side>),
}

/// The gangs of one workload in a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Side {
    gangs: Vec<Identity>,
    /// What is said of those of its gangs that have too few pods yet.
    pub missing_pods: Vec<String>,
    progress: Progress,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Progress {
    #[default]
    Waits,
    Started,
}

/// The workloads that one names, and itself; none when it names none.
pub fn circle(workload: &dyn Workload, namespace: &str) -> Circle {
    let at = FieldPath::new("metadata").child("annotations");
    let itself = itself(workload, namespace);
    let with = declaration::bundle_with(workload.meta(), &at, &itself, &mut Vec::new());
    let mut circle: Circle = with.into_iter().flat_map(|with| with.value).collect();
    if !circle.is_empty() {
        circle.insert(itself);
    }
    circle
}

/// How others name a workload.
pub fn itself(workload: &dyn Workload, namespace: &str) -> PartnerRef {
    let name = workload.meta().name.as_deref().unwrap_or_default();
    let kind = workload.facts().kind.name;
    PartnerRef::new(kind, WorkloadRef::new(namespace, name))
}

/// Looks at a workload of the circle from one that names it. Of one that does not
/// name that one back nothing is said, not even that it exists: it may belong to somebody else.
pub fn look(
    workload: PartnerRef,
    from: &PartnerRef,
    circle: &Circle,
    found: Option<&Seen<'_>>,
    cluster: &Snapshot,
) -> Partner {
    let state = match found {
        None => PartnerState::Absent(unrelated(workload.kind(), from)),
        Some(found) => match sides(found, from, circle, cluster) {
            Ok(sides) => PartnerState::Present(sides),
            Err(why) => PartnerState::Absent(why),
        },
    };
    Partner { workload, state }
}

fn sides(
    found: &Seen<'_>,
    from: &PartnerRef,
    ours: &Circle,
    cluster: &Snapshot,
) -> Result<BTreeMap<String, Side>, String> {
    let workload = found.workload;
    let kind = workload.facts().kind.name;
    let theirs = circle(workload, found.namespace);
    if !theirs.contains(from) {
        return Err(unrelated(kind, from));
    }
    // Else the two sides would not list the same gangs.
    if let Some(other) = theirs.symmetric_difference(ours).next() {
        let who = match ours.contains(other) {
            true => "it".to_owned(),
            false => format!("this {}", from.kind()),
        };
        let other = match ours.contains(other) {
            true => other.named_by(kind),
            false => other.named_by(from.kind()),
        };
        return Err(format!(
            "{who} does not name {other} in {}",
            keys::BUNDLE_WITH
        ));
    }
    match workload.life() {
        Life::Live => {}
        Life::Deleting => return Err("it is being deleted".to_owned()),
        Life::Finished => return Err("it has ended".to_owned()),
        Life::Suspended => return Err("it is suspended".to_owned()),
        Life::LeftAlone => return Err(format!("another controller than {kind}'s own runs it")),
    }
    let judged = judge::stored(workload, found.namespace, cluster, Unasked::NoGang);
    let Some(backend) = judged.backend else {
        return Err("it has no scheduler".to_owned());
    };
    if !reaches_others(backend) {
        let scheduler = backend.kind();
        return Err(format!(
            "it goes to {scheduler}, which cannot reach this {}",
            from.kind()
        ));
    }
    // Pods that declare their gang are looked at one by one.
    let by_pods = workload.facts().watched == Watched::ByMembers;
    if !by_pods && !site::is_stamped(workload) {
        return Err("it was created without Muster".to_owned());
    }
    let outlook = workload.outlook(&judged.plan, &found.origin(), found.pods);
    let starts = outlook.starts.iter();
    let facts = workload.facts();
    let gangs = starts.flat_map(|start| decide::gangs(facts, start, backend));
    let members = GangMembers::group(found.pods);
    let mut sides: BTreeMap<String, Side> = BTreeMap::new();
    for gang in gangs {
        let Some(bundle) = gang.part.bundle() else {
            continue;
        };
        let side = sides.entry(bundle.value.as_str().to_owned()).or_default();
        let members = members.of(&gang.identity);
        let live = members.now().filter(|pod| pod.phase.is_live()).count();
        if has_started(&members) {
            side.progress = Progress::Started;
        } else {
            let name = format!("{}/{}", found.namespace, gang.name());
            side.missing_pods
                .extend(missing_pods::shortage(&name, live, gang.quorum()));
        }
        side.gangs.push(gang.identity);
    }
    Ok(sides)
}

/// The same whether the workload exists or not: it may be in a namespace of somebody else.
fn unrelated(kind: &str, from: &PartnerRef) -> String {
    let (key, from) = (keys::BUNDLE_WITH, from.named_by(kind));
    format!("it does not exist, or does not name {from} in {key}")
}

fn reaches_others(backend: &dyn Scheduler) -> bool {
    matches!(backend.abilities().bundle, Bundles::AcrossWorkloads { .. })
}

/// Whether a member has been placed: then the whole bundle has been placed once.
fn has_started(members: &Members<'_>) -> bool {
    let placed = |pod: &SeenPod| matches!(pod.phase, PodPhase::Bound | PodPhase::Succeeded);
    members.now().any(placed)
}

/// What a bundle of one side does next.
enum Next {
    /// Starts by itself, or goes on.
    Alone,
    /// Starts together with these gangs of others.
    Together(Arc<[Identity]>),
    Waits(String),
}

/// The objects that may exist now; a gang that waits for a partner says so.
pub fn objects(
    grouped: &Grouped<'_>,
    plan: &Plan,
    backend: &dyn Scheduler,
    owner: &Owner,
    gangs: Vec<Gang<'_>>,
    statuses: &mut [GangStatus],
) -> Vec<DynamicObject> {
    let Bundles::AcrossWorkloads { most } = backend.abilities().bundle else {
        return backend.objects(owner, plan, &gangs);
    };
    if grouped.seen.partners.is_empty() {
        return backend.objects(owner, plan, &gangs);
    }
    let mut bundles: BTreeMap<Option<String>, Vec<Gang<'_>>> = BTreeMap::new();
    for gang in gangs {
        let bundle = gang.part.bundle().map(|b| b.value.as_str().to_owned());
        bundles.entry(bundle).or_default().push(gang);
    }
    let mut objects = Vec::new();
    for (bundle, mut gangs) in bundles {
        let alone = backend.objects(owner, plan, &gangs);
        let next = match &bundle {
            None => Next::Alone,
            Some(bundle) => next(bundle, &gangs, &alone, grouped, most),
        };
        match next {
            Next::Alone => objects.extend(alone),
            Next::Together(others) => {
                for gang in &mut gangs {
                    gang.partners = Arc::clone(&others);
                }
                objects.extend(backend.objects(owner, plan, &gangs));
            }
            Next::Waits(why) => blame(&why, &gangs, statuses),
        }
    }
    objects
}

fn next(
    bundle: &str,
    gangs: &[Gang<'_>],
    alone: &[DynamicObject],
    grouped: &Grouped<'_>,
    most: usize,
) -> Next {
    let started = |gang: &Gang<'_>| has_started(&grouped.members.of(&gang.identity));
    if gangs.iter().any(started) {
        return Next::Alone;
    }
    let (mut others, mut missing) = (Vec::new(), Vec::new());
    for Partner { workload, state } in grouped.seen.partners {
        let why = match state {
            PartnerState::Absent(why) => why.clone(),
            PartnerState::Present(sides) => match sides.get(bundle) {
                Some(side) if side.progress == Progress::Started => continue,
                Some(side) => {
                    others.extend(side.gangs.iter().cloned());
                    continue;
                }
                None => format!("none of its gangs is in the bundle {bundle:?}"),
            },
        };
        missing.push(format!("{workload}: {why}"));
    }
    let listed = gangs.len() + others.len();
    if !missing.is_empty() {
        // It was allowed to start alone before: its partner has ended or was deleted since.
        let made = |object: &DynamicObject| grouped.made.is_settled(&with_hash(object.clone()));
        if alone.iter().all(made) {
            return Next::Alone;
        }
        let missing = missing.join("; ");
        return Next::Waits(format!("the bundle {bundle:?} waits for {missing}"));
    }
    if listed > most {
        return Next::Waits(format!(
            "the bundle {bundle:?} has {listed} gangs in all its workloads, and the scheduler can \
             bundle {most}"
        ));
    }
    Next::Together(others.into())
}

fn blame(why: &str, gangs: &[Gang<'_>], statuses: &mut [GangStatus]) {
    let names: HashSet<String> = gangs.iter().map(|g| g.name().into_string()).collect();
    for status in statuses {
        if let State::Waiting(reason) = &mut status.state
            && names.contains(&status.name)
        {
            *reason = Some(why.to_owned());
        }
    }
}
