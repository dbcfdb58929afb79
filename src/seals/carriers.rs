//! Workloads that are asked which stamps their stored templates carry: each when a child of it comes
//! whose seal is not known, and for a while.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use tokio::time::Instant;

use crate::controller::revisions;
use crate::gang::{Asked, Carried, Carrier, StampHash, Vouched};
use crate::workload::{Facts, Object, object, site};

/// How long the word of a workload for a stamp holds.
const HOLDS: Duration = Duration::from_secs(5 * 60);

/// How long its word against one holds: it may change, and a child may be there before its workload is
/// seen everywhere.
const DENIES: Duration = Duration::from_secs(10);

/// How many are remembered; the oldest goes first.
const MOST: usize = 1_000;

/// An answer of the apiserver that takes longer is given up.
const PATIENCE: Duration = Duration::from_secs(2);

/// After each that is asked: whoever invents workloads must not burden the apiserver.
const PAUSE: Duration = Duration::from_millis(50);

/// The workloads that were asked, and when.
#[derive(Default)]
pub(super) struct Carriers(HashMap<Carrier, (Carried, Instant)>);

impl Carriers {
    /// Notes what a workload carries.
    pub(super) fn note(&mut self, carrier: Carrier, carried: HashSet<StampHash>, now: Instant) {
        self.0.retain(|_, (_, asked)| now < *asked + HOLDS);
        if self.0.len() >= MOST {
            let oldest = self.0.iter().min_by_key(|(_, (_, asked))| *asked);
            if let Some(oldest) = oldest.map(|(carrier, _)| carrier.clone()) {
                self.0.remove(&oldest);
            }
        }
        self.0.insert(carrier, (Arc::new(carried), now));
    }

    /// What all of them say now.
    pub(super) fn vouched(&self, now: Instant) -> Vouched {
        let lately = |asked: Instant| now < asked + DENIES;
        let words = self.0.iter();
        let carried = words.clone();
        let carried = carried.map(|(carrier, (carried, _))| (carrier.clone(), carried.clone()));
        let lately = words.filter(|(_, (_, asked))| lately(*asked));
        Vouched::Asked(Arc::new(Asked {
            carried: carried.collect(),
            lately: lately.map(|(carrier, _)| carrier.clone()).collect(),
        }))
    }

    /// When that changes by itself.
    pub(super) fn changes_at(&self, now: Instant) -> Option<Instant> {
        let ends = self.0.values().map(|(_, asked)| *asked + DENIES);
        ends.filter(|end| *end > now).min()
    }
}

/// The stamps that a stored workload carries, with those of its revisions; none where it does not
/// exist, and `None` where nobody can tell.
pub(super) async fn ask(client: Client, carrier: Carrier) -> (Carrier, Option<HashSet<StampHash>>) {
    let asked = tokio::time::timeout(PATIENCE, read(&client, &carrier)).await;
    tokio::time::sleep(PAUSE).await;
    let trouble = match asked {
        Ok(Ok(carried)) => return (carrier, Some(carried)),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "the apiserver is slow".to_owned(),
    };
    let (kind, workload) = (carrier.kind, &carrier.workload);
    tracing::warn!(kind, %workload, trouble, "cannot read the workload of a child");
    (carrier, None)
}

async fn read(client: &Client, carrier: &Carrier) -> Result<HashSet<StampHash>, kube::Error> {
    let Some(facts) = object::workloads().find(|facts| facts.kind.name == carrier.kind) else {
        return Ok(HashSet::new());
    };
    let kind = facts.kind;
    let kind = GroupVersionKind::gvk(kind.group, kind.version, kind.name);
    let kind = ApiResource::from_gvk(&kind);
    let (namespace, name) = (carrier.workload.namespace(), carrier.workload.name());
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &kind);
    let Some(found) = api.get_opt(name).await? else {
        return Ok(HashSet::new());
    };
    let uid = found.metadata.uid.clone().unwrap_or_default();
    let mut all = carried(facts, &serde_json::to_string(&found).unwrap_or_default());
    all.extend(revisions::stamps(client, facts, namespace, name, &uid).await?);
    Ok(all)
}

fn carried(facts: &Facts, text: &str) -> HashSet<StampHash> {
    let object = Object::read(facts.kind, text);
    object.workload().map(site::carried).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gang::WorkloadRef;
    use crate::gang::vouched::Word;

    #[test]
    fn a_word_for_a_stamp_holds_long_and_one_against_it_a_moment() {
        let carrier = Carrier {
            kind: "Thing",
            workload: WorkloadRef::new("ml", "train"),
        };
        let (good, other) = (StampHash::of("a", "{}"), StampHash::of("b", "{}"));
        let (start, mut carriers) = (Instant::now(), Carriers::default());
        carriers.note(carrier.clone(), HashSet::from([good]), start);
        let word = |after: u64, stamp| {
            let now = start + Duration::from_secs(after);
            carriers.vouched(now).of(&carrier, stamp)
        };
        assert_eq!(word(0, good), Word::Carried);
        assert_eq!(word(0, other), Word::Denied);
        assert_eq!(word(10, other), Word::NotAsked);
        assert_eq!(word(290, good), Word::Carried);
        assert_eq!(carriers.changes_at(start), Some(start + DENIES));
        assert_eq!(carriers.changes_at(start + DENIES), None);
    }

    #[test]
    fn the_oldest_of_too_many_is_forgotten() {
        let mut carriers = Carriers::default();
        let now = Instant::now();
        for number in 0..=MOST as u64 {
            let carrier = Carrier {
                kind: "Thing",
                workload: WorkloadRef::new("ml", &format!("w{number}")),
            };
            carriers.note(carrier, HashSet::new(), now + Duration::from_micros(number));
        }
        assert_eq!(carriers.0.len(), MOST);
        let names = carriers.0.keys().map(|carrier| carrier.workload.name());
        assert!(names.into_iter().all(|name| name != "w0"));
    }
}
