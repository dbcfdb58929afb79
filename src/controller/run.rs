//! The reconcile loop over workloads of one kind: caches in, writes out. What to write is decided
//! elsewhere.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use futures::channel::mpsc;
use futures::{FutureExt as _, StreamExt as _};
use kube::api::Api;
use kube::core::{ApiResource, DynamicObject, TypeMeta};
use kube::runtime::controller::Action;
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::{Controller, WatchStreamExt as _, watcher};
use kube::{Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;

use super::bundles::partner_index::{look_up, tell_namers};
use super::decide::{self, Actions, Seen, Workload};
use super::discovery::Found;
use super::gang_objects;
use super::kinds::Workloads;
use super::mend::nudge::Sleepers;
use super::mend::queues::Queues;
use super::mend::revive::{Revival, Revivals};
use super::observe::{self, SeenPod, WatchedPod};
use super::report::condition::Conditions;
use super::report::events::{EventPublisher, Report};
use super::write::{Done, Error, Outcome, Writer, owned, resource};
use crate::admission::object::{self, Object};
use crate::gang::TimeoutAction;
use crate::scheduler::Snapshot;
use crate::workload::jobset::view::JobSet;

/// A gang whose object's name is taken is looked at this often.
const BLOCKED: Duration = Duration::from_secs(30);

/// A list is read in pages of so many objects: whole pods are large until they are stripped, and
/// events that they took once at the start is never given back.
const PAGE: u32 = 50;

/// What a reconcile needs.
struct Context {
    workloads: Workloads,
    writer: Writer,
    cluster: Arc<ArcSwap<Snapshot>>,
    known: Store<DynamicObject>,
    pods: Store<WatchedPod>,
    objects: Vec<Store<DynamicObject>>,
    events: Arc<EventPublisher>,
    sleepers: Sleepers,
    conditions: Conditions,
    queues: Queues,
    revivals: Arc<Revivals>,
}

/// Watches workloads, their members and what Muster made for them, until dropped.
pub async fn run(
    client: Client,
    cluster: Arc<ArcSwap<Snapshot>>,
    found: &Found,
    workloads: Workloads,
) {
    let kind = workloads.resource();
    let (reader, writer) = store(&kind);
    let events = Arc::new(EventPublisher::new(client.clone()));
    let revivals = Arc::new(Revivals::default());
    let of = (Arc::clone(&events), Arc::clone(&revivals));
    let (sender, namers) = mpsc::unbounded();
    let stream = watch::<DynamicObject>(&client, &kind, watcher::Config::default())
        .inspect(move |event| {
            if let Ok(watcher::Event::Delete(workload)) = event {
                let uid = workload.metadata.uid.as_deref().unwrap_or_default();
                of.0.forget(uid);
                of.1.forget(uid);
            }
        })
        .modify(strip(&kind))
        .reflect(writer)
        .inspect(tell_namers(sender))
        .touched_objects();
    let mut controller =
        Controller::for_stream_with(stream, reader, kind.clone()).reconcile_on(namers);

    let pods = resource("", "v1", "Pod");
    let (pod_reader, pod_writer) = store(&pods);
    let members = watcher::Config::default().labels(&workloads.members());
    let pod_stream = watch(&client, &pods, members)
        .modify(observe::strip_pod)
        .reflect(pod_writer)
        .touched_objects();
    let (of, label) = (kind.clone(), workloads.name_label());
    controller = controller.watches_stream_with(
        pod_stream,
        move |pod: WatchedPod| workload_of(&pod, label, &of),
        pods,
    );

    let mut objects = Vec::new();
    for kind in found.resources() {
        let (reader, writer) = store(&kind);
        let ours = watcher::Config::default().labels(&workloads.objects());
        let stream = watch(&client, &kind, ours)
            .modify(strip(&kind))
            .reflect(writer)
            .touched_objects();
        controller = controller.owns_stream_with(stream, kind);
        objects.push(reader);
    }

    let nudger = client.clone();
    let context = Arc::new(Context {
        workloads,
        events,
        sleepers: Sleepers::default(),
        conditions: Conditions::default(),
        revivals,
        queues: Queues::new(client.clone()),
        writer: Writer::new(client),
        cluster,
        known: controller.store(),
        pods: pod_reader,
        objects,
    });
    let nudges = context.sleepers.run(nudger);
    let reconciles = controller
        .run(reconcile, on_error, Arc::clone(&context))
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

fn store<K>(kind: &ApiResource) -> (Store<K>, reflector::store::Writer<K>)
where
    K: Resource<DynamicType = ApiResource> + Clone + 'static,
{
    let writer = reflector::store::Writer::new(kind.clone());
    (writer.as_reader(), writer)
}

pub fn watch<K>(
    client: &Client,
    kind: &ApiResource,
    config: watcher::Config,
) -> impl futures::Stream<Item = watcher::Result<watcher::Event<K>>> + use<K>
where
    K: Resource<DynamicType = ApiResource> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let api: Api<K> = Api::all_with(client.clone(), kind);
    watcher(api, config.page_size(PAGE)).default_backoff()
}

/// Strips an object, and says what it is: the items of a list do not, and a cache is first filled
/// from a list.
fn strip(kind: &ApiResource) -> impl FnMut(&mut DynamicObject) + use<> {
    let types = TypeMeta {
        api_version: kind.api_version.clone(),
        kind: kind.kind.clone(),
    };
    move |object| {
        object.types = Some(types.clone());
        gang_objects::strip_metadata(object);
    }
}

/// The workload that a member belongs to.
fn workload_of(
    pod: &WatchedPod,
    label: &str,
    kind: &ApiResource,
) -> Option<ObjectRef<DynamicObject>> {
    let name = pod.labels().get(label)?;
    let namespace = pod.namespace()?;
    Some(ObjectRef::new_with(name, kind.clone()).within(&namespace))
}

fn on_error(workload: Arc<DynamicObject>, error: &Error, _context: Arc<Context>) -> Action {
    let name = workload.name_any();
    let namespace = workload.namespace().unwrap_or_default();
    tracing::warn!(namespace, name, %error, "the workload is tried again");
    Action::requeue(Duration::from_secs(2))
}

async fn reconcile(workload: Arc<DynamicObject>, context: Arc<Context>) -> Result<Action, Error> {
    let namespace = workload.namespace().unwrap_or_default();
    let uid = workload.uid().unwrap_or_default();
    let json = serde_json::to_string(&*workload).map_err(|e| Error::Read(e.to_string()))?;
    let read = object::read(context.workloads.kind(), &json);
    let read = read.map_err(|error| Error::Read(error.to_string()))?;
    let view = match &read {
        Object::JobSet(jobset) => Workload::JobSet(jobset),
        Object::LeaderWorkerSet(lws) => Workload::LeaderWorkerSet(lws),
        _ => return Ok(Action::await_change()),
    };
    // An unfilled cache would look like nothing made. Asked, not awaited: of several workloads that
    // wait for one cache, it would wake the last only, and the others never again.
    if !is_filled(&context.pods) || !context.objects.iter().all(is_filled) {
        return Ok(Action::requeue(Duration::from_millis(50)));
    }
    let pods = context.members(&workload);
    let made = context.made(&namespace, &uid);
    let of_it = |object: &DynamicObject| owned(&object.metadata, &uid);
    let (made, behind) = context.writer.recent.lay_over(made, of_it);
    let cluster = context.cluster.load();
    let partners = match view {
        Workload::JobSet(jobset) => {
            let members = |other: &DynamicObject| context.members(other);
            let known = &context.known;
            look_up(&jobset.metadata, &namespace, known, members, &cluster)
        }
        Workload::LeaderWorkerSet(_) => Vec::new(),
    };
    let seen = Seen {
        workload: view,
        namespace: &namespace,
        pods: &pods,
        made: &made,
        partners: &partners,
    };
    let mut actions = decide::decide(&seen, &cluster);
    drop(cluster);
    let mut done = Done::default();
    let writer = &context.writer;
    let carried_out = writer.carry_out(&workload, &actions, &made, &mut done);
    let carried_out = carried_out.await;
    context.events.note_created(&uid, &done);
    carried_out?;
    let sleepers = actions.sleepers.iter();
    let sleepers = sleepers.map(|object| (context.writer.api(object), object.name_any()));
    context.sleepers.set(&uid, sleepers.collect());
    if let Some(queue) = &actions.queue
        && let Some(trouble) = context.queues.trouble(queue).await
    {
        actions.blame(&trouble);
    }
    context.events.wrote(&workload, &done, &actions.gangs).await;
    let mut report = context.events.look(&uid, &actions);
    actions.broken = report.broken.take();
    // Before what can fail: the next look does not tell it again.
    context.events.publish(&workload, &report).await;
    let outcome = match view {
        Workload::JobSet(_) if report.timed_out == Some(TimeoutAction::Suspend) => {
            context.writer.suspend(&workload).await?
        }
        Workload::JobSet(jobset) => context.revive(&workload, jobset, &pods, &actions).await?,
        // LeaderWorkerSet recreates a replica that loses a pod, and then it is a new gang.
        Workload::LeaderWorkerSet(_) => Outcome::Done,
    };
    if let Outcome::Refused(why) = outcome {
        context.events.refused(&workload, "itself", why).await;
        report.again_in(BLOCKED);
    }
    let update = context
        .conditions
        .update(&workload, &actions, &done.obstacles);
    let held = context.writer.write_condition(&workload, update).await?;
    // Nothing tells when a foreign object goes: only Muster's own are watched.
    let blocked = (!done.obstacles.is_empty()).then_some(BLOCKED);
    let again = [behind, blocked, held, report.look_again];
    Ok(match again.into_iter().flatten().min() {
        Some(after) => Action::requeue(after),
        None => Action::await_change(),
    })
}

fn is_filled<K>(store: &Store<K>) -> bool
where
    K: Resource<DynamicType = ApiResource> + Clone + 'static,
{
    matches!(store.wait_until_ready().now_or_never(), Some(Ok(())))
}

impl Context {
    fn members(&self, workload: &DynamicObject) -> Vec<SeenPod> {
        let belongs = |pod: &WatchedPod| self.workloads.owns(workload, pod);
        let pods = self.pods.state_filter(|pod| belongs(pod));
        pods.iter().filter_map(|pod| SeenPod::read(pod)).collect()
    }

    /// Gives a lost gang a new round, or tells that only a person can.
    async fn revive(
        &self,
        workload: &DynamicObject,
        jobset: &JobSet<'_>,
        pods: &[SeenPod],
        actions: &Actions,
    ) -> Result<Outcome, Error> {
        let uid = workload.uid().unwrap_or_default();
        let step = self.revivals.look(&uid, jobset, pods, actions);
        let outcome = self.writer.revive(workload, &step).await?;
        let (reason, note) = match step {
            _ if outcome != Outcome::Done => return Ok(outcome),
            Revival::Suspend(note) => ("GangRevived", note),
            Revival::Tell(note) => ("GangStuck", note),
            Revival::Nothing | Revival::Resume | Revival::Forget => return Ok(outcome),
        };
        self.revivals.forget(&uid);
        let mut report = Report::default();
        report.warn(reason, note);
        self.events.publish(workload, &report).await;
        Ok(outcome)
    }

    fn made(&self, namespace: &str, uid: &str) -> Vec<DynamicObject> {
        let stores = self.objects.iter();
        stores
            .flat_map(|store| {
                store.state_filter(|object| {
                    object.metadata.namespace.as_deref() == Some(namespace)
                        && owned(&object.metadata, uid)
                })
            })
            .map(|object| (*object).clone())
            .collect()
    }
}
