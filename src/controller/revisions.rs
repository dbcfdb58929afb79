//! The stamps of a workload's stored revisions: a rollout has replicas of templates that the workload
//! itself no longer has.
//!
//! Kubernetes' ControllerRevisions, as the workload's controller keeps them. Whoever may write those
//! says what pods the controller makes; it is no more to say what gang they are in.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::Client;
use kube::api::{Api, ListParams};

use super::cache::stored::Stored;
use crate::gang::StampHash;
use crate::workload::{Facts, Object, SeenPod, Workload, site};

/// A controller keeps a few; more are not read.
const MOST: u32 = 50;

/// How soon the revisions of a workload are listed again, at the earliest: a pod with a stamp of its
/// own must not make a list of every change.
const AGAIN: Duration = Duration::from_secs(5);

/// The stamps that pods carry and their workload does not: only revisions can tell whether they were
/// ever stored.
pub(crate) fn wanted(facts: &Facts, view: &dyn Workload, pods: &[SeenPod]) -> HashSet<StampHash> {
    let plans = || pods.iter().filter(|pod| pod.stamp.is_some());
    if facts.members.revisions.is_none() || plans().next().is_none() {
        return HashSet::new();
    }
    let now = site::carried(view);
    let stamps = plans().map(|pod| pod.stamped);
    stamps.filter(|stamp| !now.contains(stamp)).collect()
}

/// The stamps that the templates in a workload's revisions carry; none for a kind that has none.
pub(crate) async fn stamps(
    client: &Client,
    facts: &Facts,
    namespace: &str,
    name: &str,
    uid: &str,
) -> Result<HashSet<StampHash>, kube::Error> {
    let Some(label) = facts.members.revisions else {
        return Ok(HashSet::new());
    };
    let api: Api<ControllerRevision> = Api::namespaced(client.clone(), namespace);
    let own = ListParams::default().labels(&format!("{label}={name}"));
    let revisions = api.list(&own.limit(MOST)).await?.items;
    let its = |revision: &ControllerRevision| {
        let mut owners = revision.metadata.owner_references.iter().flatten();
        owners.any(|owner| owner.uid == uid)
    };
    let stamps = revisions
        .iter()
        .filter(|revision| its(revision))
        .flat_map(|revision| {
            // It holds the part of the workload that has the templates.
            let text = serde_json::to_string(&revision.data).unwrap_or_default();
            let object = Object::read(facts.kind, &text);
            object.workload().map(site::carried).unwrap_or_default()
        });
    Ok(stamps.collect())
}

/// The stamps of workloads whose pods carry one that the workload does not, by the workload's uid.
#[derive(Default)]
pub(super) struct Revisions(Mutex<Known>);

/// When they were listed, and what they carry.
type Known = HashMap<String, (Instant, Arc<HashSet<StampHash>>)>;

impl Revisions {
    /// What a workload's revisions carry, where one of its pods needs it.
    pub(super) async fn of(
        &self,
        client: &Client,
        facts: &Facts,
        workload: &Stored,
        view: &dyn Workload,
        pods: &[SeenPod],
    ) -> Arc<HashSet<StampHash>> {
        let wanted = wanted(facts, view, pods);
        if wanted.is_empty() {
            self.forget(workload.uid());
            return Arc::default();
        }
        let all = |known: &HashSet<StampHash>| wanted.iter().all(|stamp| known.contains(stamp));
        if let Some((listed, known)) = self.known(workload.uid())
            && (all(&known) || listed.elapsed() < AGAIN)
        {
            return known;
        }
        let (namespace, name, uid) = (workload.namespace(), workload.name(), workload.uid());
        match stamps(client, facts, namespace, name, uid).await {
            Ok(stamps) => {
                let stamps = Arc::new(stamps);
                let listed = (Instant::now(), Arc::clone(&stamps));
                self.lock().insert(uid.to_owned(), listed);
                stamps
            }
            Err(error) => {
                tracing::warn!(namespace, name, %error, "cannot list the revisions");
                Arc::default()
            }
        }
    }

    fn known(&self, uid: &str) -> Option<(Instant, Arc<HashSet<StampHash>>)> {
        self.lock().get(uid).cloned()
    }

    pub(super) fn forget(&self, uid: &str) {
        self.lock().remove(uid);
    }

    pub(super) fn keep_only(&self, uids: &HashSet<String>) {
        self.lock().retain(|uid, _| uids.contains(uid));
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
