//! `bench-barrier`: ten thousand pods at one start barrier, against two replicas and a real apiserver.
//!
//! Muster and the clients are release builds, since their times count: `just bench-barrier` makes them.
//! The pods are KWOK's, but for the last one, whose start this program writes itself to know when it
//! was.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt as _;
use kube::api::{Api, ListParams, Patch, PatchParams};
use rustix::process::Signal;
use serde_json::json;

use crate::cluster::Cluster;
use crate::health::wait_for;
use crate::muster::Muster;
use crate::ports::Port;
use crate::process::Process;
use crate::sandbox::Sandbox;

const PODS: usize = 10_000;
/// Of the proposal's own way; each would wait as long among more.
const FILES: usize = 1_000;
const NODES: usize = 20;
const PATIENCE: Duration = Duration::from_secs(600);

/// Connections of each: one that is told, and one that is held ready.
const LINES: usize = 2;

/// Where the clients find the replicas, a half of them each: a replica gives at most a half of its places
/// to one address, and a process may have no more than some 20,000 files.
const HOSTS: [&str; 2] = ["127.0.0.1", "[::1]"];

/// What is promised, with both replicas and with one of them killed.
const RELEASE: Duration = Duration::from_secs(1);
const MEMORY: u64 = 200;

/// All but one are of one role; the last one is held back.
fn workload(members: usize) -> String {
    let group = |role: &str, pods: usize, annotations: &str| {
        format!(
            "
  - name: {role}
    replicas: 1
    template:
      spec:
        parallelism: {pods}
        completions: {pods}
        template:
          metadata: {{annotations: {{{annotations}}}}}
          spec:
            restartPolicy: Never
            containers: [{{name: main, image: train}}]"
        )
    };
    format!(
        "
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: train
  annotations: {{muster.dev/start-barrier: 30m}}
spec:
  network: {{enableDNSHostnames: false}}
  replicatedJobs: {}{}
",
        group("crowd", members - 1, ""),
        group("last", 1, "fake/hold: 'true'")
    )
}

fn built(name: &str) -> Result<PathBuf> {
    // The directory of this test's own files is in the target directory.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent();
    let path = target
        .context("there is no target directory")?
        .join("release")
        .join(name);
    ensure!(
        path.exists(),
        "{} is missing: cargo build --release --features e2e --bin muster --example waiters",
        path.display()
    );
    Ok(path)
}

struct Replica {
    process: Process,
    barrier: u16,
}

pub async fn run(cluster: Arc<Cluster>) -> Result<()> {
    let (program, waiters) = (built("muster")?, built("examples/waiters")?);
    let cluster = cluster.another("bench").await?;
    let ports = [Port::reserve()?, Port::reserve()?];
    let barriers = [Port::reserve()?, Port::reserve()?];
    let servers = barriers
        .each_ref()
        .map(|port| format!("127.0.0.1:{}", port.number));
    let muster = Muster::install(&cluster, ports[0].number).await?;
    let muster = muster
        .program(&program)
        .with("barrier-server", &servers.join(","));
    let mut replicas = Vec::new();
    for (number, (port, barrier)) in ports.into_iter().zip(barriers).enumerate() {
        let at = format!("[::]:{}", barrier.number);
        let muster = muster.clone().with("barrier-listen", &at);
        let name = format!("muster-{number}");
        let process = muster.start_at(&cluster.plane, &name, port).await?;
        replicas.push(Replica {
            process,
            barrier: barrier.number,
        });
        // The first one leads: it is not the one that is killed.
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    let memory: Vec<u64> = replicas.iter().filter_map(|r| r.process.memory()).collect();
    println!("the replicas use {memory:?} MiB before");
    for kill in [Kill::Nobody, Kill::Follower] {
        measure(&cluster, &mut replicas, kill, &waiters).await?;
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kill {
    Nobody,
    Follower,
}

impl Kill {
    /// Pods that are counted. How long that takes is seen where nobody is killed; how long it takes to
    /// tell all who wait is the same for a barrier of few.
    fn members(self) -> usize {
        match self {
            Self::Nobody => PODS,
            Self::Follower => 100,
        }
    }
}

async fn measure(
    cluster: &Arc<Cluster>,
    replicas: &mut Vec<Replica>,
    kill: Kill,
    waiters: &Path,
) -> Result<()> {
    let name = match kill {
        Kill::Nobody => "both",
        Kill::Follower => "killed",
    };
    let sandbox = Sandbox::new(Arc::clone(cluster), name).await?;
    roomy(&sandbox).await?;
    let start = Instant::now();
    let members = kill.members();
    sandbox.apply(&workload(members)).await?;
    let pods = arrived(&sandbox, members).await?;
    println!(
        "{name}: {members} pods in {:.0} s",
        start.elapsed().as_secs_f64()
    );
    let env = told(&pods)?;
    let dir = cluster.plane.dir().join(name);
    std::fs::create_dir_all(&dir)?;
    let trigger = dir.join("trigger");
    let mut clients = Vec::new();
    for (number, host) in HOSTS.iter().enumerate() {
        let there =
            |(name, value): &(String, String)| (name.clone(), value.replace(HOSTS[0], host));
        let env: Vec<_> = env.iter().map(there).collect();
        let out = dir.join(format!("asked-{number}"));
        let process = spawn(&sandbox, waiters, (PODS / HOSTS.len(), &out), &env, None)?;
        clients.push((process, out));
    }
    let files = match kill {
        Kill::Nobody => {
            let env: Vec<_> = env
                .iter()
                .filter(|(n, _)| !n.ends_with("SERVER"))
                .cloned()
                .collect();
            let out = dir.join("shown");
            Some(spawn(
                &sandbox,
                waiters,
                (FILES, &out),
                &env,
                Some(&trigger),
            )?)
        }
        Kill::Follower => None,
    };
    connected(replicas).await?;
    let memory: u64 = replicas.iter().filter_map(|r| r.process.memory()).sum();

    let last = pods.iter().find(|pod| pod.name_any().contains("-last-"));
    let last = last.context("there is no last pod")?.name_any();
    std::fs::write(&trigger, "")?;
    let opened = since();
    arrive(&sandbox, &last).await?;
    if kill == Kill::Follower {
        let follower = replicas.pop().context("there is no follower")?;
        follower.process.signal(Signal::KILL)?;
        drop(follower);
    }
    let mut asked = Vec::new();
    for (process, out) in clients {
        asked.extend(ended(process, &out, opened).await?);
    }
    // At once: these pods do not say that they went on, and would soon count as stragglers.
    one_write(&sandbox).await?;
    sandbox
        .kubectl(&["delete", "jobset", "train", "--wait=false"], "")
        .await?;
    let (lost, p99) = report(name, "that ask the replicas", PODS, &asked);
    println!("{name}: {memory} MiB over both replicas while all waited");
    if let Some(files) = files {
        let shown = ended(files, &dir.join("shown"), opened).await?;
        let (_, slow) = report(name, "that wait for kubelet's file", FILES, &shown);
        let ratio = slow.as_secs_f64() / p99.as_secs_f64();
        println!("{name}: p99 of the proposal's own way is {ratio:.0} times as long");
    }
    ensure!(lost == 0, "{lost} of {PODS} never went on");
    ensure!(p99 < RELEASE, "p99 is {p99:?}, above {RELEASE:?}");
    wait_for("the pods to go", PATIENCE, async || {
        let left = sandbox.pods().await?.len();
        ensure!(left == 0, "{left} are left");
        Ok(())
    })
    .await?;
    ensure!(memory < MEMORY, "{memory} MiB, above {MEMORY}");
    Ok(())
}

/// Nodes that take all of them.
async fn roomy(sandbox: &Sandbox) -> Result<()> {
    let api: Api<Node> = Api::all(sandbox.client());
    for name in sandbox.nodes(NODES, 64).await? {
        let room = json!({"cpu": "64", "memory": "256Gi", "pods": "1000"});
        let patch = json!({"status": {"capacity": room, "allocatable": room}});
        let params = PatchParams::default();
        api.patch_status(&name, &params, &Patch::Merge(patch))
            .await?;
    }
    Ok(())
}

/// All but the last wait.
async fn arrived(sandbox: &Sandbox, members: usize) -> Result<Vec<Pod>> {
    let api: Api<Pod> = Api::namespaced(sandbox.client(), &sandbox.namespace);
    wait_for("all pods to come", PATIENCE, async || {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let pods = api.list(&ListParams::default()).await?.items;
        let begun = |pod: &&Pod| {
            let status = pod.status.as_ref();
            status.is_some_and(|status| status.init_container_statuses.is_some())
        };
        let waiting = pods.iter().filter(begun).count();
        ensure!(
            waiting == members - 1 && pods.len() == members,
            "{waiting} of {}",
            pods.len()
        );
        Ok(pods)
    })
    .await
}

/// The variables of the container, which are the same for all.
fn told(pods: &[Pod]) -> Result<Vec<(String, String)>> {
    let containers = pods
        .first()
        .and_then(|pod| pod.spec.as_ref()?.init_containers.clone());
    let container = containers.and_then(|all| all.into_iter().next());
    let env = container
        .and_then(|container| container.env)
        .context("nobody was told")?;
    Ok(env
        .into_iter()
        .map(|v| (v.name, v.value.unwrap_or_default()))
        .collect())
}

fn spawn(
    sandbox: &Sandbox,
    program: &Path,
    (count, out): (usize, &Path),
    env: &[(String, String)],
    trigger: Option<&Path>,
) -> Result<Process> {
    let mut command = Command::new(program);
    command.arg(count.to_string()).arg(out).args(trigger);
    command.env_clear().envs(env.iter().cloned());
    let file = out.file_name().unwrap_or_default().to_string_lossy();
    let name = format!("waiters-{}-{file}", sandbox.namespace);
    sandbox.cluster.plane.spawn(&name, command, vec![])
}

/// Waits until all clients are connected.
async fn connected(replicas: &[Replica]) -> Result<()> {
    wait_for("all clients to be connected", PATIENCE, async || {
        let table = std::fs::read_to_string("/proc/net/tcp6")?;
        let of = |replica: &Replica| {
            let port = format!(":{:04X}", replica.barrier);
            let established = |line: &&str| {
                let mut words = line.split_whitespace();
                let local = words.nth(1).unwrap_or_default();
                local.ends_with(&port) && words.nth(1) == Some("01")
            };
            table.lines().filter(established).count()
        };
        let open: Vec<usize> = replicas.iter().map(of).collect();
        ensure!(
            open.iter().sum::<usize>() == LINES * PODS,
            "{open:?} are connected"
        );
        println!("{open:?} clients at the replicas");
        Ok(())
    })
    .await?;
    // The last of them have said what they want.
    tokio::time::sleep(Duration::from_secs(3)).await;
    Ok(())
}

/// The last pod starts: written as a kubelet would.
async fn arrive(sandbox: &Sandbox, pod: &str) -> Result<()> {
    let api: Api<Pod> = Api::namespaced(sandbox.client(), &sandbox.namespace);
    let now = k8s_openapi::jiff::Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%SZ")
        .to_string();
    let status = json!({"status": {"initContainerStatuses": [{
        "name": "group-scheduling-init", "image": "muster", "imageID": "", "ready": false,
        "restartCount": 0, "started": true, "state": {"running": {"startedAt": now}},
    }]}});
    let params = PatchParams::default();
    api.patch_status(pod, &params, &Patch::Merge(status))
        .await?;
    Ok(())
}

fn since() -> u128 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_micros()
}

/// How long each waited after the last one had come; nothing for one that was lost.
async fn ended(process: Process, out: &Path, opened: u128) -> Result<Vec<Option<Duration>>> {
    wait_for("the clients to end", PATIENCE, async || {
        process.exited().context("they still wait")
    })
    .await?;
    let text = std::fs::read_to_string(out)?;
    let waited = |line: &str| {
        let at: u128 = line.parse().ok()?;
        Some(Duration::from_micros(at.saturating_sub(opened) as u64))
    };
    Ok(text.lines().map(waited).collect())
}

fn report(name: &str, how: &str, count: usize, waited: &[Option<Duration>]) -> (usize, Duration) {
    let mut times: Vec<Duration> = waited.iter().flatten().copied().collect();
    times.sort();
    let at = |share: f64| {
        let position = (times.len() as f64 * share) as usize;
        times
            .get(position.min(times.len().saturating_sub(1)))
            .copied()
            .unwrap_or(Duration::MAX)
    };
    let lost = count - times.len();
    println!(
        "{name}: {count} clients {how}: p50 {:.3} s, p99 {:.3} s, last {:.3} s, {lost} lost",
        at(0.5).as_secs_f64(),
        at(0.99).as_secs_f64(),
        at(1.0).as_secs_f64()
    );
    (lost, at(0.99))
}

/// One ConfigMap that was written once, and no pod was written to.
async fn one_write(sandbox: &Sandbox) -> Result<()> {
    let made = sandbox.api("v1", "ConfigMap").await?;
    let made = made
        .list(&ListParams::default().labels("muster.dev/barrier"))
        .await?;
    ensure!(made.items.len() == 1, "{} ConfigMaps", made.items.len());
    let managers = made.items[0].managed_fields();
    ensure!(managers.len() == 1, "{managers:?}");
    let pods = sandbox.pods().await?;
    let touched = |pod: &&Pod| pod.annotations().contains_key("muster.dev/barrier-opened");
    let touched = pods.iter().filter(touched).count();
    println!(
        "{}: one ConfigMap, {touched} pods were written to",
        sandbox.namespace
    );
    Ok(())
}
