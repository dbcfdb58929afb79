//! The start barrier (KEP-498): main containers wait until every member of the targets has started.
//!
//! What a workload asks for, and which start of it a barrier belongs to. How pods wait is in
//! `crate::barrier`.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use super::name::{Attempt, Identity, Round};

/// The init container that waits; the name that KEP-498 reserves.
pub(crate) const CONTAINER: &str = "group-scheduling-init";
/// The volume that shows that the barrier is open.
pub(crate) const VOLUME: &str = "group-scheduling";
/// The volume in which a pod remembers since when it has waited: kubelet restarts an init container
/// in place, and its time must not begin again.
pub(crate) const CLOCK_VOLUME: &str = "group-scheduling-clock";

/// Main containers wait until every member of the targets has started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Barrier {
    /// How long one pod waits.
    pub(crate) timeout: Duration,
    /// The roles that wait for each other.
    pub(crate) targets: Vec<Target>,
}

/// Pods of one template that wait for the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) role: String,
    /// Jobs of this template.
    pub(crate) jobs: u64,
    /// Pods of one Job that run at a time.
    pub(crate) pods: u64,
    /// Pods of one Job that must succeed.
    pub(crate) completions: u64,
}

impl Target {
    /// How many of them run at a time.
    pub(crate) fn members(&self) -> u64 {
        self.jobs.saturating_mul(self.pods)
    }

    /// The same where some are done already: how many of each Job that has such.
    pub(crate) fn left(&self, done: impl Iterator<Item = u64>) -> u64 {
        let mut members = self.members();
        for done in done {
            let left = self.pods.min(self.completions.saturating_sub(done));
            members = members.saturating_sub(self.pods - left);
        }
        members
    }
}

impl Barrier {
    pub(crate) fn targets(&self, role: &str) -> bool {
        self.targets.iter().any(|target| target.role == role)
    }

    /// How many pods wait for each other.
    pub(crate) fn members(&self) -> u64 {
        let members = self.targets.iter().map(Target::members);
        members.fold(0, u64::saturating_add)
    }
}

/// One start of a workload: its members wait for each other, and for nobody of another start.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct BarrierStart {
    pub(crate) namespace: String,
    pub(crate) workload: String,
    pub(crate) uid: String,
    pub(crate) attempt: u32,
    pub(crate) round: Round,
}

impl BarrierStart {
    /// The first start of a workload of tests.
    #[cfg(test)]
    pub(crate) fn example() -> Self {
        Self {
            namespace: "ml".to_owned(),
            workload: "train".to_owned(),
            uid: "7f6c".to_owned(),
            attempt: 0,
            round: Round(0),
        }
    }

    /// Whether it is of the same attempt, in whatever round.
    pub(crate) fn is_of_attempt(&self, other: &Self) -> bool {
        self.uid == other.uid && self.attempt == other.attempt
    }

    /// The same start in another round.
    pub(crate) fn in_round(&self, round: Round) -> Self {
        Self {
            round,
            ..self.clone()
        }
    }

    /// The name of the ConfigMap that opens the barrier. With the uid in its hash: no user has one of
    /// this name by accident, and none is left from a workload of the same name.
    pub(crate) fn name(&self) -> String {
        let identity = Identity {
            namespace: self.namespace.clone(),
            workload: self.workload.clone(),
            uid: self.uid.clone(),
            attempt: Attempt {
                whole: self.attempt,
                own: 0,
            },
            round: self.round,
            ..Identity::default()
        };
        identity.shared_name("barrier", "barrier").into_string()
    }
}

/// Who the container that waits runs as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitUser {
    /// The user and group of this number.
    Id(NonZeroU32),
    /// Whom the platform chooses: OpenShift gives each namespace users of its own, and refuses others.
    Chosen,
}

impl Default for WaitUser {
    /// Neither root nor a user that the image must know.
    fn default() -> Self {
        const NOBODY: NonZeroU32 = NonZeroU32::MIN.saturating_add(65_531);
        Self::Id(NOBODY)
    }
}

impl FromStr for WaitUser {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "none" => Ok(Self::Chosen),
            _ => text
                .parse()
                .map(Self::Id)
                .map_err(|_| "neither a user's number above 0 nor `none`"),
        }
    }
}

impl fmt::Display for WaitUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => id.fmt(f),
            Self::Chosen => f.write_str("none"),
        }
    }
}

/// What the container that waits is made of, and whom it asks: configuration, the same for all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitContainer {
    /// Muster's own image.
    pub image: String,
    /// As `imagePullPolicy` says it; Kubernetes' own default without it.
    pub pull_policy: Option<String>,
    /// Request and limit.
    pub cpu: String,
    /// Request and limit.
    pub memory: String,
    /// Who it runs as.
    pub user: WaitUser,
    /// `host:port` of the replicas; without it pods wait for the file alone.
    pub server: Option<String>,
    /// The CAs of the replicas, as PEM.
    pub ca: Option<Arc<str>>,
}

impl Default for WaitContainer {
    /// What is taken for granted without a cluster.
    fn default() -> Self {
        Self {
            image: "muster:dev".to_owned(),
            pull_policy: None,
            cpu: "50m".to_owned(),
            memory: "32Mi".to_owned(),
            user: WaitUser::default(),
            server: None,
            ca: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_start_has_a_barrier_of_its_own() {
        let start = |uid: &str, attempt, round| {
            let start = BarrierStart {
                uid: uid.to_owned(),
                attempt,
                round: Round(round),
                ..BarrierStart::example()
            };
            start.name()
        };
        let names = [
            start("7f6c", 0, 0),
            start("7f6c", 1, 0),
            start("7f6c", 0, 1),
            start("8a00", 0, 0),
        ];
        let different: std::collections::HashSet<_> = names.iter().collect();
        assert_eq!(different.len(), names.len());
        assert!(names[0].starts_with("train-barrier-0-"), "{}", names[0]);
    }
}
