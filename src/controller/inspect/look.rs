//! A look at one workload: as the reconciler looks, with lists in place of caches.

use std::collections::HashSet;

use k8s_openapi::jiff::Timestamp;
use kube::core::DynamicObject;
use serde_json::Value;

use super::around::{Stands, and_never};
use super::inspected::GANG;
use super::listing::{self, Listing, PodsSeen};
use super::{Admissions, Inspected, Inspector, barrier, progress};
use crate::controller::barriers;
use crate::controller::cache::stored::Stored;
use crate::controller::causes::Case;
use crate::controller::decide::{self, Actions, Seen};
use crate::controller::gang_members::Pods;
use crate::controller::look::resume;
use crate::controller::report::condition;
use crate::controller::revisions;
use crate::controller::wanted::Wanted;
use crate::controller::write::{is_managed, not_ours};
use crate::gang::Owner;
use crate::judge;
use crate::workload::facts::Watched;
use crate::workload::{Facts, Life, Object, SeenPod, Unasked, pods};

/// So many are told.
const MOST_MISSING: usize = 3;

impl Inspector {
    /// How the gangs of a workload stand; nothing where it asks for none.
    pub(super) async fn inspect(
        &mut self,
        facts: &'static Facts,
        workload: &Stored,
        listing: &mut Listing,
    ) -> Option<Inspected> {
        let object = Object::read(facts.kind, workload.text());
        let view = object.workload()?;
        let (namespace, name, uid) = (workload.namespace(), workload.name(), workload.uid());
        let pods = listing.pods(facts, workload);
        let waiters = listing.waiters(facts, workload);
        let made = listing.made(facts, workload);
        let revisions = match revisions::wanted(facts, view, &pods).is_empty() {
            true => Ok(HashSet::new()),
            false => revisions::stamps(&self.client, facts, namespace, name, uid).await,
        };
        let revisions = revisions.unwrap_or_else(|error| {
            self.unseen.push("revisions", &error);
            HashSet::new()
        });
        let Pods { members, strangers } = Pods::sort(pods, view, &revisions);
        let owner = self.owner(facts, workload, &members, &made).await;
        let partners = self.partners(view, namespace).await;
        let now = Timestamp::now();
        let seen = Seen {
            workload: view,
            namespace,
            pods: &members,
            strangers: &strangers,
            made: &made,
            partners: &partners,
            owner: owner.as_ref(),
            waiters: &waiters,
            now,
        };
        let mut actions = decide::decide(&seen, &self.cluster);
        let itself = match &owner {
            Some(_) => "gang",
            None => facts.kind.name,
        };
        let mut looked = vec![match (listing.pods_seen, listing.unlisted.is_empty()) {
            (PodsSeen::Yes, true) => format!("the {itself}, its pods and the objects of its gangs"),
            (PodsSeen::Yes, false) => format!("the {itself} and its pods"),
            (PodsSeen::No, true) => format!("the {itself} and the objects of its gangs"),
            (PodsSeen::No, false) => format!("the {itself}"),
        }];
        let mut unknown = Vec::new();
        if !partners.is_empty() {
            looked.push("the other workloads of its bundle".to_owned());
        }
        self.look_up_queue(&actions, &mut looked, &mut unknown)
            .await;
        let by_kueue = actions.suspended.is_some() && actions.kueue.is_some();
        if by_kueue && self.ask_kueue().await == Admissions::Seen {
            looked.push("Kueue's Workloads".to_owned());
        }
        let case = Case {
            workload: view,
            namespace,
            pods: &members,
            makers: &[],
            wanted: Wanted::of(workload),
            now,
        };
        // Of pods that could not be looked at nothing follows.
        if listing.pods_seen == PodsSeen::Yes {
            case.explain(&mut actions, &self.witnesses, &self.client)
                .await;
        }
        let told = workload.condition(condition::TYPE).map(reason_and_message);
        let told_of_barrier = workload
            .condition(condition::BARRIER)
            .map(reason_and_message);
        let barrier = match actions.barrier.as_ref() {
            Some(status) if listing.pods_seen == PodsSeen::Yes => {
                let shown = barriers::shown(&made, &status.start, now);
                barrier::stands(
                    status,
                    &waiters,
                    shown,
                    listing.barriers_unlisted,
                    told_of_barrier,
                )
            }
            // What Muster says is all that is known.
            _ => told_of_barrier,
        };
        let life = view.life();
        // Nothing is decided of one that somebody else runs.
        let elsewhere = || {
            let judged = judge::stored(view, namespace, &self.cluster, Unasked::NoGang);
            life == Life::LeftAlone && !judged.plan.parts.is_empty()
        };
        let asks = !actions.gangs.is_empty() || actions.refused.is_some() || told.is_some();
        if !asks && barrier.is_none() && !elsewhere() {
            return None;
        }
        let silent = actions
            .kueue
            .as_ref()
            .is_some_and(|queued| queued.says.is_none());
        if life == Life::Suspended && silent {
            unknown.push(format!(
                "why Kueue has not admitted it: kubectl get workloads.kueue.x-k8s.io -n {namespace}"
            ));
        }
        // Kueue resumes what is its own.
        let suspended = life == Life::Suspended && actions.kueue.is_none();
        let stands = Stands::of(life, &actions.gangs);
        let (missing, foreign) = self.absent(&actions.apply, &made, &listing.unlisted).await;
        let (kind, called) = called(facts, name, owner.as_ref());
        Some(Inspected {
            kind,
            namespace: namespace.to_owned(),
            name: called,
            declared: owner.is_some().then(|| name.to_owned()),
            pods: format!("{}={name}", facts.members.name),
            life,
            progress: progress::count(&actions.gangs, &members, &listing.running),
            missing,
            foreign,
            gangs: actions.gangs,
            refused: actions.refused,
            broken: actions.broken,
            resume: suspended.then(|| resume(facts, workload)),
            kueue: actions.kueue,
            manager: view.manager().map(str::to_owned),
            barrier: barrier.filter(|_| life == Life::Live),
            told,
            sight: self.sight(listing.pods_seen),
            failed: workload.failure(),
            looked: self.and_around(looked),
            unknown: and_never(unknown, stands),
        })
    }

    /// Of what should exist, what does not, since Muster has not made it or could not; and what stands
    /// in its place.
    async fn absent(
        &self,
        wanted: &[DynamicObject],
        made: &[DynamicObject],
        unlisted: &HashSet<String>,
    ) -> (Vec<String>, Vec<String>) {
        let known = |kind: &str| self.made.iter().find(|known| known.kind == kind);
        let absent = wanted.iter().filter_map(|wanted| {
            let kind = kind_of(wanted).filter(|kind| !unlisted.contains(*kind))?;
            let name = wanted.metadata.name.as_deref()?;
            // Items of a list may not say their kind.
            let exists = made.iter().any(|made| {
                let same = kind_of(made).is_none_or(|other| other == kind);
                same && made.metadata.name.as_deref() == Some(name)
            });
            let namespace = wanted.metadata.namespace.as_deref();
            (!exists).then_some((known(kind)?, name, namespace))
        });
        let (mut missing, mut foreign) = (Vec::new(), Vec::new());
        for (resource, name, namespace) in absent.take(MOST_MISSING) {
            let api = listing::api::<DynamicObject>(&self.client, namespace, resource);
            // Whoever may not look is told that it is not among Muster's.
            match api.get_metadata_opt(name).await {
                // Made since the list was taken.
                Ok(Some(there)) if is_managed(&there.metadata) => {}
                Ok(Some(_)) => foreign.push(not_ours(&resource.kind, name)),
                Ok(None) | Err(_) => missing.push(format!("{} {name}", resource.kind)),
            }
        }
        (missing, foreign)
    }

    /// Who owns what is made for a workload that is no object.
    async fn owner(
        &mut self,
        facts: &Facts,
        workload: &Stored,
        members: &[SeenPod],
        made: &[DynamicObject],
    ) -> Option<Owner> {
        if facts.watched != Watched::ByMembers {
            return None;
        }
        let (namespace, name) = (workload.namespace(), workload.name());
        let owner = self.owners.of(namespace, name, members, made).await;
        let owner = owner.unwrap_or_else(|error| {
            self.unseen.push("what made the pods", &error);
            Owner {
                kind: pods::KIND.name,
                namespace: namespace.to_owned(),
                gang_name: Some(name.to_owned()),
                references: Vec::new(),
            }
        });
        Some(owner)
    }

    /// Looks once, for all workloads, at what Kueue says.
    async fn ask_kueue(&mut self) -> Admissions {
        if let Some(asked) = self.admissions {
            return asked;
        }
        let listed = self
            .witnesses
            .list_admissions(&self.client, self.namespace.as_deref());
        let asked = match listed.await {
            Ok(true) => Admissions::Seen,
            Ok(false) => Admissions::Unseen,
            Err(error) => {
                self.unseen.push("Kueue's Workloads", &error);
                Admissions::Unseen
            }
        };
        self.admissions = Some(asked);
        asked
    }

    /// Looks at the queue of gangs that wait.
    async fn look_up_queue(
        &mut self,
        actions: &Actions,
        looked: &mut Vec<String>,
        unknown: &mut Vec<String>,
    ) {
        let Some(queue) = &actions.queue else {
            return;
        };
        let name = &queue.name;
        match self.witnesses.look_up(&self.client, queue).await {
            Ok(()) => {
                looked.push(format!("the queue {name:?}"));
                unknown.push(format!(
                    "how much the scheduler gives the queue {name:?} beside others"
                ));
            }
            Err(error) => self.unseen.push(&format!("the queue {name:?}"), &error),
        }
    }
}

fn reason_and_message(condition: Value) -> (String, String) {
    let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    (text("reason"), text("message"))
}

fn kind_of(object: &DynamicObject) -> Option<&str> {
    object.types.as_ref().map(|types| types.kind.as_str())
}

/// How people know a workload: by its kind and name, and a gang that pods declare by what made them.
fn called(facts: &Facts, name: &str, owner: Option<&Owner>) -> (String, String) {
    let Some(owner) = owner else {
        return (facts.kind.name.to_owned(), name.to_owned());
    };
    match &owner.references[..] {
        [one] if one.kind != pods::KIND.name => (one.kind.clone(), one.name.clone()),
        _ => (GANG.to_owned(), name.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gang::Reference;
    use crate::workload::object::workloads;

    #[test]
    fn a_gang_of_pods_is_called_by_what_made_them() {
        let facts = workloads().find(|facts| facts.watched == Watched::ByMembers);
        let facts = facts.unwrap();
        let made_by = |kind: &str, count: usize| {
            let one = Reference {
                api_version: "v1".to_owned(),
                kind: kind.to_owned(),
                name: "serve".to_owned(),
                uid: "1".to_owned(),
            };
            let owner = Owner {
                kind: facts.kind.name,
                namespace: "ml".to_owned(),
                gang_name: Some("ring".to_owned()),
                references: vec![one; count],
            };
            let (kind, name) = called(facts, "ring", Some(&owner));
            format!("{kind}/{name}")
        };
        assert_eq!(made_by("Deployment", 1), "Deployment/serve");
        assert_eq!(made_by("MPIJob", 1), "MPIJob/serve");
        assert_eq!(made_by(facts.kind.name, 1), "Gang/ring");
        assert_eq!(made_by(facts.kind.name, 3), "Gang/ring");
        assert_eq!(made_by("Deployment", 0), "Gang/ring");
    }
}
