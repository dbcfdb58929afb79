//! The dialects of Kubernetes' own gangs: which release speaks which, and what a cluster needs to
//! speak one.

use std::fmt;
use std::str::FromStr;

use crate::gang::SchedulerKind;
use crate::scheduler::cluster::{Release, Served, Snapshot};

use super::COMPOSITES;

/// The form of Kubernetes' own gangs, which changed in each release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dialect {
    /// `scheduling.k8s.io/v1alpha1`
    V1_35,
    /// `scheduling.k8s.io/v1alpha2`
    V1_36,
    /// `scheduling.k8s.io/v1beta1`
    V1_37,
    /// The same, and CompositePodGroups of `scheduling.k8s.io/v1alpha3` for bundles.
    V1_37Composites,
}

impl Dialect {
    /// Every dialect, the oldest first.
    pub const ALL: [Self; 4] = [Self::V1_35, Self::V1_36, Self::V1_37, Self::V1_37Composites];

    /// The release, as `--kubernetes` says it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::V1_35 => "1.35",
            Self::V1_36 => "1.36",
            Self::V1_37 => "1.37",
            Self::V1_37Composites => "1.37-composites",
        }
    }

    /// The API that must be served.
    pub(crate) const fn api(self) -> &'static str {
        match self {
            Self::V1_35 => "scheduling.k8s.io/v1alpha1",
            Self::V1_36 => "scheduling.k8s.io/v1alpha2",
            Self::V1_37 | Self::V1_37Composites => "scheduling.k8s.io/v1beta1",
        }
    }

    /// The feature gates, and whose; 1.37 merged `GangScheduling` into `GenericWorkload`.
    fn gates(self) -> &'static str {
        match self {
            Self::V1_35 => {
                "the feature gate GenericWorkload on kube-apiserver and kube-scheduler, \
                 GangScheduling on kube-scheduler"
            }
            Self::V1_36 => {
                "the feature gate GenericWorkload on kube-apiserver, kube-scheduler and \
                 kube-controller-manager, GangScheduling on kube-scheduler"
            }
            Self::V1_37 | Self::V1_37Composites => {
                "the feature gate GenericWorkload on kube-apiserver, kube-scheduler and \
                 kube-controller-manager"
            }
        }
    }

    /// The one that the cluster serves.
    pub(crate) fn served(cluster: &Snapshot) -> Option<Self> {
        let version = cluster.version(SchedulerKind::NATIVE)?;
        let composites = cluster.found.contains(&COMPOSITES);
        // Those that need more come later in the list.
        let mut dialects = Self::ALL.into_iter().rev();
        dialects.find(|dialect| {
            dialect.api() == version && (composites || *dialect != Self::V1_37Composites)
        })
    }

    /// Has the cluster serve this one.
    pub(crate) fn assume(self, cluster: &mut Snapshot) {
        let native = |served: &&mut Served| served.scheduler == SchedulerKind::NATIVE;
        if let Some(served) = cluster.served.iter_mut().find(native) {
            served.version = self.api();
        }
        if self != Self::V1_37Composites {
            cluster.found.retain(|probe| *probe != COMPOSITES);
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A Kubernetes version without native gangs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a Kubernetes version with native gangs; known are 1.35, 1.36, 1.37 and, with CompositePodGroups, 1.37-composites"
)]
pub struct UnknownVersion(String);

impl FromStr for Dialect {
    type Err = UnknownVersion;

    fn from_str(text: &str) -> Result<Self, UnknownVersion> {
        let version = text.strip_prefix('v').unwrap_or(text);
        Self::ALL
            .into_iter()
            .find(|dialect| {
                let rest = version.strip_prefix(dialect.as_str());
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            })
            .ok_or_else(|| UnknownVersion(text.to_owned()))
    }
}

/// The first release with native gangs.
const FIRST: Release = Release {
    major: 1,
    minor: 35,
};

/// What a release lacks when it serves no native gangs.
pub(crate) fn lacks(release: Release) -> String {
    if let Ok(dialect) = release.to_string().parse::<Dialect>() {
        let (gates, api) = (dialect.gates(), dialect.api());
        return format!(
            "Kubernetes {release} needs {gates}, and the API {api} (kube-apiserver \
             --runtime-config={api}=true)"
        );
    }
    if release < FIRST {
        return format!(
            "Kubernetes {release} has none; {FIRST} is the first version that has them"
        );
    }
    format!("this version of Muster knows those of 1.35 to 1.37, and this is Kubernetes {release}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_without_native_gangs_says_what_it_lacks() {
        let lacks = |minor| Release::read("1", minor).map(lacks).unwrap_or_default();
        assert_eq!(
            lacks("37+"),
            "Kubernetes 1.37 needs the feature gate GenericWorkload on kube-apiserver, \
             kube-scheduler and kube-controller-manager, and the API scheduling.k8s.io/v1beta1 \
             (kube-apiserver --runtime-config=scheduling.k8s.io/v1beta1=true)"
        );
        assert!(lacks("36").contains("scheduling.k8s.io/v1alpha2"));
        assert!(lacks("35").contains("GangScheduling on kube-scheduler, and"));
        assert_eq!(
            lacks("9"),
            "Kubernetes 1.9 has none; 1.35 is the first version that has them"
        );
        assert!(lacks("38").contains("knows those of 1.35 to 1.37"));
    }

    #[test]
    fn a_patch_release_speaks_its_minor_versions_dialect() {
        assert_eq!("1.37".parse(), Ok(Dialect::V1_37));
        assert_eq!("v1.36.3".parse(), Ok(Dialect::V1_36));
        assert_eq!("1.37-composites".parse(), Ok(Dialect::V1_37Composites));
        for text in ["1.3", "1.370", "1.38", "", "v", "1.35x"] {
            assert!(text.parse::<Dialect>().is_err(), "{text}");
        }
    }
}
