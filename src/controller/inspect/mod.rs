//! One look at workloads from outside: lists in place of caches, and nothing is written. What
//! `muster explain` and `muster status` print comes from here, from the same functions that the
//! reconciler calls; so it needs no Muster that runs, and the rights of whoever looks.
//!
//! - [`inspected`]: what is said of a workload; [`progress`]: how far the members of its gangs are.
//! - [`listing`]: pods and objects of a kind, listed once.
//! - [`look`]: at one workload; [`barrier`]: at its start barrier; [`partners`]: at the others of its
//!   bundle; [`around`]: what else was looked at, and what never is.
//! - [`named`]: from what a person names to a workload; [`makers`]: by what makes its pods;
//!   [`unmade`]: where none of them exists.
//! - [`unseen`]: what could not be looked at.

mod around;
mod barrier;
#[cfg(test)]
pub(crate) mod example;
mod inspected;
mod listing;
mod look;
mod makers;
mod named;
mod partners;
pub mod progress;
mod unmade;
pub mod unseen;

use kube::Client;
use kube::core::ApiResource;

pub use self::inspected::{Inspected, Sight};
use self::listing::{Listing, PodsSeen, Scope};
pub use self::named::Answer;
use self::unseen::Unseen;
use super::cache::stored::Stored;
use super::discovery::{self, Found};
use super::owners::Owners;
use super::pod_gangs;
use super::watched_kind;
use super::witness::{Need, Pace, Witnesses};
use crate::gang::name::MAX_LABEL;
use crate::scheduler::{Dialect, Snapshot, TABLE};
use crate::workload::Facts;
use crate::workload::facts::Watched;
use crate::workload::object::workloads;

/// What was looked at once, for all workloads.
pub struct Inspector {
    client: Client,
    found: Found,
    made: Vec<ApiResource>,
    cluster: Snapshot,
    witnesses: Witnesses,
    owners: Owners,
    unseen: Unseen,
    /// The namespace that is looked at, where it is one.
    namespace: Option<String>,
    /// What Kueue says, once somebody asked.
    admissions: Option<Admissions>,
}

/// Whether what Kueue says could be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Admissions {
    Seen,
    Unseen,
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
            witnesses: Witnesses::new(Pace::Free),
            owners: Owners::new(client.clone()),
            unseen: Unseen::default(),
            namespace: namespace.map(str::to_owned),
            admissions: None,
            client,
        };
        inspector.look_again(namespace).await;
        Ok(inspector)
    }

    /// Looks again at what changes: nodes, the pods on them and events.
    pub async fn look_again(&mut self, namespace: Option<&str>) {
        self.witnesses = Witnesses::new(Pace::Free);
        self.unseen = Unseen::default();
        self.admissions = None;
        for (what, why) in self.witnesses.list(&self.client, namespace).await {
            self.unseen.push(what, &why);
        }
    }

    /// What could not be looked at, and why: one sentence each.
    pub fn unseen(&self) -> &[String] {
        self.unseen.told()
    }

    /// Of how many kinds of workloads none could be listed.
    pub fn unlisted_kinds(&self) -> usize {
        self.unseen.kinds()
    }

    /// All workloads that ask for gangs, of one namespace or of all.
    pub async fn all(&mut self, namespace: Option<&str>) -> Vec<Inspected> {
        let mut all = Vec::new();
        let served: Vec<&'static Facts> = workloads().filter(|facts| self.serves(facts)).collect();
        for facts in served {
            match self.of_kind(facts, namespace).await {
                Ok(found) => all.extend(found),
                Err(error) => self.unseen.kind(facts.kind.plural, &error),
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
            Watched::ByMembers => {
                if listing.pods_seen == PodsSeen::No {
                    self.unseen.unlisted_kind();
                }
                pod_gangs::stand_ins(&listing.declaring).collect()
            }
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

    fn sight(&self, pods: PodsSeen) -> Sight {
        let seen = |need| self.witnesses.has_seen(need);
        match seen(Need::Room) && seen(Need::Refusals) {
            _ if pods == PodsSeen::No => Sight::NoPods,
            true => Sight::Whole,
            false => Sight::Partial,
        }
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
        // It is the value of a label.
        let facts = workloads().find(|facts| facts.watched == Watched::ByMembers);
        let Some(facts) = facts.filter(|_| name.len() <= MAX_LABEL) else {
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
}
