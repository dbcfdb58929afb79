//! What a gang waits for in a few words, for a column of a table.

use super::amount::Resource;
use super::cause::Cause;
use super::fit::{Fit, How};
use super::nodes::Exclusion;
use super::refusal::Refuser;
use super::words::Obstacle;
use crate::gang::quantity::Quantity;
use crate::scheduler::queue::Wrong;

impl Cause {
    /// What it waits for, in a few words.
    pub fn waits_for(&self) -> String {
        match self {
            Self::PodsMissing { live, quorum } => {
                let missing = (*quorum as usize).saturating_sub(*live);
                match missing {
                    1 => "1 more pod".to_owned(),
                    many => format!("{many} more pods"),
                }
            }
            Self::ClaimMissing(name) => format!("volume claim {name}"),
            Self::NoRoom(fit) => room(fit),
            Self::Unheard { scheduler } if !scheduler.is_empty() => scheduler.clone(),
            Self::Obstacle { obstacle, .. } => of_nodes(obstacle),
            other => other.words().to_owned(),
        }
    }

    fn words(&self) -> &'static str {
        match self {
            Self::NotBegun(_) => "its dependency",
            Self::Unlinked { .. } => "pods with a link",
            Self::PodsRefused { refusal, .. } => match refusal.by {
                Refuser::Rights => "rights to create pods",
                Refuser::Terminating => "another namespace",
                Refuser::Quota => "quota for its pods",
                Refuser::LimitRange => "a LimitRange",
                Refuser::PodSecurity => "Pod Security",
                Refuser::ServiceAccount => "a ServiceAccount",
                Refuser::PriorityClass => "a PriorityClass",
                Refuser::Policy => "an admission policy",
                Refuser::WebhookDown => "a webhook",
                Refuser::NameTaken => "a free pod name",
                Refuser::Invalid => "a valid template",
                Refuser::Other => "pods",
            },
            Self::PodsMissing { .. } => "pods",
            Self::Stranded(_) => "pods that have finished",
            Self::Gated { .. } => "a scheduling gate",
            Self::Partner(_) => "its bundle",
            Self::Queue(trouble) => match trouble.wrong {
                Wrong::Absent | Wrong::NotOpen(_) => "its queue",
                Wrong::Full(_) => "room in its queue",
            },
            Self::ClaimMissing(_) => "a volume claim",
            Self::NoRoom(_) => "room",
            Self::Apart(_) => "pod anti-affinity",
            Self::Excluded { by, .. } => match by {
                Exclusion::Selector => "nodes with its labels",
                Exclusion::Taint(_) => "nodes without the taint",
                Exclusion::Cordoned => "cordoned nodes",
            },
            Self::NoNodes => "nodes",
            Self::Obstacle { .. } => "nodes",
            Self::Unheard { .. } | Self::SchedulerSays(_) => "the scheduler",
            Self::Unknown => "unknown",
        }
    }
}

fn room(fit: &Fit) -> String {
    let lacking = fit.lacking.as_ref();
    let Some(short) = lacking.and_then(|lacking| lacking.short.as_ref()) else {
        return "room".to_owned();
    };
    let resource = Resource(&short.resource);
    let of = |quantity: Quantity| format!("{} {resource}", resource.number(quantity));
    match &short.how {
        How::By(missing) => of(*missing),
        How::NoNodeSoLarge { one, .. } => format!("a node with {}", of(*one)),
        How::Scattered { one } => format!("a node with {} free", of(*one)),
    }
}

fn of_nodes(obstacle: &Obstacle) -> String {
    match obstacle {
        Obstacle::ClaimMissing(name) => return format!("volume claim {name}"),
        Obstacle::Insufficient(resource) => return Resource(resource).to_string(),
        Obstacle::VolumeUnbound => "a bound volume",
        Obstacle::VolumeMissing => "its volume",
        Obstacle::StorageShort => "storage",
        Obstacle::VolumeInUse => "a volume in use",
        Obstacle::TooManyVolumes => "nodes with room for volumes",
        Obstacle::DriverMissing => "nodes with its volume's driver",
        Obstacle::FeatureMissing => "nodes with its features",
        Obstacle::VolumeElsewhere => "nodes near its volume",
        Obstacle::TooManyPods => "nodes with room for pods",
        Obstacle::Selector => "nodes with its labels",
        Obstacle::Taint(_) => "nodes without the taint",
        Obstacle::Cordoned => "cordoned nodes",
        Obstacle::PodAffinity => "pod affinity",
        Obstacle::AntiAffinity => "pod anti-affinity",
        Obstacle::Spread => "topology spread",
        Obstacle::Ports => "host ports",
        Obstacle::Devices => "devices",
        Obstacle::NoNodes => "nodes",
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::explain::fit::{Lacking, Short};
    use crate::explain::refusal::Refusal;
    use crate::gang::Ask;

    fn no_room(how: How) -> Cause {
        let short = Short {
            resource: "nvidia.com/gpu".to_owned(),
            how,
        };
        let lacking = Lacking {
            ask: Arc::new(Ask::default()),
            short: Some(short),
            ..Lacking::default()
        };
        Cause::NoRoom(Fit {
            fits: 6,
            needed: 9,
            nodes: 4,
            lacking: Some(lacking),
        })
    }

    #[test]
    fn a_few_words_name_what_is_missing() {
        let three = Quantity::from_units(3);
        let quota = "exceeded quota: small, requested: pods=1, used: pods=2, limited: pods=2";
        let refused = Cause::PodsRefused {
            live: 2,
            quorum: 3,
            refusal: Refusal::read(quota, None, None),
        };
        let missing = Cause::PodsMissing { live: 2, quorum: 3 };
        let obstacle = |obstacle: Obstacle| Cause::Obstacle {
            obstacle,
            nodes: None,
        };
        let cpu = Obstacle::Insufficient("cpu".to_owned());
        for (cause, words) in [
            (no_room(How::By(three)), "3 nvidia.com/gpu"),
            (
                no_room(How::Scattered { one: three }),
                "a node with 3 nvidia.com/gpu free",
            ),
            (refused, "quota for its pods"),
            (missing, "1 more pod"),
            (Cause::ClaimMissing("data".to_owned()), "volume claim data"),
            (obstacle(Obstacle::Spread), "topology spread"),
            (obstacle(cpu), "CPU"),
            (Cause::SchedulerSays("not yet".to_owned()), "the scheduler"),
        ] {
            assert_eq!(cause.waits_for(), words);
        }
    }
}
