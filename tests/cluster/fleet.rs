//! The clusters of a run: each is started when its first test needs it, and shared by all of its
//! tests.

use std::sync::Arc;

use anyhow::Result;
use tokio::sync::OnceCell;

use crate::cluster::Cluster;
use crate::components::Components;
use crate::figures::Figures;
use crate::modules::{
    CERT_MANAGER, COREDNS, HELM, KUBERAY, KUEUE, MPI, Module, NETWORK_POLICIES, OPERATORS,
    SCHEDULERS,
};
use crate::modules::{KUBERNETES_1_35, KUBERNETES_1_36, KUBERNETES_1_37};
use crate::process::Group;
use crate::release::Release;

/// Which cluster a test runs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Home {
    /// Kubernetes 1.37 with its own scheduler.
    Main,
    /// Kubernetes 1.37 with every scheduler that Muster speaks to.
    Schedulers,
    Kubernetes1_36,
    Kubernetes1_35,
    /// Kubernetes 1.37 with Koordinator, whose gangs Muster declares on the pods alone.
    KoordinatorAnnotations,
    /// Kubernetes 1.37 with the operators of other projects, whose workloads Muster does not know.
    ThirdParty,
    /// Kubernetes 1.37 with Kueue, its own scheduler and YuniKorn.
    Kueue,
    /// Kubernetes 1.37 with a real node, whose pods are containers: see `node`.
    Node,
}

impl Home {
    pub fn name(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Schedulers => "schedulers",
            Self::Kubernetes1_36 => "kubernetes-1.36",
            Self::Kubernetes1_35 => "kubernetes-1.35",
            Self::KoordinatorAnnotations => "koordinator-annotations",
            Self::ThirdParty => "third-party",
            Self::Kueue => "kueue",
            Self::Node => "node",
        }
    }

    /// What must be built for it. The order counts: kubectl renders the operators' manifests.
    pub fn modules(self) -> Vec<&'static Module> {
        let more: &[&Module] = match self {
            Self::Main => &[],
            // Koordinator comes with 1.35.
            Self::Schedulers => &[&SCHEDULERS, &KUBERNETES_1_35],
            Self::Kubernetes1_36 => &[&KUBERNETES_1_36],
            Self::Kubernetes1_35 | Self::KoordinatorAnnotations => &[&KUBERNETES_1_35],
            Self::ThirdParty => &[&MPI, &KUBERAY],
            Self::Kueue => &[&SCHEDULERS, &KUEUE],
            Self::Node => &[&COREDNS, &NETWORK_POLICIES, &HELM, &CERT_MANAGER],
        };
        [&[&KUBERNETES_1_37, &OPERATORS], more].concat()
    }

    /// The tests of one cluster follow each other, so that it can rest when they are done. First those whose
    /// components are built first, and last those of most tests.
    pub fn turn(self) -> usize {
        let turns = [
            Self::Node,
            Self::Main,
            Self::Kueue,
            Self::Kubernetes1_36,
            Self::Kubernetes1_35,
            Self::KoordinatorAnnotations,
            Self::ThirdParty,
        ];
        let turn = turns.iter().position(|home| *home == self);
        turn.unwrap_or(turns.len())
    }

    pub fn release(self) -> Release {
        match self {
            Self::Main
            | Self::KoordinatorAnnotations
            | Self::ThirdParty
            | Self::Kueue
            | Self::Node => Release::V1_37,
            Self::Schedulers => Release::V1_37WithComposites,
            Self::Kubernetes1_36 => Release::V1_36,
            Self::Kubernetes1_35 => Release::V1_35,
        }
    }
}

pub struct Fleet {
    pub components: Arc<Components>,
    group: Arc<Group>,
    pub figures: Arc<Figures>,
    clusters: [OnceCell<Arc<Cluster>>; 8],
}

impl Fleet {
    pub fn new(components: Components, group: Arc<Group>) -> Fleet {
        Fleet {
            components: Arc::new(components),
            group,
            figures: Arc::default(),
            clusters: Default::default(),
        }
    }

    pub async fn cluster(&self, home: Home) -> Result<Arc<Cluster>> {
        let start = async || {
            let (components, group) = (Arc::clone(&self.components), Arc::clone(&self.group));
            let figures = Arc::clone(&self.figures);
            let cluster = Cluster::start(components, group, home, figures);
            cluster.await.map(Arc::new)
        };
        let cluster = self.clusters[home as usize].get_or_try_init(start).await?;
        Ok(Arc::clone(cluster))
    }

    /// None of its tests will run any more.
    pub fn rest(&self, home: Home) {
        if let Some(cluster) = self.clusters[home as usize].get() {
            cluster.rest();
        }
    }

    pub fn started(&self) -> impl Iterator<Item = &Arc<Cluster>> {
        self.clusters.iter().filter_map(OnceCell::get)
    }
}
