//! Bundles over several workloads: who the others are, and what is seen of them.
//!
//! Pure: the others are found by [`super::partner_index`], and what follows is in [`super::start`].

use std::collections::{BTreeMap, HashSet};

use k8s_openapi::jiff::Timestamp;

use crate::controller::bundles::missing_pods;
use crate::controller::decide::{self, Seen};
use crate::controller::gang_members::{GangMembers, Members, Pods};
use crate::controller::gang_status::left;
use crate::controller::owners;
use crate::gang::{Ally, Circle, FieldPath, PartnerRef, Reference, SchedulerKind, WorkloadRef};
use crate::judge;
use crate::scheduler::{Scheduler, Snapshot};
use crate::workload::facts::Watched;
use crate::workload::seen::PodPhase;
use crate::workload::{Facts, Life, Object, SeenPod, Unasked, Workload, declaration, keys, site};

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
    /// It can start.
    Present(Present),
}

/// What is seen of a workload that can start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Present {
    /// Its side of each bundle.
    pub sides: BTreeMap<String, Side>,
    pub(super) scheduler: SchedulerKind,
    /// The queue that its gangs wait in, where that is an object.
    pub(super) queue: Option<String>,
    /// What owns an object that is made for it too.
    pub(super) references: Vec<Reference>,
}

/// The gangs of one workload in a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Side {
    pub(super) gangs: Vec<Ally>,
    /// What is said of those of its gangs that have too few pods yet.
    pub missing_pods: Vec<String>,
    pub(super) stands: Stands,
}

/// How far the members of gangs are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Stands {
    /// One has been placed: then the whole bundle has been placed once.
    pub(super) started: bool,
    /// One waits for a node.
    pub(super) waits: bool,
}

impl Stands {
    pub(super) fn add(&mut self, members: &Members<'_>) {
        let placed = |pod: &SeenPod| matches!(pod.phase, PodPhase::Bound | PodPhase::Succeeded);
        self.started |= members.now().any(placed);
        self.waits |= members.count(PodPhase::Pending) > 0;
    }
}

/// The workloads that one names, and itself; none when it names none.
pub fn circle(workload: &dyn Workload, namespace: &str) -> Option<Circle> {
    let at = FieldPath::new("metadata").child("annotations");
    let itself = itself(workload, namespace);
    let with = declaration::bundle_with(workload.meta(), &at, &itself, &mut Vec::new());
    let circle = with.map(|with| with.value);
    circle.filter(|circle| !circle.others().is_empty())
}

/// How others name a workload.
pub fn itself(workload: &dyn Workload, namespace: &str) -> PartnerRef {
    let name = workload.meta().name.as_deref().unwrap_or_default();
    let kind = workload.facts().kind.name;
    PartnerRef::new(kind, WorkloadRef::new(namespace, name))
}

/// Another workload as it is found.
pub struct Found<'f> {
    /// What holds for its kind.
    pub facts: &'static Facts,
    /// Its JSON.
    pub text: &'f str,
    /// The pods that say that they are its members.
    pub pods: Vec<SeenPod>,
}

/// Looks at a workload of the circle as it is found. Of a kind that makes bundles, and so has no
/// revisions.
pub fn look_at(
    workload: PartnerRef,
    circle: &Circle,
    found: Option<Found<'_>>,
    cluster: &Snapshot,
) -> Partner {
    let (read, pods) = match found {
        Some(found) => (Some(Object::read(found.facts.kind, found.text)), found.pods),
        None => (None, Vec::new()),
    };
    let view = read.as_ref().and_then(Object::workload);
    let sorted = view.map(|view| Pods::sort(pods, view, &HashSet::new()));
    let pods = sorted.map(|sorted| sorted.members).unwrap_or_default();
    let namespace = workload.workload().namespace().to_owned();
    let seen = view.map(|workload| Seen {
        workload,
        namespace: &namespace,
        pods: &pods,
        strangers: &[],
        made: &[],
        partners: &[],
        owner: None,
        waiters: &[],
        now: Timestamp::default(),
    });
    look(workload, circle, seen.as_ref(), cluster)
}

/// Looks at a workload of the circle from the one that names it. Of one that does not
/// name that one back nothing is said, not even that it exists: it may belong to somebody else.
pub fn look(
    workload: PartnerRef,
    circle: &Circle,
    found: Option<&Seen<'_>>,
    cluster: &Snapshot,
) -> Partner {
    let state = match found {
        None => PartnerState::Absent(unrelated(workload.kind(), circle.itself())),
        Some(found) => match present(found, circle, cluster) {
            Ok(present) => PartnerState::Present(present),
            Err(why) => PartnerState::Absent(why),
        },
    };
    Partner { workload, state }
}

fn present(found: &Seen<'_>, ours: &Circle, cluster: &Snapshot) -> Result<Present, String> {
    let (workload, from) = (found.workload, ours.itself());
    let kind = workload.facts().kind.name;
    let theirs = circle(workload, found.namespace);
    let Some(theirs) = theirs.filter(|theirs| theirs.others().contains(from)) else {
        return Err(unrelated(kind, from));
    };
    let (theirs, ours) = (theirs.sides(), ours.sides());
    // Else the two sides would not list the same gangs.
    if let Some(other) = theirs.symmetric_difference(&ours).next() {
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
    for mut gang in gangs {
        let Some(bundle) = gang.part.bundle() else {
            continue;
        };
        let side = sides.entry(bundle.value.as_str().to_owned()).or_default();
        let members = members.of(&gang.identity);
        let live = members.now().filter(|pod| pod.phase.is_live()).count();
        let mut stands = Stands::default();
        stands.add(&members);
        if !stands.started {
            let name = format!("{}/{}", found.namespace, gang.name());
            side.missing_pods
                .extend(missing_pods::shortage(&name, live, gang.quorum()));
        }
        side.stands.add(&members);
        if let Some(left) = left(&gang, &members).filter(|_| by_pods) {
            gang.keep(left);
        }
        side.gangs.push(gang.into());
    }
    Ok(Present {
        sides,
        scheduler: backend.kind(),
        queue: backend.queue(&judged.plan).map(|queue| queue.name),
        references: match by_pods {
            true => owners::nearest(found.pods),
            false => judge::owner(facts, &found.origin()).references,
        },
    })
}

/// The same whether the workload exists or not: it may be in a namespace of somebody else.
fn unrelated(kind: &str, from: &PartnerRef) -> String {
    let (key, from) = (keys::BUNDLE_WITH, from.named_by(kind));
    format!("it does not exist, or does not name {from} in {key}")
}

fn reaches_others(backend: &dyn Scheduler) -> bool {
    backend.abilities().bundle.of_several().is_some()
}
