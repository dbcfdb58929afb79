//! Another version beside this one, there and back, while workloads are created: none is refused, and
//! what the one has stamped the other understands.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::lifecycle::runs_as_another_gang;
use super::lws::{is_bound, lws, pod_group};
use super::samples::gang;
use super::words::{WHOLE, group, jobset};
use crate::before::VersionBefore;
use crate::cluster::Cluster;
use crate::install::{BASE, to_loopback};
use crate::manifests::render;
use crate::muster::Muster;
use crate::ports::Port;
use crate::process::Process;
use crate::sandbox::Sandbox;
use crate::service::Service;
use crate::stream::Stream;

/// A lame duck of seconds, and what it has begun.
const ENOUGH: Duration = Duration::from_secs(20);

/// One of the two versions.
struct Version {
    name: &'static str,
    muster: Muster,
}

struct Replica {
    port: u16,
    process: Process,
}

/// A cluster whose apiserver calls Muster through a Service.
struct World {
    cluster: Arc<Cluster>,
    service: Service,
    port: u16,
    replicas: Vec<Replica>,
}

impl World {
    /// Applies a version's manifests.
    async fn apply(&self, base: &Path) -> Result<()> {
        let manifests = render(self.cluster.plane.components(), base)?.into_iter();
        let items: Vec<Value> = manifests
            .map(|object| to_loopback(object, self.port))
            .collect();
        let path = self.cluster.plane.dir().join("manifests.json");
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
        fs::write(&path, list.to_string())?;
        let mut kubectl = self.cluster.kubectl()?;
        kubectl.args(["apply", "--filename"]).arg(path);
        let output = tokio::task::spawn_blocking(move || kubectl.output()).await??;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}: {said}", base.display());
        Ok(())
    }

    async fn start(&mut self, version: &Version, number: usize) -> Result<()> {
        let port = Port::reserve()?;
        let (at, name) = (port.number, format!("{}-{number}", version.name));
        let process = version.muster.start_at(&self.cluster.plane, &name, port);
        self.replicas.push(Replica {
            port: at,
            process: process.await?,
        });
        self.service.add(at);
        Ok(())
    }

    /// As a Deployment does it: a new replica is ready before an old one is told to end, and the Service
    /// forgets that one a moment later.
    async fn roll(&mut self, to: &Version, number: usize) -> Result<()> {
        let all = std::mem::take(&mut self.replicas);
        for (more, old) in all.into_iter().enumerate() {
            self.start(to, number + more).await?;
            let (status, ()) = tokio::join!(old.process.stop(ENOUGH), async {
                tokio::time::sleep(Duration::from_millis(300)).await;
                self.service.forget(old.port);
            });
            let status = status?;
            ensure!(status.success(), "{}", old.process.last_words());
        }
        Ok(())
    }

    async fn sandbox(&self, name: &str) -> Result<Sandbox> {
        Sandbox::new(self.cluster.clone(), name).await
    }

    /// Three pods at a start barrier, which are replaced when they are deleted.
    async fn barred(&self, name: &str) -> Result<Sandbox> {
        let sandbox = self.sandbox(name).await?;
        sandbox.nodes(1, 3).await?;
        let workers = group("workers", 1, 3, "").replace("backoffLimit: 0", "backoffLimit: 6");
        let barrier = "muster.dev/start-barrier: 10m";
        sandbox.apply(&jobset(barrier, "", &[workers])).await?;
        sandbox.all_bound(3).await?;
        Ok(sandbox)
    }

    /// A gang of four that runs and may restart twice.
    async fn restarting(&self, name: &str) -> Result<Sandbox> {
        let sandbox = self.sandbox(name).await?;
        sandbox.nodes(1, 4).await?;
        let policy = "failurePolicy: {maxRestarts: 2}";
        let text = jobset(WHOLE, policy, &[group("workers", 2, 2, "")]);
        sandbox.apply(&text).await?;
        sandbox.all_bound(4).await?;
        Ok(sandbox)
    }
}

/// One of its pods is replaced, and waits at the barrier too.
async fn replace(sandbox: &Sandbox) -> Result<()> {
    let before = sandbox.pods().await?;
    let gone = before.first().context("there is no pod")?.name_any();
    sandbox.delete_pod(&gone).await?;
    sandbox
        .wait_for("another pod in its place", async || {
            let pods = sandbox.pods().await?;
            let names: Vec<String> = pods.iter().map(|pod| pod.name_any()).collect();
            let replaced = pods.len() == before.len() && !names.contains(&gone);
            ensure!(replaced, "{gone} is deleted, there are {names:?}");
            for pod in &pods {
                let spec = pod.spec.as_ref().context("it has no spec")?;
                let inits = spec.init_containers.iter().flatten();
                let waits = inits.filter(|c| c.name == "group-scheduling-init").count();
                ensure!(waits == 1, "{} does not wait", pod.name_any());
            }
            Ok(())
        })
        .await
}

/// Its pods fail, and those of the next attempt are a gang again.
async fn restart(sandbox: &Sandbox, attempt: &str) -> Result<()> {
    let before = sandbox.gangs(1).await?;
    let fail = json!({"fake/fail-attempts": attempt, "fake/outcome": "hold"});
    sandbox.annotate_pods(fail).await?;
    runs_as_another_gang(sandbox, &before).await?;
    all_linked(sandbox).await
}

/// Pods of an earlier attempt may still be on their way out.
async fn all_linked(sandbox: &Sandbox) -> Result<()> {
    sandbox
        .wait_for("every pod to have its gang", async || {
            let made: BTreeSet<String> = sandbox.names("PodGroup").await?.into_iter().collect();
            for pod in sandbox.pods().await? {
                let link = pod_group(&pod);
                let known = link.as_ref().is_some_and(|link| made.contains(link));
                ensure!(known, "{} links to {link:?} of {made:?}", pod.name_any());
            }
            Ok(())
        })
        .await
}

pub async fn an_upgrade_and_a_downgrade_fail_no_creation_and_lose_no_gang(
    sandbox: Sandbox,
) -> Result<()> {
    let before = VersionBefore::built()?;
    let cluster = sandbox.cluster.another("versions").await?;
    let (service, port) = Service::start().await?;
    let mut world = World {
        cluster: cluster.clone(),
        service,
        port,
        replicas: Vec::new(),
    };
    world.apply(&before.base()).await?;
    let muster = Muster::installed(&cluster.plane).await?;
    let muster = muster.with("lame-duck-seconds", "3");
    let old = Version {
        name: "old",
        muster: muster.clone().program(&before.program()),
    };
    let new = Version {
        name: "new",
        muster,
    };
    for number in 1..=2 {
        world.start(&old, number).await?;
    }

    // What the version before has stamped.
    let runs = world.restarting("upgrade-runs").await?;
    let waits = world.sandbox("upgrade-waits").await?;
    waits.apply(&gang("late", 3, "1")).await?;
    waits.none_bound(3).await?;
    let held = world.sandbox("upgrade-held").await?;
    held.nodes(1, 4).await?;
    held.apply(&jobset(WHOLE, "", &[group("workers", 2, 2, "")]))
        .await?;
    held.all_bound(4).await?;
    held.patch_jobset(json!({"spec": {"suspend": true}}))
        .await?;
    held.gangs(0).await?;
    let serves = world.sandbox("upgrade-serves").await?;
    serves.nodes(1, 3).await?;
    serves.apply(&lws("", "replicas: 1", 3)).await?;
    let replica = serves.replicas_run(1, 3).await?;
    let barred = world.barred("upgrade-barred").await?;

    let stream = Stream::start(&world.sandbox("upgrade-stream").await?).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.apply(Path::new(BASE)).await?;
    world.roll(&new, 1).await?;
    stream.stop("an upgrade").await?;

    restart(&runs, "0").await?;
    waits.nodes(1, 3).await?;
    waits.all_bound(3).await?;
    all_linked(&waits).await?;
    held.patch_jobset(json!({"spec": {"suspend": false}}))
        .await?;
    held.all_bound(4).await?;
    all_linked(&held).await?;
    replace(&barred).await?;
    serves.delete_pod("serve-0").await?;
    let replica = serves
        .wait_for("another life of the replica", async || {
            let pods = serves.replica("0").await?;
            let bound = pods.iter().filter(|pod| is_bound(pod)).count();
            ensure!(bound == 3, "{bound} are bound");
            let now = serves.replicas_run(1, 3).await?;
            ensure!(now != replica, "it is still {now:?}");
            Ok(now)
        })
        .await?;

    // And back, with what the newer version has stamped.
    let newer = world.restarting("upgrade-newer").await?;
    let newer_barred = world.barred("upgrade-newer-barred").await?;
    let stream = Stream::start(&world.sandbox("upgrade-back").await?).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.apply(&before.base()).await?;
    world.roll(&old, 3).await?;
    stream.stop("a downgrade").await?;
    restart(&newer, "0").await?;
    restart(&runs, "1").await?;
    replace(&newer_barred).await?;
    replace(&barred).await?;
    let linked: BTreeSet<String> = serves.pods().await?.iter().filter_map(pod_group).collect();
    ensure!(linked == replica, "{replica:?} became {linked:?}");
    Ok(())
}
