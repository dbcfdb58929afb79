//! What Muster knows of the cluster when it decides: a snapshot in memory, never a call.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use crate::gang::{SchedulerKind, Unasked};

use super::{KoordinatorWay, TABLE};

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
    pub const ALL: [Self; 4] = [Self::V1_35, Self::V1_36, Self::V1_37, Self::V1_37Composites];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::V1_35 => "1.35",
            Self::V1_36 => "1.36",
            Self::V1_37 => "1.37",
            Self::V1_37Composites => "1.37-composites",
        }
    }

    /// The API that must be served.
    pub const fn api(self) -> &'static str {
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
}

/// A minor release of Kubernetes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release {
    pub major: u32,
    pub minor: u32,
}

/// The first release with native gangs.
const FIRST: Release = Release {
    major: 1,
    minor: 35,
};

impl Release {
    /// Reads the apiserver's own words; some providers write `37+`.
    pub fn read(major: &str, minor: &str) -> Option<Self> {
        Some(Self {
            major: major.parse().ok()?,
            minor: minor.trim_end_matches('+').parse().ok()?,
        })
    }

    /// What this release lacks when it serves no native gangs.
    pub fn lacks(self) -> String {
        if let Ok(dialect) = self.to_string().parse::<Dialect>() {
            let (gates, api) = (dialect.gates(), dialect.api());
            return format!(
                "Kubernetes {self} needs {gates}, and the API {api} (kube-apiserver \
                 --runtime-config={api}=true)"
            );
        }
        if self < FIRST {
            return format!("Kubernetes {self} has none, they came with {FIRST}");
        }
        format!("this version of Muster knows those of 1.35 to 1.37, and this is Kubernetes {self}")
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
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

/// Whether a native link in a Job's pod template survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobTemplates {
    KeepLinks,
    /// JobSet up to 0.11 updates Jobs with types that lack the field: the apiserver would refuse
    /// every suspend and resume of a Job that has it.
    LoseLinks,
}

/// Whether Volcano's PodGroups can hold a bundle (1.14 and later).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubGroups {
    Known,
    Missing,
}

/// The cluster as a decision sees it.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The native dialect that the apiserver serves, if any.
    pub native: Option<Dialect>,
    /// The scheduler to use where nothing else says.
    pub default: Option<SchedulerKind>,
    /// The schedulers that the cluster serves.
    pub served: Vec<SchedulerKind>,
    /// Namespaces with the label `muster.dev/scheduler`, and its value.
    pub namespaces: HashMap<String, String>,
    pub job_templates: JobTemplates,
    pub sub_groups: SubGroups,
    /// How Koordinator is told of new gangs.
    pub koordinator: KoordinatorWay,
    /// What becomes of LeaderWorkerSets that say nothing of gangs.
    pub leader_worker_sets: Unasked,
    /// What the apiserver runs, where one was asked.
    pub release: Option<Release>,
}

impl Snapshot {
    /// A cluster that nobody has looked at: what `check`, `render` and a server without a cluster
    /// take for granted.
    pub fn assumed(default: SchedulerKind, native: Dialect) -> Self {
        Self {
            native: Some(native),
            default: Some(default),
            // Whichever is named may be there.
            served: TABLE.map(|entry| entry.kind).to_vec(),
            namespaces: HashMap::new(),
            job_templates: JobTemplates::KeepLinks,
            sub_groups: SubGroups::Known,
            koordinator: KoordinatorWay::default(),
            leader_worker_sets: Unasked::default(),
            release: None,
        }
    }

    /// How a scheduler is told of new gangs, where it can be told in several ways.
    pub fn variant(&self, kind: SchedulerKind) -> Option<&'static str> {
        (kind == SchedulerKind::KOORDINATOR).then(|| self.koordinator.variant())?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_without_native_gangs_says_what_it_lacks() {
        let lacks = |minor| {
            Release::read("1", minor)
                .map(Release::lacks)
                .unwrap_or_default()
        };
        assert_eq!(
            lacks("37+"),
            "Kubernetes 1.37 needs the feature gate GenericWorkload on kube-apiserver, \
             kube-scheduler and kube-controller-manager, and the API scheduling.k8s.io/v1beta1 \
             (kube-apiserver --runtime-config=scheduling.k8s.io/v1beta1=true)"
        );
        assert!(lacks("36").contains("scheduling.k8s.io/v1alpha2"));
        assert!(lacks("35").contains("GangScheduling on kube-scheduler, and"));
        assert_eq!(lacks("9"), "Kubernetes 1.9 has none, they came with 1.35");
        assert!(lacks("38").contains("knows those of 1.35 to 1.37"));
        assert_eq!(Release::read("1", "x"), None);
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
