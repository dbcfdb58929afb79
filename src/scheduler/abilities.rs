//! What each scheduler can do, as data.
//!
//! One table for admission, the documentation and the command line.

/// Whether something works, and if not, why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Support {
    /// It works.
    Yes,
    /// It does not, and why.
    No(&'static str),
}

/// How far a bundle can reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bundles {
    /// The gangs of several workload objects, also of several namespaces: so many at most.
    AcrossWorkloads {
        /// How many gangs.
        most: usize,
    },
    /// The gangs of several workload objects of one namespace, which share one object.
    WithinNamespace {
        /// How many gangs, at most.
        most: usize,
        /// Why not of several namespaces.
        why: &'static str,
    },
    /// The gangs of one workload object; why not of several, and what to do instead.
    WithinWorkload(&'static str),
    /// The same, if something holds that Muster cannot see.
    WithinWorkloadIf(&'static str),
    /// There are none, and why.
    No(&'static str),
}

impl Bundles {
    /// How many gangs of several workloads a bundle may have, if any.
    pub(crate) fn of_several(self) -> Option<usize> {
        match self {
            Self::AcrossWorkloads { most } | Self::WithinNamespace { most, .. } => Some(most),
            Self::WithinWorkload(_) | Self::WithinWorkloadIf(_) | Self::No(_) => None,
        }
    }
}

/// What happens to the pods' priority class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Priorities {
    /// All pods of a gang must have the same one; it goes on the gang's object.
    MustBeEqual,
    /// It goes on the gang's object when all pods have the same one.
    Carried,
    /// The gang's object has no priority.
    OnPodsOnly,
}

/// Where the link is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkSite {
    /// In the Job's pod template, when the Job is created: one call per Job.
    JobTemplate,
    /// On each pod, when it is created.
    Pod,
}

/// What a resumed workload's gang is to the scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resume {
    /// A new gang under a new name; the link is rewritten when the Job resumes.
    NewGang,
    /// A new object under the same name: the link cannot change, because a Job's template keeps
    /// its `schedulingGroup` for life (Kubernetes 1.36 and 1.37 refuse the update even while
    /// the Job is suspended). The object is deleted once the suspended pods are gone, and with it all
    /// state; a workload that is resumed before keeps it, because no other of its name can be made
    /// while a pod refers to it, and pods of both rounds do.
    SameGang,
}

/// Whether a gang's quorum can follow its members as they finish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QuorumChange {
    /// The object takes a new quorum while the gang lives.
    Live,
    /// The quorum is fixed, and why: after members have finished, the replacement of another one
    /// waits.
    Never(&'static str),
    /// The scheduler counts finished members itself.
    NotNeeded,
}

/// Whether a scheduler tries a blocked gang again when room appears.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NewRoom {
    /// By itself.
    Noticed,
    /// Only after a write to the gang's object, or minutes later.
    WhenNudged,
}

/// Who keeps the time that a gang may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timeouts {
    /// Muster alone.
    Muster,
    /// Muster, and the scheduler is told.
    CarriedToo,
}

/// What is done for pods that are made only once others of their replica run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Later {
    /// Their room is held.
    Held,
    /// The first start only when there is room for all, which nobody holds.
    Counted,
    /// Nothing: the first start although there may be no room for the others.
    Unknown,
}

/// One scheduler's row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Abilities {
    /// Gangs that start together.
    pub(crate) bundle: Bundles,
    /// Queues.
    pub(crate) queue: Support,
    /// Gangs whose members keep their room while the rest is retried.
    pub(crate) non_strict: Support,
    /// The pods' priority class.
    pub(crate) priorities: Priorities,
    /// Whether a pod's `preemptionPolicy` keeps it from preempting others.
    pub(crate) preemption_policy: Support,
    /// Where the link is written, unless the cluster says otherwise.
    pub(crate) link_site: LinkSite,
    /// What a resumed gang is.
    pub(crate) resume: Resume,
    /// The quorum as members finish.
    pub(crate) quorum_change: QuorumChange,
    /// What a blocked gang does when room appears.
    pub(crate) new_room: NewRoom,
    /// What works but surprises, said at every admission.
    pub(crate) caution: Option<&'static str>,
    /// Who keeps the time.
    pub(crate) timeout: Timeouts,
    /// Whether its object says what a quorum needs at least.
    pub(crate) min_resources: bool,
    /// Pods that are made only once others run.
    pub(crate) later: Later,
    /// The releases whose sources and programs the backend was made by.
    pub(crate) made_for: &'static str,
}
