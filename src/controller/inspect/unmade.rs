//! A gang that a template declares and of which no pod exists: the reconciler knows such gangs only by
//! their pods, but whoever names the template asks why.

use k8s_openapi::jiff::Timestamp;
use kube::api::ListParams;
use kube::core::{DynamicObject, ObjectMeta};

use super::around::{Stands, and_never};
use super::listing::PodsSeen;
use super::progress::Progress;
use super::{Inspected, Inspector, listing};
use crate::controller::cache::stored::Stored;
use crate::controller::causes::Case;
use crate::controller::decide::{Actions, GangStatus, State};
use crate::controller::owners::controller_of;
use crate::controller::pages;
use crate::controller::wanted::Wanted;
use crate::controller::write::resource;
use crate::explain::{Evidence, causes};
use crate::gang::{Part, SchedulerKind, keys};
use crate::judge;
use crate::workload::{KINDS, Kind, Life, Unasked, Workload as _, pods};

impl Inspector {
    /// A gang that is declared and of which no pod exists.
    pub(super) async fn unmade(
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
        let (unlinked, seen) = match self.pods_of(stored, &below).await {
            Ok(unlinked) => (unlinked, PodsSeen::Yes),
            Err(error) if listing::is_forbidden(&error) => (0, PodsSeen::No),
            Err(error) => return Err(error),
        };
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
            wanted: Wanted::of(stored),
            now: Timestamp::now(),
        };
        if seen == PodsSeen::Yes {
            case.explain(&mut actions, &self.witnesses, &self.client)
                .await;
        }
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
            pods: format!("{}={name}", keys::GANG_NAME),
            declared: Some(name),
            life: Life::Live,
            progress: vec![Progress::default()],
            gangs: actions.gangs,
            refused: None,
            broken: None,
            kueue: None,
            resume: None,
            manager: None,
            barrier: None,
            missing: Vec::new(),
            foreign: Vec::new(),
            told: None,
            sight: self.sight(seen),
            failed: None,
            looked: self.and_around(vec![match seen {
                PodsSeen::Yes => format!("the {} and its pods", kind.name),
                PodsSeen::No => format!("the {}", kind.name),
            }]),
            unknown: and_never(Vec::new(), Stands::Waits),
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
            let found = match self.metadata_in(kind, maker.namespace()).await {
                Err(error) if listing::is_forbidden(&error) => {
                    self.unseen.push(kind.plural, &error);
                    continue;
                }
                found => found?,
            };
            for meta in found {
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
        let page = ListParams::default().limit(pages::PAGE);
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
