//! Start barriers with real containers: how soon they go on.

pub mod replicas;
pub mod times;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::ResourceExt;
use serde_json::json;

use super::words::container;
use crate::health::wait_for;
use crate::node::images::BOX;
use crate::sandbox::Sandbox;

/// How many pods [`late`] has.
const PODS: usize = 4;

/// On the node once the last pod may come; each test has its own.
fn key(sandbox: &Sandbox) -> String {
    format!("e2e.muster.dev/{}", sandbox.namespace)
}

/// A JobSet `train` of three pods and a last one, which has no node until that is labelled. Before it
/// waits, each says what time it is, and so does its main container.
fn late(sandbox: &Sandbox, barrier: &str, policy: &str, main: &[&str], more: &str) -> String {
    let secured = "securityContext: {allowPrivilegeEscalation: false, runAsNonRoot: true, \
                   runAsUser: 65532, capabilities: {drop: [ALL]}, \
                   seccompProfile: {type: RuntimeDefault}}";
    let main = json!(main);
    let group = |name: &str, pods: usize, selector: &str| {
        format!(
            "
  - name: {name}
    template:
      spec:
        parallelism: {pods}
        completions: {pods}
        backoffLimit: 0
        template:
          spec:
            restartPolicy: {policy}
            terminationGracePeriodSeconds: 1
            automountServiceAccountToken: false
            {selector}
            initContainers:
            - {{name: first, image: '{BOX}', args: [now], {secured}}}
            {more}
            containers:
            - {{name: main, image: '{BOX}', args: {main}, {secured}}}"
        )
    };
    let selector = format!("nodeSelector: {{{}: 'true'}}", key(sandbox));
    format!(
        "
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: train
  annotations: {{{barrier}}}
spec:
  replicatedJobs: {}{}
",
        group("workers", PODS - 1, ""),
        group("last", 1, &selector),
    )
}

fn waits(pod: &Pod, name: &str) -> bool {
    let own = status(pod, name);
    own.and_then(|own| own.state.as_ref()?.running.as_ref())
        .is_some()
}

fn status<'p>(pod: &'p Pod, name: &str) -> Option<&'p ContainerStatus> {
    let statuses = pod.status.as_ref()?.init_container_statuses.as_ref()?;
    statuses.iter().find(|status| status.name == name)
}

impl Sandbox {
    /// Waits until so many pods wait in that container.
    async fn at_barrier(&self, name: &str, count: usize) -> Result<()> {
        self.wait_for(&format!("{count} pods at the barrier"), async || {
            let pods = self.pods().await?;
            let waiting = pods.iter().filter(|pod| waits(pod, name)).count();
            ensure!(waiting == count, "{waiting} wait");
            Ok(())
        })
        .await
    }

    /// Lets all pods of a barrier but the last wait, looks at so many of them, and lets the last one come;
    /// see `last_comes` for what is returned.
    pub(super) async fn barrier_opens(
        &self,
        look: impl AsyncFnOnce(usize) -> Result<()>,
    ) -> Result<Vec<u64>> {
        self.apply(&late(self, BARRIER, "Never", &["now"], ""))
            .await?;
        self.at_barrier(INIT, PODS - 1).await?;
        look(PODS - 1).await?;
        self.last_comes().await
    }

    /// The pods whose kubelet was told to look for the ConfigMap.
    async fn told_to_look(&self) -> Result<Vec<String>> {
        let mut pods = self.pods().await?;
        pods.retain(|pod| pod.annotations().contains_key("muster.dev/barrier-opened"));
        Ok(pods.iter().map(|pod| pod.name_any()).collect())
    }

    /// Lets the last pod come, and returns when the main containers started after its first container
    /// did, in milliseconds.
    async fn last_comes(&self) -> Result<Vec<u64>> {
        self.label_node(&key(self), Some("true")).await?;
        let pods = self.finished().await?;
        let last = pods.iter().find(|pod| pod.name_any().contains("-last-"));
        let last = last.context("there is no last pod")?.name_any();
        let came = self.times(&last, "first").await?;
        let came = *came.first().context("the last pod said nothing")?;
        let mut after = Vec::new();
        for pod in &pods {
            let started = self.times(&pod.name_any(), "main").await?;
            after.push(
                started
                    .first()
                    .context("it said nothing")?
                    .saturating_sub(came),
            );
        }
        after.sort_unstable();
        Ok(after)
    }
}

const INIT: &str = "group-scheduling-init";
const BARRIER: &str = "muster.dev/start-barrier: 5m";

/// How soon is printed, since it depends on the node. Beside it the proposal's own way: a loop that waits for the mount of a ConfigMap.
pub async fn main_containers_start_within_five_seconds_of_the_last(sandbox: Sandbox) -> Result<()> {
    sandbox
        .apply(&late(&sandbox, BARRIER, "Never", &["now"], ""))
        .await?;
    sandbox.at_barrier(INIT, PODS - 1).await?;
    let after = sandbox.last_comes().await?;
    let told = sandbox.told_to_look().await?;
    let spread = after.last().zip(after.first()).map_or(0, |(a, b)| a - b);
    println!(
        "start barrier: main containers started {after:?} ms after the last pod's first container, \
         within {spread} ms of each other"
    );
    let others = Sandbox::new(sandbox.cluster.clone(), "proposal").await?;
    let took = proposal(&others).await?;
    let slowest = after.last().copied().unwrap_or_default().max(1);
    println!(
        "the proposal's own way: {:.1} s from the ConfigMap to the last main container, {:.0} times \
         as long",
        took.as_secs_f64(),
        took.as_millis() as f64 / slowest as f64
    );
    // Three containers of the last pod start in this time, one after the other. Who has to be told by his
    // kubelet is told five seconds after the opening at the earliest.
    ensure!(slowest < 5_000, "{after:?}");
    ensure!(spread < 2_000, "{after:?}");
    ensure!(told.is_empty(), "no replica told {told:?}");
    Ok(())
}

/// All four wait for a file of a ConfigMap that does not exist yet, as KEP-498 has it.
async fn proposal(sandbox: &Sandbox) -> Result<Duration> {
    let waits = format!(
        "- {{name: wait, image: '{BOX}', args: [wait-file, /gate/started], \
         volumeMounts: [{{name: gate, mountPath: /gate}}]}}"
    );
    let volume = "volumes: [{name: gate, configMap: {name: gate, optional: true}}]";
    let jobset = late(sandbox, "", "Never", &["now"], &waits).replace(
        "            containers:",
        &format!("            {volume}\n            containers:"),
    );
    sandbox.label_node(&key(sandbox), Some("true")).await?;
    sandbox.apply(&jobset).await?;
    sandbox.at_barrier("wait", PODS).await?;
    // Kubelet looks at a pod that has just changed; those who wait for a node pool have not for long.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let start = Instant::now();
    sandbox
        .apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: gate}, data: {started: 'true'}}")
        .await?;
    wait_for("all to go on", Duration::from_secs(180), async || {
        let pods = sandbox.pods().await?;
        let begun = |pod: &&Pod| {
            let state = container(pod).and_then(|main| main.state.as_ref());
            state.is_some_and(|state| state.running.is_some() || state.terminated.is_some())
        };
        let begun = pods.iter().filter(begun).count();
        ensure!(begun == PODS, "{begun} went on");
        Ok(())
    })
    .await?;
    Ok(start.elapsed())
}

/// The injected container is allowed where only restricted pods are, and a gang beside it too.
pub async fn a_barrier_holds_under_restricted_pod_security(sandbox: Sandbox) -> Result<()> {
    sandbox.restrict().await?;
    let both = "muster.dev/gang-mode: Gang, muster.dev/start-barrier: 5m";
    sandbox.label_node(&key(&sandbox), Some("true")).await?;
    sandbox
        .apply(&late(&sandbox, both, "Never", &["now"], ""))
        .await?;
    let pods = sandbox.finished().await?;
    ensure!(pods.len() == PODS, "there are {} pods", pods.len());
    for pod in &pods {
        let own = status(pod, INIT).context("nobody waited")?;
        let ended = own
            .state
            .as_ref()
            .and_then(|state| state.terminated.as_ref());
        ensure!(ended.is_some_and(|ended| ended.exit_code == 0), "{own:?}");
    }
    Ok(())
}
