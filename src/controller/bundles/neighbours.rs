//! The workloads of all kinds, as far as bundles reach: where those of a kind are found, and who is
//! looked at again when one changes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::channel::mpsc;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher::{self, Event};

use super::partner_index::PartnerIndex;
use super::partners::{self, Found, Partner};
use crate::controller::cache::by_owner::ByOwner;
use crate::controller::cache::stored::Stored;
use crate::controller::watched_kind::{api_resource, known_as};
use crate::gang::PartnerRef;
use crate::scheduler::Snapshot;
use crate::workload::{Facts, SeenPod, Workload};

/// The kinds that are watched.
#[derive(Default)]
pub struct Neighbours {
    kinds: Mutex<HashMap<&'static str, Neighbour>>,
    index: Mutex<PartnerIndex>,
}

/// The workloads of one kind.
#[derive(Clone)]
struct Neighbour {
    facts: &'static Facts,
    stored: Store<Stored>,
    pods: Arc<ByOwner<SeenPod>>,
    /// Workloads that are to be looked at.
    sender: mpsc::UnboundedSender<ObjectRef<Stored>>,
}

impl Neighbours {
    /// Adds a kind; the workloads of it that are to be looked at because of others are received.
    pub(crate) fn join(
        &self,
        facts: &'static Facts,
        stored: Store<Stored>,
        pods: Arc<ByOwner<SeenPod>>,
    ) -> mpsc::UnboundedReceiver<ObjectRef<Stored>> {
        let (sender, receiver) = mpsc::unbounded();
        let neighbour = Neighbour {
            facts,
            stored,
            pods,
            sender,
        };
        self.lock().insert(facts.kind.name, neighbour);
        receiver
    }

    /// When a workload changes, those that name it are looked at too.
    pub(crate) fn follow(&self, facts: &'static Facts, event: &watcher::Result<Event<Stored>>) {
        let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        let told = match event {
            Ok(Event::Apply(workload) | Event::InitApply(workload)) => {
                index.changed(facts.kind, workload)
            }
            Ok(Event::Delete(workload)) => index.gone(facts.kind, workload),
            // A list shows all that exist, and each is looked at. What it does not show is gone.
            Ok(Event::Init) => {
                index.forget_kind(facts.kind);
                Vec::new()
            }
            Ok(Event::InitDone) | Err(_) => Vec::new(),
        };
        drop(index);
        told.iter().for_each(|workload| self.tell(workload));
    }

    /// Has a workload looked at.
    pub(crate) fn tell(&self, workload: &PartnerRef) {
        let found = self.lock().get(workload.kind()).cloned();
        if let Some(neighbour) = found {
            let reference = object_ref(workload, neighbour.facts);
            // Fails only while the reconciler stops.
            let _ = neighbour.sender.unbounded_send(reference);
        }
    }

    /// The workloads that one names, as the caches show them.
    pub(crate) fn look_up(
        &self,
        workload: &dyn Workload,
        namespace: &str,
        cluster: &Snapshot,
    ) -> Vec<Partner> {
        let Some(circle) = partners::circle(workload, namespace) else {
            return Vec::new();
        };
        // In one order, whoever names them.
        let others = circle.sides().into_iter();
        let others = others.filter(|other| *other != circle.itself());
        let look = |other: &PartnerRef| {
            let neighbour = self.lock().get(other.kind()).cloned();
            let found = neighbour.as_ref().and_then(|neighbour| {
                let reference = object_ref(other, neighbour.facts);
                Some((neighbour, neighbour.stored.get(&reference)?))
            });
            let found = found.as_ref().map(|(neighbour, found)| {
                let owner = known_as(neighbour.facts, found);
                Found {
                    facts: neighbour.facts,
                    text: found.text(),
                    pods: neighbour.pods.of(found.namespace(), owner),
                }
            });
            partners::look_at(other.clone(), &circle, found, cluster)
        };
        others.map(look).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<&'static str, Neighbour>> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn object_ref(workload: &PartnerRef, facts: &Facts) -> ObjectRef<Stored> {
    let (kind, workload) = (api_resource(facts), workload.workload());
    ObjectRef::new_with(workload.name(), kind).within(workload.namespace())
}
