//! The reconcile loop over JobSets: caches in, writes out. What to write is decided elsewhere.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use futures::{FutureExt as _, StreamExt as _};
use kube::api::{Api, DeleteParams, Patch, PatchParams, Preconditions};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind, TypeMeta};
use kube::runtime::controller::Action;
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::{Controller, WatchStreamExt as _, watcher};
use kube::{Client, Resource as _, ResourceExt as _};

use super::decide::{self, Actions, Seen};
use super::discovery::Found;
use super::nudge::Sleepers;
use super::observe::{self, Pod};
use super::status::{Memory, News};
use crate::admission::object::{self, Kind, Object};
use crate::gang::TimeoutAction;
use crate::scheduler::Snapshot;
use crate::scheduler::object::MANAGED_BY;
use crate::workload::child::{JOBSET_NAME, JOBSET_UID};
use crate::workload::keys;

/// The field manager of everything that Muster writes.
pub const MANAGER: &str = "muster";

/// Why a JobSet could not be brought in order; it is tried again.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot {what}: {source}")]
    Api {
        what: String,
        source: Box<kube::Error>,
    },
    #[error("cannot read the JobSet: {0}")]
    Read(String),
}

fn api_error(what: impl Into<String>) -> impl FnOnce(kube::Error) -> Error {
    let what = what.into();
    move |source| Error::Api {
        what,
        source: Box::new(source),
    }
}

/// What a reconcile needs.
struct Context {
    client: Client,
    cluster: Arc<ArcSwap<Snapshot>>,
    pods: Store<DynamicObject>,
    objects: Vec<Store<DynamicObject>>,
    memory: Memory,
    sleepers: Sleepers,
}

fn resource(group: &str, version: &str, kind: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

/// Watches JobSets, their members and what Muster made for them, until dropped.
pub async fn run(client: Client, cluster: Arc<ArcSwap<Snapshot>>, found: &Found) {
    let jobsets = resource("jobset.x-k8s.io", "v1alpha2", "JobSet");
    let (jobset_reader, jobset_writer) = store(&jobsets);
    let jobset_stream = watch(&client, &jobsets, watcher::Config::default())
        .modify(observe::strip_metadata)
        .reflect(jobset_writer)
        .touched_objects();
    let mut controller = Controller::for_stream_with(jobset_stream, jobset_reader, jobsets.clone());

    let pods = resource("", "v1", "Pod");
    let (pod_reader, pod_writer) = store(&pods);
    let members = watcher::Config::default().labels(keys::GANG);
    let pod_stream = watch(&client, &pods, members)
        .modify(observe::strip_pod)
        .reflect(pod_writer)
        .touched_objects();
    let of = jobsets.clone();
    controller = controller.watches_stream_with(
        pod_stream,
        move |pod: DynamicObject| jobset_of(&pod, &of),
        pods,
    );

    let mut objects = Vec::new();
    for kind in found.resources() {
        let (reader, writer) = store(&kind);
        let ours = watcher::Config::default().labels(&format!("{}={}", MANAGED_BY.0, MANAGED_BY.1));
        let stream = watch(&client, &kind, ours)
            .modify(observe::strip_metadata)
            .reflect(writer)
            .touched_objects();
        controller = controller.owns_stream_with(stream, kind);
        objects.push(reader);
    }

    let context = Arc::new(Context {
        memory: Memory::new(client.clone()),
        sleepers: Sleepers::default(),
        client,
        cluster,
        pods: pod_reader,
        objects,
    });
    let nudges = context.sleepers.run(context.client.clone());
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

fn store(
    kind: &ApiResource,
) -> (
    Store<DynamicObject>,
    reflector::store::Writer<DynamicObject>,
) {
    let writer = reflector::store::Writer::new(kind.clone());
    (writer.as_reader(), writer)
}

fn watch(
    client: &Client,
    kind: &ApiResource,
    config: watcher::Config,
) -> impl futures::Stream<Item = watcher::Result<watcher::Event<DynamicObject>>> + use<> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), kind);
    let types = TypeMeta {
        api_version: kind.api_version.clone(),
        kind: kind.kind.clone(),
    };
    // The items of a list do not say what they are, and a cache is first filled from a list.
    watcher(api, config)
        .default_backoff()
        .modify(move |object| object.types = Some(types.clone()))
}

/// The JobSet that a member belongs to.
fn jobset_of(pod: &DynamicObject, kind: &ApiResource) -> Option<ObjectRef<DynamicObject>> {
    let name = pod.labels().get(JOBSET_NAME)?;
    let namespace = pod.namespace()?;
    Some(ObjectRef::new_with(name, kind.clone()).within(&namespace))
}

fn on_error(jobset: Arc<DynamicObject>, error: &Error, _context: Arc<Context>) -> Action {
    let name = jobset.name_any();
    let namespace = jobset.namespace().unwrap_or_default();
    tracing::warn!(namespace, name, %error, "JobSet is tried again");
    Action::requeue(Duration::from_secs(2))
}

async fn reconcile(jobset: Arc<DynamicObject>, context: Arc<Context>) -> Result<Action, Error> {
    let namespace = jobset.namespace().unwrap_or_default();
    let uid = jobset.uid().unwrap_or_default();
    let json = serde_json::to_string(&*jobset).map_err(|e| Error::Read(e.to_string()))?;
    let view = match object::read(Kind::JobSet, &json) {
        Ok(Object::JobSet(view)) => view,
        Ok(_) => return Ok(Action::await_change()),
        Err(error) => return Err(Error::Read(error.to_string())),
    };
    // An unfilled cache would look like nothing made. Asked, not awaited: of several JobSets that
    // wait for one cache, it would wake the last only, and the others never again.
    for objects in context.objects.iter().chain([&context.pods]) {
        if !matches!(objects.wait_until_ready().now_or_never(), Some(Ok(()))) {
            return Ok(Action::requeue(Duration::from_millis(50)));
        }
    }
    let pods = context.members(&namespace, &uid);
    let made = context.made(&namespace, &uid);
    let seen = Seen {
        jobset: &view,
        namespace: &namespace,
        pods: &pods,
        made: &made,
    };
    let actions = decide::decide(&seen, &context.cluster.load());
    context.carry_out(&jobset, &actions, &made).await?;
    let sleepers = actions.sleepers.iter();
    let sleepers = sleepers.map(|object| (context.api(object), object.name_any()));
    context.sleepers.set(&uid, sleepers.collect());
    let news = context.memory.look(&uid, &actions);
    context.tell(&jobset, &news).await?;
    Ok(match news.look_again {
        Some(after) => Action::requeue(after),
        None => Action::await_change(),
    })
}

impl Context {
    fn members(&self, namespace: &str, uid: &str) -> Vec<Pod> {
        let belongs = |pod: &DynamicObject| {
            pod.metadata.namespace.as_deref() == Some(namespace)
                && pod.labels().get(JOBSET_UID).is_some_and(|u| u == uid)
        };
        let pods = self.pods.state_filter(|pod| belongs(pod));
        pods.iter().filter_map(|pod| Pod::read(pod)).collect()
    }

    fn made(&self, namespace: &str, uid: &str) -> Vec<DynamicObject> {
        let stores = self.objects.iter();
        stores
            .flat_map(|store| {
                store.state_filter(|object| {
                    object.metadata.namespace.as_deref() == Some(namespace) && owned(object, uid)
                })
            })
            .map(|object| (*object).clone())
            .collect()
    }

    async fn carry_out(
        &self,
        jobset: &DynamicObject,
        actions: &Actions,
        made: &[DynamicObject],
    ) -> Result<(), Error> {
        let uid = jobset.uid().unwrap_or_default();
        let (mut created, mut refused) = (0, 0);
        for object in &actions.apply {
            let name = object.name_any();
            let api = self.api(object);
            let known = made.iter().any(|m| m.metadata.name == object.metadata.name);
            let mut params = PatchParams::apply(MANAGER);
            if known {
                // Ours alone; whoever edited it is overruled.
                params = params.force();
            } else {
                let there = api.get_metadata_opt(&name).await;
                let there = there.map_err(api_error(format!("look for {name}")))?;
                if let Some(foreign) = there.filter(|o| !meta_owned(&o.metadata, &uid)) {
                    let kind = object.types.as_ref().map_or("", |t| &t.kind);
                    self.memory
                        .refuse(jobset, foreign_note(kind, &foreign.metadata))
                        .await;
                    refused += 1;
                    continue;
                }
                created += 1;
            }
            api.patch(&name, &params, &Patch::Apply(object))
                .await
                .map_err(api_error(format!("apply {name}")))?;
        }
        for object in &actions.delete {
            let name = object.name_any();
            let params = DeleteParams {
                preconditions: Some(Preconditions {
                    uid: object.uid(),
                    resource_version: None,
                }),
                ..DeleteParams::background()
            };
            match self.api(object).delete(&name, &params).await {
                // Gone already, or another object of that name: either way not ours to remove.
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
                other => {
                    other.map_err(api_error(format!("delete {name}")))?;
                }
            }
        }
        // A gang that lacks an object is not ready for its pods.
        if created > 0 && refused == 0 {
            self.memory.created(jobset, &actions.gangs).await;
        }
        Ok(())
    }

    fn api(&self, object: &DynamicObject) -> Api<DynamicObject> {
        let types = object.types.clone().unwrap_or_default();
        let (group, version) = types
            .api_version
            .split_once('/')
            .unwrap_or(("", &types.api_version));
        let kind = resource(group, version, &types.kind);
        let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
        Api::namespaced_with(self.client.clone(), namespace, &kind)
    }

    async fn tell(&self, jobset: &DynamicObject, news: &News) -> Result<(), Error> {
        self.memory.publish(jobset, news).await;
        if news.timed_out == Some(TimeoutAction::Suspend) {
            let kind = resource("jobset.x-k8s.io", "v1alpha2", "JobSet");
            let namespace = jobset.namespace().unwrap_or_default();
            let api: Api<DynamicObject> =
                Api::namespaced_with(self.client.clone(), &namespace, &kind);
            let patch = serde_json::json!({"spec": {"suspend": true}});
            api.patch(
                &jobset.name_any(),
                &PatchParams::default(),
                &Patch::Merge(&patch),
            )
            .await
            .map_err(api_error("suspend the JobSet"))?;
        }
        Ok(())
    }
}

fn owned(object: &DynamicObject, uid: &str) -> bool {
    meta_owned(object.meta(), uid)
}

fn meta_owned(meta: &kube::core::ObjectMeta, uid: &str) -> bool {
    let labels = meta.labels.as_ref();
    let managed = labels.and_then(|l| l.get(MANAGED_BY.0));
    let owners = meta.owner_references.as_deref().unwrap_or_default();
    managed.is_some_and(|m| m == MANAGED_BY.1) && owners.iter().any(|owner| owner.uid == uid)
}

fn foreign_note(kind: &str, meta: &kube::core::ObjectMeta) -> String {
    let name = meta.name.as_deref().unwrap_or_default();
    format!(
        "{kind} {name} exists and is not Muster's: it is left alone, and the gang has no object"
    )
}
