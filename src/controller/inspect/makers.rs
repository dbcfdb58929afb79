//! From what a person names to the workload whose gang it is: a workload itself, what made the pods of
//! a gang (a StatefulSet, a Deployment), a pod, or the gang.

use k8s_openapi::jiff::Timestamp;
use kube::api::ListParams;
use kube::core::{DynamicObject, ObjectMeta};
use serde::Deserialize;

use super::listing::{self, all};
use super::progress;
use super::{Inspected, Inspector, and_never, watched_kind};
use crate::controller::cache::stored::Stored;
use crate::controller::causes::Case;
use crate::controller::decide::{Actions, GangStatus, State};
use crate::controller::owners::controller_of;
use crate::controller::write::resource;
use crate::explain::{Evidence, causes};
use crate::gang::{Part, SchedulerKind};
use crate::judge;
use crate::workload::facts::Watched;
use crate::workload::object::{Made, workloads};
use crate::workload::seen::PodPhase;
use crate::workload::{
    Facts, KINDS, Kind, Life, Object, SeenPod, Unasked, Workload as _, child, keys, pods,
};

/// More of what made pods is not asked for.
const MAX_MAKERS: usize = 64;

/// What is said of a thing that a person names.
#[derive(Debug)]
pub enum Answer {
    /// The workloads whose gangs are meant, one or more, and what is to be said of the thing itself.
    Found {
        /// The workloads.
        workloads: Vec<Inspected>,
        /// Where the thing is a part of one of them: which, and how it stands.
        note: Option<String>,
    },
    /// It exists and belongs to no gang: why.
    NoGang(String),
    /// There is no such thing.
    Absent,
    /// The cluster does not know its kind.
    NotServed,
}

impl Answer {
    fn found(workload: Inspected) -> Self {
        Self::Found {
            workloads: vec![workload],
            note: None,
        }
    }
}

impl Inspector {
    /// The object of a kind of the table.
    pub async fn object(
        &mut self,
        kind: &'static Kind,
        namespace: &str,
        name: &str,
    ) -> Result<Answer, kube::Error> {
        let facts = facts_of(kind);
        if facts.is_some_and(|facts| !self.serves(facts)) {
            return Ok(Answer::NotServed);
        }
        let Some(stored) = self.get(kind, namespace, name).await? else {
            return Ok(Answer::Absent);
        };
        if let Some(facts) = facts.filter(|facts| facts.watched != Watched::ByMembers)
            && let Some(found) = self.one(facts, &stored).await?
        {
            return Ok(Answer::found(found));
        }
        match *kind == pods::KIND {
            true => self.pod(&stored).await,
            false => self.maker(kind, &stored).await,
        }
    }

    /// The gang of a name, as pods declare it or as the scheduler's object is called. Else the names of
    /// the gangs that there are.
    pub async fn gang(
        &mut self,
        namespace: &str,
        name: &str,
    ) -> Result<Result<Answer, Vec<String>>, kube::Error> {
        if let Some(found) = self.declared(namespace, name).await? {
            return Ok(Ok(Answer::found(found)));
        }
        let everything = self.all(Some(namespace)).await;
        let mut names = Vec::new();
        for workload in everything {
            let gangs = workload.gangs.iter().map(|gang| gang.name.clone());
            names.extend(gangs);
            names.extend(workload.declared.clone());
            if workload.gangs.iter().any(|gang| gang.name == name) {
                return Ok(Ok(Answer::found(workload.only(&[name.to_owned()]))));
            }
        }
        Ok(Err(names))
    }

    /// Whole: of one that does not speak of gangs, a cache would keep next to nothing.
    async fn get(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Stored>, kube::Error> {
        let kind = resource(kind.group, kind.version, kind.name);
        let api = listing::api::<DynamicObject>(&self.client, Some(namespace), &kind);
        let found = api.get_opt(name).await?;
        let value = |object| serde_json::to_value(object).unwrap_or_default();
        Ok(found.map(|object| Stored::new(&value(object))))
    }

    /// The gang of a pod.
    async fn pod(&mut self, pod: &Stored) -> Result<Answer, kube::Error> {
        let (meta, namespace) = (metadata(pod), pod.namespace());
        if let Some(seen) = pods::seen(pod.text(), namespace) {
            let found = self.declared(namespace, &seen.gang.workload).await?;
            return Ok(member(pod, &seen, found));
        }
        let label = |key: &str| meta.labels.as_ref()?.get(key);
        let annotation = |key: &str| meta.annotations.as_ref()?.get(key);
        if let Some(gang) = annotation(keys::GANG_NAME).filter(|_| label(keys::GANG).is_none()) {
            return Ok(Answer::NoGang(format!(
                "the pod declares the gang {gang:?}, and was created while Muster's webhooks were \
                 not called: it belongs to no gang until it is created anew"
            )));
        }
        let Some((facts, name)) = parent(&meta) else {
            return Ok(Answer::NoGang(
                "the pod belongs to no gang: neither the pod nor what made it asks for one"
                    .to_owned(),
            ));
        };
        let (kind, called) = (facts.kind.name, name.clone());
        let workload = match self.serves(facts) {
            true => self.get(facts.kind, namespace, &name).await?,
            false => None,
        };
        let found = match &workload {
            Some(workload) => self.one(facts, workload).await?,
            None => None,
        };
        let watched = serde_json::from_str(pod.text()).ok();
        let seen = watched
            .and_then(|watched| crate::controller::observe::read(&watched, &self.cluster.seals));
        Ok(match (found, seen) {
            (found @ Some(_), Some(seen)) => member(pod, &seen, found),
            (Some(_), None) => Answer::NoGang(format!(
                "the pod belongs to no gang, although its {kind} {called} asks for one: it was \
                 created while Muster's webhooks were not called"
            )),
            (None, _) => Answer::NoGang(match workload {
                Some(_) => format!(
                    "the pod belongs to no gang: its {kind} {called} asks for none, and neither \
                     does the pod"
                ),
                None => format!("the pod belongs to no gang: its {kind} {called} is gone"),
            }),
        })
    }

    /// What is in no gang itself: another workload is above it, or it makes pods or workloads.
    async fn maker(&mut self, kind: &'static Kind, stored: &Stored) -> Result<Answer, kube::Error> {
        let namespace = stored.namespace();
        if let Some((facts, name)) = parent(&metadata(stored)).filter(|(f, _)| f.kind != kind)
            && self.serves(facts)
            && let Some(above) = self.get(facts.kind, namespace, &name).await?
            && let Some(found) = self.one(facts, &above).await?
        {
            let (above, own) = (facts.kind.name, kind.name);
            return Ok(Answer::Found {
                workloads: vec![found],
                note: Some(format!(
                    "the {own} {} belongs to the {above} {name}",
                    stored.name()
                )),
            });
        }
        let object = Object::read(kind, stored.text());
        match object.maker().and_then(|maker| maker.template) {
            Some(Made::Workload(workload, _)) => {
                let workloads = self.workloads_of(workload.facts(), stored).await?;
                Ok(match workloads.is_empty() {
                    false => Answer::Found {
                        workloads,
                        note: None,
                    },
                    true => Answer::NoGang(format!(
                        "the {} {} has no {} now whose pods are a gang",
                        kind.name,
                        stored.name(),
                        workload.facts().kind.name
                    )),
                })
            }
            Some(Made::Pods(declaring)) => {
                let workloads = self.gangs_of(stored).await?;
                if !workloads.is_empty() {
                    return Ok(Answer::Found {
                        workloads,
                        note: None,
                    });
                }
                let unmade = self.unmade(kind, stored, &declaring).await?;
                Ok(Answer::found(unmade))
            }
            None => Ok(Answer::NoGang(format!(
                "the pods of the {} {} are no gang: its template does not declare one \
                 (muster.dev/gang-name, muster.dev/min-count)",
                kind.name,
                stored.name()
            ))),
        }
    }

    /// The workloads that something has made.
    async fn workloads_of(
        &mut self,
        facts: &'static Facts,
        maker: &Stored,
    ) -> Result<Vec<Inspected>, kube::Error> {
        let namespace = Some(maker.namespace());
        let made = listing::workloads(&self.client, facts, namespace, &mut self.unseen).await?;
        let its = |workload: &&Stored| {
            let controller = controller_of(&metadata(workload));
            controller.is_some_and(|controller| controller.uid == maker.uid())
        };
        let mut found = Vec::new();
        for workload in made.iter().filter(its).take(MAX_MAKERS) {
            found.extend(self.one(facts, workload).await?);
        }
        Ok(found)
    }

    /// The gangs that pods declare which something has made, itself or by another controller.
    async fn gangs_of(&mut self, maker: &Stored) -> Result<Vec<Inspected>, kube::Error> {
        let namespace = maker.namespace();
        let Some(facts) = facts_of(&pods::KIND) else {
            return Ok(Vec::new());
        };
        let kind = watched_kind::api_resource(facts);
        let api = listing::api::<Stored>(&self.client, Some(namespace), &kind);
        let members = watched_kind::members(facts);
        let pods = all(&api, &members, "pods", &mut self.unseen).await?;
        let (mut names, mut asked) = (Vec::new(), Vec::new());
        for seen in pods
            .iter()
            .filter_map(|pod| pods::seen(pod.text(), namespace))
        {
            let controller = seen.own.as_ref().and_then(|own| own.controller.clone());
            let (name, Some(controller)) = (seen.gang.workload.clone(), controller) else {
                continue;
            };
            let pair = (name, controller);
            if names.contains(&pair.0) || asked.contains(&pair) || asked.len() >= MAX_MAKERS {
                continue;
            }
            if self
                .owners
                .is_above(namespace, maker.uid(), &pair.1)
                .await?
            {
                names.push(pair.0.clone());
            }
            asked.push(pair);
        }
        let mut found = Vec::new();
        for name in names {
            found.extend(self.declared(namespace, &name).await?);
        }
        Ok(found)
    }

    /// A gang that is declared and of which no pod exists.
    async fn unmade(
        &mut self,
        kind: &'static Kind,
        stored: &Stored,
        declaring: &pods::Declaring<'_>,
    ) -> Result<Inspected, kube::Error> {
        let namespace = stored.namespace();
        let judged = judge::stored(declaring, namespace, &self.cluster, Unasked::NoGang);
        let name = pods::name(declaring.meta()).unwrap_or_default();
        let scheduler = judged.backend.map(|backend| backend.kind());
        let scheduler = scheduler.unwrap_or(SchedulerKind::new("unknown"));
        let quorum = judged.plan.parts.first().map_or(0, Part::quorum);
        let own = (kind.name.to_owned(), stored.name().to_owned());
        let below = self.below(stored).await?;
        let unlinked = self.pods_of(stored, &below).await?;
        let below = below.into_iter().map(|(kind, meta)| (kind, meta.name));
        let below = below.map(|(kind, name)| (kind.to_owned(), name.unwrap_or_default()));
        let makers: Vec<(String, String)> = [own].into_iter().chain(below).collect();
        let mut actions = Actions {
            gangs: vec![GangStatus::unmade(&name, quorum, scheduler)],
            unmade: true,
            ..Actions::default()
        };
        let case = Case {
            workload: declaring,
            namespace,
            pods: &[],
            makers: &makers,
            now: Timestamp::now(),
        };
        case.explain(&mut actions, &self.witnesses, &self.client)
            .await;
        if unlinked > 0
            && let Some(gang) = actions.gangs.first_mut()
        {
            gang.state = State::Waiting;
            gang.evidence = Evidence {
                quorum,
                unlinked,
                ..Evidence::default()
            };
            gang.causes = causes(&gang.evidence);
        }
        Ok(Inspected {
            kind: kind.name.to_owned(),
            namespace: namespace.to_owned(),
            name: stored.name().to_owned(),
            declared: Some(name),
            life: Life::Live,
            progress: vec![progress::Progress::default()],
            gangs: actions.gangs,
            refused: None,
            broken: None,
            kueue: None,
            told: None,
            looked: self.and_around(vec![format!("the {} and its pods", kind.name)]),
            unknown: and_never(Vec::new()),
        })
    }

    /// The controllers of the table that something has made: those of a Deployment are ReplicaSets.
    async fn below(
        &mut self,
        maker: &Stored,
    ) -> Result<Vec<(&'static str, ObjectMeta)>, kube::Error> {
        let mut below = Vec::new();
        for kind in KINDS.iter().filter(|entry| entry.facts.is_none()) {
            let kind = kind.kind;
            for meta in self.metadata_in(kind, maker.namespace()).await? {
                let controller = controller_of(&meta);
                if controller.is_some_and(|controller| controller.uid == maker.uid()) {
                    below.push((kind.name, meta));
                }
            }
        }
        Ok(below)
    }

    /// How many pods something has made, itself or by these.
    async fn pods_of(
        &mut self,
        maker: &Stored,
        below: &[(&'static str, ObjectMeta)],
    ) -> Result<usize, kube::Error> {
        let pods = self.metadata_in(&pods::KIND, maker.namespace()).await?;
        let its = |pod: &&ObjectMeta| {
            let Some(controller) = controller_of(pod) else {
                return false;
            };
            let uids = below.iter().filter_map(|(_, meta)| meta.uid.as_deref());
            let mut uids = uids.chain([maker.uid()]);
            uids.any(|uid| uid == controller.uid)
        };
        Ok(pods.iter().filter(its).count())
    }

    async fn metadata_in(
        &mut self,
        kind: &Kind,
        namespace: &str,
    ) -> Result<Vec<ObjectMeta>, kube::Error> {
        let resource = resource(kind.group, kind.version, kind.name);
        let api = listing::api::<DynamicObject>(&self.client, Some(namespace), &resource);
        let page = ListParams::default().limit(listing::PAGE);
        let found = api.list_metadata(&page).await?;
        if found
            .metadata
            .continue_
            .is_some_and(|more| !more.is_empty())
        {
            self.unseen.beyond(kind.plural, found.items.len());
        }
        let found = found.items.into_iter();
        Ok(found.map(|object| object.metadata).collect())
    }
}

fn facts_of(kind: &Kind) -> Option<&'static Facts> {
    workloads().find(|facts| facts.kind == kind)
}

/// All of an object's metadata; what is kept apart from its text lacks labels and owners.
fn metadata(stored: &Stored) -> ObjectMeta {
    #[derive(Deserialize)]
    struct View {
        metadata: ObjectMeta,
    }
    let view: Option<View> = serde_json::from_str(stored.text()).ok();
    view.map_or_else(|| stored.metadata.clone(), |view| view.metadata)
}

/// The workload that an object says it was made for.
fn parent(meta: &ObjectMeta) -> Option<(&'static Facts, String)> {
    let facts = child::parent(meta)?;
    let name = meta.labels.as_ref()?.get(facts.members.name)?;
    Some((facts, name.clone()))
}

/// A pod that is a member of a gang.
fn member(pod: &Stored, seen: &SeenPod, found: Option<Inspected>) -> Answer {
    let names = progress::names(&seen.gang);
    let name = pod.name();
    let Some(found) = found else {
        return Answer::NoGang(format!("the gang of the pod {name} is gone"));
    };
    let found = found.only(&names);
    let gang = found.gangs.first().map(|gang| gang.name.clone());
    let Some(gang) = gang else {
        return Answer::NoGang(format!(
            "the pod {name} is of a gang that lives no more: its workload has begun anew or ended"
        ));
    };
    let stands = match (seen.going, seen.phase) {
        (true, _) => "is being deleted",
        (_, PodPhase::Pending) => "waits for a node",
        (_, PodPhase::Bound) => "is on a node",
        (_, PodPhase::Succeeded) => "has finished",
        (_, PodPhase::Failed) => "has failed",
    };
    Answer::Found {
        workloads: vec![found],
        note: Some(format!(
            "the pod {name} {stands}; it is a member of the gang {gang}"
        )),
    }
}
