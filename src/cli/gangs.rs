//! The gangs that an admitted workload would have in a cluster, under stand-in names.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use super::admit::{self, Admitted, STAND_IN_UID};
use crate::gang::{Gang, Owner};
use crate::judge::{self, Judged};
use crate::scheduler::Snapshot;
use crate::workload::seen::PodPhase;
use crate::workload::view::Meta;
use crate::workload::{Facts, Life, Object, Origin, SeenPod, Start, Unasked, Workload};

/// The gangs of an admitted workload, with what is needed to make their objects.
pub(crate) struct Gangs<'p> {
    pub(crate) facts: &'static Facts,
    pub(crate) owner: Owner,
    pub(crate) judged: &'p Judged,
    pub(crate) starts: Vec<Start<'p>>,
    /// How many gangs there are in all.
    pub(crate) count: u64,
    /// A linked child of each of the first gangs, as it would be stored.
    pub(crate) children: Vec<Value>,
}

/// So many gangs of a workload are shown at most: of a large one the first say it all.
pub(crate) const SHOWN: usize = 100;

/// The gangs of a start, which is one of the workload or of a replica.
pub(crate) fn gangs<'s>(start: &'s Start<'_>) -> Vec<Gang<'s>> {
    let gangs = start.gangs.iter();
    gangs
        .map(|(part, identity)| Gang::new(&start.plan.parts[*part], identity.clone()))
        .collect()
}

/// Plans an admitted workload and hands its gangs to `use_them`; `None` for other kinds and for
/// workloads that Muster leaves alone.
pub(crate) fn with_gangs<T>(
    admitted: &Admitted,
    cluster: &Snapshot,
    use_them: impl FnOnce(Gangs<'_>) -> T,
) -> Option<T> {
    let json = admitted.object.to_string();
    let object = Object::read(admitted.kind, &json);
    let workload = object.workload()?;
    if workload.life() == Life::LeftAlone {
        return None;
    }
    // A pod may declare a gang itself, which has a name of its own.
    let own = SeenPod::declaring(&json, &admitted.namespace);
    let name = match &own {
        Some(pod) => pod.gang.workload.clone(),
        None => stored_name(workload.meta()),
    };
    let of = Origin {
        namespace: &admitted.namespace,
        name: &name,
        uid: STAND_IN_UID,
    };
    let judged = judge::stored(workload, of.namespace, cluster, Unasked::NoGang);
    let mut create = |kind, child| Some(admit::create(kind, &child, cluster).ok()?.object);
    let children = workload.children(&admitted.object, &of, &judged.plan, SHOWN, &mut create);
    let pods: Vec<SeenPod> = children
        .iter()
        .filter_map(|child| seen(child, cluster))
        .chain(own)
        .collect();
    let outlook = workload.outlook(&judged.plan, &of, &pods);
    Some(use_them(Gangs {
        facts: workload.facts(),
        owner: owner(workload, &of, &pods),
        judged: &judged,
        starts: outlook.starts,
        count: workload.gang_count(&judged.plan),
        children,
    }))
}

/// Who would own what is made for it.
fn owner(workload: &dyn Workload, of: &Origin<'_>, pods: &[SeenPod]) -> Owner {
    let mut owner = judge::owner(workload.facts(), of);
    if pods.iter().any(|pod| pod.own.is_some()) {
        owner.gang_name = Some(of.name.to_owned());
        for reference in &mut owner.references {
            reference.name = stored_name(workload.meta());
        }
    }
    owner
}

/// A child as the reconciler would see it, where it is a pod of a gang.
fn seen(child: &Value, cluster: &Snapshot) -> Option<SeenPod> {
    let meta: ObjectMeta = serde_json::from_value(child["metadata"].clone()).ok()?;
    SeenPod::read(&meta, PodPhase::Pending, None, &cluster.seals)
}

/// The name that the object would be stored under; a generated one gets a stand-in ending.
fn stored_name(meta: &Meta<'_>) -> String {
    let name = meta.display_name();
    let generated = meta.name.as_deref().unwrap_or_default().is_empty();
    if generated && !name.is_empty() {
        format!("{name}xxxxx")
    } else {
        name.to_owned()
    }
}
