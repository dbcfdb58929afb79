//! Sites: the places in a workload where stamps stand. The same for every kind.

use std::collections::{HashMap, HashSet};

use crate::gang::{FieldPath, Stamp, StampHash};

use super::keys::{self, Place};
use super::template::PodTemplate;
use super::view::Meta;
use super::{Life, Workload};

/// A template's metadata, with the pod spec beside it where it is one of pods.
#[derive(Debug, Clone)]
pub struct Site<'o> {
    /// Where the template stands, as a patch says it.
    pub(crate) path: Vec<String>,
    /// The same for messages.
    pub(crate) at: FieldPath,
    /// Parents on the path, and the spec, that do not exist: a patch must create them first.
    pub(crate) missing: Vec<Vec<String>>,
    pub(crate) meta: Option<&'o Meta<'o>>,
    /// The template, where it is one of pods.
    pub(crate) pods: Option<&'o PodTemplate<'o>>,
    /// The role that its pods play.
    pub(crate) role: &'o str,
    /// Which `muster.dev/` keys may stand here.
    pub(crate) place: &'static Place,
}

impl Site<'_> {
    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        self.meta.and_then(|meta| meta.label(key))
    }

    pub(crate) fn annotation(&self, key: &str) -> Option<&str> {
        self.meta.and_then(|meta| meta.annotation(key))
    }

    /// The stamp that stands here, where it can be read.
    pub(crate) fn stamp(&self) -> Option<Stamp> {
        Stamp::parse(self.annotation(keys::STAMP)?).ok()
    }

    /// The scheduler's name in the template of pods.
    pub(crate) fn scheduler_name(&self) -> Option<&str> {
        self.pods
            .and_then(|pods| pods.spec.scheduler_name.as_deref())
    }

    /// Whether that name was written by Muster, and not by the user.
    pub(crate) fn is_named_by_muster(&self) -> bool {
        let name = self.scheduler_name();
        name.is_some()
            && self
                .stamp()
                .is_some_and(|stamp| stamp.scheduler_name.as_deref() == name)
    }

    /// What it has in common with the same site in another version of the workload: its role, and
    /// whether it is a template of pods.
    pub(crate) fn key(&self) -> (&str, bool) {
        (self.role, self.pods.is_some())
    }

    /// The path as a patch builder takes it.
    pub(crate) fn tokens(&self) -> Vec<&str> {
        self.path.iter().map(String::as_str).collect()
    }
}

/// Sites by what tells them apart in one workload.
pub(crate) fn by_key<'s, 'o>(sites: &'s [Site<'o>]) -> HashMap<(&'s str, bool), &'s Site<'o>> {
    sites.iter().map(|site| (site.key(), site)).collect()
}

/// Any stamp of a workload's templates: they agree in what concerns the scheduler.
pub(crate) fn stamp(workload: &dyn Workload) -> Option<Stamp> {
    workload.sites().iter().find_map(Site::stamp)
}

/// The stamps that a workload's templates carry: it vouches for them. None, where Muster leaves it
/// alone: anybody may have written them.
pub(crate) fn carried(workload: &dyn Workload) -> HashSet<StampHash> {
    let sites = match workload.life() {
        Life::LeftAlone => Vec::new(),
        _ => workload.sites(),
    };
    let carried = sites.iter().flat_map(|site| {
        let stamps = [
            site.label(keys::GANG).zip(site.annotation(keys::STAMP)),
            Some(keys::BARRIER).zip(site.annotation(keys::BARRIER_STAMP)),
        ];
        let stamps = stamps.into_iter().flatten();
        stamps.map(|(gang, text)| StampHash::of(gang, text))
    });
    carried.collect()
}

/// Whether its templates carry a stamp at all.
pub(crate) fn is_stamped(workload: &dyn Workload) -> bool {
    let sites = workload.sites();
    sites
        .iter()
        .any(|site| site.annotation(keys::STAMP).is_some())
}
