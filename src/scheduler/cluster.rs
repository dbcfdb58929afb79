//! What Muster knows of the cluster when it decides: a snapshot in memory, never a call.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use crate::gang::{KoordinatorWay, SchedulerKind};

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
    /// How Koordinator is told of new gangs.
    pub koordinator: KoordinatorWay,
}

impl Snapshot {
    /// A cluster that nobody has looked at: what `check`, `render` and a server without a cluster
    /// take for granted.
    pub fn assumed(default: SchedulerKind, native: Dialect) -> Self {
        Self {
            native: Some(native),
            default: Some(default),
            served: vec![default],
            namespaces: HashMap::new(),
            job_templates: JobTemplates::KeepLinks,
            koordinator: KoordinatorWay::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
