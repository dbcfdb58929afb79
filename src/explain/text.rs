//! The sentences that are made of causes, the same for all schedulers.

use std::fmt;

use super::amount::Resource;
use super::asked::{Nodes, none_matches, on};
use super::cause::Cause;
use super::fit::{Fit, How, Lacking, Places, Preemption, Small};
use super::nodes::Exclusion;
use super::refusal::Refuser;
use super::words::Obstacle;
use crate::gang::ask::PreemptionPolicy;
use crate::gang::quantity::Quantity;
use crate::scheduler::queue::{Full, Left, QueueTrouble, Wrong};

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unlinked { pods } => write!(
                f,
                "{pods} {} not linked to the gang: the link was taken away, or Muster's webhooks were \
                 not called; delete {} to have {} made again",
                number(*pods as u64, "pod is", "pods are"),
                number(*pods as u64, "it", "them"),
                number(*pods as u64, "it", "them"),
            ),
            Self::PodsRefused {
                live,
                quorum,
                refusal,
            } => write!(
                f,
                "{live} of {quorum} pods exist; the others are refused by {}: {}",
                refuser(refusal.by),
                refusal.words
            ),
            Self::PodsMissing { live, quorum } => {
                write!(f, "only {live} of {quorum} pods exist")
            }
            Self::Stranded(why) | Self::Partner(why) | Self::NotBegun(why) => f.write_str(why),
            Self::Queue(trouble) => queue(f, trouble),
            Self::Gated { pods } => write!(
                f,
                "{pods} {} by a scheduling gate",
                number(*pods as u64, "pod is held back", "pods are held back")
            ),
            Self::ClaimMissing(name) => write!(
                f,
                "the PersistentVolumeClaim {name:?} that its pods mount does not exist"
            ),
            Self::NoRoom(fit) => no_room(f, fit),
            Self::Apart(fit) => apart(f, fit),
            Self::Excluded { by, nodes, fit } => excluded(f, by, *nodes, fit),
            Self::NoNodes => f.write_str("the cluster has no node"),
            Self::Obstacle { obstacle, nodes } => {
                say_obstacle(f, obstacle)?;
                match nodes {
                    Some(1) => f.write_str(" (1 node)"),
                    Some(nodes) => write!(f, " ({nodes} nodes)"),
                    None => Ok(()),
                }
            }
            Self::Unheard { scheduler } => write!(
                f,
                "no scheduler has looked at its pods: does one answer for schedulerName \
                 {scheduler:?}?"
            ),
            Self::SchedulerSays(words) => write!(f, "the scheduler says: {words}"),
            Self::Unknown => f.write_str("the scheduler has not said why"),
        }
    }
}

fn queue(f: &mut fmt::Formatter<'_>, trouble: &QueueTrouble) -> fmt::Result {
    write!(f, "queue {:?} ", trouble.queue)?;
    match &trouble.wrong {
        Wrong::Absent => f.write_str("does not exist"),
        Wrong::NotOpen(state) => write!(f, "is {state}"),
        Wrong::Full(None) => f.write_str("is full"),
        Wrong::Full(Some(full)) => full_queue(f, full),
    }
}

fn full_queue(f: &mut fmt::Formatter<'_>, full: &Full) -> fmt::Result {
    let resource = Resource(&full.resource);
    let asked = resource.number(full.asked);
    match full.left {
        Left::ForGang { limit, .. } if full.asked > limit => write!(
            f,
            "is too small: it may hold {} {resource}, and the gang needs {asked}",
            resource.number(limit)
        ),
        Left::ForGang { limit, used } => write!(
            f,
            "is full: of {} {resource} that it may hold {} {} in use, and the gang needs {asked} more",
            resource.number(limit),
            resource.number(used),
            are(used),
        ),
        Left::ForOnePod(left) => write!(
            f,
            "is full: {} {resource} {} left in it, and a pod asks for {asked}",
            resource.number(left),
            are(left),
        ),
    }
}

fn number<'a>(count: u64, one: &'a str, many: &'a str) -> &'a str {
    match count {
        1 => one,
        _ => many,
    }
}

fn refuser(by: Refuser) -> &'static str {
    match by {
        Refuser::Rights => "RBAC",
        Refuser::Terminating => "the namespace, which is being deleted",
        Refuser::Quota => "a ResourceQuota",
        Refuser::LimitRange => "a LimitRange",
        Refuser::PodSecurity => "Pod Security",
        Refuser::ServiceAccount => "the missing ServiceAccount",
        Refuser::PriorityClass => "the missing PriorityClass",
        Refuser::Policy => "an admission policy",
        Refuser::WebhookDown => "a webhook that does not answer",
        Refuser::NameTaken => "something of the same name",
        Refuser::Invalid => "the API",
        Refuser::Other => "the cluster",
    }
}

/// Who has it; or that it would not help if they gave it.
fn holders(lacking: &Lacking, resource: &Resource<'_>) -> String {
    if let Some(small) = &lacking.small {
        return match small {
            Small::Empty {
                total: Some(total), ..
            } => {
                let total = resource.number(*total);
                format!(" (usable nodes have {total} {resource} in all)")
            }
            Small::Empty { fits, total: None } => {
                format!(" (usable nodes would hold {fits} even if they were empty)")
            }
            Small::WithoutOthers { fits } => {
                format!(" (without pods of other workloads {fits} would fit)")
            }
        };
    }
    let names: Vec<&str> = lacking.holders.iter().map(|(name, _)| &**name).collect();
    let others = if lacking.others { " and others" } else { "" };
    match names.is_empty() {
        true => String::new(),
        false => format!(" (held by {}{others})", names.join(", ")),
    }
}

fn no_room(f: &mut fmt::Formatter<'_>, fit: &Fit) -> fmt::Result {
    write!(f, "{} of {} pods fit", fit.fits, fit.needed)?;
    let Some((lacking, short)) = fit
        .lacking
        .as_ref()
        .and_then(|lacking| Some((lacking, lacking.short.as_ref()?)))
    else {
        return Ok(());
    };
    let (resource, nodes) = (Resource(&short.resource), Nodes(&lacking.ask));
    match &short.how {
        How::By(missing) => write!(
            f,
            "; {} more {resource} {} needed{}{}",
            resource.number(*missing),
            are(*missing),
            on(&nodes),
            holders(lacking, &resource)
        )?,
        How::NoNodeSoLarge { one, largest } if largest.is_zero() => write!(
            f,
            "; a pod asks for {} {resource}, and no node{nodes} has any",
            resource.number(*one)
        )?,
        How::NoNodeSoLarge { one, largest } => write!(
            f,
            "; a pod asks for {} {resource}, and the largest node{nodes} has {}",
            resource.number(*one),
            resource.number(*largest)
        )?,
        How::Scattered { one } => write!(
            f,
            "; no node{nodes} has {} {resource} left for one more{}",
            resource.number(*one),
            holders(lacking, &resource)
        )?,
    }
    if let Some(preemption) = &lacking.preemption {
        preempts(f, preemption, fit.needed)?;
    }
    excluded_besides(f, lacking)
}

/// Nodes that it asks for and may not use, where it may use others: what excludes most of them.
fn excluded_besides(f: &mut fmt::Formatter<'_>, lacking: &Lacking) -> fmt::Result {
    // Those of the control plane are for nobody.
    let of_interest = |by: &Exclusion| match by {
        Exclusion::Selector => false,
        Exclusion::Taint(taint) => !taint.starts_with("node-role.kubernetes.io/"),
        Exclusion::Cordoned => true,
    };
    let mut excluded = lacking.excluded.iter();
    let Some((by, nodes)) = excluded.find(|(by, _)| of_interest(by)) else {
        return Ok(());
    };
    let count = *nodes as u64;
    write!(f, "; {nodes} other {} ", number(count, "node", "nodes"))?;
    match by {
        Exclusion::Taint(taint) => {
            let have = number(count, "has", "have");
            write!(f, "{have} the taint {taint}")
        }
        Exclusion::Selector | Exclusion::Cordoned => {
            write!(f, "{} cordoned", number(count, "is", "are"))
        }
    }
}

fn apart(f: &mut fmt::Formatter<'_>, fit: &Fit) -> fmt::Result {
    write!(f, "{} of {} pods fit", fit.fits, fit.needed)?;
    let Some(lacking) = &fit.lacking else {
        return Ok(());
    };
    let Some(Places { key, free, all }) = &lacking.apart else {
        return Ok(());
    };
    write!(f, "; anti-affinity allows one of them for each {key}, and ")?;
    match free == all {
        true => write!(f, "there {} {all}", number(*all as u64, "is", "are"))?,
        false => write!(f, "there is room in {free} of {all}")?,
    }
    f.write_str(&on(&Nodes(&lacking.ask)))?;
    excluded_besides(f, lacking)
}

/// Whom it could preempt, and why that does not help. Of a gang that has no priority to speak of nothing
/// is said.
fn preempts(f: &mut fmt::Formatter<'_>, preemption: &Preemption, needed: u32) -> fmt::Result {
    let Preemption {
        priority,
        over,
        fits,
        policy,
    } = preemption;
    match over {
        None if *priority > 0 => {
            write!(f, "; no pod of lower priority than {priority} holds any")
        }
        None => Ok(()),
        Some(_) if *fits < needed => write!(
            f,
            "; without all pods of lower priority than {priority} {fits} of {needed} would fit"
        ),
        Some((holder, lower)) => {
            write!(f, "; priority {priority} is above {holder} ({lower})")?;
            match policy {
                PreemptionPolicy::Never => f.write_str(", but preemptionPolicy is Never"),
                PreemptionPolicy::Lower => {
                    f.write_str(": without pods of lower priority all would fit")
                }
            }
        }
    }
}

fn are(quantity: Quantity) -> &'static str {
    match quantity <= Quantity::from_units(1) {
        true => "is",
        false => "are",
    }
}

fn excluded(f: &mut fmt::Formatter<'_>, by: &Exclusion, nodes: usize, fit: &Fit) -> fmt::Result {
    let ask = fit.lacking.as_ref().map(|lacking| &lacking.ask);
    match by {
        Exclusion::Selector => none_matches(f, ask.map(|ask| &**ask)),
        Exclusion::Taint(taint) => write!(
            f,
            "it does not tolerate the taint {taint} of {nodes} {}",
            number(nodes as u64, "node", "nodes")
        ),
        Exclusion::Cordoned => write!(
            f,
            "{nodes} {} cordoned, and no other may be used",
            number(nodes as u64, "node is", "nodes are")
        ),
    }
}

fn say_obstacle(f: &mut fmt::Formatter<'_>, obstacle: &Obstacle) -> fmt::Result {
    f.write_str(match obstacle {
        Obstacle::ClaimMissing(name) => {
            return write!(f, "the PersistentVolumeClaim {name:?} does not exist");
        }
        Obstacle::Insufficient(resource) => {
            return write!(f, "too little {} is left", Resource(resource));
        }
        Obstacle::Taint(Some(taint)) => {
            return write!(f, "it does not tolerate the taint {taint}");
        }
        Obstacle::Taint(None) => "it does not tolerate the taints of nodes",
        Obstacle::VolumeMissing => {
            "a PersistentVolumeClaim that its pods mount is bound to a volume that does not exist"
        }
        Obstacle::StorageShort => {
            "there is too little storage for a PersistentVolumeClaim that its pods mount"
        }
        Obstacle::VolumeInUse => "a volume that its pods mount is in use by another pod",
        Obstacle::TooManyVolumes => "nodes have as many volumes as they take",
        Obstacle::DriverMissing => "nodes lack the driver of a volume that its pods mount",
        Obstacle::FeatureMissing => "nodes lack a feature that its pods need",
        Obstacle::VolumeUnbound => "a PersistentVolumeClaim that its pods mount is not bound",
        Obstacle::VolumeElsewhere => "a volume that its pods mount is bound to other nodes",
        Obstacle::TooManyPods => "nodes have as many pods as they take",
        Obstacle::Selector => "nodes do not match its node selector or affinity",
        Obstacle::Cordoned => "nodes are cordoned",
        Obstacle::PodAffinity => "nodes do not match its affinity to other pods",
        Obstacle::AntiAffinity => "anti-affinity between pods leaves too few nodes",
        Obstacle::Spread => "its topology spread constraints leave too few nodes",
        Obstacle::Ports => "a host port that its pods use is taken",
        Obstacle::Devices => "a device that its pods claim is not there",
        Obstacle::NoNodes => "the cluster has no node",
    })
}
