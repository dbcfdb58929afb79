//! The watches over workloads of one kind, their pods and what Muster made for them. Each change
//! brings a look (`look.rs`).

use std::collections::HashSet;
use std::fmt::Debug;
use std::sync::Arc;

use futures::StreamExt as _;
use k8s_openapi::jiff::Timestamp;
use kube::api::Api;
use kube::core::{ApiResource, DynamicObject, TypeMeta};
use kube::runtime::reflector::{ObjectRef, store};
use kube::runtime::watcher::Event;
use kube::runtime::{Controller, WatchStreamExt as _, watcher};
use kube::{Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;

use super::Cluster;
use super::backoff::Backoffs;
use super::barriers::stragglers::Stragglers;
use super::barriers::waiters::{self, Waiter, WaitingPod};
use super::bundles::neighbours::Neighbours;
use super::cache::by_owner::{ByOwner, Kept};
use super::cache::stored::Stored;
use super::discovery::Found;
use super::gang_objects;
use super::look::{self, Context};
use super::mend::nudge::Sleepers;
use super::mend::revive::Revivals;
use super::metrics::OfKind;
use super::observe::{self, WatchedPod};
use super::owners::Owners;
use super::pod_gangs::{self, PodGangs};
use super::report::condition::Conditions;
use super::report::events::EventPublisher;
use super::revisions::Revisions;
use super::wanted::Starts;
use super::watched_kind;
use super::witness::Witnesses;
use super::write::{Writer, resource};
use crate::gang::Seals;
use crate::gang::ask::Asks;
use crate::workload::facts::Watched;
use crate::workload::{Facts, SeenPod};

/// A list is read in pages of so many objects: whole pods are large until they are read, and memory
/// that they took once at the start is never given back.
const PAGE: u32 = 50;
/// The same of nodes and the pods on them, of which there are a hundred thousand: smaller pages would be
/// thousands of requests before it can be said whether a gang fits.
pub(super) const LARGE_PAGE: u32 = 500;
/// The same of ConfigMaps: whoever labels one as Muster's may fill it with a megabyte.
const SMALL_PAGE: u32 = 5;

/// What the reconcilers of all kinds share.
pub(super) struct Shared {
    pub(super) client: Client,
    pub(super) cluster: Cluster,
    pub(super) neighbours: Arc<Neighbours>,
    pub(super) witnesses: Arc<Witnesses>,
    pub(super) metrics: OfKind,
}

/// Watches workloads, their members and what Muster made for them, until dropped.
pub(super) async fn run(shared: Shared, found: &Found, facts: &'static Facts) {
    let Shared {
        client,
        cluster,
        neighbours,
        witnesses,
        metrics,
    } = shared;
    let kind = watched_kind::api_resource(facts);
    let writer = store::Writer::new(kind.clone());
    let stored = writer.as_reader();
    let events = Arc::new(EventPublisher::new(client.clone(), kind.clone()));
    let revivals = Arc::new(Revivals::default());
    let revisions = Arc::new(Revisions::default());
    let starts = Arc::new(Starts::default());
    let backoffs = Arc::new(Backoffs::default());
    let pods = Arc::new(ByOwner::default());
    let waiters = Arc::new(ByOwner::default());
    let mut kinds = found.resources();
    let waiting = watched_kind::waiters(facts);
    if waiting.is_some() {
        kinds.push(resource("", "v1", "ConfigMap"));
    }
    let objects: Vec<_> = kinds.iter().map(|_| Arc::new(ByOwner::default())).collect();
    let (gangs, made_up) = PodGangs::new(Arc::clone(&pods), objects.clone());
    let stream = match facts.watched {
        Watched::ByMembers => made_up.boxed(),
        Watched::All | Watched::Labelled => {
            watch::<Stored>(&client, &kind, watched_kind::workloads(facts)).boxed()
        }
    };
    let memories = Arc::new(Memories {
        facts,
        events: Arc::clone(&events),
        revivals: Arc::clone(&revivals),
        revisions: Arc::clone(&revisions),
        starts: Arc::clone(&starts),
        backoffs: Arc::clone(&backoffs),
        witnesses: Arc::clone(&witnesses),
        metrics: metrics.clone(),
    });
    // After the store has lost it: a look that ends later then finds it gone.
    let stream = stream
        .reflect(writer)
        .inspect(Arc::clone(&memories).forget_deleted())
        .inspect({
            let neighbours = Arc::clone(&neighbours);
            move |event| neighbours.follow(facts, event)
        })
        .touched_objects();
    let partners = neighbours.join(facts, stored.clone(), Arc::clone(&pods));
    let mut controller = Controller::for_stream_with(stream, stored.clone(), kind.clone());
    let of = kind.clone();
    controller = controller.reconcile_on(partners);

    let (members, read) = (resource("", "v1", "Pod"), Arc::clone(&pods));
    let selected = watcher::Config::default().labels(&watched_kind::members(facts));
    let asks = Asks::default();
    if facts.watched == Watched::ByMembers {
        let gangs = Arc::clone(&gangs);
        let stream = watch::<Stored>(&client, &members, selected)
            .inspect(move |event| {
                follow(&read, event, |pod| {
                    pod_gangs::keep_pod(pod).map(|kept| share(kept, &asks))
                });
                gangs.pod_changed(event);
            })
            .touched_objects();
        controller = controller.watches_stream_with(stream, nobody::<Stored>, members);
    } else {
        let known = Arc::clone(&cluster);
        let stream = watch(&client, &members, selected)
            .inspect(move |event| {
                follow(&read, event, |pod| {
                    let kept = keep_pod(pod, facts, &known.load().seals);
                    kept.map(|kept| share(kept, &asks))
                })
            })
            .touched_objects();
        let (of, label) = (kind.clone(), facts.members.name);
        let mapper = move |pod: WatchedPod| workload_of(&pod, label, &of);
        controller = controller.watches_stream_with(stream, mapper, members);
    }

    if let Some(selected) = waiting {
        let (members, read) = (resource("", "v1", "Pod"), Arc::clone(&waiters));
        let selected = watcher::Config::default().labels(&selected);
        let known = Arc::clone(&cluster);
        let stream = watch(&client, &members, selected)
            .inspect(move |event| {
                follow(&read, event, |pod| {
                    keep_waiter(pod, facts, &known.load().seals)
                })
            })
            .touched_objects();
        let (of, label) = (kind.clone(), facts.members.name);
        let mapper = move |pod: WaitingPod| workload_of(&pod, label, &of);
        controller = controller.watches_stream_with(stream, mapper, members);
    } else {
        waiters.follow(&Event::<WaitingPod>::InitDone, |_| None);
    }

    for (kind, made) in kinds.into_iter().zip(&objects) {
        let (types, read, gangs) = (types(&kind), Arc::clone(made), Arc::clone(&gangs));
        let ours = watcher::Config::default().labels(&watched_kind::objects(facts));
        let stream = watch::<DynamicObject>(&client, &kind, ours)
            .modify(move |object| {
                // The items of a list do not say what they are.
                object.types = Some(types.clone());
                gang_objects::strip(object);
            })
            .inspect(move |event| {
                follow(&read, event, |object| keep_object(object, facts));
                if facts.watched == Watched::ByMembers {
                    gangs.object_changed(event);
                }
            })
            .touched_objects();
        controller = match facts.watched {
            Watched::ByMembers => {
                controller.watches_stream_with(stream, nobody::<DynamicObject>, kind)
            }
            Watched::All | Watched::Labelled => controller.owns_stream_with(stream, kind),
        };
    }

    let context = Arc::new(Context {
        facts,
        events,
        sleepers: Sleepers::default(),
        conditions: Conditions::default(),
        revivals,
        revisions,
        starts,
        backoffs,
        owners: Owners::new(client.clone()),
        neighbours,
        writer: Writer::new(client.clone(), kind, facts),
        cluster,
        pods,
        waiters,
        witnesses,
        stragglers: Stragglers::default(),
        objects,
        metrics,
    });
    let look_at = |workload: Arc<Stored>, context| {
        let (memories, stored) = (Arc::clone(&memories), stored.clone());
        let named = ObjectRef::from_obj_with(&*workload, of.clone());
        async move {
            let outcome = look::look(Arc::clone(&workload), context).await;
            // It was deleted meanwhile, and forgotten: what the look has remembered would stay.
            let still = stored.get(&named);
            if still.is_none_or(|still| still.uid() != workload.uid()) {
                memories.forget(workload.uid());
            }
            outcome
        }
    };
    let nudges = context.sleepers.run(client, &context.metrics);
    let reconciles = controller
        .run(look_at, look::on_error, Arc::clone(&context))
        .for_each(|result| async move {
            if let Err(error) = result {
                tracing::debug!(%error, "reconcile");
            }
        });
    tokio::select! {
        () = nudges => {}
        () = reconciles => {}
    }
}

pub(super) fn watch<K>(
    client: &Client,
    kind: &ApiResource,
    config: watcher::Config,
) -> impl futures::Stream<Item = watcher::Result<Event<K>>> + use<K>
where
    K: Resource<DynamicType = ApiResource> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let page = match kind.kind.as_str() {
        "ConfigMap" => SMALL_PAGE,
        _ => PAGE,
    };
    watch_in_pages(client, kind, config, page)
}

/// The same, listed at first in pages of so many.
pub(super) fn watch_in_pages<K>(
    client: &Client,
    kind: &ApiResource,
    config: watcher::Config,
    page: u32,
) -> impl futures::Stream<Item = watcher::Result<Event<K>>> + use<K>
where
    K: Resource<DynamicType = ApiResource> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let api: Api<K> = Api::all_with(client.clone(), kind);
    watcher(api, config.page_size(page)).default_backoff()
}

fn follow<K: Resource, T: Clone>(
    kept: &ByOwner<T>,
    event: &watcher::Result<Event<K>>,
    keep: impl Fn(&K) -> Option<Kept<T>>,
) {
    if let Ok(event) = event {
        kept.follow(event, keep);
    }
}

fn keep_pod(pod: &WatchedPod, facts: &Facts, seals: &Seals) -> Option<Kept<SeenPod>> {
    let owner = pod.labels().get(watched_kind::owner_label(facts))?;
    Some(Kept {
        owners: vec![owner.clone()],
        value: observe::read(pod, seals)?,
    })
}

/// Pods of one template share what they ask.
fn share(mut kept: Kept<SeenPod>, asks: &Asks) -> Kept<SeenPod> {
    let ask = kept.value.ask.take();
    kept.value.ask = ask.map(|ask| asks.share(Arc::unwrap_or_clone(ask)));
    kept
}

fn keep_waiter(pod: &WaitingPod, facts: &Facts, seals: &Seals) -> Option<Kept<Waiter>> {
    let owner = pod.labels().get(watched_kind::owner_label(facts))?;
    Some(Kept {
        owners: vec![owner.clone()],
        value: waiters::read(pod, seals, Timestamp::now())?,
    })
}

fn keep_object(object: &DynamicObject, facts: &Facts) -> Option<Kept<Arc<DynamicObject>>> {
    Some(Kept {
        owners: watched_kind::made_for(facts, &object.metadata),
        value: Arc::new(object.clone()),
    })
}

fn types(kind: &ApiResource) -> TypeMeta {
    TypeMeta {
        api_version: kind.api_version.clone(),
        kind: kind.kind.clone(),
    }
}

/// Nobody is looked at because of it: what it belongs to is told by itself.
fn nobody<K>(_: K) -> Option<ObjectRef<Stored>> {
    None
}

/// The workload that a member belongs to.
fn workload_of(
    pod: &impl kube::ResourceExt,
    label: &str,
    kind: &ApiResource,
) -> Option<ObjectRef<Stored>> {
    let name = pod.labels().get(label)?;
    let namespace = pod.namespace()?;
    Some(ObjectRef::new_with(name, kind.clone()).within(&namespace))
}

/// What is remembered of the workloads of a kind, by uid.
struct Memories {
    facts: &'static Facts,
    events: Arc<EventPublisher>,
    revivals: Arc<Revivals>,
    revisions: Arc<Revisions>,
    starts: Arc<Starts>,
    backoffs: Arc<Backoffs>,
    witnesses: Arc<Witnesses>,
    metrics: OfKind,
}

impl Memories {
    fn forget(&self, uid: &str) {
        self.events.forget(uid);
        self.revivals.forget(uid);
        self.revisions.forget(uid);
        self.starts.forget(uid);
        self.backoffs.succeeded(uid);
        self.witnesses.done(uid);
        self.metrics.forget(uid);
    }

    fn keep_only(&self, uids: &HashSet<String>) {
        self.events.keep_only(uids);
        self.revivals.keep_only(uids);
        self.revisions.keep_only(uids);
        self.starts.keep_only(uids);
        self.backoffs.keep_only(uids);
        self.witnesses.keep_only(self.facts.kind.name, uids);
        self.metrics.keep_only(uids);
    }

    /// Forgets what was told and seen of workloads that are deleted: they are never looked at again. A
    /// list that does not show a workload says so too.
    fn forget_deleted(self: Arc<Self>) -> impl FnMut(&watcher::Result<Event<Stored>>) {
        let mut listed = HashSet::new();
        move |event| match event {
            Ok(Event::Delete(workload)) => self.forget(workload.uid()),
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(workload)) => {
                listed.insert(workload.uid().to_owned());
            }
            Ok(Event::InitDone) => {
                self.keep_only(&listed);
                listed = HashSet::new();
            }
            Ok(Event::Apply(_)) | Err(_) => {}
        }
    }
}
