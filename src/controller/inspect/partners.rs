//! The other workloads of a bundle, asked for one by one: the reconciler has them in its caches.

use super::listing::{self, Scope};
use super::{Inspector, watched_kind};
use crate::controller::bundles::partners::{self, Found, Partner};
use crate::controller::cache::stored::Stored;
use crate::controller::pod_gangs;
use crate::gang::PartnerRef;
use crate::workload::facts::Watched;
use crate::workload::object::workloads;
use crate::workload::{Facts, SeenPod, Workload};

impl Inspector {
    /// The workloads that one names. One that cannot be looked at is left out, and said.
    pub(super) async fn partners(
        &mut self,
        workload: &dyn Workload,
        namespace: &str,
    ) -> Vec<Partner> {
        let Some(circle) = partners::circle(workload, namespace) else {
            return Vec::new();
        };
        let mut all = Vec::new();
        let others = circle.sides().into_iter();
        for other in others.filter(|other| *other != circle.itself()) {
            let found = match self.partner(other).await {
                Ok(found) => found,
                Err(error) => {
                    self.unseen.push(&other.to_string(), &error);
                    continue;
                }
            };
            let found = found.as_ref().map(|(facts, stored, pods)| Found {
                facts,
                text: stored.text(),
                pods: pods.clone(),
            });
            let other = other.clone();
            all.push(partners::look_at(other, &circle, found, &self.cluster));
        }
        all
    }

    async fn partner(
        &mut self,
        other: &PartnerRef,
    ) -> Result<Option<(&'static Facts, Stored, Vec<SeenPod>)>, kube::Error> {
        let facts = workloads().find(|facts| facts.kind.name == other.kind());
        let Some(facts) = facts.filter(|facts| self.serves(facts)) else {
            return Ok(None);
        };
        let (namespace, name) = (other.workload().namespace(), other.workload().name());
        let stored = match facts.watched {
            Watched::ByMembers => None,
            Watched::All | Watched::Labelled => {
                let kind = watched_kind::api_resource(facts);
                let api = listing::api::<Stored>(&self.client, Some(namespace), &kind);
                match api.get_opt(name).await? {
                    Some(stored) => Some(stored),
                    None => return Ok(None),
                }
            }
        };
        let known = stored.as_ref();
        let known_as = known.map_or(name, |stored| watched_kind::known_as(facts, stored));
        let scope = Scope::Workload {
            namespace,
            known_as,
        };
        let mut listing = self.list(facts, scope).await?;
        let stored = stored.or_else(|| pod_gangs::stand_ins(&listing.declaring).next());
        Ok(stored.map(|stored| {
            let pods = listing.pods(facts, &stored);
            (facts, stored, pods)
        }))
    }
}
