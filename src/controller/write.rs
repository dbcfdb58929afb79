//! What the reconciler writes: objects of gangs, a JobSet's suspension, the workload's condition.

use std::collections::HashSet;
use std::time::Duration;

use kube::api::{Api, DeleteParams, Patch, PatchParams, Preconditions};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind, ObjectMeta};
use kube::{Client, ResourceExt as _};

use super::barriers;
use super::cache::recent_writes::RecentWrites;
use super::cache::stored::Stored;
use super::decide::Actions;
use super::gang_objects::{gang_name, shared_by};
use super::mend::revive::Revival;
use super::report::condition::{self, ConditionUpdate};
use crate::scheduler::object::MANAGED_BY;
use crate::workload::facts::{ConditionList, Facts, Watched};
use crate::workload::keys;

/// The field manager of everything that Muster writes.
pub(super) const MANAGER: &str = "muster";
/// The same of the condition that says how a start barrier stands.
const BARRIER_MANAGER: &str = "muster-barrier";

/// Why a workload could not be brought in order; it is tried again.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("cannot {what}: {source}")]
    Api {
        what: String,
        source: Box<kube::Error>,
    },
    #[error("cannot read the workload: {0}")]
    Read(String),
}

pub(super) fn api_error(what: impl Into<String>) -> impl FnOnce(kube::Error) -> Error {
    let what = what.into();
    move |source| Error::Api {
        what,
        source: Box::new(source),
    }
}

/// A kind as kube's client wants it.
pub(super) fn resource(group: &str, version: &str, kind: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

/// What to say of an object that stands where one of a gang should.
pub(super) fn not_ours(kind: &str, name: &str) -> String {
    format!("{kind} {name} exists and was not made by Muster: it is left alone")
}

/// What came of the writes for one workload.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// The names of new objects.
    pub created: Vec<String>,
    /// What stands in the way: objects of the gangs' names that are not Muster's, and what the
    /// cluster refuses.
    pub obstacles: Vec<String>,
    /// The same for what opens a start barrier.
    pub barrier: Option<String>,
}

impl Done {
    fn obstacle(&mut self, object: &DynamicObject, why: String) {
        match barriers::is_one(object) {
            true => self.barrier = Some(format!("the start barrier does not open: {why}")),
            false => {
                let why = format!("{why}; the gang has no object");
                self.obstacles.push(why);
            }
        }
    }
}

/// What came of a change of the workload itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    /// The workload has changed since it was seen. Its change brings the next look.
    Changed,
    /// By a policy or a webhook; what it said.
    Refused(String),
}

/// What came of one write.
enum Applied {
    Yes,
    /// By validation, a quota, a policy or a webhook: trying again changes nothing soon.
    Refused(String),
}

/// How often a write that is refused is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tries {
    Once,
    Twice,
}

/// Between two tries of a write that was refused.
const SECOND_LOOK: Duration = Duration::from_millis(500);

fn refusal<T>(answer: &Result<T, kube::Error>) -> Option<&str> {
    match answer {
        Err(kube::Error::Api(status)) if matches!(status.code, 400 | 403 | 422) => {
            Some(&status.message)
        }
        _ => None,
    }
}

/// Writes, and remembers it until the caches show it.
pub(super) struct Writer {
    client: Client,
    /// The kind of workloads.
    workloads: ApiResource,
    facts: &'static Facts,
    pub recent: RecentWrites,
}

impl Writer {
    pub(super) fn new(client: Client, workloads: ApiResource, facts: &'static Facts) -> Self {
        Self {
            client,
            workloads,
            facts,
            recent: RecentWrites::default(),
        }
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// Applies and deletes what was decided for the workload of a uid. What was done before an error is
    /// in `done` too.
    pub(super) async fn carry_out(
        &self,
        uid: &str,
        actions: &Actions,
        made: &[DynamicObject],
        done: &mut Done,
    ) -> Result<(), Error> {
        let made: HashSet<Option<&str>> = made.iter().map(|m| m.metadata.name.as_deref()).collect();
        for object in &actions.apply {
            let known = made.contains(&object.metadata.name.as_deref());
            if !known && let Some(foreign) = self.foreign(object, uid).await? {
                done.obstacle(object, foreign);
                continue;
            }
            // Where one was refused twice, the others need not wait too.
            let tries = match done.obstacles.is_empty() {
                true => Tries::Twice,
                false => Tries::Once,
            };
            match self.apply(uid, object, known, tries).await? {
                Applied::Yes if known || barriers::is_one(object) => {}
                Applied::Yes => done.created.push(object.name_any()),
                Applied::Refused(why) => done.obstacle(object, why),
            }
        }
        for object in &actions.delete {
            self.delete(uid, object).await?;
        }
        Ok(())
    }

    /// Says so if an object of this name exists that Muster did not make for this workload.
    async fn foreign(&self, object: &DynamicObject, uid: &str) -> Result<Option<String>, Error> {
        let name = object.name_any();
        let there = self.api(object).get_metadata_opt(&name).await;
        let there = there.map_err(api_error(format!("look for {name}")))?;
        let foreign = there.is_some_and(|there| !self.is_for(&there.metadata, object, uid));
        Ok(foreign.then(|| {
            let kind = object.types.as_ref().map_or("", |types| &types.kind);
            not_ours(kind, &name)
        }))
    }

    /// Whether Muster made what is there for the workload of this uid. What workloads share has a name
    /// that is theirs whoever of them lives: it may have been made when all of them had other uids.
    fn is_for(&self, there: &ObjectMeta, wanted: &DynamicObject, uid: &str) -> bool {
        let bundle = shared_by(&wanted.metadata);
        if bundle.is_some() {
            return is_managed(there) && shared_by(there) == bundle;
        }
        match self.facts.watched {
            Watched::ByMembers => {
                is_managed(there) && gang_name(there) == gang_name(&wanted.metadata)
            }
            Watched::All | Watched::Labelled => owners(there).any(|owner| owner == uid),
        }
    }

    async fn apply(
        &self,
        uid: &str,
        object: &DynamicObject,
        known: bool,
        tries: Tries,
    ) -> Result<Applied, Error> {
        let name = object.name_any();
        let mut params = PatchParams::apply(MANAGER);
        // Ours alone; whoever edited it is overruled.
        params.force = known;
        let api = self.api(object);
        let mut answer = api.patch(&name, &params, &Patch::Apply(object)).await;
        if refusal(&answer).is_some() && tries == Tries::Twice {
            // 1.36 refuses a PodGroup whose Workload it has not seen yet.
            tokio::time::sleep(SECOND_LOOK).await;
            answer = api.patch(&name, &params, &Patch::Apply(object)).await;
        }
        if let Some(why) = refusal(&answer) {
            let kind = object.types.as_ref().map_or("", |types| &types.kind);
            return Ok(Applied::Refused(format!("{kind} {name} is refused: {why}")));
        }
        let answer = answer.map_err(api_error(format!("apply {name}")))?;
        self.recent.applied(uid, answer);
        Ok(Applied::Yes)
    }

    async fn delete(&self, uid: &str, object: &DynamicObject) -> Result<(), Error> {
        let name = object.name_any();
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: object.uid(),
                resource_version: None,
            }),
            ..DeleteParams::background()
        };
        match self.api(object).delete(&name, &params).await {
            // Gone already, or another object of this name: either way not ours to remove.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            other => {
                other.map_err(api_error(format!("delete {name}")))?;
            }
        }
        self.recent.deleted(uid, object);
        Ok(())
    }

    pub(super) async fn suspend(&self, workload: &Stored) -> Result<Outcome, Error> {
        let patch = serde_json::json!({"spec": {"suspend": true}});
        let what = format!("suspend the {}", self.workloads.kind);
        self.patch_as_seen(workload, patch, &what).await
    }

    /// Suspends or resumes a workload whose gang is to have a new round.
    pub(super) async fn revive(
        &self,
        workload: &Stored,
        revival: &Revival,
    ) -> Result<Outcome, Error> {
        let (mark, suspend) = match revival {
            Revival::Suspend(_) => (Some("true"), Some(true)),
            Revival::Resume => (None, Some(false)),
            Revival::Forget => (None, None),
            Revival::Nothing | Revival::Tell(_) => return Ok(Outcome::Done),
        };
        let mut patch = serde_json::json!({"metadata": {"annotations": {keys::REVIVING: mark}}});
        if let Some(suspend) = suspend {
            patch["spec"] = serde_json::json!({"suspend": suspend});
        }
        self.patch_as_seen(workload, patch, "give the gang a new round")
            .await
    }

    /// Changes a workload if it is still as it was seen.
    async fn patch_as_seen(
        &self,
        workload: &Stored,
        mut patch: serde_json::Value,
        what: &str,
    ) -> Result<Outcome, Error> {
        patch["metadata"]["resourceVersion"] = workload.metadata.resource_version.clone().into();
        let (name, params) = (workload.name(), PatchParams::default());
        let api = self.workload_api(workload);
        let answer = api.patch(name, &params, &Patch::Merge(&patch)).await;
        if let Some(why) = refusal(&answer) {
            return Ok(Outcome::Refused(format!("cannot {what}: {why}")));
        }
        match answer {
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {
                Ok(Outcome::Changed)
            }
            other => other.map(|_| Outcome::Done).map_err(api_error(what)),
        }
    }

    /// Applies a condition to the workload's status, or says when to look again.
    pub(super) async fn write_condition(
        &self,
        workload: &Stored,
        update: ConditionUpdate,
    ) -> Result<Option<Duration>, Error> {
        let condition = match update {
            ConditionUpdate::NotNeeded => return Ok(None),
            ConditionUpdate::Later(after) => return Ok(Some(after)),
            ConditionUpdate::Write(condition) => condition,
        };
        let name = workload.name();
        let patch = serde_json::json!({
            "apiVersion": self.workloads.api_version,
            "kind": self.workloads.kind,
            "metadata": {"name": name},
            "status": {"conditions": [&condition]},
        });
        let (params, patch) = match self.facts.conditions {
            ConditionList::None => return Ok(None),
            // Each condition by a manager of its own: an apply drops what its manager applied before.
            ConditionList::Map => {
                let manager = match condition["type"] == condition::BARRIER {
                    true => BARRIER_MANAGER,
                    false => MANAGER,
                };
                (PatchParams::apply(manager).force(), Patch::Apply(patch))
            }
            ConditionList::Atomic => (PatchParams::default(), Patch::Strategic(patch)),
        };
        let api = self.workload_api(workload);
        match api.patch_status(name, &params, &patch).await {
            // Deleted meanwhile.
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            other => {
                other.map_err(api_error("write the gang's condition"))?;
            }
        }
        Ok(None)
    }

    fn workload_api(&self, workload: &Stored) -> Api<DynamicObject> {
        let client = self.client.clone();
        Api::namespaced_with(client, workload.namespace(), &self.workloads)
    }

    pub(super) fn api(&self, object: &DynamicObject) -> Api<DynamicObject> {
        let types = object.types.clone().unwrap_or_default();
        let (group, version) = types
            .api_version
            .split_once('/')
            .unwrap_or(("", &types.api_version));
        let kind = resource(group, version, &types.kind);
        let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
        Api::namespaced_with(self.client.clone(), namespace, &kind)
    }
}

/// The uids of the workloads that Muster made an object for.
pub(super) fn owners(meta: &ObjectMeta) -> impl Iterator<Item = &str> {
    let managed = is_managed(meta);
    let owners = meta.owner_references.iter().flatten();
    let owners = owners.filter(move |_| managed);
    owners.map(|owner| owner.uid.as_str())
}

/// Whether Muster made it.
pub(super) fn is_managed(meta: &ObjectMeta) -> bool {
    let labels = meta.labels.as_ref();
    let managed = labels.and_then(|labels| labels.get(MANAGED_BY.0));
    managed.is_some_and(|by| by == MANAGED_BY.1)
}
