//! How each cause is brought about: as files that a user could apply, and a fact.

use std::time::Instant;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use super::super::foreign::take_names;
use super::Scheduler;
use super::gang::Gang;
use super::queue::queue_of_four;
use super::world::{
    bound_volume, class, no_image, patch_node, quota, taint, unlink, volume, waiting,
};
use crate::sandbox::Sandbox;

/// A claim that no volume is for.
const UNBOUND: &str = "
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec:
  accessModes: [ReadWriteMany]
  storageClassName: ''
  resources: {requests: {storage: 1Gi}}
";

/// A cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Seed {
    CpuShort,
    HeldByAnother,
    Scattered,
    PodTooLarge,
    NoGpu,
    NoNode,
    Selector,
    Affinity,
    Cordoned,
    Taint,
    PodsPerNode,
    AntiAffinity,
    Spread,
    ClaimMissing,
    VolumeElsewhere,
    Quota,
    LimitRange,
    PodSecurity,
    ServiceAccount,
    Policy,
    Gate,
    Preempted,
    QuotaThenCpu,
    PodGroupQuota,
    ForeignObject,
    SuspendedByUser,
    KueueSuspends,
    TimedOut,
    Failed,
    UnknownQueue,
    ClosedQueue,
    FullQueue,
    GateOff,
    LinkLost,
    DependsOn,
    Barrier,
    Image,
    UnknownName,
    PartnerAbsent,
    PartnerRefused,
    MayNotPreempt,
    NobodyLower,
    JobsRefused,
    ClassMissing,
    NameTaken,
    PodsInvalid,
    VolumeUnbound,
    PodAffinity,
    HostPorts,
}

impl Seed {
    pub const ALL: [Seed; 49] = [
        Self::CpuShort,
        Self::HeldByAnother,
        Self::Scattered,
        Self::PodTooLarge,
        Self::NoGpu,
        Self::NoNode,
        Self::Selector,
        Self::Affinity,
        Self::Cordoned,
        Self::Taint,
        Self::PodsPerNode,
        Self::AntiAffinity,
        Self::Spread,
        Self::ClaimMissing,
        Self::VolumeElsewhere,
        Self::Quota,
        Self::LimitRange,
        Self::PodSecurity,
        Self::ServiceAccount,
        Self::Policy,
        Self::Gate,
        Self::Preempted,
        Self::QuotaThenCpu,
        Self::PodGroupQuota,
        Self::ForeignObject,
        Self::SuspendedByUser,
        Self::KueueSuspends,
        Self::TimedOut,
        Self::Failed,
        Self::UnknownQueue,
        Self::ClosedQueue,
        Self::FullQueue,
        Self::GateOff,
        Self::LinkLost,
        Self::DependsOn,
        Self::Barrier,
        Self::Image,
        Self::UnknownName,
        Self::PartnerAbsent,
        Self::PartnerRefused,
        Self::MayNotPreempt,
        Self::NobodyLower,
        Self::JobsRefused,
        Self::ClassMissing,
        Self::NameTaken,
        Self::PodsInvalid,
        Self::VolumeUnbound,
        Self::PodAffinity,
        Self::HostPorts,
    ];

    /// What was done, the reason that must be told, and words that must be in the message.
    fn facts(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::CpuShort => (
                "CPU short",
                "InsufficientResources",
                "2 of 3 pods fit; 1 more CPU is needed",
            ),
            Self::HeldByAnother => ("held by another gang", "InsufficientResources", "/holder"),
            Self::Scattered => (
                "free room is scattered",
                "InsufficientResources",
                "has 2 CPU left for one more",
            ),
            Self::PodTooLarge => (
                "one pod asks for 100 CPUs",
                "InsufficientResources",
                "a pod asks for 100 CPU",
            ),
            Self::NoGpu => (
                "no node has a GPU",
                "InsufficientResources",
                "a pod asks for 1 example.com/gpu, and no node",
            ),
            Self::NoNode => ("no node for it", "NodeSelectorMismatch", "no node has"),
            Self::Selector => (
                "nodeSelector matches nothing",
                "NodeSelectorMismatch",
                "pool=a100",
            ),
            Self::Affinity => ("node affinity matches nothing", "NodeSelectorMismatch", ""),
            Self::Cordoned => ("node cordoned", "NodesCordoned", "1 node is cordoned"),
            Self::Taint => ("taint", "TaintNotTolerated", "the taint gpu=only"),
            Self::PodsPerNode => ("pods per node", "NodesFull", "as many pods as they take"),
            Self::AntiAffinity => (
                "anti-affinity",
                "PodAntiAffinity",
                "2 of 3 pods fit; anti-affinity allows one of them for each kubernetes.io/hostname",
            ),
            Self::Spread => ("topology spread", "TopologySpread", "topology spread"),
            Self::ClaimMissing => ("PVC missing", "VolumeClaimMissing", "\"data\""),
            Self::VolumeElsewhere => (
                "volume in another zone",
                "VolumeElsewhere",
                "bound to other nodes",
            ),
            Self::Quota => (
                "quota stops one pod of three",
                "QuotaExceeded",
                // Of two that the quota allows YuniKorn's placeholder may be one.
                " of 3 pods exist; the others are refused by a ResourceQuota: exceeded quota: small",
            ),
            Self::LimitRange => ("LimitRange", "LimitRangeViolated", "0 of 3 pods exist"),
            Self::PodSecurity => ("Pod Security", "PodSecurityViolated", "restricted"),
            Self::ServiceAccount => (
                "ServiceAccount missing",
                "ServiceAccountMissing",
                "serviceaccount \"nobody\" not found",
            ),
            Self::Policy => ("an admission policy", "PodsDenied", "denied"),
            Self::Gate => ("scheduling gate", "SchedulingGated", "3 pods are held back"),
            Self::Preempted => ("preempted", "InsufficientResources", "/important"),
            Self::QuotaThenCpu => (
                "quota raised, CPU still short",
                "InsufficientResources",
                "2 of 3 pods fit",
            ),
            Self::PodGroupQuota => ("quota on the gang's object", "GangRefused", "quota"),
            Self::ForeignObject => ("foreign object of its name", "GangRefused", ""),
            Self::SuspendedByUser => ("suspended", "GangSuspended", "suspended"),
            Self::KueueSuspends => (
                "Kueue has not admitted it",
                "GangSuspended",
                "insufficient quota for cpu",
            ),
            Self::TimedOut => ("timed out", "GangTimedOut", "suspended"),
            Self::Failed => ("failed after it waited", "GangFailed", "has failed: "),
            Self::UnknownQueue => ("unknown queue", "QueueUnusable", "does not exist"),
            Self::ClosedQueue => ("closed queue", "QueueUnusable", "closed"),
            Self::FullQueue => ("full queue", "QueueFull", "is full: "),
            Self::GateOff => (
                "the scheduler's feature gate is off",
                "GangBroken",
                "look whether kube-scheduler runs with the feature gate GenericWorkload",
            ),
            Self::LinkLost => ("link lost", "LinkLost", "not linked to the gang"),
            Self::DependsOn => (
                "dependsOn",
                "DependencyPending",
                "its pods are made once \"prepare\" is complete (dependsOn)",
            ),
            Self::Barrier => (
                "placed, and waits at its start barrier",
                "BarrierWaiting",
                "until all members have started",
            ),
            Self::Image => (
                "placed, and cannot pull its image",
                "GangScheduled",
                "cannot pull an image, which is not a matter of scheduling",
            ),
            Self::UnknownName => (
                "unknown schedulerName",
                "SchedulerAbsent",
                "does one answer for schedulerName \"nobody\"?",
            ),
            Self::PartnerAbsent => (
                "partner of the bundle missing",
                "BundleIncomplete",
                "/other: it does not exist, or does not name",
            ),
            Self::PartnerRefused => (
                "pods of the bundle's other gang refused",
                "ServiceAccountMissing",
                "0 of 1 pods exist",
            ),
            Self::MayNotPreempt => (
                "may not preempt",
                "InsufficientResources",
                "/holder (0), but preemptionPolicy is Never",
            ),
            Self::NobodyLower => (
                "nobody of lower priority",
                "InsufficientResources",
                "no pod of lower priority than 1000 holds any",
            ),
            Self::JobsRefused => (
                "quota on Jobs",
                "QuotaExceeded",
                "0 of 3 pods exist; the others are refused by a ResourceQuota: exceeded quota: small",
            ),
            Self::ClassMissing => (
                "PriorityClass missing",
                "PriorityClassMissing",
                "no PriorityClass with name",
            ),
            Self::NameTaken => (
                "a Job of its name exists",
                "PodNameTaken",
                "\"train-workers-0\" already exists",
            ),
            Self::PodsInvalid => (
                "pods are invalid",
                "PodsInvalid",
                "must be less than or equal to cpu limit",
            ),
            Self::VolumeUnbound => ("PVC not bound", "VolumeNotBound", "is not bound"),
            Self::PodAffinity => ("pod affinity", "PodAffinity", "its affinity to other pods"),
            Self::HostPorts => ("host port taken", "HostPortsTaken", "a host port"),
        }
    }

    /// The condition that tells it.
    pub fn condition(self) -> &'static str {
        match self {
            Self::Barrier => "muster.dev/StartBarrier",
            _ => "muster.dev/GangScheduled",
        }
    }

    /// What `muster explain` says where all gangs are placed and pods do not run all the same.
    pub fn is_placed(self) -> Option<&'static str> {
        match self {
            Self::Barrier => {
                Some("all gangs are placed; at the start barrier main containers wait")
            }
            Self::Image => Some("all gangs are placed; 3 pods cannot pull an image"),
            _ => None,
        }
    }

    /// What is true before the fact, and may still be told then.
    pub fn before(self) -> &'static [&'static str] {
        match self {
            Self::Image => &["GangScheduled"],
            // Until the Job controller has replaced those that are gone.
            Self::Preempted => &["GangScheduled", "PodsMissing"],
            Self::QuotaThenCpu => &["QuotaExceeded"],
            Self::ForeignObject => &["GangSuspended"],
            Self::Failed | Self::GateOff | Self::TimedOut | Self::LinkLost => {
                &["InsufficientResources"]
            }
            _ => &[],
        }
    }

    pub fn title(self) -> &'static str {
        self.facts().0
    }

    pub fn reason(self) -> &'static str {
        self.facts().1
    }

    pub fn says(self) -> &'static str {
        self.facts().2
    }

    /// Whether a gang waits that can be looked at from outside: queues and other workloads are not.
    pub fn is_a_wait(self) -> bool {
        let elsewhere = matches!(
            self,
            Self::UnknownQueue | Self::ClosedQueue | Self::PartnerAbsent | Self::Barrier
        );
        !self.reason().starts_with("Gang") && !elsewhere
    }

    /// As part of a test's name.
    pub fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    pub fn exists_on(self, scheduler: Scheduler) -> bool {
        use Scheduler::{Coscheduling, Kai, Koordinator, Native, Volcano, Yunikorn};
        match self {
            Self::UnknownQueue => matches!(scheduler, Volcano | Kai),
            Self::ClosedQueue => scheduler == Volcano,
            Self::FullQueue => matches!(scheduler, Volcano | Yunikorn | Kai),
            // The rest of what does not depend on the scheduler is shown once.
            Self::LimitRange
            | Self::PodSecurity
            | Self::Policy
            | Self::QuotaThenCpu
            | Self::PodGroupQuota
            | Self::ForeignObject
            | Self::SuspendedByUser
            | Self::KueueSuspends
            | Self::TimedOut
            | Self::Failed
            | Self::GateOff
            | Self::DependsOn
            | Self::Barrier
            | Self::Image
            | Self::JobsRefused
            | Self::NameTaken
            | Self::PodsInvalid => scheduler == Native,
            // There the gang's object is refused for it.
            Self::ClassMissing => scheduler != Native,
            // Others have one name only, and refuse another at apply.
            Self::UnknownName => matches!(scheduler, Native | Coscheduling),
            // KAI's link cannot be taken away.
            Self::LinkLost => scheduler != Kai,
            // Who can bundle gangs of several workloads.
            Self::PartnerAbsent => matches!(scheduler, Volcano | Koordinator),
            Self::PartnerRefused => scheduler != Coscheduling,
            Self::Preempted => matches!(scheduler, Native | Coscheduling | Koordinator),
            // KAI does not read the policy.
            Self::MayNotPreempt => scheduler != Kai,
            // Refused at apply elsewhere.
            Self::Gate => matches!(scheduler, Native | Coscheduling),
            // These are only in the scheduler's words.
            Self::Spread
            | Self::VolumeElsewhere
            | Self::VolumeUnbound
            | Self::PodAffinity
            | Self::HostPorts => {
                matches!(scheduler, Native | Coscheduling | Koordinator | Volcano)
            }
            Self::CpuShort
            | Self::HeldByAnother
            | Self::PodTooLarge
            | Self::NoGpu
            | Self::NoNode
            | Self::Selector
            | Self::Cordoned
            | Self::Taint
            | Self::AntiAffinity
            | Self::PodsPerNode
            | Self::Affinity
            | Self::Scattered
            | Self::ClaimMissing
            | Self::Quota
            | Self::NobodyLower
            | Self::ServiceAccount => true,
        }
    }

    /// Makes it so; when the fact was there.
    pub async fn bring_about(self, sandbox: &Sandbox, scheduler: Scheduler) -> Result<Instant> {
        let gang = Gang::on(scheduler);
        match self {
            Self::CpuShort => {
                sandbox.nodes(1, 2).await?;
                gang.apply(sandbox).await
            }
            Self::HeldByAnother => {
                sandbox.nodes(1, 4).await?;
                let holder = gang.clone().named("holder").pods(2).cpu("2");
                holder.apply(sandbox).await?;
                sandbox.all_bound(2).await?;
                gang.apply(sandbox).await
            }
            Self::Scattered => {
                sandbox.nodes(3, 3).await?;
                let holder = gang.clone().named("holder").pods(3).cpu("2");
                holder.apply(sandbox).await?;
                sandbox.all_bound(3).await?;
                gang.pods(1).cpu("2").apply(sandbox).await
            }
            Self::PodTooLarge => {
                sandbox.nodes(1, 2).await?;
                gang.cpu("100").apply(sandbox).await
            }
            Self::NoGpu => {
                sandbox.nodes(1, 4).await?;
                let requests = json!({"cpu": "1", "example.com/gpu": "1"});
                gang.requests(requests).apply(sandbox).await
            }
            Self::NoNode => gang.apply(sandbox).await,
            Self::Selector => {
                sandbox.nodes(1, 4).await?;
                gang.spec("nodeSelector", json!({"pool": "a100"}))
                    .apply(sandbox)
                    .await
            }
            Self::Affinity => {
                sandbox.nodes(1, 4).await?;
                let term = json!({"matchExpressions": [
                    {"key": "pool", "operator": "In", "values": ["a100", "h100"]}]});
                let required = json!({"nodeSelectorTerms": [term]});
                let affinity = json!({"nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": required}});
                gang.spec("affinity", affinity).apply(sandbox).await
            }
            Self::Cordoned => {
                let node = sandbox.nodes(1, 4).await?.remove(0);
                patch_node(sandbox, &node, json!({"spec": {"unschedulable": true}})).await?;
                gang.apply(sandbox).await
            }
            Self::Taint => {
                let node = sandbox.nodes(1, 4).await?.remove(0);
                taint(sandbox, &node).await?;
                gang.apply(sandbox).await
            }
            Self::PodsPerNode => {
                let node = sandbox.nodes(1, 8).await?.remove(0);
                let room = json!({"cpu": "8", "memory": "256Gi", "pods": "2"});
                let status = json!({"status": {"capacity": room, "allocatable": room}});
                let api: Api<Node> = Api::all(sandbox.client());
                api.patch_status(&node, &PatchParams::default(), &Patch::Merge(status))
                    .await?;
                gang.apply(sandbox).await
            }
            Self::AntiAffinity => {
                sandbox.nodes(2, 4).await?;
                let apart = json!({"podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [{
                        "topologyKey": "kubernetes.io/hostname",
                        "labelSelector": {"matchLabels": {"app": "apart"}}}]}});
                gang.labels(json!({"app": "apart"}))
                    .spec("affinity", apart)
                    .apply(sandbox)
                    .await
            }
            Self::Spread => {
                let nodes = sandbox.nodes(2, 4).await?;
                // One of the two domains takes none of them.
                taint(sandbox, &nodes[0]).await?;
                let spread = json!([{
                    "maxSkew": 1, "topologyKey": "kubernetes.io/hostname",
                    "whenUnsatisfiable": "DoNotSchedule", "nodeTaintsPolicy": "Ignore",
                    "labelSelector": {"matchLabels": {"app": "spread"}}}]);
                gang.labels(json!({"app": "spread"}))
                    .spec("topologySpreadConstraints", spread)
                    .apply(sandbox)
                    .await
            }
            Self::ClaimMissing => {
                sandbox.nodes(1, 4).await?;
                gang.spec("volumes", volume()).apply(sandbox).await
            }
            Self::VolumeElsewhere => {
                sandbox.nodes(1, 4).await?;
                bound_volume(sandbox).await?;
                gang.spec("volumes", volume()).apply(sandbox).await
            }
            Self::Quota => {
                sandbox.nodes(1, 4).await?;
                // Placeholders of a scheduler would count too.
                quota(sandbox, "pods", "2").await?;
                gang.apply(sandbox).await
            }
            Self::LimitRange => {
                sandbox.nodes(1, 4).await?;
                let limits = "
apiVersion: v1
kind: LimitRange
metadata: {name: small}
spec: {limits: [{type: Pod, max: {cpu: 500m}}]}
";
                sandbox.apply(limits).await?;
                gang.apply(sandbox).await
            }
            Self::PodSecurity => {
                sandbox.nodes(1, 4).await?;
                let label = "pod-security.kubernetes.io/enforce=restricted";
                let name = sandbox.namespace.clone();
                let args = ["label", "namespace", &name, label];
                let done = sandbox.kubectl(&args, "").await?;
                ensure!(done.status.success(), "cannot label {name}");
                gang.apply(sandbox).await
            }
            Self::ServiceAccount => {
                sandbox.nodes(1, 4).await?;
                gang.spec("serviceAccountName", json!("nobody"))
                    .apply(sandbox)
                    .await
            }
            Self::Policy => {
                sandbox.nodes(1, 4).await?;
                let expression = "has(object.spec.priorityClassName)";
                sandbox.deny(("", "v1", "pods"), expression).await?;
                gang.apply(sandbox).await
            }
            Self::Gate => {
                sandbox.nodes(1, 4).await?;
                gang.spec("schedulingGates", json!([{"name": "example.com/wait"}]))
                    .apply(sandbox)
                    .await
            }
            Self::Preempted => {
                sandbox.nodes(1, 3).await?;
                let patient = gang
                    .backoff(6)
                    .spec("terminationGracePeriodSeconds", json!(0));
                patient.apply(sandbox).await?;
                sandbox.all_bound(3).await?;
                let class = class(sandbox, 1000, "PreemptLowerPriority").await?;
                let important = Gang::on(scheduler).named("important").pods(1).cpu("3");
                important.class(&class).apply(sandbox).await?;
                // The Job controller replaces them in its own time.
                waiting(sandbox, 3).await?;
                Ok(Instant::now())
            }
            Self::QuotaThenCpu => {
                sandbox.nodes(1, 2).await?;
                quota(sandbox, "pods", "2").await?;
                gang.apply(sandbox).await?;
                super::told(sandbox, Self::Quota, Instant::now()).await?;
                quota(sandbox, "pods", "9").await?;
                // The Job controller tries again in its own time.
                sandbox
                    .wait_for("three pods", async || {
                        let pods = sandbox.pods().await?.len();
                        ensure!(pods == 3, "{pods} exist");
                        Ok(())
                    })
                    .await?;
                Ok(Instant::now())
            }
            Self::PodGroupQuota => {
                sandbox.nodes(1, 4).await?;
                quota(sandbox, "count/podgroups.scheduling.k8s.io", "0").await?;
                gang.apply(sandbox).await
            }
            Self::ForeignObject => {
                sandbox.nodes(1, 4).await?;
                // Suspended, so that the name can be taken before Muster makes the object.
                gang.suspended().apply(sandbox).await?;
                let jobsets = sandbox.api("jobset.x-k8s.io/v1alpha2", "JobSet").await?;
                take_names(sandbox, &jobsets.get("train").await?).await?;
                sandbox
                    .patch_jobset(json!({"spec": {"suspend": false}}))
                    .await?;
                Ok(Instant::now())
            }
            Self::SuspendedByUser => {
                sandbox.nodes(1, 4).await?;
                gang.suspended().apply(sandbox).await
            }
            Self::KueueSuspends => {
                sandbox.nodes(1, 4).await?;
                sandbox.kueue(2).await?;
                gang.queued("team").apply(sandbox).await
            }
            Self::TimedOut => {
                sandbox.nodes(1, 2).await?;
                gang.annotated("muster.dev/timeout: 3s, muster.dev/timeout-action: Suspend")
                    .apply(sandbox)
                    .await
            }
            Self::Failed => {
                sandbox.nodes(1, 2).await?;
                gang.deadline(8).apply(sandbox).await?;
                super::told(sandbox, Self::CpuShort, Instant::now()).await?;
                let jobsets = sandbox.api("jobset.x-k8s.io/v1alpha2", "JobSet").await?;
                sandbox
                    .wait_for("the JobSet to fail", async || {
                        let jobset = jobsets.get("train").await?;
                        let state = &jobset.data["status"]["terminalState"];
                        ensure!(state == "Failed", "it is {state}");
                        Ok(())
                    })
                    .await?;
                Ok(Instant::now())
            }
            Self::UnknownQueue => {
                sandbox.nodes(1, 4).await?;
                gang.annotated("muster.dev/queue: nowhere")
                    .apply(sandbox)
                    .await
            }
            Self::ClosedQueue => {
                sandbox.nodes(1, 4).await?;
                let queue = format!("{}-closed", sandbox.namespace);
                let closed = format!(
                    "{{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {{name: \
                     {queue}}}, spec: {{weight: 1}}}}"
                );
                sandbox.apply(&closed).await?;
                let api = sandbox
                    .api("scheduling.volcano.sh/v1beta1", "Queue")
                    .await?;
                let state = json!({"status": {"state": "Closed"}});
                api.patch_status(&queue, &PatchParams::default(), &Patch::Merge(state))
                    .await?;
                gang.annotated(&format!("muster.dev/queue: {queue}"))
                    .apply(sandbox)
                    .await
            }
            Self::FullQueue => {
                // The nodes have room for both.
                sandbox.nodes(1, 8).await?;
                let gang = queue_of_four(sandbox, scheduler, gang).await?;
                let holder = gang.clone().named("holder").pods(2);
                holder.apply(sandbox).await?;
                sandbox.all_bound(2).await?;
                gang.apply(sandbox).await
            }
            Self::GateOff => {
                sandbox.nodes(1, 2).await?;
                gang.apply(sandbox).await?;
                sandbox.all_bound(2).await?;
                Ok(Instant::now())
            }
            Self::LinkLost => {
                // Without room: a pod without a link would start alone.
                sandbox.nodes(1, 2).await?;
                let gang = gang.cpu("3");
                // On native it is a field, which never changes: there nobody links pods at all.
                if scheduler == Scheduler::Native {
                    return gang.apply(sandbox).await;
                }
                gang.apply(sandbox).await?;
                let pod = waiting(sandbox, 3).await?.remove(0);
                unlink(sandbox, &pod, scheduler).await
            }
            Self::DependsOn => {
                sandbox.nodes(1, 4).await?;
                let prepare = json!({"template": {"metadata": {"annotations": {
                    "muster.dev/gang-mode": "Off"}}}});
                let after = json!([{"name": "prepare", "status": "Complete"}]);
                gang.apart()
                    .after("prepare", prepare, json!({}))
                    .group("dependsOn", after)
                    .apply(sandbox)
                    .await
            }
            Self::Barrier => {
                sandbox.nodes(1, 4).await?;
                // One of them does not come up.
                let held = json!({"metadata": {"annotations": {"fake/hold": "true"}}});
                gang.after("slow", json!({}), held)
                    .annotated("muster.dev/start-barrier: 60s")
                    .apply(sandbox)
                    .await?;
                sandbox.all_bound(4).await?;
                Ok(Instant::now())
            }
            Self::Image => {
                sandbox.nodes(1, 3).await?;
                gang.held().apply(sandbox).await?;
                sandbox.all_bound(3).await?;
                no_image(sandbox).await?;
                Ok(Instant::now())
            }
            Self::UnknownName => {
                // Too small besides: what comes first is that nobody looks.
                sandbox.nodes(1, 2).await?;
                gang.spec("schedulerName", json!("nobody"))
                    .apply(sandbox)
                    .await
            }
            Self::PartnerAbsent => {
                sandbox.nodes(1, 4).await?;
                gang.annotated("muster.dev/bundle: ring, muster.dev/bundle-with: other")
                    .apply(sandbox)
                    .await
            }
            Self::PartnerRefused => {
                sandbox.nodes(1, 4).await?;
                let nobody = json!({"spec": {"serviceAccountName": "nobody"}});
                gang.apart()
                    .after("other", json!({}), nobody)
                    .annotated("muster.dev/bundle: ring")
                    .apply(sandbox)
                    .await
            }
            Self::MayNotPreempt => {
                sandbox.nodes(1, 3).await?;
                gang.clone().named("holder").apply(sandbox).await?;
                sandbox.all_bound(3).await?;
                let class = class(sandbox, 1000, "Never").await?;
                gang.class(&class).apply(sandbox).await
            }
            Self::NobodyLower => {
                sandbox.nodes(1, 3).await?;
                let class = class(sandbox, 1000, "PreemptLowerPriority").await?;
                let gang = gang.class(&class);
                gang.clone().named("holder").apply(sandbox).await?;
                sandbox.all_bound(3).await?;
                gang.apply(sandbox).await
            }
            Self::JobsRefused => {
                sandbox.nodes(1, 4).await?;
                quota(sandbox, "count/jobs.batch", "0").await?;
                gang.apply(sandbox).await
            }
            Self::ClassMissing => {
                sandbox.nodes(1, 4).await?;
                gang.class("nobody").apply(sandbox).await
            }
            Self::NameTaken => {
                sandbox.nodes(1, 4).await?;
                let job = "
apiVersion: batch/v1
kind: Job
metadata: {name: train-workers-0}
spec:
  suspend: true
  template:
    spec: {restartPolicy: Never, containers: [{name: main, image: other}]}
";
                sandbox.apply(job).await?;
                gang.apply(sandbox).await
            }
            Self::PodsInvalid => {
                sandbox.nodes(1, 4).await?;
                // Its pods ask for more than the limit that they are given.
                let limits = "
apiVersion: v1
kind: LimitRange
metadata: {name: small}
spec: {limits: [{type: Container, default: {cpu: 500m}, defaultRequest: {cpu: 500m}}]}
";
                sandbox.apply(limits).await?;
                gang.apply(sandbox).await
            }
            Self::VolumeUnbound => {
                sandbox.nodes(1, 4).await?;
                sandbox.apply(UNBOUND).await?;
                gang.spec("volumes", volume()).apply(sandbox).await
            }
            Self::PodAffinity => {
                sandbox.nodes(1, 4).await?;
                let near = json!({"podAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [{
                        "topologyKey": "kubernetes.io/hostname",
                        "labelSelector": {"matchLabels": {"app": "absent"}}}]}});
                gang.spec("affinity", near).apply(sandbox).await
            }
            Self::HostPorts => {
                sandbox.nodes(1, 8).await?;
                let gang = gang.host_port(8080);
                gang.clone().named("holder").pods(1).apply(sandbox).await?;
                sandbox.all_bound(1).await?;
                gang.apply(sandbox).await
            }
        }
    }
}
