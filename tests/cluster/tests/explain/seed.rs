//! How each cause is brought about: as files that a user could apply, and a fact.

use std::time::Instant;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{Node, PersistentVolume, Pod};
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use super::super::foreign::take_names;
use super::Scheduler;
use crate::sandbox::Sandbox;

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
}

impl Seed {
    pub const ALL: [Seed; 31] = [
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
            Self::AntiAffinity => ("anti-affinity", "PodAntiAffinity", "anti-affinity"),
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
                "2 of 3 pods exist; the others are refused by a ResourceQuota: exceeded quota: small",
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
            Self::KueueSuspends => ("Kueue has not admitted it", "GangSuspended", "Kueue"),
            Self::TimedOut => ("timed out", "GangTimedOut", "suspended"),
            Self::Failed => ("failed after it waited", "GangEnded", "has ended"),
            Self::UnknownQueue => ("unknown queue", "QueueUnusable", "does not exist"),
            Self::ClosedQueue => ("closed queue", "QueueUnusable", "closed"),
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

    /// Whether a gang waits that can be looked at from outside: queues are not.
    pub fn is_a_wait(self) -> bool {
        let queue = matches!(self, Self::UnknownQueue | Self::ClosedQueue);
        !self.reason().starts_with("Gang") && !queue
    }

    /// As part of a test's name.
    pub fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    pub fn exists_on(self, scheduler: Scheduler) -> bool {
        use Scheduler::{Coscheduling, Kai, Koordinator, Native, Volcano};
        match self {
            Self::UnknownQueue => matches!(scheduler, Volcano | Kai),
            Self::ClosedQueue => scheduler == Volcano,
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
            | Self::Preempted => scheduler == Native,
            // Refused at apply elsewhere.
            Self::Gate => matches!(scheduler, Native | Coscheduling),
            // Constraints between pods and volumes are only in the scheduler's words.
            Self::AntiAffinity | Self::Spread | Self::VolumeElsewhere | Self::ClaimMissing => {
                matches!(scheduler, Native | Coscheduling | Koordinator | Volcano)
            }
            Self::PodsPerNode | Self::Affinity | Self::Scattered => {
                matches!(scheduler, Native | Volcano | Coscheduling | Koordinator)
            }
            Self::CpuShort
            | Self::HeldByAnother
            | Self::PodTooLarge
            | Self::NoGpu
            | Self::NoNode
            | Self::Selector
            | Self::Cordoned
            | Self::Taint
            | Self::Quota
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
                let class = format!("{}-high", sandbox.namespace);
                let high = format!(
                    "{{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {{name: \
                     {class}}}, value: 1000}}"
                );
                sandbox.apply(&high).await?;
                let important = Gang::on(scheduler).named("important").pods(1).cpu("3");
                let important = important.spec("priorityClassName", json!(class));
                important.apply(sandbox).await?;
                // The Job controller replaces them in its own time.
                sandbox
                    .wait_for("three pods that wait", async || {
                        let pods = sandbox.pods().await?;
                        let waits = |pod: &&Pod| {
                            let spec = pod.spec.as_ref();
                            let going = pod.metadata.deletion_timestamp.is_some();
                            spec.is_some_and(|spec| spec.node_name.is_none()) && !going
                        };
                        let waiting = pods.iter().filter(waits).count();
                        ensure!(waiting == 3, "{waiting} wait");
                        Ok(())
                    })
                    .await?;
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
                gang.suspended().queued("team").apply(sandbox).await
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
        }
    }
}

/// A JobSet that is one gang.
#[derive(Debug, Clone)]
struct Gang {
    name: String,
    scheduler: Scheduler,
    annotations: String,
    labels: Value,
    pods: u32,
    requests: Value,
    spec: Value,
    pod_labels: Value,
    suspend: bool,
    deadline: Option<u32>,
    backoff: u32,
}

impl Gang {
    fn on(scheduler: Scheduler) -> Self {
        Self {
            name: "train".to_owned(),
            scheduler,
            annotations: String::new(),
            labels: json!({}),
            pods: 3,
            requests: json!({"cpu": "1"}),
            spec: json!({}),
            pod_labels: json!({}),
            suspend: false,
            deadline: None,
            backoff: 0,
        }
    }

    fn named(mut self, name: &str) -> Self {
        self.name = name.to_owned();
        self
    }

    fn pods(mut self, pods: u32) -> Self {
        self.pods = pods;
        self
    }

    fn cpu(self, cpu: &str) -> Self {
        self.requests(json!({"cpu": cpu}))
    }

    fn requests(mut self, requests: Value) -> Self {
        self.requests = requests;
        self
    }

    fn spec(mut self, field: &str, value: Value) -> Self {
        self.spec[field] = value;
        self
    }

    fn labels(mut self, labels: Value) -> Self {
        self.pod_labels = labels;
        self
    }

    fn annotated(mut self, annotations: &str) -> Self {
        self.annotations = format!(", {annotations}");
        self
    }

    fn suspended(mut self) -> Self {
        self.suspend = true;
        self
    }

    fn queued(mut self, queue: &str) -> Self {
        self.labels = json!({"kueue.x-k8s.io/queue-name": queue});
        self
    }

    fn deadline(mut self, seconds: u32) -> Self {
        self.deadline = Some(seconds);
        self
    }

    fn backoff(mut self, backoff: u32) -> Self {
        self.backoff = backoff;
        self
    }

    async fn apply(&self, sandbox: &Sandbox) -> Result<Instant> {
        let mut spec = self.spec.clone();
        spec["restartPolicy"] = json!("Never");
        let mut resources = json!({"requests": self.requests});
        if self.requests.get("example.com/gpu").is_some() {
            resources["limits"] = json!({"example.com/gpu": "1"});
        }
        spec["containers"] = json!([{"name": "main", "image": "train", "resources": resources}]);
        let mut job = json!({
            "parallelism": self.pods, "completions": self.pods, "backoffLimit": self.backoff,
            "template": {"metadata": {"labels": self.pod_labels}, "spec": spec},
        });
        if let Some(seconds) = self.deadline {
            job["activeDeadlineSeconds"] = json!(seconds);
        }
        let group = json!({"name": "workers", "replicas": 1, "template": {"spec": job}});
        let jobset = format!(
            "
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: {}
  labels: {}
  annotations: {{muster.dev/gang-mode: Gang, muster.dev/scheduler: {}{}}}
spec: {}
",
            self.name,
            self.labels,
            self.scheduler.name(),
            self.annotations,
            json!({"suspend": self.suspend, "replicatedJobs": [group]}),
        );
        sandbox.apply(&jobset).await?;
        Ok(Instant::now())
    }
}

async fn patch_node(sandbox: &Sandbox, node: &str, patch: Value) -> Result<()> {
    let api: Api<Node> = Api::all(sandbox.client());
    api.patch(node, &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    Ok(())
}

/// Adds a taint to those that a test's node has.
async fn taint(sandbox: &Sandbox, node: &str) -> Result<()> {
    let args = ["taint", "node", node, "gpu=only:NoSchedule"];
    let done = sandbox.kubectl(&args, "").await?;
    ensure!(done.status.success(), "cannot taint {node}");
    Ok(())
}

fn volume() -> Value {
    json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])
}

/// A claim that is bound to a volume of another zone.
async fn bound_volume(sandbox: &Sandbox) -> Result<()> {
    let name = format!("{}-data", sandbox.namespace);
    let volume = format!(
        "
apiVersion: v1
kind: PersistentVolume
metadata: {{name: {name}}}
spec:
  capacity: {{storage: 1Gi}}
  accessModes: [ReadWriteMany]
  storageClassName: ''
  hostPath: {{path: /data}}
  claimRef: {{name: data, namespace: {}}}
  nodeAffinity:
    required:
      nodeSelectorTerms: [{{matchExpressions: [{{key: zone, operator: In, values: [far]}}]}}]
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: data, annotations: {{pv.kubernetes.io/bind-completed: 'yes'}}}}
spec:
  accessModes: [ReadWriteMany]
  storageClassName: ''
  volumeName: {name}
  resources: {{requests: {{storage: 1Gi}}}}
",
        sandbox.namespace
    );
    sandbox.apply(&volume).await?;
    // No controller binds volumes here: what it would write is written by the test.
    let bound = Patch::Merge(json!({"status": {"phase": "Bound"}}));
    let params = PatchParams::default();
    let claims = sandbox.api("v1", "PersistentVolumeClaim").await?;
    claims.patch_status("data", &params, &bound).await?;
    let volumes: Api<PersistentVolume> = Api::all(sandbox.client());
    volumes.patch_status(&name, &params, &bound).await?;
    Ok(())
}

/// No controller counts quotas here: what it would write at first is written by the test.
async fn quota(sandbox: &Sandbox, resource: &str, most: &str) -> Result<()> {
    let quota = format!(
        "
apiVersion: v1
kind: ResourceQuota
metadata: {{name: small}}
spec: {{hard: {{{resource}: '{most}'}}}}
"
    );
    sandbox.apply(&quota).await?;
    let quotas = sandbox.api("v1", "ResourceQuota").await?;
    let before = quotas.get("small").await?;
    let used = before.data["status"]["used"][resource].as_str();
    let used = used.unwrap_or("0").to_owned();
    let status = json!({"status": {"hard": {resource: most}, "used": {resource: used}}});
    quotas
        .patch_status("small", &PatchParams::default(), &Patch::Merge(status))
        .await?;
    Ok(())
}
