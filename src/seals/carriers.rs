//! Workloads that are asked which stamps their stored templates carry: each when a child of it comes
//! whose seal is not known, and for a while.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use tokio::time::Instant;

use crate::gang::{Carried, Carrier, StampHash, Vouched};
use crate::workload::{Facts, Object, object, site};

/// How long the word of a workload that carries stamps holds. Long, since most are never changed.
const HOLDS: Duration = Duration::from_secs(5 * 60);

/// How long the word of one holds that carries none, or does not exist. Its child may be there before
/// it is seen everywhere.
const DENIES: Duration = Duration::from_secs(10);

/// How many are remembered; the oldest goes first.
const MOST: usize = 1_000;

/// An answer of the apiserver that takes longer is given up.
const PATIENCE: Duration = Duration::from_secs(2);

/// Between two that are asked: whoever invents workloads must not burden the apiserver.
const PAUSE: Duration = Duration::from_millis(20);

/// The workloads that were asked.
#[derive(Default)]
pub(super) struct Carriers(HashMap<Carrier, (Carried, Instant)>);

impl Carriers {
    /// Asks a workload, and returns what all that were asked say.
    pub(super) async fn ask(&mut self, client: &Client, carrier: Carrier) -> Vouched {
        let now = Instant::now();
        self.forget(now);
        if !self.0.contains_key(&carrier) {
            let asked = tokio::time::timeout(PATIENCE, ask(client, &carrier)).await;
            tokio::time::sleep(PAUSE).await;
            match asked {
                Ok(Ok(carried)) => self.note(carrier, carried, now),
                Ok(Err(error)) => {
                    tracing::warn!(kind = carrier.kind, workload = %carrier.workload, %error, "cannot read the workload of a child");
                }
                Err(_) => tracing::warn!(workload = %carrier.workload, "the apiserver is slow"),
            }
        }
        self.vouched()
    }

    fn note(&mut self, carrier: Carrier, carried: HashSet<StampHash>, now: Instant) {
        let holds = if carried.is_empty() { DENIES } else { HOLDS };
        self.0.insert(carrier, (Arc::new(carried), now + holds));
    }

    /// Drops what no longer holds, and makes room for one.
    fn forget(&mut self, now: Instant) {
        self.0.retain(|_, (_, until)| *until > now);
        if self.0.len() >= MOST {
            let oldest = self.0.iter().min_by_key(|(_, (_, until))| *until);
            if let Some(oldest) = oldest.map(|(carrier, _)| carrier.clone()) {
                self.0.remove(&oldest);
            }
        }
    }

    fn vouched(&self) -> Vouched {
        let words = self.0.iter();
        let words = words.map(|(carrier, (carried, _))| (carrier.clone(), Arc::clone(carried)));
        Vouched::Asked(Arc::new(words.collect()))
    }
}

/// The stamps that a stored workload carries; none where it does not exist.
async fn ask(client: &Client, carrier: &Carrier) -> Result<HashSet<StampHash>, kube::Error> {
    let Some(facts) = object::workloads().find(|facts| facts.kind.name == carrier.kind) else {
        return Ok(HashSet::new());
    };
    let kind = facts.kind;
    let kind = GroupVersionKind::gvk(kind.group, kind.version, kind.name);
    let kind = ApiResource::from_gvk(&kind);
    let namespace = carrier.workload.namespace();
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &kind);
    let found = api.get_opt(carrier.workload.name()).await?;
    let text = found.and_then(|found| serde_json::to_string(&found).ok());
    Ok(text.map_or_else(HashSet::new, |text| carried(facts, &text)))
}

fn carried(facts: &Facts, text: &str) -> HashSet<StampHash> {
    let object = Object::read(facts.kind, text);
    object.workload().map(site::carried).unwrap_or_default()
}
