//! One look at workloads from outside: lists in place of caches, and nothing is written. What
//! `muster explain` and `muster status` print comes from here, from the same functions that the
//! reconciler calls; so it needs no Muster that runs, and the rights of whoever looks.
//!
//! - [`listing`]: pods and objects of a kind, listed once.
//! - [`partners`]: the other workloads of a bundle.
//! - [`makers`]: from what a person names (a controller, a pod, a gang) to the workload.
//! - [`progress`]: how far the members of a gang are.
//! - [`unseen`]: what could not be looked at.

#[cfg(test)]
pub(crate) mod example;
mod listing;
mod makers;
mod partners;
pub mod progress;
pub mod unseen;

use std::collections::HashSet;

use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::core::ApiResource;

use self::listing::{Listing, Scope};
pub use self::makers::Answer;
use self::progress::Progress;
use self::unseen::Unseen;
use super::cache::stored::Stored;
use super::causes::Case;
use super::decide::{self, Actions, GangStatus, Seen};
use super::discovery::{self, Found};
use super::gang_members::Pods;
use super::mend::queues::Queues;
use super::owners::Owners;
use super::pod_gangs;
use super::revisions;
use super::watched_kind;
use super::witness::Witnesses;
use crate::gang::Owner;
use crate::scheduler::{Dialect, Snapshot, TABLE};
use crate::workload::facts::Watched;
use crate::workload::object::workloads;
use crate::workload::{Facts, Life, Object, SeenPod, pods};

/// How a gang is called that nothing made but its pods.
pub const GANG: &str = "Gang";

/// A workload, and how its gangs stand.
#[derive(Debug, Clone)]
pub struct Inspected {
    /// Its kind; of a gang that pods declare, that of what made them.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The name under which its pods declare their gang, where they do.
    pub declared: Option<String>,
    /// Whether its gangs are to live now.
    pub life: Life,
    /// Its gangs.
    pub gangs: Vec<GangStatus>,
    /// How far the members of each are.
    pub progress: Vec<Progress>,
    /// Why no gang is made, although one is asked for.
    pub refused: Option<String>,
    /// Why its pods cannot start together, although they are linked.
    pub broken: Option<String>,
    /// The queue of Kueue that it is in.
    pub kueue: Option<String>,
    /// What its condition says: reason and message.
    pub told: Option<(String, String)>,
    /// What was looked at to say so.
    pub looked: Vec<String>,
    /// What is not known of it, also if everything could be looked at.
    pub unknown: Vec<String>,
}

impl Inspected {
    /// Its gangs, and how far each is.
    pub fn gangs(&self) -> impl Iterator<Item = (&GangStatus, Progress)> {
        let counted = self.progress.iter().copied();
        let counted = counted.chain(std::iter::repeat(Progress::default()));
        self.gangs.iter().zip(counted)
    }

    /// With the gangs of these names only.
    fn only(mut self, names: &[String]) -> Self {
        let kept = |gang: &GangStatus| names.contains(&gang.name);
        let kept: Vec<bool> = self.gangs.iter().map(kept).collect();
        let mut keeps = kept.iter();
        self.progress.retain(|_| keeps.next() == Some(&true));
        let mut keeps = kept.iter();
        self.gangs.retain(|_| keeps.next() == Some(&true));
        self
    }
}

/// What was looked at once, for all workloads.
pub struct Inspector {
    client: Client,
    found: Found,
    made: Vec<ApiResource>,
    cluster: Snapshot,
    witnesses: Witnesses,
    queues: Queues,
    owners: Owners,
    unseen: Unseen,
}

impl Inspector {
    /// Looks at what the cluster serves, and at nodes, the pods on them and events: of one namespace,
    /// or of all.
    pub async fn new(client: Client, namespace: Option<&str>) -> Result<Self, kube::Error> {
        let found = discovery::discover_as_reader(&client).await?;
        let newest = Dialect::ALL[Dialect::ALL.len() - 1];
        let assumed = Snapshot::assumed(TABLE[0].kind, newest);
        let mut inspector = Self {
            cluster: found.snapshot(None, &assumed),
            made: found.resources(),
            found,
            witnesses: Witnesses::default(),
            queues: Queues::new(client.clone()),
            owners: Owners::new(client.clone()),
            unseen: Unseen::default(),
            client,
        };
        inspector.look_again(namespace).await;
        Ok(inspector)
    }

    /// Looks again at what changes: nodes, the pods on them and events.
    pub async fn look_again(&mut self, namespace: Option<&str>) {
        self.witnesses = Witnesses::default();
        self.unseen = Unseen::default();
        for (what, why) in self.witnesses.list(&self.client, namespace).await {
            self.unseen.push(what, &why);
        }
    }

    /// What could not be looked at, and why: one sentence each.
    pub fn unseen(&self) -> &[String] {
        self.unseen.told()
    }

    /// All workloads that ask for gangs, of one namespace or of all.
    pub async fn all(&mut self, namespace: Option<&str>) -> Vec<Inspected> {
        let mut all = Vec::new();
        let served: Vec<&'static Facts> = workloads().filter(|facts| self.serves(facts)).collect();
        for facts in served {
            match self.of_kind(facts, namespace).await {
                Ok(found) => all.extend(found),
                Err(error) => self.unseen.push(facts.kind.plural, &error),
            }
        }
        all.sort_by(|a, b| (&a.namespace, &a.kind, &a.name).cmp(&(&b.namespace, &b.kind, &b.name)));
        all
    }

    async fn of_kind(
        &mut self,
        facts: &'static Facts,
        namespace: Option<&str>,
    ) -> Result<Vec<Inspected>, kube::Error> {
        let mut listing = self.list(facts, Scope::In(namespace)).await?;
        let stored = match facts.watched {
            Watched::ByMembers => pod_gangs::stand_ins(&listing.declaring).collect(),
            Watched::All | Watched::Labelled => {
                listing::workloads(&self.client, facts, namespace, &mut self.unseen).await?
            }
        };
        let mut found = Vec::new();
        for workload in &stored {
            found.extend(self.inspect(facts, workload, &mut listing).await);
        }
        Ok(found)
    }

    fn serves(&self, facts: &'static Facts) -> bool {
        self.found.workloads.contains(&facts)
    }

    async fn list(
        &mut self,
        facts: &'static Facts,
        scope: Scope<'_>,
    ) -> Result<Listing, kube::Error> {
        let (made, seals) = (&self.made, &self.cluster.seals);
        listing::list(&self.client, facts, made, seals, scope, &mut self.unseen).await
    }

    /// A workload that is an object.
    async fn one(
        &mut self,
        facts: &'static Facts,
        workload: &Stored,
    ) -> Result<Option<Inspected>, kube::Error> {
        let scope = Scope::Workload {
            namespace: workload.namespace(),
            known_as: watched_kind::known_as(facts, workload),
        };
        let mut listing = self.list(facts, scope).await?;
        Ok(self.inspect(facts, workload, &mut listing).await)
    }

    /// The gang of this name that pods declare; nothing where there is none.
    async fn declared(
        &mut self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Inspected>, kube::Error> {
        let Some(facts) = workloads().find(|facts| facts.watched == Watched::ByMembers) else {
            return Ok(None);
        };
        let scope = Scope::Workload {
            namespace,
            known_as: name,
        };
        let mut listing = self.list(facts, scope).await?;
        let stand_in = pod_gangs::stand_ins(&listing.declaring).next();
        match stand_in {
            Some(stand_in) => Ok(self.inspect(facts, &stand_in, &mut listing).await),
            None => Ok(None),
        }
    }

    /// How the gangs of a workload stand; nothing where it asks for none.
    async fn inspect(
        &mut self,
        facts: &'static Facts,
        workload: &Stored,
        listing: &mut Listing,
    ) -> Option<Inspected> {
        let object = Object::read(facts.kind, workload.text());
        let view = object.workload()?;
        let (namespace, name, uid) = (workload.namespace(), workload.name(), workload.uid());
        let pods = listing.pods(facts, workload);
        let made = listing.made(facts, workload);
        let revisions = revisions::stamps(&self.client, facts, namespace, name, uid).await;
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
            waiters: &[],
            now,
        };
        let mut actions = decide::decide(&seen, &self.cluster);
        let mut looked = vec![format!(
            "the {}, its pods and the objects of its gangs",
            match &owner {
                Some(_) => "gang",
                None => facts.kind.name,
            }
        )];
        let mut unknown = Vec::new();
        if !partners.is_empty() {
            looked.push("the other workloads of its bundle".to_owned());
        }
        self.queue(&mut actions, &mut looked, &mut unknown).await;
        let case = Case {
            workload: view,
            namespace,
            pods: &members,
            makers: &[],
            now,
        };
        case.explain(&mut actions, &self.witnesses, &self.client)
            .await;
        let told = workload.condition(super::report::condition::TYPE);
        let told = told.map(|told| {
            let text = |field: &str| told[field].as_str().unwrap_or_default().to_owned();
            (text("reason"), text("message"))
        });
        let asks = !actions.gangs.is_empty() || actions.refused.is_some() || told.is_some();
        if !asks {
            return None;
        }
        if let (Life::Suspended, Some(_)) = (view.life(), &actions.kueue) {
            unknown.push(format!(
                "why Kueue has not admitted it: kubectl get workloads.kueue.x-k8s.io -n {namespace}"
            ));
        }
        let (kind, called) = called(facts, name, owner.as_ref());
        Some(Inspected {
            kind,
            namespace: namespace.to_owned(),
            name: called,
            declared: owner.is_some().then(|| name.to_owned()),
            life: view.life(),
            progress: progress::count(&actions.gangs, &members, &listing.running),
            gangs: actions.gangs,
            refused: actions.refused,
            broken: actions.broken,
            kueue: actions.kueue,
            told,
            looked: self.and_around(looked),
            unknown: and_never(unknown),
        })
    }

    /// Who owns what is made for a workload that is no object.
    async fn owner(
        &mut self,
        facts: &Facts,
        workload: &Stored,
        members: &[SeenPod],
        made: &[kube::core::DynamicObject],
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

    /// What is wrong with the queue of gangs that wait.
    async fn queue(
        &mut self,
        actions: &mut Actions,
        looked: &mut Vec<String>,
        unknown: &mut Vec<String>,
    ) {
        let Some(queue) = actions.queue.clone() else {
            return;
        };
        let name = &queue.name;
        match self.queues.trouble(&queue).await {
            Ok(trouble) => {
                looked.push(format!("the queue {name:?}"));
                unknown.push(format!("how much of the queue {name:?} is in use"));
                trouble.iter().for_each(|trouble| actions.blame(trouble));
            }
            Err(error) => self.unseen.say(format!("the queue {name:?}: {error}")),
        }
    }

    /// With what was looked at for all workloads.
    fn and_around(&self, mut looked: Vec<String>) -> Vec<String> {
        if self.witnesses.sees_room() {
            looked.push("nodes and the pods on them".to_owned());
        }
        if self.witnesses.hears_refusals() {
            looked.push("what controllers are told when they create pods".to_owned());
        }
        looked
    }
}

/// With what nobody has looked at.
fn and_never(mut unknown: Vec<String>) -> Vec<String> {
    let never = [
        "what preemption could free",
        "what pods do to each other (affinity, spread, volumes), but for what the scheduler says",
        "whether pods on nodes start (images, volumes, start barriers)",
    ];
    unknown.extend(never.map(str::to_owned));
    unknown
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

    #[test]
    fn only_the_gang_that_is_asked_for_is_kept_with_its_progress() {
        let gang = |name: &str| GangStatus {
            name: name.to_owned(),
            ..GangStatus::example()
        };
        let progress = |created| Progress {
            created,
            ..Progress::default()
        };
        let both = Inspected {
            gangs: vec![gang("a"), gang("b")],
            progress: vec![progress(1), progress(2)],
            ..example::example()
        };
        let one = both.only(&["b".to_owned(), "c".to_owned()]);
        assert_eq!((one.gangs.len(), one.gangs[0].name.as_str()), (1, "b"));
        assert_eq!(one.progress, [progress(2)]);
    }
}
