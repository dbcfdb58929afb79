//! What a user asks of a gang beyond its size: scheduler, queue, timeout, strictness.
//!
//! Only the words and their spelling; what a scheduler can honour is in `scheduler::abilities`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::field::FieldPath;
use super::reference::WorkloadRef;

/// A value together with the place where the user wrote it, so that a later refusal can name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located<T> {
    pub value: T,
    pub at: FieldPath,
}

impl<T> Located<T> {
    pub fn new(value: T, at: FieldPath) -> Self {
        Self { value, at }
    }
}

/// The schedulers whose gangs Muster speaks of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SchedulerKind {
    Native,
    Volcano,
    Coscheduling,
    Koordinator,
    Yunikorn,
    Kai,
}

impl SchedulerKind {
    pub const ALL: [Self; 6] = [
        Self::Native,
        Self::Volcano,
        Self::Coscheduling,
        Self::Koordinator,
        Self::Yunikorn,
        Self::Kai,
    ];

    /// The value of `muster.dev/scheduler`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Volcano => "volcano",
            Self::Coscheduling => "coscheduling",
            Self::Koordinator => "koordinator",
            Self::Yunikorn => "yunikorn",
            Self::Kai => "kai",
        }
    }

    /// All values of `muster.dev/scheduler`, for error messages and `--help`.
    pub fn names() -> [&'static str; 6] {
        Self::ALL.map(Self::as_str)
    }

    /// The `schedulerName` that this scheduler listens to by default.
    pub fn default_scheduler_name(self) -> &'static str {
        match self {
            Self::Native => "default-scheduler",
            Self::Volcano => "volcano",
            // The name in scheduler-plugins' Helm chart; any profile with the plugin works too.
            Self::Coscheduling => "scheduler-plugins-scheduler",
            Self::Koordinator => "koord-scheduler",
            Self::Yunikorn => "yunikorn",
            Self::Kai => "kai-scheduler",
        }
    }

    /// The scheduler that a pod's `schedulerName` points at, when the name says so by itself.
    /// `default-scheduler` does not: coscheduling may be a plugin of the default profile.
    pub fn from_scheduler_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .filter(|kind| *kind != Self::Native)
            .find(|kind| kind.default_scheduler_name() == name)
    }
}

impl fmt::Display for SchedulerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that is none of the known ones.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown value {0:?}")]
pub struct UnknownWord(pub String);

impl FromStr for SchedulerKind {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.as_str() == word)
            .ok_or_else(|| UnknownWord(word.to_owned()))
    }
}

/// What happens when a gang has waited longer than its timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TimeoutAction {
    /// Say so, keep waiting.
    #[default]
    Wait,
    /// Suspend the workload.
    Suspend,
}

impl TimeoutAction {
    pub const NAMES: [&'static str; 2] = ["Wait", "Suspend"];
}

impl FromStr for TimeoutAction {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        match word {
            "Wait" => Ok(Self::Wait),
            "Suspend" => Ok(Self::Suspend),
            _ => Err(UnknownWord(word.to_owned())),
        }
    }
}

/// What happens to the members that are already placed when one cannot be (Koordinator's words).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub enum Strictness {
    /// All placed members give their room back.
    #[default]
    Strict,
    /// Placed members keep their room while the rest is retried.
    NonStrict,
}

impl Strictness {
    pub const NAMES: [&'static str; 2] = ["Strict", "NonStrict"];
}

impl FromStr for Strictness {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        match word {
            "Strict" => Ok(Self::Strict),
            "NonStrict" => Ok(Self::NonStrict),
            _ => Err(UnknownWord(word.to_owned())),
        }
    }
}

/// How Koordinator is told of gangs.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Default,
    serde::Serialize,
    serde::Deserialize,
    clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum KoordinatorWay {
    /// A PodGroup per gang.
    #[default]
    #[value(name = "podgroup")]
    PodGroup,
    /// Annotations on the pods, no object.
    Annotations,
}

/// What becomes of a LeaderWorkerSet that says nothing of gangs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Unasked {
    /// Only sets that ask for it are ganged.
    #[default]
    #[value(name = "annotated")]
    Alone,
    /// All sets are ganged, but those that say Off.
    #[value(name = "all")]
    Ganged,
}

/// The knobs of a plan that hold for all its gangs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policy {
    pub scheduler: Option<Located<SchedulerKind>>,
    pub queue: Option<Located<String>>,
    pub timeout: Option<Located<Duration>>,
    pub timeout_action: Option<Located<TimeoutAction>>,
    pub strictness: Option<Located<Strictness>>,
    /// The other workloads whose gangs of the same bundle start together with this one's.
    pub bundle_with: Option<Located<Vec<WorkloadRef>>>,
}
