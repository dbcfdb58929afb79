//! What a scheduler says in a pod's `PodScheduled` condition, as obstacles.
//!
//! kube-scheduler and the schedulers built of its framework count the nodes by reason: `0/4 nodes are
//! available: 1 node(s) had untolerated taint(s), 3 Insufficient cpu. preemption: ...` (1.37:
//! `FitError.Error`; the reasons stand in the plugins). Volcano's predicates use the same reasons. A
//! member that would fit says only that its gang does not.

/// Held back by a scheduling gate; the reason of the condition.
pub(crate) const GATED: &str = "SchedulingGated";

/// What keeps a pod from nodes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Obstacle {
    /// A claim of a volume does not exist.
    ClaimMissing(String),
    /// A claim is bound to a volume that does not exist.
    VolumeMissing,
    /// A claim is not bound to a volume, and none fits.
    VolumeUnbound,
    /// A claim is not bound, and where nodes are there is too little storage for it.
    StorageShort,
    /// Another pod has the volume, and it takes one only.
    VolumeInUse,
    /// The volume is where the node is not.
    VolumeElsewhere,
    /// Too little of a resource.
    Insufficient(String),
    /// Too many pods on the node.
    TooManyPods,
    /// Too many volumes on the node.
    TooManyVolumes,
    /// The node lacks the driver of a volume.
    DriverMissing,
    /// The node lacks a feature that the pod needs.
    FeatureMissing,
    /// The node selector or node affinity of the pod.
    Selector,
    /// A taint that the pod does not tolerate.
    Taint(Option<String>),
    /// Cordoned.
    Cordoned,
    /// Affinity to other pods.
    PodAffinity,
    /// Anti-affinity to other pods, of the pod or of those.
    AntiAffinity,
    /// Topology spread.
    Spread,
    /// A port of the host is in use.
    Ports,
    /// A device or resource claim.
    Devices,
    /// There is no node at all.
    NoNodes,
}

impl Obstacle {
    /// Whether it is a volume's: nothing else helps before that is fixed.
    pub(super) fn is_of_a_volume(&self) -> bool {
        *self <= Self::VolumeElsewhere
    }
}

/// By what each is known (Kubernetes 1.37: `ErrReason...` of the scheduler's plugins).
const KNOWN: [(&str, Obstacle); 33] = [
    ("Too many pods", Obstacle::TooManyPods),
    (
        "didn't match Pod's node affinity/selector",
        Obstacle::Selector,
    ),
    (
        "didn't satisfy plugin(s) [NodeAffinity]",
        Obstacle::Selector,
    ),
    (
        "didn't match scheduler-enforced node affinity",
        Obstacle::Selector,
    ),
    ("pod affinity terms conflict", Obstacle::Selector),
    ("didn't match the requested node name", Obstacle::Selector),
    (
        "didn't match Pod's required features",
        Obstacle::FeatureMissing,
    ),
    ("were unschedulable", Obstacle::Cordoned),
    (
        "didn't satisfy existing pods anti-affinity rules",
        Obstacle::AntiAffinity,
    ),
    (
        "didn't match pod anti-affinity rules",
        Obstacle::AntiAffinity,
    ),
    ("didn't match pod affinity rules", Obstacle::PodAffinity),
    (
        "didn't match pod topology spread constraints",
        Obstacle::Spread,
    ),
    ("didn't have free ports", Obstacle::Ports),
    ("volume node affinity conflict", Obstacle::VolumeElsewhere),
    (
        "didn't match PersistentVolume's node affinity",
        Obstacle::VolumeElsewhere,
    ),
    ("had no available volume zone", Obstacle::VolumeElsewhere),
    ("exceed max volume count", Obstacle::TooManyVolumes),
    (
        "CSI driver is not installed on the node",
        Obstacle::DriverMissing,
    ),
    ("did not have enough free storage", Obstacle::StorageShort),
    ("bound to non-existent", Obstacle::VolumeMissing),
    ("had no available disk", Obstacle::VolumeInUse),
    ("ReadWriteOncePod access mode", Obstacle::VolumeInUse),
    ("storageclass.storage.k8s.io", Obstacle::VolumeUnbound),
    (
        "waiting for ephemeral volume controller",
        Obstacle::VolumeUnbound,
    ),
    (
        "unbound immediate PersistentVolumeClaims",
        Obstacle::VolumeUnbound,
    ),
    (
        "didn't find available persistent volumes to bind",
        Obstacle::VolumeUnbound,
    ),
    ("unbound PersistentVolumeClaims", Obstacle::VolumeUnbound),
    ("cannot allocate all claims", Obstacle::Devices),
    ("resourceclaim", Obstacle::Devices),
    ("resource claim ", Obstacle::Devices),
    ("device class ", Obstacle::Devices),
    ("had volume node affinity", Obstacle::VolumeElsewhere),
    ("no nodes available to schedule pods", Obstacle::NoNodes),
];

/// The obstacles that a message counts, each with how many nodes it holds for where that is said.
pub fn obstacles(message: &str) -> Vec<(Obstacle, Option<u32>)> {
    let mut found = Vec::new();
    if let Some(name) = claim_missing(message) {
        found.push((Obstacle::ClaimMissing(name), None));
    }
    for clause in clauses(message) {
        let count = clause
            .split_whitespace()
            .next()
            .and_then(|word| word.parse().ok());
        let obstacle = insufficient(clause)
            .or_else(|| taint(clause))
            .or_else(|| known(clause));
        if let Some(obstacle) = obstacle
            && !found.iter().any(|(other, _)| *other == obstacle)
        {
            found.push((obstacle, count));
        }
    }
    found
}

/// The reasons, without what is said of preemption, which repeats some of them.
fn clauses(message: &str) -> impl Iterator<Item = &str> {
    let end = message.find("preemption: ").unwrap_or(message.len());
    // Not at every dot: resources have some in their names.
    let clauses = message[..end].split(", ").flat_map(|part| part.split(". "));
    let clauses = clauses.flat_map(|part| part.split(": "));
    clauses.map(|clause| clause.trim().trim_end_matches('.'))
}

/// `3 Insufficient cpu`.
fn insufficient(clause: &str) -> Option<Obstacle> {
    let (_, resource) = clause.split_once("Insufficient ")?;
    let resource = resource.split_whitespace().next()?;
    Some(Obstacle::Insufficient(resource.to_owned()))
}

fn taint(clause: &str) -> Option<Obstacle> {
    let known = ["untolerated taint", "taint(s)", "had taints that the pod"];
    if known.iter().any(|known| clause.contains(known)) {
        let named = clause.split_once('{').map(|(_, rest)| rest);
        let named = named.map(|rest| rest.trim_end_matches('}').trim().to_owned());
        return Some(Obstacle::Taint(named));
    }
    None
}

fn known(clause: &str) -> Option<Obstacle> {
    let mut known = KNOWN.iter();
    let known = known.find(|(words, _)| clause.contains(words));
    known.map(|(_, obstacle)| obstacle.clone())
}

/// `persistentvolumeclaim "data" not found`.
fn claim_missing(message: &str) -> Option<String> {
    let (_, rest) = message.split_once("persistentvolumeclaim \"")?;
    let (name, rest) = rest.split_once('"')?;
    let gone = rest.trim_start().starts_with("not found") || rest.contains("is being deleted");
    gone.then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_scheduler_counts_is_read() {
        let read = |message: &str| obstacles(message);
        assert_eq!(
            read(
                "0/4 nodes are available: 1 node(s) were unschedulable, 3 Insufficient cpu. \
                 preemption: 0/4 nodes are available: 4 Preemption is not helpful for scheduling."
            ),
            [
                (Obstacle::Cordoned, Some(1)),
                (Obstacle::Insufficient("cpu".to_owned()), Some(3))
            ]
        );
        assert_eq!(
            read("0/1 nodes are available: persistentvolumeclaim \"data\" not found. x"),
            [(Obstacle::ClaimMissing("data".to_owned()), None)]
        );
        assert_eq!(
            read(
                "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector. \
                 preemption: none"
            ),
            [(Obstacle::Selector, Some(2))]
        );
        assert_eq!(
            read("0/3 nodes are available: 3 Insufficient nvidia.com/gpu."),
            [(Obstacle::Insufficient("nvidia.com/gpu".to_owned()), Some(3))]
        );
        let taint = "0/1 nodes are available: 1 node(s) had untolerated taint {gpu: only}. x";
        assert!(matches!(read(taint)[0], (Obstacle::Taint(_), _)));
    }

    /// As they stand in the plugins of kube-scheduler 1.37.1.
    #[test]
    fn every_reason_of_the_scheduler_is_known() {
        for (reason, obstacle) in [
            ("node(s) exceed max volume count", Obstacle::TooManyVolumes),
            (
                "ebs.csi.aws.com CSI driver is not installed on the node",
                Obstacle::DriverMissing,
            ),
            (
                "node(s) didn't find available persistent volumes to bind",
                Obstacle::VolumeUnbound,
            ),
            (
                "node(s) didn't match PersistentVolume's node affinity",
                Obstacle::VolumeElsewhere,
            ),
            (
                "node(s) did not have enough free storage",
                Obstacle::StorageShort,
            ),
            (
                "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
                Obstacle::VolumeMissing,
            ),
            (
                "node(s) had no available volume zone",
                Obstacle::VolumeElsewhere,
            ),
            ("node(s) had no available disk", Obstacle::VolumeInUse),
            (
                "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access \
                 mode already in-use by another pod",
                Obstacle::VolumeInUse,
            ),
            (
                "node(s) didn't match Pod's required features",
                Obstacle::FeatureMissing,
            ),
            (
                "node(s) had taints that the pod didn't tolerate",
                Obstacle::Taint(None),
            ),
            ("node(s) had untolerated taint(s)", Obstacle::Taint(None)),
            (
                "node(s) didn't satisfy existing pods anti-affinity rules",
                Obstacle::AntiAffinity,
            ),
            (
                "node(s) didn't match pod affinity rules",
                Obstacle::PodAffinity,
            ),
            (
                "node(s) didn't match pod anti-affinity rules",
                Obstacle::AntiAffinity,
            ),
            (
                "node(s) didn't have free ports for the requested pod ports",
                Obstacle::Ports,
            ),
            (
                "node(s) didn't match pod topology spread constraints (missing required label)",
                Obstacle::Spread,
            ),
            (
                "node(s) didn't match Pod's node affinity/selector",
                Obstacle::Selector,
            ),
            (
                "node(s) didn't match scheduler-enforced node affinity",
                Obstacle::Selector,
            ),
            (
                "node(s) didn't match the requested node name",
                Obstacle::Selector,
            ),
            ("node(s) were unschedulable", Obstacle::Cordoned),
            ("cannot allocate all claims", Obstacle::Devices),
            (
                "request gpu: device class gpu.example.com does not exist",
                Obstacle::Devices,
            ),
        ] {
            let message =
                format!("0/3 nodes are available: 3 {reason}. no new claims to deallocate");
            assert_eq!(obstacles(&message)[0].0, obstacle, "{message}");
        }
        for (message, obstacle) in [
            (
                "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found",
                Obstacle::VolumeUnbound,
            ),
            (
                "0/3 nodes are available: persistentvolumeclaim \"data\" bound to non-existent \
                 persistentvolume \"gone\".",
                Obstacle::VolumeMissing,
            ),
            (
                "0/3 nodes are available: waiting for ephemeral volume controller to create the \
                 persistentvolumeclaim \"train-0-scratch\".",
                Obstacle::VolumeUnbound,
            ),
        ] {
            assert_eq!(obstacles(message), [(obstacle, None)], "{message}");
        }
    }

    #[test]
    fn a_member_that_would_fit_says_nothing_of_nodes() {
        for message in [
            "pod group is unschedulable, waiting for minCount pods from a gang to be scheduled, one \
             or more plugins asked to wait and no plugin rejected pod",
            "minCount (9) cannot be satisfied: 6 scheduled, 2 remaining",
        ] {
            assert_eq!(obstacles(message), [], "{message}");
        }
    }
}
