//! What is seen of the pods of gangs. Plain data, stripped to what a decision needs.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;

use super::child::{self, Proof, identify};
use super::pods::{self, Own, PodStamp};
use crate::gang::standing::{DeclaredPod, Presence};
use crate::gang::{Ask, Identity, Seals, Stamp, StampHash, Unscheduled};

/// A member of a gang, as the reconciler sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenPod {
    /// The pod's uid.
    pub uid: String,
    /// Its gang, in the round that it was made in. Pods of one gang share it.
    pub gang: Arc<Identity>,
    /// Its role, where its template does not tell it.
    pub role: Option<&'static str>,
    /// Its stamp, where its gang's objects are made from that.
    pub stamp: Option<Arc<Stamp>>,
    /// Which stamp it carries: what its gang's objects are made from must be stored.
    pub stamped: StampHash,
    /// Whether that stamp has a seal.
    pub sealed: Sealed,
    /// Whether it is linked to its gang.
    pub link: LinkState,
    /// How far it is.
    pub phase: PodPhase,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// It is being deleted.
    pub going: bool,
    /// Why the scheduler has not placed it, in its own words.
    pub unscheduled: Option<Unscheduled>,
    /// What it asks of a node, while it waits for one.
    pub ask: Option<Arc<Ask>>,
    /// What keeps it from running although it is on a node.
    pub ailment: Option<Ailment>,
    /// What is known of it alone, where it declares its gang itself.
    pub own: Option<Arc<Own>>,
}

impl SeenPod {
    /// Reads a stored pod of the namespace `home` that declares its gang itself; `None` for any other.
    pub(crate) fn declaring(text: &str, home: &str) -> Option<Self> {
        pods::seen(text, home)
    }

    /// What admission knows of it then.
    pub(crate) fn declared(&self) -> Option<DeclaredPod> {
        let own = self.own.as_ref()?;
        let gone = self.going || !self.phase.is_live();
        Some(DeclaredPod {
            namespace: self.gang.namespace.clone(),
            gang: self.gang.workload.clone(),
            pod: own.pod.clone(),
            round: self.gang.round,
            presence: match gone {
                true => Presence::Leaving,
                false => Presence::Here,
            },
            created: self.created,
            terms: PodStamp::of(self.stamp.as_deref()?).terms,
        })
    }

    /// Reads a member from its metadata: by the same labels and stamp as admission. `None` for a
    /// pod that does not tell its gang.
    pub(crate) fn read(
        meta: &ObjectMeta,
        phase: PodPhase,
        unscheduled: Option<Unscheduled>,
        ask: Option<Arc<Ask>>,
        seals: &Seals,
    ) -> Option<Self> {
        let parent = child::parent(meta)?;
        let stamp = child::stamp(meta).ok()?;
        let plans = parent.members.plans;
        let kept = plans.map(|_| Arc::new(stamp.clone()));
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        let sealed = match child::proof(meta, namespace, seals)? {
            Proof::Sealed => Sealed::Yes,
            Proof::Unsealed(..) | Proof::None => Sealed::No,
        };
        let stamped = child::stamp_hash(meta);
        let member = identify(meta, namespace, stamp, child::round(meta)).ok()?;
        Some(Self {
            uid: meta.uid.clone().unwrap_or_default(),
            gang: Arc::new(member.identity().clone()),
            role: member.role,
            stamp: kept.filter(|_| member.role == plans),
            stamped,
            sealed,
            link: (parent.members.link)(meta),
            phase,
            created: meta.creation_timestamp.as_ref().map(|time| time.0),
            going: meta.deletion_timestamp.is_some(),
            unscheduled,
            ask,
            ailment: None,
            own: None,
        })
    }
}

#[cfg(test)]
impl SeenPod {
    /// A linked pod that waits.
    pub(crate) fn example() -> Self {
        Self {
            uid: "4d1c".to_owned(),
            gang: Arc::default(),
            role: None,
            stamp: None,
            stamped: StampHash::default(),
            sealed: Sealed::Yes,
            link: LinkState::Linked,
            phase: PodPhase::Pending,
            created: None,
            going: false,
            unscheduled: None,
            ask: None,
            ailment: None,
            own: None,
        }
    }
}

/// What keeps a pod from running that is on a node, as far as it is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ailment {
    /// An image of it cannot be pulled.
    NoImage,
}

/// Whether a stamp has a seal that is known here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sealed {
    /// Muster has sealed it for this pod's workload.
    Yes,
    /// Its workload must carry it too. Else the pod is no member of anything.
    No,
}

/// Whether Muster has linked a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkState {
    /// By Muster, when it was created.
    Linked,
    /// Its workload's controller gangs it itself.
    Elsewhere,
    /// It was created while Muster's webhooks were not called.
    Missing,
}

/// A pod's phase, as far as a gang cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodPhase {
    /// Not on a node yet.
    Pending,
    /// On a node, and not finished.
    Bound,
    /// Finished well.
    Succeeded,
    /// Finished with an error.
    Failed,
}

impl PodPhase {
    /// From the phase as the API says it, and the node.
    pub(crate) fn of(phase: Option<&str>, node: Option<&str>) -> Self {
        match (phase, node) {
            (Some("Succeeded"), _) => Self::Succeeded,
            (Some("Failed"), _) => Self::Failed,
            (_, Some(_)) => Self::Bound,
            (_, None) => Self::Pending,
        }
    }

    /// Whether the pod still counts for its gang's objects.
    pub(crate) fn is_live(self) -> bool {
        matches!(self, Self::Pending | Self::Bound)
    }
}
