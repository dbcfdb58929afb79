//! The `muster.dev/` keys, each spelled once. Which of them a user may write where is in
//! `workload::keys`.

/// What all of them start with.
pub(crate) const PREFIX: &str = "muster.dev/";

/// Which pods make a gang.
pub(crate) const GANG_MODE: &str = "muster.dev/gang-mode";
/// A quorum smaller than all.
pub(crate) const MIN_COUNT: &str = "muster.dev/min-count";
/// Gangs of a workload with the same bundle start together. As a label, on an object that several
/// workloads share: the bundle that it is for.
pub(crate) const BUNDLE: &str = "muster.dev/bundle";
/// Other workloads whose gangs of the same bundle start together with these.
pub(crate) const BUNDLE_WITH: &str = "muster.dev/bundle-with";
/// Annotation on a workload, label on a namespace.
pub(crate) const SCHEDULER: &str = "muster.dev/scheduler";
/// The queue that gangs wait in.
pub(crate) const QUEUE: &str = "muster.dev/queue";
/// How long a gang may wait.
pub(crate) const TIMEOUT: &str = "muster.dev/timeout";
/// What happens when it has waited so long.
pub(crate) const TIMEOUT_ACTION: &str = "muster.dev/timeout-action";
/// What happens to members that are already placed when one cannot be.
pub(crate) const STRICTNESS: &str = "muster.dev/strictness";
/// How long main containers wait until every member has started.
pub(crate) const START_BARRIER: &str = "muster.dev/start-barrier";
/// The members that the start barrier is for.
pub(crate) const START_BARRIER_TARGETS: &str = "muster.dev/start-barrier-targets";
/// Label on the pod templates that a start barrier is for: their role. On the ConfigMap that opens it:
/// how the barrier stands.
pub(crate) const BARRIER: &str = "muster.dev/barrier";
/// Annotation beside it: the stamp by which Muster knows that it wrote it.
pub(crate) const BARRIER_STAMP: &str = "muster.dev/barrier-stamp";
/// Annotation on a pod that has not gone on after its barrier opened: the change makes its kubelet
/// look at once.
pub(crate) const BARRIER_OPENED: &str = "muster.dev/barrier-opened";
/// The gang of pods whose controller knows nothing of gangs. As a label, which Muster writes on such a
/// pod and on the objects of its gang: the same, with the revision where each has a gang of its own.
pub(crate) const GANG_NAME: &str = "muster.dev/gang-name";
/// Beside it: the label whose value tells revisions apart that are gangs of their own.
pub(crate) const REVISION_LABEL: &str = "muster.dev/revision-label";

/// Label on every stamped template: the part that its pods belong to. The webhook entry for
/// children selects by it. On an object that Muster makes: the part that it is for, absent when it
/// is for several.
pub const GANG: &str = "muster.dev/gang";
/// Label on a ganged workload of a kind of which most objects are in no gang: the reconciler finds it
/// by that, and its value says nothing. On an object that Muster makes: the kind of its workload.
pub(crate) const WORKLOAD: &str = "muster.dev/workload";
/// Annotation on every stamped template: what a link will need later ([`super::Stamp`]).
pub(crate) const STAMP: &str = "muster.dev/stamp";
/// Annotation on a resumed workload and its pod templates: the round. On an object that Muster makes,
/// as a label: the round that it is for, absent in the first.
pub(crate) const ROUND: &str = "muster.dev/round";
/// Annotation on a workload that Muster has suspended, to resume it once its pods are gone.
pub(crate) const REVIVING: &str = "muster.dev/reviving";
/// Label on every linked pod: the gang's index in its part. Its absence is how the webhook entry
/// for pods finds those that are not linked yet. On an object that Muster makes: the replica that
/// it is for, absent when it is for none in particular.
pub(crate) const INDEX: &str = "muster.dev/index";

/// Label on an object that Muster makes: the attempt that it is for.
pub(crate) const ATTEMPT: &str = "muster.dev/attempt";
/// In the place of the attempt, where replicas are recreated one by one: the revision.
pub(crate) const REVISION: &str = "muster.dev/revision";
/// Beside the revision: which of the replica's lives.
pub(crate) const LIFE: &str = "muster.dev/life";
/// Annotation on an object that Muster makes: the hash of what was applied last. A gang whose
/// objects carry the hash of what is wanted is settled: no write, also after a restart.
pub(crate) const APPLIED: &str = "muster.dev/applied";
/// Annotation on an object that Muster makes: when its scheduler was last told to look at it again.
pub(crate) const NUDGED: &str = "muster.dev/nudged";
