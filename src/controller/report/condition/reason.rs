//! The reasons of conditions: in one word why a workload stands as it does.

use crate::controller::metrics::BarrierOutcome;

pub(super) const BROKEN: &str = "GangBroken";
pub(super) const TIMED_OUT: &str = "GangTimedOut";
/// Some members of a start barrier wait for the others.
pub(crate) const BARRIER_WAITING: &str = "BarrierWaiting";
/// All have started.
pub(crate) const BARRIER_OPENED: &str = "BarrierOpened";
/// They would, but what opens it is refused.
pub(crate) const BARRIER_REFUSED: &str = "BarrierRefused";

/// Whether the reason of a condition is a cause for which a gang waits: the others are of the gang.
pub(super) fn is_a_cause(reason: &str) -> bool {
    !reason.is_empty() && !reason.contains("Gang")
}

/// Why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    Scheduled,
    Waiting,
    /// The first cause for which a gang waits.
    Because(&'static str),
    Broken,
    TimedOut,
    Ended,
    Failed,
    Suspended,
    Refused,
    Idle,
    BarrierOpen,
    BarrierWaiting,
    BarrierTimedOut,
    BarrierRefused,
}

impl Reason {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "GangScheduled",
            Self::Waiting => "GangWaiting",
            Self::Because(cause) => cause,
            Self::Broken => BROKEN,
            Self::TimedOut => TIMED_OUT,
            Self::Ended => "GangEnded",
            Self::Failed => "GangFailed",
            Self::Suspended => "GangSuspended",
            Self::Refused => "GangRefused",
            Self::Idle => "NoGang",
            Self::BarrierOpen => BARRIER_OPENED,
            Self::BarrierWaiting => BARRIER_WAITING,
            Self::BarrierTimedOut => "BarrierTimedOut",
            Self::BarrierRefused => BARRIER_REFUSED,
        }
    }

    pub(super) fn status(self) -> &'static str {
        match self {
            Self::Scheduled | Self::BarrierOpen => "True",
            Self::Waiting | Self::Because(_) | Self::Broken | Self::TimedOut => "False",
            Self::Ended | Self::Failed => "False",
            Self::Suspended | Self::Refused | Self::Idle => "False",
            Self::BarrierWaiting | Self::BarrierTimedOut | Self::BarrierRefused => "False",
        }
    }

    pub(super) fn barrier(self) -> Option<BarrierOutcome> {
        match self {
            Self::BarrierOpen => Some(BarrierOutcome::Opened),
            Self::BarrierTimedOut => Some(BarrierOutcome::TimedOut),
            Self::BarrierRefused => Some(BarrierOutcome::Refused),
            _ => None,
        }
    }
}
