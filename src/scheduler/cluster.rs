//! What Muster knows of the cluster when it decides: a snapshot in memory, never a call.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::gang::{SchedulerKind, Seals, Standing, Vouched, WaitContainer};

use super::{Api, Dialect, Namespaces, Probe, TABLE};

/// A minor release of Kubernetes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release {
    /// The `1` of `1.37`.
    pub(crate) major: u32,
    /// The `37` of `1.37`.
    pub(crate) minor: u32,
}

impl Release {
    /// Reads the apiserver's own words; some providers write `37+`.
    pub(crate) fn read(major: &str, minor: &str) -> Option<Self> {
        Some(Self {
            major: major.parse().ok()?,
            minor: minor.trim_end_matches('+').parse().ok()?,
        })
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Whether a link that is a field survives in a Job's pod template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobTemplates {
    /// It does.
    KeepLinks,
    /// The controller that owns the Jobs updates them with types that lack the field: the apiserver
    /// would refuse every suspend and resume of a Job that has it.
    LoseLinks,
}

/// An API of a scheduler that the cluster serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Served {
    /// Whose.
    pub scheduler: SchedulerKind,
    /// The group and version.
    pub(crate) version: &'static str,
}

/// The cluster as a decision sees it.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The scheduler to use where nothing else says.
    pub default: Option<SchedulerKind>,
    /// The schedulers that the cluster serves, one API of each.
    pub served: Vec<Served>,
    /// What else of the schedulers was looked for, and found.
    pub found: Vec<Probe>,
    /// How schedulers are told of new gangs, where they can be told in several ways and not the
    /// default one was configured.
    pub variants: Vec<(SchedulerKind, &'static str)>,
    /// The namespaces, and which scheduler their labels name.
    pub namespaces: Namespaces,
    /// Whether a link in a Job's pod template survives.
    pub job_templates: JobTemplates,
    /// Kinds of workloads that are gangs although they say nothing of it, by configuration.
    pub ganged_unasked: Vec<&'static str>,
    /// Muster's own user, where there is a cluster: keys that Muster alone writes are taken from
    /// nobody else.
    pub own_user: Option<String>,
    /// The keys of stamps.
    pub seals: Arc<Seals>,
    /// What stored workloads say of stamps whose key is not among them.
    pub vouched: Vouched,
    /// The gangs that pods declare themselves.
    pub standing: Standing,
    /// What the apiserver runs, where one was asked.
    pub release: Option<Release>,
    /// What is injected for start barriers.
    pub wait: Arc<WaitContainer>,
}

impl Snapshot {
    /// A cluster that nobody has looked at: what `check`, `render` and a server without a cluster
    /// take for granted. Whichever scheduler is named may be there, with all that it can have.
    pub fn assumed(default: SchedulerKind, dialect: Dialect) -> Self {
        let apis = || {
            let entries = TABLE.iter();
            entries.filter_map(|entry| Some((entry.kind, entry.apis.first()?)))
        };
        let served = |(scheduler, api): (SchedulerKind, &Api)| Served {
            scheduler,
            version: api.version,
        };
        let mut cluster = Self {
            default: Some(default),
            served: apis().map(served).collect(),
            found: apis().flat_map(|(_, api)| api.probes).copied().collect(),
            variants: Vec::new(),
            namespaces: Namespaces::Assumed(HashMap::new()),
            job_templates: JobTemplates::KeepLinks,
            ganged_unasked: Vec::new(),
            own_user: None,
            seals: Arc::new(Seals::fixed()),
            vouched: Vouched::Nobody,
            standing: Standing::Nobody,
            release: None,
            wait: Arc::default(),
        };
        dialect.assume(&mut cluster);
        cluster
    }

    /// The same, with new gangs of a scheduler made in another way than by default.
    #[must_use]
    pub fn with_variant(mut self, scheduler: SchedulerKind, variant: &'static str) -> Self {
        self.variants.push((scheduler, variant));
        self
    }

    /// The version of a scheduler's API, where it is served.
    pub(super) fn version(&self, scheduler: SchedulerKind) -> Option<&'static str> {
        let mut served = self.served.iter();
        let served = served.find(|served| served.scheduler == scheduler)?;
        Some(served.version)
    }

    /// How a scheduler is told of new gangs; `None` is its default way.
    pub(super) fn variant(&self, scheduler: SchedulerKind) -> Option<&'static str> {
        let mut variants = self.variants.iter();
        let variant = variants.find(|(of, _)| *of == scheduler)?;
        Some(variant.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_read_from_the_apiservers_own_words() {
        let read = |minor| Release::read("1", minor).map(|release| release.to_string());
        assert_eq!(read("37+").as_deref(), Some("1.37"));
        assert_eq!(read("x"), None);
    }
}
