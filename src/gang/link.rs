//! The keys that tie a pod to a gang, of every scheduler that Muster knows.
//!
//! In one place because two sides need them: a workload adapter must notice a link that the user
//! wrote, and a backend writes its own. What the values mean is the backend's business.

use super::policy::SchedulerKind;

/// Where a link is written on a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkPlace {
    Label,
    Annotation,
    /// A field of the pod's spec.
    Field,
}

/// One way to tie a pod to a gang.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkKey {
    pub scheduler: SchedulerKind,
    pub place: LinkPlace,
    pub key: &'static str,
}

const fn link(scheduler: SchedulerKind, place: LinkPlace, key: &'static str) -> LinkKey {
    LinkKey {
        scheduler,
        place,
        key,
    }
}

/// Kubernetes 1.36 and later.
pub const SCHEDULING_GROUP: LinkKey =
    link(SchedulerKind::NATIVE, LinkPlace::Field, "schedulingGroup");
/// Kubernetes 1.35 only.
pub const WORKLOAD_REF: LinkKey = link(SchedulerKind::NATIVE, LinkPlace::Field, "workloadRef");
/// The only key that Volcano's scheduler reads; `scheduling.volcano.sh/group-name` is read nowhere.
pub const VOLCANO: LinkKey = link(
    SchedulerKind::VOLCANO,
    LinkPlace::Annotation,
    "scheduling.k8s.io/group-name",
);
pub const COSCHEDULING: LinkKey = link(
    SchedulerKind::COSCHEDULING,
    LinkPlace::Label,
    "scheduling.x-k8s.io/pod-group",
);
/// Koordinator's PodGroups.
pub const KOORDINATOR: LinkKey = link(
    SchedulerKind::KOORDINATOR,
    LinkPlace::Label,
    "pod-group.scheduling.sigs.k8s.io",
);
/// Koordinator's gangs without an object.
pub const KOORDINATOR_NAME: LinkKey = link(
    SchedulerKind::KOORDINATOR,
    LinkPlace::Annotation,
    "gang.scheduling.koordinator.sh/name",
);
/// The application that a pod belongs to (YuniKorn 1.6 and later; older keys give way to it).
pub const YUNIKORN_APP: LinkKey = link(
    SchedulerKind::YUNIKORN,
    LinkPlace::Label,
    "yunikorn.apache.org/app-id",
);
pub const YUNIKORN_GROUP: LinkKey = link(
    SchedulerKind::YUNIKORN,
    LinkPlace::Annotation,
    "yunikorn.apache.org/task-group-name",
);
pub const KAI: LinkKey = link(SchedulerKind::KAI, LinkPlace::Annotation, "pod-group-name");
/// Besides the PodGroup, where it has subgroups.
pub const KAI_SUBGROUP: LinkKey = link(
    SchedulerKind::KAI,
    LinkPlace::Label,
    "kai.scheduler/subgroup-name",
);

/// Every known link.
pub const ALL: [LinkKey; 10] = [
    SCHEDULING_GROUP,
    WORKLOAD_REF,
    VOLCANO,
    COSCHEDULING,
    KOORDINATOR,
    KOORDINATOR_NAME,
    YUNIKORN_APP,
    YUNIKORN_GROUP,
    KAI,
    KAI_SUBGROUP,
];
