//! One look at workloads from outside: lists in place of caches, and nothing is written. What
//! `muster explain` and `muster status` print comes from here, from the same functions that the
//! reconciler calls; so it needs no Muster that runs, and the rights of whoever looks.

use std::collections::HashSet;

use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, ListParams};
use kube::core::DynamicObject;
use serde_json::Value;

use super::cache::stored::Stored;
use super::causes::Case;
use super::decide::{self, GangStatus, Seen};
use super::discovery::{self, Found};
use super::gang_members::Pods;
use super::observe::{self, WatchedPod};
use super::report::condition;
use super::revisions;
use super::watched_kind;
use super::witness::Witnesses;
use super::write::{owners, resource};
use crate::judge;
use crate::scheduler::{Dialect, Snapshot, TABLE};
use crate::workload::facts::Watched;
use crate::workload::object::workloads;
use crate::workload::{Facts, Life, Object, SeenPod, Unasked};

/// The most workloads of a kind that are listed.
const MOST: u32 = 500;

/// A workload, and how its gangs stand.
#[derive(Debug)]
pub struct Inspected {
    /// Its kind.
    pub kind: &'static str,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Whether its gangs are to live now.
    pub life: Life,
    /// Its gangs.
    pub gangs: Vec<GangStatus>,
    /// Why no gang is made, although one is asked for.
    pub refused: Option<String>,
    /// The queue of Kueue that it is in.
    pub kueue: Option<String>,
    /// Who runs it in place of its kind's own controller.
    pub manager: Option<String>,
    /// Why main containers wait although all gangs are placed, as its condition says.
    pub barrier: Option<String>,
    /// What its condition says: reason and message.
    pub told: Option<(String, String)>,
}

/// What was looked at once, for all workloads.
pub struct Inspector {
    client: Client,
    found: Found,
    cluster: Snapshot,
    witnesses: Witnesses,
    /// What could not be looked at, and why.
    pub unseen: Vec<String>,
}

/// The kinds of workloads that can be named, as kubectl would name them.
pub fn kinds() -> Vec<&'static str> {
    let named = workloads().filter(|facts| facts.watched != Watched::ByMembers);
    named.map(|facts| facts.kind.plural).collect()
}

/// The kind that a word means: its name, its plural, or the beginning of its name in capitals.
fn kind_named(word: &str) -> Option<&'static Facts> {
    let word = word.to_ascii_lowercase();
    let short = |name: &str| -> String {
        let capitals = name.chars().filter(char::is_ascii_uppercase);
        capitals.collect::<String>().to_ascii_lowercase()
    };
    let mut named = workloads().filter(|facts| facts.watched != Watched::ByMembers);
    named.find(|facts| {
        let kind = facts.kind;
        let name = kind.name.to_ascii_lowercase();
        name == word || kind.plural == word || (word.len() > 1 && short(kind.name) == word)
    })
}

impl Inspector {
    /// Looks at what the cluster serves, and at nodes, the pods on them and events.
    pub async fn new(client: Client) -> Result<Self, kube::Error> {
        let found = discovery::discover(&client).await?;
        let newest = Dialect::ALL[Dialect::ALL.len() - 1];
        let assumed = Snapshot::assumed(TABLE[0].kind, newest);
        let cluster = found.snapshot(None, &assumed);
        let witnesses = Witnesses::default();
        let unseen = witnesses.list(&client).await;
        Ok(Self {
            client,
            found,
            cluster,
            witnesses,
            unseen,
        })
    }

    /// The workload that `kind/name` means; nothing where there is none, or no such kind.
    pub async fn one(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Inspected>, kube::Error> {
        let Some(facts) = kind_named(kind).filter(|facts| self.serves(facts)) else {
            return Ok(None);
        };
        let kind = watched_kind::api_resource(facts);
        let api: Api<Stored> = Api::namespaced_with(self.client.clone(), namespace, &kind);
        match api.get_opt(name).await? {
            Some(workload) => self.inspect(facts, &workload).await,
            None => Ok(None),
        }
    }

    /// All workloads that ask for gangs, of one namespace or of all.
    pub async fn all(&mut self, namespace: Option<&str>) -> Vec<Inspected> {
        let mut all = Vec::new();
        for facts in workloads().filter(|facts| facts.watched != Watched::ByMembers) {
            if !self.serves(facts) {
                continue;
            }
            let kind = watched_kind::api_resource(facts);
            let api: Api<Stored> = match namespace {
                Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &kind),
                None => Api::all_with(self.client.clone(), &kind),
            };
            let listed = match api.list(&ListParams::default().limit(MOST)).await {
                Ok(listed) => listed,
                Err(error) => {
                    self.unseen.push(format!("{}: {error}", facts.kind.plural));
                    continue;
                }
            };
            if listed
                .metadata
                .continue_
                .is_some_and(|more| !more.is_empty())
            {
                let plural = facts.kind.plural;
                self.unseen
                    .push(format!("{plural} beyond the first {MOST}"));
            }
            for workload in listed.items {
                match self.inspect(facts, &workload).await {
                    Ok(inspected) => all.extend(inspected),
                    Err(error) => self.unseen.push(format!("{}: {error}", workload.name())),
                }
            }
        }
        all
    }

    fn serves(&self, facts: &'static Facts) -> bool {
        self.found.workloads.contains(&facts)
    }

    async fn inspect(
        &self,
        facts: &'static Facts,
        workload: &Stored,
    ) -> Result<Option<Inspected>, kube::Error> {
        let object = Object::read(facts.kind, workload.text());
        let Some(view) = object.workload() else {
            return Ok(None);
        };
        let (namespace, name, uid) = (workload.namespace(), workload.name(), workload.uid());
        let pods = self.pods(facts, workload).await?;
        let revisions = revisions::stamps(&self.client, facts, namespace, name, uid).await;
        let Pods { members, strangers } =
            Pods::sort(pods, view, &revisions.unwrap_or_else(|_| HashSet::new()));
        let made = self.made(facts, workload).await?;
        let now = Timestamp::now();
        let seen = Seen {
            workload: view,
            namespace,
            pods: &members,
            strangers: &strangers,
            made: &made,
            partners: &[],
            owner: None,
            waiters: &[],
            now,
        };
        let mut actions = decide::decide(&seen, &self.cluster);
        let case = Case {
            workload: view,
            namespace,
            pods: &members,
            now,
        };
        case.explain(&mut actions, &self.witnesses, &self.client)
            .await;
        let text = |told: &Value, field: &str| told[field].as_str().unwrap_or_default().to_owned();
        let told = workload.condition(condition::TYPE);
        let told = told.map(|told| (text(&told, "reason"), text(&told, "message")));
        let barrier = workload.condition(condition::BARRIER);
        let barrier = barrier.filter(|told| told["status"] == "False");
        let life = view.life();
        // Nothing is decided of one that somebody else runs.
        let elsewhere = || {
            let judged = judge::stored(view, namespace, &self.cluster, Unasked::NoGang);
            life == Life::LeftAlone && !judged.plan.parts.is_empty()
        };
        let asks =
            !actions.gangs.is_empty() || actions.refused.is_some() || told.is_some() || elsewhere();
        Ok(asks.then(|| Inspected {
            kind: facts.kind.name,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            life,
            gangs: actions.gangs,
            refused: actions.refused,
            kueue: actions.kueue,
            manager: view.manager().map(str::to_owned),
            barrier: barrier.map(|told| text(&told, "message")),
            told,
        }))
    }

    async fn pods(&self, facts: &Facts, workload: &Stored) -> Result<Vec<SeenPod>, kube::Error> {
        let api: Api<WatchedPod> = Api::namespaced_with(
            self.client.clone(),
            workload.namespace(),
            &resource("", "v1", "Pod"),
        );
        let (label, value) = (
            watched_kind::owner_label(facts),
            watched_kind::known_as(facts, workload),
        );
        let own = format!("{},{label}={value}", watched_kind::members(facts));
        let pods = api.list(&ListParams::default().labels(&own)).await?;
        let seals = &self.cluster.seals;
        let read = pods.iter().filter_map(|pod| observe::read(pod, seals));
        Ok(read.collect())
    }

    async fn made(
        &self,
        facts: &Facts,
        workload: &Stored,
    ) -> Result<Vec<DynamicObject>, kube::Error> {
        let mut made = Vec::new();
        let ours = ListParams::default().labels(&watched_kind::objects(facts));
        for kind in self.found.resources() {
            let api: Api<DynamicObject> =
                Api::namespaced_with(self.client.clone(), workload.namespace(), &kind);
            let listed = api.list(&ours).await?;
            let own =
                |object: &DynamicObject| owners(&object.metadata).any(|uid| uid == workload.uid());
            made.extend(listed.items.into_iter().filter(own));
        }
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_named_as_kubectl_names_them() {
        for facts in workloads().filter(|facts| facts.watched != Watched::ByMembers) {
            for word in [facts.kind.name, facts.kind.plural] {
                assert_eq!(kind_named(word), Some(facts), "{word}");
            }
        }
        assert_eq!(kind_named("l"), None);
        assert_eq!(kind_named("configmap"), None);
    }
}
