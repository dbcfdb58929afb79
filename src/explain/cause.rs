//! The causes for which a gang waits: a closed list, each with its evidence. Text is made of them in one
//! place (`text`).

use super::fit::Fit;
use super::nodes::Exclusion;
use super::refusal::{Refusal, Refuser};
use super::words::Obstacle;
use crate::scheduler::queue::{QueueTrouble, Wrong};

/// Why a gang waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// Its workload's controller waits for something before it makes its pods.
    NotBegun(String),
    /// Pods of it exist that are not linked to it.
    Unlinked {
        /// How many.
        pods: usize,
    },
    /// Its pods are refused when their controller creates them.
    PodsRefused {
        /// Pods that exist.
        live: usize,
        /// Pods that are needed.
        quorum: u32,
        /// What the controller was told.
        refusal: Refusal,
    },
    /// Pods are missing, and nobody says why.
    PodsMissing {
        /// Pods that exist.
        live: usize,
        /// Pods that are needed.
        quorum: u32,
    },
    /// Members have finished, and the quorum cannot follow.
    Stranded(String),
    /// Scheduling gates hold members back.
    Gated {
        /// How many members.
        pods: usize,
    },
    /// Another gang of its bundle is not ready.
    Partner(String),
    /// It does not start from its queue.
    Queue(QueueTrouble),
    /// A claim of a volume that it mounts does not exist.
    ClaimMissing(String),
    /// Too little of a resource on the nodes that may be used.
    NoRoom(Fit),
    /// Its pods keep apart, and there are too few places for that.
    Apart(Fit),
    /// No node may be used: what excludes most of them.
    Excluded {
        /// What excludes most.
        by: Exclusion,
        /// How many nodes that excludes.
        nodes: usize,
        /// What was counted.
        fit: Fit,
    },
    /// There is no node.
    NoNodes,
    /// What the scheduler says keeps pods from nodes.
    Obstacle {
        /// What.
        obstacle: Obstacle,
        /// For how many nodes.
        nodes: Option<u32>,
    },
    /// Nobody has looked at its pods.
    Unheard {
        /// The `schedulerName` of the pods.
        scheduler: String,
    },
    /// Only the scheduler knows.
    SchedulerSays(String),
    /// Nothing is known.
    Unknown,
}

impl Cause {
    /// Whether it only follows from the cause of another gang, which is then told first.
    pub fn follows_another(&self) -> bool {
        matches!(self, Self::Partner(_) | Self::NotBegun(_))
    }

    /// Which cause it is, without numbers: its reason, and what that is about. Another resource, claim,
    /// queue or quota is another cause, and more or less of the same is not.
    pub fn key(&self) -> String {
        let wordy = |text: &str| text.chars().filter(|c| !c.is_ascii_digit()).collect();
        let of: String = match self {
            Self::NotBegun(why) | Self::Stranded(why) | Self::Partner(why) => wordy(why),
            Self::PodsRefused { refusal, .. } => refusal.name().unwrap_or_default().to_owned(),
            Self::Queue(trouble) => trouble.queue.clone(),
            Self::ClaimMissing(name) => name.clone(),
            Self::NoRoom(fit) => {
                let lacking = fit.lacking.as_ref();
                let short = lacking.and_then(|lacking| lacking.short.as_ref());
                let short = short.map(|short| short.resource.as_str());
                // That somebody holds it is more than a number; who holds most changes often.
                let held = match lacking.is_some_and(|lacking| !lacking.holders.is_empty()) {
                    true => "/held",
                    false => "",
                };
                format!("{}{held}", short.unwrap_or_default())
            }
            Self::Excluded { by, .. } => match by {
                Exclusion::Taint(taint) => taint.clone(),
                Exclusion::Selector | Exclusion::Cordoned => String::new(),
            },
            Self::Obstacle { obstacle, .. } => match obstacle {
                Obstacle::ClaimMissing(of) | Obstacle::Insufficient(of) => of.clone(),
                Obstacle::Taint(taint) => taint.clone().unwrap_or_default(),
                _ => String::new(),
            },
            Self::Unheard { scheduler } => scheduler.clone(),
            Self::Unlinked { .. }
            | Self::PodsMissing { .. }
            | Self::Gated { .. }
            | Self::Apart(_)
            | Self::NoNodes
            | Self::SchedulerSays(_)
            | Self::Unknown => String::new(),
        };
        format!("{}/{of}", self.reason())
    }

    /// As the reason of a condition, and as a label of metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotBegun(_) => "DependencyPending",
            Self::Unlinked { .. } => "LinkLost",
            Self::PodsRefused { refusal, .. } => match refusal.by {
                Refuser::Rights => "PodsForbidden",
                Refuser::Terminating => "NamespaceTerminating",
                Refuser::Quota => "QuotaExceeded",
                Refuser::LimitRange => "LimitRangeViolated",
                Refuser::PodSecurity => "PodSecurityViolated",
                Refuser::ServiceAccount => "ServiceAccountMissing",
                Refuser::PriorityClass => "PriorityClassMissing",
                Refuser::Policy => "PodsDenied",
                Refuser::WebhookDown => "WebhookUnreachable",
                Refuser::NameTaken => "PodNameTaken",
                Refuser::Invalid => "PodsInvalid",
                Refuser::Other => "PodsNotCreated",
            },
            Self::PodsMissing { .. } => "PodsMissing",
            Self::Stranded(_) => "MembersFinished",
            Self::Gated { .. } => "SchedulingGated",
            Self::Partner(_) => "BundleIncomplete",
            Self::Queue(trouble) => match trouble.wrong {
                Wrong::Absent | Wrong::NotOpen(_) => "QueueUnusable",
                Wrong::Full(_) => "QueueFull",
            },
            Self::ClaimMissing(_) => "VolumeClaimMissing",
            Self::NoRoom(_) => "InsufficientResources",
            Self::Apart(_) => "PodAntiAffinity",
            Self::Excluded { by, .. } => match by {
                Exclusion::Selector => "NodeSelectorMismatch",
                Exclusion::Taint(_) => "TaintNotTolerated",
                Exclusion::Cordoned => "NodesCordoned",
            },
            Self::NoNodes => "NoNodes",
            Self::Obstacle { obstacle, .. } => match obstacle {
                Obstacle::ClaimMissing(_) => "VolumeClaimMissing",
                Obstacle::VolumeMissing => "VolumeMissing",
                Obstacle::VolumeUnbound | Obstacle::StorageShort => "VolumeNotBound",
                Obstacle::VolumeInUse => "VolumeInUse",
                Obstacle::VolumeElsewhere => "VolumeElsewhere",
                Obstacle::Insufficient(_) => "InsufficientResources",
                Obstacle::TooManyPods => "NodesFull",
                Obstacle::TooManyVolumes => "VolumeLimitReached",
                Obstacle::DriverMissing => "VolumeDriverMissing",
                Obstacle::FeatureMissing => "NodeFeaturesMissing",
                Obstacle::Selector => "NodeSelectorMismatch",
                Obstacle::Taint(_) => "TaintNotTolerated",
                Obstacle::Cordoned => "NodesCordoned",
                Obstacle::PodAffinity => "PodAffinity",
                Obstacle::AntiAffinity => "PodAntiAffinity",
                Obstacle::Spread => "TopologySpread",
                Obstacle::Ports => "HostPortsTaken",
                Obstacle::Devices => "DevicesMissing",
                Obstacle::NoNodes => "NoNodes",
            },
            Self::Unheard { .. } => "SchedulerAbsent",
            Self::SchedulerSays(_) => "SchedulerWaits",
            Self::Unknown => "GangWaiting",
        }
    }
}
