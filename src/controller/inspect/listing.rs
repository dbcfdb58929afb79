//! What the cluster shows of the workloads of one kind, listed once: their pods, and what Muster made
//! for them. Bounded, and what lies beyond the bound is said.

use std::collections::{HashMap, HashSet};

use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::Resource;
use kube::api::{Api, ListParams};
use kube::core::{ApiResource, DynamicObject, DynamicResourceScope, PartialObjectMeta, TypeMeta};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::unseen::Unseen;
use crate::controller::barriers::waiters::{self, Waiter, WaitingPod};
use crate::controller::cache::stored::Stored;
use crate::controller::observe::{self, WatchedPod};
use crate::controller::pages;
use crate::controller::watched_kind;
use crate::controller::write::resource;
use crate::gang::{Seals, keys};
use crate::workload::facts::Watched;
use crate::workload::{Facts, SeenPod, pods};

/// Where to look.
#[derive(Debug, Clone, Copy)]
pub(super) enum Scope<'a> {
    /// In one namespace, or in all.
    In(Option<&'a str>),
    /// At one workload: its namespace, and what its members know it by.
    Workload {
        namespace: &'a str,
        known_as: &'a str,
    },
}

impl<'a> Scope<'a> {
    fn namespace(self) -> Option<&'a str> {
        match self {
            Self::In(namespace) => namespace,
            Self::Workload { namespace, .. } => Some(namespace),
        }
    }
}

/// Namespace, and what a workload is known by.
type Key = (String, String);

/// What is seen of the workloads of one kind.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pods: HashMap<Key, Vec<SeenPod>>,
    /// The uids of pods that run.
    pub(super) running: HashSet<String>,
    waiters: HashMap<Key, Vec<Waiter>>,
    made: HashMap<Key, Vec<DynamicObject>>,
    /// The kinds of objects that could not be listed: of those nothing is known to be missing.
    pub(super) unlisted: HashSet<String>,
    /// What opens start barriers could not be listed.
    pub(super) barriers_unlisted: bool,
    /// The pods themselves, where they stand for their workload.
    pub(super) declaring: Vec<Stored>,
    /// Whether pods could be listed: of how gangs stand nothing is known otherwise.
    pub(super) pods_seen: PodsSeen,
}

/// Whether whoever looks may see pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum PodsSeen {
    #[default]
    Yes,
    No,
}

impl Listing {
    /// The pods of a workload.
    pub(super) fn pods(&mut self, facts: &Facts, workload: &Stored) -> Vec<SeenPod> {
        let key = watched_kind::known_as(facts, workload).to_owned();
        let pods = self.pods.remove(&(workload.namespace().to_owned(), key));
        pods.unwrap_or_default()
    }

    /// Its pods at its start barrier.
    pub(super) fn waiters(&mut self, facts: &Facts, workload: &Stored) -> Vec<Waiter> {
        let key = watched_kind::known_as(facts, workload).to_owned();
        let waiters = self.waiters.remove(&(workload.namespace().to_owned(), key));
        waiters.unwrap_or_default()
    }

    /// What Muster made for it.
    pub(super) fn made(&mut self, facts: &Facts, workload: &Stored) -> Vec<DynamicObject> {
        let key = watched_kind::object_key(facts, workload).to_owned();
        let made = self.made.remove(&(workload.namespace().to_owned(), key));
        made.unwrap_or_default()
    }

    async fn list_pods(
        &mut self,
        client: &Client,
        facts: &'static Facts,
        seals: &Seals,
        scope: Scope<'_>,
        unseen: &mut Unseen,
    ) -> Result<(), kube::Error> {
        let label = watched_kind::owner_label(facts);
        let within = |selected: String| match scope {
            Scope::In(_) => selected,
            Scope::Workload { known_as, .. } => format!("{selected},{label}={known_as}"),
        };
        let selector = within(watched_kind::members(facts));
        let kind = resource("", "v1", "Pod");
        match facts.watched {
            Watched::ByMembers => {
                let api: Api<Stored> = api(client, scope.namespace(), &kind);
                let pods = all(&api, &selector, "pods", unseen).await?;
                for pod in &pods {
                    if let Some(seen) = pods::seen(pod.text(), pod.namespace()) {
                        let gang = seen.gang.workload.clone();
                        let phase = phase(pod.text());
                        self.note(&gang, pod.namespace(), seen, phase.as_deref());
                    }
                }
                self.declaring = pods;
            }
            Watched::All | Watched::Labelled => {
                let api: Api<WatchedPod> = api(client, scope.namespace(), &kind);
                for pod in all(&api, &selector, "pods", unseen).await? {
                    let labels = pod.metadata.labels.as_ref();
                    let owner = labels.and_then(|labels| labels.get(label));
                    let status = pod.status.as_ref();
                    let phase = status.and_then(|status| status.phase.as_deref());
                    if let (Some(owner), Some(seen)) = (owner, observe::read(&pod, seals)) {
                        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
                        self.note(owner, namespace, seen, phase);
                    }
                }
            }
        }
        let Some(selector) = watched_kind::waiters(facts).map(within) else {
            return Ok(());
        };
        let api: Api<WaitingPod> = api(client, scope.namespace(), &kind);
        for pod in all(&api, &selector, "pods", unseen).await? {
            let labels = pod.metadata.labels.as_ref();
            let owner = labels.and_then(|labels| labels.get(label));
            if let (Some(owner), Some(waiter)) =
                (owner, waiters::read(&pod, seals, Timestamp::now()))
            {
                let namespace = pod.metadata.namespace.clone().unwrap_or_default();
                let key = (namespace, owner.clone());
                self.waiters.entry(key).or_default().push(waiter);
            }
        }
        Ok(())
    }

    /// What says of barriers that they are open, or that nobody waits any longer.
    async fn list_barriers(
        &mut self,
        client: &Client,
        facts: &Facts,
        scope: Scope<'_>,
        unseen: &mut Unseen,
    ) {
        // A label says it; of what else one holds, which may be a megabyte, nothing is kept.
        type Labels = PartialObjectMeta<DynamicObject>;
        let kind = resource("", "v1", "ConfigMap");
        let api: Api<Labels> = api(client, scope.namespace(), &kind);
        let selector = format!("{},{}", watched_kind::objects(facts), keys::BARRIER);
        match all(&api, &selector, &kind.plural, unseen).await {
            Ok(objects) => {
                let objects = objects.into_iter().map(|object| DynamicObject {
                    types: Some(TypeMeta {
                        api_version: kind.api_version.clone(),
                        kind: kind.kind.clone(),
                    }),
                    metadata: object.metadata,
                    data: Value::Null,
                });
                self.note_made(facts, objects);
            }
            Err(error) => {
                self.barriers_unlisted = true;
                // Whoever has no barrier need not know.
                if !self.waiters.is_empty() {
                    unseen.push(&kind.plural, &error);
                }
            }
        }
    }

    fn note_made(&mut self, facts: &Facts, objects: impl IntoIterator<Item = DynamicObject>) {
        for object in objects {
            let namespace = object.metadata.namespace.clone().unwrap_or_default();
            for key in watched_kind::made_for(facts, &object.metadata) {
                let made = self.made.entry((namespace.clone(), key)).or_default();
                made.push(object.clone());
            }
        }
    }

    fn note(&mut self, owner: &str, namespace: &str, pod: SeenPod, phase: Option<&str>) {
        if phase == Some("Running") {
            self.running.insert(pod.uid.clone());
        }
        let key = (namespace.to_owned(), owner.to_owned());
        self.pods.entry(key).or_default().push(pod);
    }
}

/// Whether the apiserver does not allow it.
pub(super) fn is_forbidden(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 403)
}

/// Lists what `scope` has of a kind. Who may not list pods gets all but these.
pub(super) async fn list(
    client: &Client,
    facts: &'static Facts,
    made: &[ApiResource],
    seals: &Seals,
    scope: Scope<'_>,
    unseen: &mut Unseen,
) -> Result<Listing, kube::Error> {
    let mut listing = Listing::default();
    if let Err(error) = listing.list_pods(client, facts, seals, scope, unseen).await {
        if !is_forbidden(&error) {
            return Err(error);
        }
        unseen.push("pods", &error);
        listing.pods_seen = PodsSeen::No;
    }
    let ours = watched_kind::objects(facts);
    for kind in made {
        let api: Api<DynamicObject> = api(client, scope.namespace(), kind);
        match all(&api, &ours, &kind.plural, unseen).await {
            Ok(objects) => listing.note_made(facts, objects),
            Err(error) => {
                unseen.push(&kind.plural, &error);
                listing.unlisted.insert(kind.kind.clone());
            }
        }
    }
    if watched_kind::waiters(facts).is_some() {
        listing.list_barriers(client, facts, scope, unseen).await;
    }
    Ok(listing)
}

/// The workloads of a kind that the reconciler looks at; of one that is no object, none.
pub(super) async fn workloads(
    client: &Client,
    facts: &Facts,
    namespace: Option<&str>,
    unseen: &mut Unseen,
) -> Result<Vec<Stored>, kube::Error> {
    let api: Api<Stored> = api(client, namespace, &watched_kind::api_resource(facts));
    let selector = watched_kind::workloads(facts).label_selector;
    let selector = selector.unwrap_or_default();
    all(&api, &selector, facts.kind.plural, unseen).await
}

/// All objects that a selector finds, up to a bound.
pub(super) async fn all<K>(
    api: &Api<K>,
    selector: &str,
    what: &str,
    unseen: &mut Unseen,
) -> Result<Vec<K>, kube::Error>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    /// A status of more is not read by anybody.
    const MOST: usize = 20_000;
    let mut found = Vec::new();
    let mut page = ListParams::default().labels(selector).limit(pages::PAGE);
    loop {
        let mut listed = api.list(&page).await?;
        found.append(&mut listed.items);
        let more = listed.metadata.continue_.filter(|more| !more.is_empty());
        match more {
            Some(_) if found.len() >= MOST => {
                unseen.beyond(what, found.len());
                return Ok(found);
            }
            Some(more) => page = page.continue_token(&more),
            None => return Ok(found),
        }
    }
}

/// One namespace, or all.
pub(super) fn api<K>(client: &Client, namespace: Option<&str>, kind: &ApiResource) -> Api<K>
where
    K: Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>,
{
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, kind),
        None => Api::all_with(client.clone(), kind),
    }
}

fn phase(pod: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Pod {
        status: Option<Status>,
    }
    #[derive(Deserialize)]
    struct Status {
        phase: Option<String>,
    }
    serde_json::from_str::<Pod>(pod).ok()?.status?.phase
}
