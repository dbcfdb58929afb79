//! The kinds of workloads that are followed, and how their members and objects are found. What is of
//! one kind only is in its own file.

pub mod jobset;
pub mod lws;

use std::pin::pin;

use futures::StreamExt as _;
use kube::Client;
use kube::core::ApiResource;
use kube::runtime::{WatchStreamExt as _, watcher};

use crate::admission::Kind;
use crate::controller::cache::stored::Stored;
use crate::controller::run::watch;
use crate::controller::write::resource;
use crate::scheduler::object::{LIFE, MANAGED_BY};
use crate::workload::child::{JOBSET_NAME, JOBSET_UID};
use crate::workload::jobset::view::JobSet;
use crate::workload::keys;
use crate::workload::lws::replica;
use crate::workload::lws::view::LeaderWorkerSet;

/// A workload, as far as its gangs go.
#[derive(Debug, Clone, Copy)]
pub enum Workload<'a> {
    JobSet(&'a JobSet<'a>),
    LeaderWorkerSet(&'a LeaderWorkerSet<'a>),
}

/// A kind of workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workloads {
    JobSets,
    LeaderWorkerSets,
}

impl Workloads {
    pub const ALL: [Self; 2] = [Self::JobSets, Self::LeaderWorkerSets];

    pub fn api_version(self) -> &'static str {
        match self {
            Self::JobSets => crate::workload::jobset::view::API_VERSION,
            Self::LeaderWorkerSets => crate::workload::lws::view::API_VERSION,
        }
    }

    pub fn plural(self) -> &'static str {
        match self {
            Self::JobSets => "jobsets",
            Self::LeaderWorkerSets => "leaderworkersets",
        }
    }

    pub fn kind(self) -> Kind {
        match self {
            Self::JobSets => Kind::JobSet,
            Self::LeaderWorkerSets => Kind::LeaderWorkerSet,
        }
    }

    pub fn resource(self) -> ApiResource {
        let (group, version) = self.api_version().split_once('/').unwrap_or_default();
        resource(group, version, self.kind().as_str())
    }

    /// Waits until there is one: for a kind that nobody uses, nothing else is watched.
    pub async fn appear(self, client: &Client) {
        let events = watch::<Stored>(client, &self.resource(), watcher::Config::default());
        let mut seen = pin!(events.touched_objects());
        while let Some(seen) = seen.next().await {
            match seen {
                Ok(_) => return,
                Err(error) => tracing::warn!(%error, kind = self.plural(), "cannot watch"),
            }
        }
    }

    /// The label of a member that holds its workload's name.
    pub fn name_label(self) -> &'static str {
        match self {
            Self::JobSets => JOBSET_NAME,
            Self::LeaderWorkerSets => replica::NAME,
        }
    }

    /// Which pods are members: each kind's own, so that no pod is kept twice.
    pub fn members(self) -> String {
        format!("{},{}", keys::GANG, self.name_label())
    }

    /// Which objects Muster made for this kind.
    pub fn objects(self) -> String {
        let life = match self {
            Self::JobSets => format!("!{LIFE}"),
            Self::LeaderWorkerSets => LIFE.to_owned(),
        };
        format!("{}={},{life}", MANAGED_BY.0, MANAGED_BY.1)
    }

    /// The label of a member that says which workload owns it; [`Self::known_as`] is its value.
    pub fn owner_label(self) -> &'static str {
        match self {
            Self::JobSets => JOBSET_UID,
            // Its pods do not know its uid. Those of one that had the name before are being deleted.
            Self::LeaderWorkerSets => replica::NAME,
        }
    }

    /// What the members of a workload know it by.
    pub fn known_as(self, workload: &Stored) -> &str {
        match self {
            Self::JobSets => workload.uid(),
            Self::LeaderWorkerSets => workload.name(),
        }
    }
}
