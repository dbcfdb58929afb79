//! From what a person names to the workload whose gang it is: a workload itself, what made the pods of
//! a gang, a pod, or the gang.

use kube::core::{DynamicObject, ObjectMeta};
use serde::Deserialize;

use super::{Inspected, Inspector, listing, progress};
use crate::controller::cache::stored::Stored;
use crate::controller::observe;
use crate::controller::write::resource;
use crate::judge;
use crate::scheduler::Snapshot;
use crate::workload::facts::Watched;
use crate::workload::object::workloads;
use crate::workload::seen::PodPhase;
use crate::workload::{Facts, Kind, Object, SeenPod, Unasked, child, keys, pods};

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
    pub(super) fn found(workload: Inspected) -> Self {
        Self::all(vec![workload])
    }

    pub(super) fn all(workloads: Vec<Inspected>) -> Self {
        Self::Found {
            workloads,
            note: None,
        }
    }

    /// The same for something below what it was found for.
    pub(super) fn of(self, kind: &Kind, below: &Stored, above: &str, name: &str) -> Self {
        match self {
            Self::Found { workloads, .. } => Self::Found {
                workloads,
                note: Some(format!(
                    "the {} {} belongs to the {above} {name}",
                    kind.name,
                    below.name()
                )),
            },
            other => other,
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
    pub(super) async fn get(
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
                 not called: recreate it to make it a member"
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
        let barrier_alone = workload
            .as_ref()
            .is_some_and(|workload| barrier_alone(facts, workload, &self.cluster));
        let watched = serde_json::from_str(pod.text()).ok();
        let seen = watched.and_then(|watched| observe::read(&watched, &self.cluster.seals));
        Ok(match (found, seen) {
            (found @ Some(_), Some(seen)) => member(pod, &seen, found),
            (Some(found), None) if barrier_alone => Answer::Found {
                workloads: vec![found],
                note: Some(format!("the pod {} is of the {kind} {called}", pod.name())),
            },
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
}

/// Whether a workload has a start barrier and asks for no gang, so that its pods need no stamp of one. One
/// that has no gang may still ask for some, and be refused.
fn barrier_alone(facts: &'static Facts, workload: &Stored, cluster: &Snapshot) -> bool {
    let object = Object::read(facts.kind, workload.text());
    object.workload().is_some_and(|view| {
        let judged = judge::stored(view, workload.namespace(), cluster, Unasked::NoGang);
        !judged.asked && judged.plan.barrier.is_some()
    })
}

pub(super) fn facts_of(kind: &Kind) -> Option<&'static Facts> {
    workloads().find(|facts| facts.kind == kind)
}

/// All of an object's metadata; what is kept apart from its text lacks labels and owners.
pub(super) fn metadata(stored: &Stored) -> ObjectMeta {
    #[derive(Deserialize)]
    struct View {
        metadata: ObjectMeta,
    }
    let view: Option<View> = serde_json::from_str(stored.text()).ok();
    view.map_or_else(|| stored.metadata.clone(), |view| view.metadata)
}

/// The workload that an object says it was made for.
pub(super) fn parent(meta: &ObjectMeta) -> Option<(&'static Facts, String)> {
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
            "the pod {name} is of a gang that no longer exists: its workload has restarted or ended"
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::super::example::example;
    use super::*;
    use crate::gang::Identity;
    use crate::scheduler::{Dialect, TABLE};

    fn said(pod: SeenPod, gangs: &[&str]) -> (usize, String) {
        let mut found = example();
        let gang = found.gangs[0].clone();
        let named = gangs
            .iter()
            .map(|name| crate::controller::decide::GangStatus {
                name: (*name).to_owned(),
                ..gang.clone()
            });
        found.gangs = named.collect();
        let stored = Stored::new(&json!({"metadata": {"name": "train-0"}}));
        match member(&stored, &pod, Some(found)) {
            Answer::Found { workloads, note } => {
                (workloads[0].gangs.len(), note.unwrap_or_default())
            }
            Answer::NoGang(why) => (0, why),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_pod_is_told_its_own_gang_and_how_it_stands() {
        let identity = Identity {
            workload: "train".to_owned(),
            ..Identity::default()
        };
        let own = identity.name().into_string();
        let pod = SeenPod {
            gang: Arc::new(identity),
            ..SeenPod::example()
        };
        let (gangs, note) = said(pod.clone(), &["other", &own]);
        assert_eq!(gangs, 1);
        let member = format!("it is a member of the gang {own}");
        assert_eq!(note, format!("the pod train-0 waits for a node; {member}"));
        let done = SeenPod {
            phase: PodPhase::Succeeded,
            ..pod.clone()
        };
        let (_, note) = said(done, &[&own]);
        assert_eq!(note, format!("the pod train-0 has finished; {member}"));
        let (gangs, why) = said(pod, &["other"]);
        assert_eq!(gangs, 0);
        assert!(why.contains("of a gang that no longer exists"), "{why}");
    }

    /// Else nobody learns that a pod was created while webhooks were not called.
    #[test]
    fn pods_need_no_stamp_of_a_gang_only_where_none_is_asked_for() {
        let alone = |annotations: serde_json::Value| {
            let pod =
                json!({"restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}]});
            // Nothing of it is stamped: its gangs are refused, and there are none.
            let job = json!({"apiVersion": "batch/v1", "kind": "Job",
                "metadata": {"name": "train", "namespace": "ml", "annotations": annotations},
                "spec": {"parallelism": 2, "completions": 2, "template": {"spec": pod}}});
            let cluster = Snapshot::assumed(TABLE[0].kind, Dialect::ALL[0]);
            let facts = workloads().find(|facts| facts.kind.plural == "jobs");
            barrier_alone(facts.unwrap(), &Stored::new(&job), &cluster)
        };
        let barrier = (keys::START_BARRIER, "5m");
        let gang = (keys::GANG_MODE, "Gang");
        assert!(alone(json!({barrier.0: barrier.1})));
        assert!(!alone(json!({barrier.0: barrier.1, gang.0: gang.1})));
        assert!(!alone(json!({gang.0: gang.1})));
        assert!(!alone(json!({})));
    }
}
