//! The gangs that an admitted workload would have in a cluster, under stand-in names.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::admit::{self, Admitted, STAND_IN_UID};
use crate::gang::{Gang, Owner, Reference};
use crate::judge::{self, Judged};
use crate::scheduler::Snapshot;
use crate::workload::object::TemplateMark;
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

/// Stands for what a controller writes to tell the revisions of its pods apart.
const STAND_IN_REVISION: &str = "xxxxxxxxxx";

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
/// workloads that Muster leaves alone. Of an object that makes workloads, the gangs are those of one
/// of them, which is then the first of the children.
pub(crate) fn with_gangs<T>(
    admitted: &Admitted,
    cluster: &Snapshot,
    use_them: impl FnOnce(Gangs<'_>) -> T,
) -> Option<T> {
    let made = made(admitted, cluster);
    let (admitted, first, maker) = match &made {
        Some((made, maker)) => (made, Some(&made.object), Some(maker)),
        None => (admitted, None, None),
    };
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
        owner: owner(workload, &of, &pods, maker),
        judged: &judged,
        starts: outlook.starts,
        count: workload.gang_count(&judged.plan),
        children: first.cloned().into_iter().chain(children).collect(),
    }))
}

/// Who would own what is made for it: what made the pods of a gang that they declare themselves, or
/// else such a pod.
fn owner(
    workload: &dyn Workload,
    of: &Origin<'_>,
    pods: &[SeenPod],
    maker: Option<&Reference>,
) -> Owner {
    let mut owner = judge::owner(workload.facts(), of);
    if pods.iter().any(|pod| pod.own.is_some()) {
        owner.gang_name = Some(of.name.to_owned());
        for reference in &mut owner.references {
            reference.name = stored_name(workload.meta());
        }
        owner.references = maker.map_or(owner.references, |maker| vec![maker.clone()]);
    }
    owner
}

/// The workload or pod that an object makes, as its controller would have it stored, if it is in a
/// gang or at a start barrier; and the object itself.
fn made(admitted: &Admitted, cluster: &Snapshot) -> Option<(Admitted, Reference)> {
    let json = admitted.object.to_string();
    let object = Object::read(admitted.kind, &json);
    let maker = object.maker()?;
    let template = maker.template.as_ref()?;
    let asks = template.workload().read(Unasked::NoGang);
    if asks.asked.is_none() && asks.plan.barrier.is_none() {
        return None;
    }
    let kind = template.workload().facts().kind;
    let steps = template.path();
    let steps = steps.iter().map(String::as_str);
    let mut made = steps
        .fold(&admitted.object, |value, step| &value[step])
        .clone();
    made["apiVersion"] = json!(kind.api_version());
    made["kind"] = json!(kind.name);
    // Its name is made of the maker's.
    let name = stored_name(object.meta()?);
    let metadata = &mut made["metadata"];
    metadata["generateName"] = json!(format!("{name}-"));
    metadata["namespace"] = json!(admitted.namespace);
    if let Some(key) = maker.mark.as_ref().and_then(TemplateMark::written) {
        metadata["labels"][key] = json!(STAND_IN_REVISION);
    }
    let made = admit::create(kind, &made, cluster).ok()?;
    let itself = Reference {
        api_version: admitted.kind.api_version(),
        kind: admitted.kind.name.to_owned(),
        name,
        uid: STAND_IN_UID.to_owned(),
    };
    made.errors.is_empty().then_some((made, itself))
}

/// A child as the reconciler would see it, where it is a pod of a gang.
fn seen(child: &Value, cluster: &Snapshot) -> Option<SeenPod> {
    let meta: ObjectMeta = serde_json::from_value(child["metadata"].clone()).ok()?;
    SeenPod::read(&meta, PodPhase::Pending, None, None, &cluster.seals)
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
