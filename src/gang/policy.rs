//! What a user asks of a gang beyond its size: scheduler, queue, timeout, strictness.
//!
//! Only the values and their spelling; what a scheduler can honour is in `scheduler::abilities`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::field::FieldPath;
use super::reference::Circle;

/// A value together with the place where the user wrote it, so that a later refusal can name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Located<T> {
    /// What was written.
    pub(crate) value: T,
    /// Where.
    pub(crate) at: FieldPath,
}

impl<T> Located<T> {
    /// A value and its place.
    pub(crate) fn new(value: T, at: FieldPath) -> Self {
        Self { value, at }
    }
}

/// A scheduler, by the name that users write as the value of `muster.dev/scheduler`. The list of them
/// is in `scheduler/`, where each backend declares its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SchedulerKind(&'static str);

impl SchedulerKind {
    /// For a backend, which declares its own.
    pub(crate) const fn new(word: &'static str) -> Self {
        Self(word)
    }

    /// The name.
    pub const fn as_str(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for SchedulerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// A value that is not one of the known ones.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown value {0:?}")]
pub struct UnknownWord(pub String);

/// What happens when a gang has waited longer than its timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TimeoutAction {
    /// Report it and keep waiting.
    #[default]
    Wait,
    /// Suspend the workload.
    Suspend,
}

impl TimeoutAction {
    /// Its spellings.
    pub(crate) const NAMES: [&'static str; 2] = ["Wait", "Suspend"];

    /// As users write it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Wait => "Wait",
            Self::Suspend => "Suspend",
        }
    }
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

/// What happens to the members that are already placed when one cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub(crate) enum Strictness {
    /// All placed members give their room back.
    #[default]
    Strict,
    /// Placed members keep their room while the rest is retried.
    NonStrict,
}

impl Strictness {
    /// Its spellings.
    pub(crate) const NAMES: [&'static str; 2] = ["Strict", "NonStrict"];
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

/// The knobs of a plan that hold for all its gangs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Policy {
    /// The scheduler that the workload names.
    pub(crate) scheduler: Option<Located<SchedulerKind>>,
    /// The queue that its gangs wait in.
    pub(crate) queue: Option<Located<String>>,
    /// How long a gang may wait.
    pub(crate) timeout: Option<Located<Duration>>,
    /// What happens then.
    pub(crate) timeout_action: Option<Located<TimeoutAction>>,
    /// What happens to members that are already placed when one cannot be.
    pub(crate) strictness: Option<Located<Strictness>>,
    /// The other workloads whose gangs of the same bundle start together with this one's.
    pub(crate) bundle_with: Option<Located<Circle>>,
}
