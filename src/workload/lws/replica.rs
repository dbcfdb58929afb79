//! A replica: a leader and its workers, which are one gang, or two where the workers come later.
//!
//! Its pods carry no uid of their set, and a replica that is recreated keeps its name, its index and
//! its revision. What tells two generations of a replica apart is LeaderWorkerSet's group key: its
//! controller copies the leader's to the workers, and its webhook keeps one that is there. So Muster
//! gives each leader a key of its own when it is created, and a recreated replica is a new gang,
//! whatever pods of the old one are still being deleted.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use super::stamp::{Order, revision};
use crate::gang::link::{LinkKey, LinkPlace, LinkWriter};
use crate::gang::{
    ControllerLabels, FieldError, Identity, Member, PartName, Round, SchedulerKind, Stamp,
};
use crate::scheduler;
use crate::workload::child::{Marked, label_path};
use crate::workload::facts::{Arrival, Prepared};
use crate::workload::keys;
use crate::workload::seen::LinkState;

pub(crate) const NAME: &str = "leaderworkerset.sigs.k8s.io/name";
pub(crate) const REVISION: &str = "leaderworkerset.sigs.k8s.io/template-revision-hash";
pub(crate) const GROUP_INDEX: &str = "leaderworkerset.sigs.k8s.io/group-index";
/// The label that the pods of one generation of a replica share.
pub const GROUP_KEY: &str = "leaderworkerset.sigs.k8s.io/group-key";
pub(crate) const SUBGROUP_KEY: &str = "leaderworkerset.sigs.k8s.io/subgroup-key";
/// `0` on leaders, from the template; on workers LeaderWorkerSet's webhook writes it.
pub const WORKER_INDEX: &str = "leaderworkerset.sigs.k8s.io/worker-index";
/// On pods whose group key LeaderWorkerSet draws itself (KEP-898).
const GROUP_IDENTITY: &str = "leaderworkerset.sigs.k8s.io/group-identity";
/// On pods that LeaderWorkerSet gangs itself (KEP-666).
const OWN_GANG: &str = "leaderworkerset.sigs.k8s.io/workload-aware-scheduling";

/// The labels that LeaderWorkerSet (v0.9), StatefulSets and Muster write on pods.
pub(crate) const CONTROLLER_LABELS: ControllerLabels = ControllerLabels {
    workload: &[NAME],
    gang: &[GROUP_INDEX, GROUP_KEY, REVISION, keys::GANG],
    job: &[],
    pod: &[
        WORKER_INDEX,
        "leaderworkerset.sigs.k8s.io/subgroup-index",
        SUBGROUP_KEY,
        "apps.kubernetes.io/pod-index",
        "statefulset.kubernetes.io/pod-name",
    ],
};

/// The one part of a plan whose pods are all made at once; on templates and pods the value of
/// `muster.dev/gang`, also where a replica is two gangs.
pub(crate) const REPLICA: &str = "replica";
pub(crate) const LEADER: &str = "leader";
pub(crate) const WORKERS: &str = "workers";

/// The length of LeaderWorkerSet's own keys.
const KEY_LENGTH: usize = 40;

fn is_leader(meta: &dyn Marked) -> bool {
    meta.label(WORKER_INDEX) == Some("0")
}

/// The scheduler that LeaderWorkerSet has ganged the pod on itself: there Muster leaves the pod
/// alone, and on another scheduler that link means nothing.
fn ganged_on(meta: &dyn Marked) -> Option<SchedulerKind> {
    if meta.annotation(OWN_GANG).is_some() {
        let mut fields = own_links(LinkPlace::Field);
        return fields.next().map(|link| link.scheduler);
    }
    let theirs = [NAME, GROUP_INDEX, REVISION].map(|key| meta.label(key).unwrap_or_default());
    let theirs = theirs.join("-");
    let mut links = own_links(LinkPlace::Annotation);
    let link = links.find(|link| meta.annotation(link.key) == Some(&theirs))?;
    Some(link.scheduler)
}

/// The links that LeaderWorkerSet writes itself on the schedulers that it knows.
fn own_links(place: LinkPlace) -> impl Iterator<Item = LinkKey> {
    let theirs = move |link: &LinkKey| link.writer == LinkWriter::ControllersToo;
    scheduler::links()
        .filter(theirs)
        .filter(move |link| link.place == place)
}

/// Whether Muster has linked a pod: it may come from LeaderWorkerSet with a gang of its own, or
/// have been created while Muster's webhooks were not called.
pub(crate) fn link(meta: &dyn Marked) -> LinkState {
    let mut links = own_links(LinkPlace::Annotation);
    if meta.label(keys::INDEX).is_some() {
        LinkState::Linked
    } else if meta.annotation(OWN_GANG).is_some()
        || links.any(|link| meta.annotation(link.key).is_some())
    {
        LinkState::Elsewhere
    } else {
        LinkState::Missing
    }
}

/// Leaders come twice: before LeaderWorkerSet's webhook, for a key of their own, and after it, when
/// their index is known too.
pub(crate) fn prepare(pod: &Arrival<'_>) -> Prepared {
    let meta = pod.meta;
    if let Some(theirs) = ganged_on(meta)
        && pod.scheduler == Some(theirs.as_str())
    {
        return Prepared::LeftAlone(
            "LeaderWorkerSet makes this pod's gang itself: Muster leaves it alone",
        );
    }
    let raw = meta.label(GROUP_INDEX).is_none();
    let (known, fresh) = (meta.label(GROUP_KEY).is_some(), fresh_key(pod));
    let has_key = known || fresh.is_some();
    let labels: BTreeMap<_, _> = fresh.map(|key| (GROUP_KEY, key)).into_iter().collect();
    if raw || !has_key {
        Prepared::TooEarly(labels)
    } else if labels.is_empty() {
        Prepared::Known
    } else {
        Prepared::Labelled(labels)
    }
}

/// A key for a leader that has none yet, and gets none from LeaderWorkerSet.
fn fresh_key(pod: &Arrival<'_>) -> Option<String> {
    let meta = pod.meta;
    if meta.label(GROUP_KEY).is_some()
        || !is_leader(meta)
        || meta.annotation(GROUP_IDENTITY).is_some()
    {
        return None;
    }
    let mut hash = Sha256::new();
    hash.update(pod.request);
    hash.update(pod.name);
    let digest = hash.finalize();
    let mut key: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    key.truncate(KEY_LENGTH);
    Some(key)
}

/// Who a stamped pod is.
pub(crate) fn identify(
    pod: &dyn Marked,
    namespace: &str,
    mut stamp: Stamp,
    _round: Round,
) -> Result<Member, Vec<FieldError>> {
    let mut errors = Vec::new();
    let labels = [NAME, GROUP_INDEX, REVISION, GROUP_KEY].map(|key| {
        let value = pod.label(key);
        if value.is_none() {
            let detail = "the gang's identity needs it; LeaderWorkerSet writes it, and its webhook \
                          must run before Muster's";
            errors.push(FieldError::required(label_path(key), detail));
        }
        value.unwrap_or_default()
    });
    if !errors.is_empty() {
        return Err(errors);
    }
    let [name, index, revision_hash, key] = labels;
    let identity = |part: &str| Identity {
        namespace: namespace.to_owned(),
        workload: name.to_owned(),
        uid: key.to_owned(),
        part: PartName::new(part),
        // A key is an index too where groups have no numbers (KEP-898).
        index: index.parse().ok(),
        revision: Some(revision_hash.to_owned()),
        ..Identity::default()
    };
    let role = if is_leader(pod) { LEADER } else { WORKERS };
    let (part, replica) = match revision(&stamp).order {
        Order::Together => (REPLICA, None),
        Order::LeaderFirst => {
            let others = stamp.size.saturating_sub(1);
            stamp.size = if role == LEADER { 1 } else { others };
            stamp.quorum = stamp.size;
            (role, Some(identity(REPLICA)))
        }
    };
    let mut member = Member::new(identity(part), stamp);
    member.role = Some(role);
    member.replica = replica;
    Ok(member)
}
