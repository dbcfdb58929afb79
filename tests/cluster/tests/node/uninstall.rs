//! Muster is taken away from under gangs, by the commands that the page for operators has, and in the
//! wrong order.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;

use super::barrier;
use super::words::{PODS, gang, succeeds};
use crate::health::{PATIENCE, wait_for};
use crate::install::NAMESPACE;
use crate::manifests::parse;
use crate::node::start::install;
use crate::sandbox::Sandbox;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// On the node only while a test makes room.
const ROOM: &str = "e2e.muster.dev/room";

/// What the section of docs/operating.md has a reader type, a line each.
pub(super) fn commands(section: &str) -> Result<Vec<String>> {
    let page = std::fs::read_to_string(Path::new(ROOT).join("docs/operating.md"))?;
    let (_, rest) = page
        .split_once(&format!("\n## {section}\n"))
        .with_context(|| format!("no section {section}"))?;
    let (_, rest) = rest.split_once("```sh\n").context("no commands")?;
    let (block, _) = rest.split_once("```").context("no end")?;
    Ok(block.lines().map(str::to_owned).collect())
}

impl Sandbox {
    /// Types a line as an operator does, in the checkout.
    pub(super) async fn typed(&self, line: &str) -> Result<String> {
        let mut words = line.split_whitespace();
        let mut command = match words.next() {
            Some("kubectl") => self.cluster.kubectl()?,
            Some("muster") => {
                let mut muster = Command::new(env!("CARGO_BIN_EXE_muster"));
                muster.env("KUBECONFIG", &self.cluster.plane.kubeconfig);
                muster
            }
            other => anyhow::bail!("what is {other:?}?"),
        };
        command.args(words).current_dir(ROOT);
        succeeds(command).await
    }

    /// Whatever of Muster is left in the cluster.
    pub(super) async fn left_of_muster(&self) -> Result<String> {
        let kinds = "namespaces,clusterroles,clusterrolebindings,mutatingwebhookconfigurations,\
                     validatingwebhookconfigurations,validatingadmissionpolicies,\
                     validatingadmissionpolicybindings";
        let label = "app.kubernetes.io/name=muster";
        let args = ["get", kinds, "--selector", label, "--output=name"];
        let labelled = self.operate(&args).await?;
        let namespace = ["get", "namespace", NAMESPACE, "--ignore-not-found"];
        Ok(labelled + &self.operate(&namespace).await?)
    }

    async fn link_of(&self, pod: &str) -> Result<Option<String>> {
        let pods = self.api("v1", "Pod").await?;
        let pod = pods.get(pod).await?;
        let link = pod.data["spec"]["schedulingGroup"]["podGroupName"].as_str();
        Ok(link.map(str::to_owned))
    }

    /// Installs Muster again for the tests that follow.
    pub(super) async fn install_again(&self) -> Result<()> {
        let cluster = &self.cluster;
        let took = install(&cluster.plane, &cluster.objects).await?;
        println!("installed again in {:.1} s", took.as_secs_f64());
        wait_for("Muster to be asked again", PATIENCE, async || {
            self.takes_a_gang().await
        })
        .await
    }
}

/// A gang runs, one waits for room, one is suspended, one will restart, and one workload has met at its
/// start barrier.
pub async fn the_documented_uninstall_leaves_gangs_running(sandbox: Sandbox) -> Result<()> {
    let outcome = documented(&sandbox).await;
    sandbox.label_node(ROOM, None).await?;
    let again = sandbox.install_again().await;
    outcome?;
    again
}

async fn documented(sandbox: &Sandbox) -> Result<()> {
    let (waits, held) = (
        sandbox.beside("waits").await?,
        sandbox.beside("held").await?,
    );
    let restarts = sandbox.beside("restarts").await?;
    let barred = sandbox.beside("barred").await?;
    let long = gang(
        &["now", "--", "sleep", "3600"],
        "terminationGracePeriodSeconds: 1",
    );
    let long = long.replace("backoffLimit: 0", "backoffLimit: 3");
    sandbox.apply(&long).await?;
    let selector = format!("nodeSelector: {{{ROOM}: {}}}", waits.namespace);
    waits.apply(&gang(&["now"], &selector)).await?;
    held.apply(&long).await?;
    let met = long.replace("gang-mode: Gang", "start-barrier: 5m");
    barred.apply(&met).await?;
    let once = gang(&["wait-file", "/never"], "terminationGracePeriodSeconds: 1");
    let once = once.replace("spec:\n  replicatedJobs", RESTARTS);
    restarts.apply(&once).await?;
    let before = sandbox.all_running(PODS).await?;
    waits.none_bound(PODS).await?;
    held.all_running(PODS).await?;
    restarts.all_running(PODS).await?;
    let met = barred.all_running(PODS).await?;
    held.patch_jobset(json!({"spec": {"suspend": true}}))
        .await?;
    held.gangs(0).await?;

    // Word for word. Nothing is refused from the first command on.
    let start = Instant::now();
    for line in commands("Uninstall")? {
        let last = line.contains("-k manifests/base");
        let (done, refused, ended) = tokio::join!(
            sandbox.typed(&line),
            async {
                tokio::time::sleep(Duration::from_millis(500)).await;
                sandbox.takes_a_gang().await
            },
            async {
                // Else Kubernetes looks at their namespace again only after half their grace period.
                match last {
                    true => sandbox.end_replicas().await,
                    false => Ok(()),
                }
            }
        );
        done?;
        ended?;
        refused.with_context(|| format!("while {line:?} ran"))?;
        sandbox
            .takes_a_gang()
            .await
            .with_context(|| format!("after {line:?}"))?;
    }
    println!("uninstalled in {:.1} s", start.elapsed().as_secs_f64());
    let left = sandbox.left_of_muster().await?;
    ensure!(left.is_empty(), "left: {left}");

    // The running one does not notice, and a pod that is replaced keeps its link.
    let now = sandbox.all_running(PODS).await?;
    ensure!(now == before, "{before:?} became {now:?}");
    let lost = before.keys().next().context("no pod")?;
    let link = sandbox.link_of(lost).await?.context("it has no link")?;
    let pods = sandbox.api("v1", "Pod").await?;
    pods.delete(lost, &DeleteParams::default()).await?;
    let after = sandbox
        .wait_for("another pod in its place", async || {
            let now = sandbox.all_running(PODS).await?;
            ensure!(!now.contains_key(lost), "it is still there");
            Ok(now)
        })
        .await?;
    for pod in after.keys() {
        let linked = sandbox.link_of(pod).await?;
        ensure!(linked.as_ref() == Some(&link), "{pod}: {linked:?}");
    }

    // The one that waits starts when it fits.
    waits.label_node(ROOM, Some(&waits.namespace)).await?;
    let pods = waits.finished().await?;
    ensure!(pods.len() == PODS, "there are {} pods", pods.len());

    // Behind a start barrier the others keep running, and a pod that is replaced says why it does not.
    let lost = met.keys().next().context("no pod")?;
    let pods = barred.api("v1", "Pod").await?;
    pods.delete(lost, &DeleteParams::default()).await?;
    let said = barred
        .wait_for("a pod that was told nothing", async || {
            let pods = barred.pods().await?;
            let others = pods.iter().filter(|pod| !met.contains_key(&pod.name_any()));
            let mut said = others.filter_map(barrier::times::said);
            Ok(said.next().context("no new pod has failed")?.1)
        })
        .await?;
    let advice = "recreate the workload if Muster was uninstalled";
    ensure!(said.contains(advice), "{said}");
    let now = barred.all_running(PODS - 1).await?;
    ensure!(now.keys().all(|pod| met.contains_key(pod)), "{now:?}");

    // One that restarts goes on without a gang.
    let pods = restarts.api("v1", "Pod").await?;
    let all = ListParams::default();
    let old: Vec<String> = pods
        .list(&all)
        .await?
        .iter()
        .map(|pod| pod.name_any())
        .collect();
    let first = old.first().context("no pod")?;
    pods.delete(first, &DeleteParams::default()).await?;
    let new = restarts
        .wait_for("its new pods", async || {
            let now = restarts.all_running(PODS).await?;
            ensure!(old.iter().all(|pod| !now.contains_key(pod)), "{now:?}");
            Ok(now)
        })
        .await?;
    for pod in new.keys() {
        let linked = restarts.link_of(pod).await?;
        ensure!(linked.is_none(), "{pod}: {linked:?}");
    }

    // One that was suspended waits for a PodGroup that nobody makes, and can be recreated.
    held.patch_jobset(json!({"spec": {"suspend": false}}))
        .await?;
    held.wait_for("its pods", async || {
        let count = held.pods().await?.len();
        ensure!(count == PODS, "there are {count}");
        Ok(())
    })
    .await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let bound = held.bound().await?;
    ensure!(bound.is_empty(), "{bound:?}");
    let jobsets = held.api("jobset.x-k8s.io/v1alpha2", "JobSet").await?;
    jobsets.delete("train", &DeleteParams::foreground()).await?;
    held.wait_for("it to be gone", async || {
        ensure!(jobsets.get_opt("train").await?.is_none(), "it is there");
        Ok(())
    })
    .await?;
    held.apply(&gang(&["now"], "")).await?;
    held.finished().await?;

    // What was made for a gang goes with its workload; no finalizer holds it.
    for sandbox in [sandbox, &waits, &held, &restarts, &barred] {
        let jobsets = sandbox.api("jobset.x-k8s.io/v1alpha2", "JobSet").await?;
        jobsets.delete("train", &DeleteParams::foreground()).await?;
    }
    for sandbox in [sandbox, &waits, &held, &restarts, &barred] {
        sandbox.gangs(0).await?;
        sandbox
            .wait_for("its pods to go", async || {
                let left = sandbox.pods().await?.len();
                ensure!(left == 0, "{left} are left");
                Ok(())
            })
            .await?;
    }
    for sandbox in [&waits, &held, &restarts, &barred] {
        sandbox.clear().await?;
    }
    Ok(())
}

/// A pod that is deleted fails its Job, and the JobSet begins anew.
const RESTARTS: &str = "spec:\n  failurePolicy: {maxRestarts: 1}\n  replicatedJobs";

/// The namespace goes first, and with it all that answers.
pub async fn after_a_namespace_deleted_first_the_emergency_command_recovers(
    sandbox: Sandbox,
) -> Result<()> {
    let outcome = namespace_first(&sandbox).await;
    let again = sandbox.install_again().await;
    outcome?;
    again
}

async fn namespace_first(sandbox: &Sandbox) -> Result<()> {
    let held = sandbox.beside("deleted").await?;
    let long = gang(
        &["now", "--", "sleep", "3600"],
        "terminationGracePeriodSeconds: 1",
    );
    sandbox.apply(&long).await?;
    held.apply(&long).await?;
    let before = sandbox.all_running(PODS).await?;
    held.all_running(PODS).await?;
    let namespace = ["delete", "namespace", NAMESPACE];
    let (deleted, ended) = tokio::join!(sandbox.operate(&namespace), async {
        // Its Deployment makes no new ones in a namespace that goes.
        tokio::time::sleep(Duration::from_secs(1)).await;
        sandbox.end_replicas().await
    });
    deleted?;
    ended?;

    // What asks for a gang is refused, and the message says by whom.
    let refused = sandbox.takes_a_gang().await.err();
    let said = format!("{:#}", refused.context("a gang is admitted")?);
    let clear = said.contains("failed calling webhook \"jobsets.muster.dev\"")
        && said.contains("service \"muster\" not found");
    ensure!(clear, "{said}");
    let suspend = Patch::Merge(json!({"spec": {"suspend": true}}));
    let jobsets = sandbox.api("jobset.x-k8s.io/v1alpha2", "JobSet").await?;
    let changed = jobsets
        .patch("train", &PatchParams::default(), &suspend)
        .await;
    ensure!(changed.is_err(), "a gang is suspended");
    // What has no gang is not, and what runs goes on.
    let plain = gang(&["now"], "").replace("{muster.dev/gang-mode: Gang}", "{}");
    let mut plain = parse(&plain)?.remove(0);
    plain["metadata"]["name"] = json!("plain");
    sandbox
        .cluster
        .objects
        .try_create(&plain, &sandbox.namespace)
        .await?;
    // A gang can be deleted, to the last of its pods and objects.
    let doomed = held.api("jobset.x-k8s.io/v1alpha2", "JobSet").await?;
    doomed.delete("train", &DeleteParams::foreground()).await?;
    held.gangs(0).await?;
    held.wait_for("it to be gone", async || {
        let pods = held.pods().await?.len();
        ensure!(pods == 0, "{pods} pods are left");
        ensure!(doomed.get_opt("train").await?.is_none(), "it is there");
        Ok(())
    })
    .await?;

    for line in commands("Emergency")? {
        sandbox.typed(&line).await?;
    }
    wait_for("gangs to be admitted", Duration::from_secs(5), async || {
        sandbox.takes_a_gang().await
    })
    .await?;
    jobsets
        .patch("train", &PatchParams::default(), &suspend)
        .await?;
    sandbox
        .wait_for("the gang to stop", async || {
            let pods = sandbox.pods().await?.len();
            ensure!(pods == 0, "{pods} of {} are left", before.len());
            Ok(())
        })
        .await?;
    // And the rest of the documented order finds nothing in its way.
    let last = commands("Uninstall")?.pop().context("no commands")?;
    sandbox.typed(&last).await?;
    let left = sandbox.left_of_muster().await?;
    ensure!(left.is_empty(), "left: {left}");
    held.clear().await
}
