//! `bench-barrier`: ten thousand pods at one start barrier, against two replicas and a real apiserver.
//!
//! Muster and the clients are release builds, since their times count: `just bench-barrier` makes them.
//! The pods are KWOK's, but for the last one, whose start this program writes itself to know when it
//! was.

mod clients;
mod replicas;
mod workload;
mod writes;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use kube::ResourceExt as _;
use kube::api::ListParams;

use crate::cluster::Cluster;
use crate::health::wait_for;
use crate::node::images::Place;
use crate::sandbox::Sandbox;
use clients::{Outcome, ended, report, spawn, told};
use replicas::{Installed, Replicas};
use workload::{arrive, arrived, roomy, workload};
use writes::Writes;

const PODS: usize = 10_000;
/// Of the proposal's own way; each would wait as long among more.
const FILES: usize = 1_000;
const PATIENCE: Duration = Duration::from_secs(600);

/// Connections of each: one that is told, and one that is held ready.
const LINES: usize = 2;

/// Where the clients find the replicas, a half of them each: a replica gives at most a half of its places
/// to one address, and a process may have no more than some 20,000 files.
const HOSTS: [&str; 2] = ["127.0.0.1", "[::1]"];

/// What is promised of p99, with both replicas and with one of them killed that does not lead.
const RELEASE: Duration = Duration::from_secs(1);
/// What is promised of the last one where the leader is killed: its Lease runs out after 15 seconds, and only
/// then another one opens the barrier.
const TAKEN_OVER: Duration = Duration::from_secs(30);
/// Of both replicas at most, in MiB.
const MEMORY: u64 = 200;

fn built(name: &str) -> Result<PathBuf> {
    let path = Place::own()?.target.join("release").join(name);
    ensure!(
        path.exists(),
        "{} is missing: cargo build --release --features e2e --bin muster --example waiters",
        path.display()
    );
    Ok(path)
}

pub async fn run(cluster: Arc<Cluster>) -> Result<()> {
    let (program, waiters) = (built("muster")?, built("examples/waiters")?);
    let cluster = cluster.another("bench").await?;
    let installed = Installed::new(&cluster, &program).await?;
    for kill in [Kill::Nobody, Kill::Follower, Kill::Leader] {
        let replicas = installed.start(&cluster).await?;
        println!("the replicas use {:?} MiB before", replicas.memory());
        measure(&cluster, replicas, kill, &waiters).await?;
    }
    Ok(())
}

/// Who is killed as the last pod comes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kill {
    Nobody,
    Follower,
    /// Before it has opened the barrier.
    Leader,
}

impl Kill {
    fn name(self) -> &'static str {
        match self {
            Self::Nobody => "both",
            Self::Follower => "follower killed",
            Self::Leader => "leader killed",
        }
    }

    /// Pods that are counted. As many clients wait in each case. How long it takes to count them is seen
    /// where nobody is killed; how long it takes to tell all who wait is the same for a barrier of few.
    fn members(self) -> usize {
        match self {
            Self::Nobody => PODS,
            Self::Follower | Self::Leader => 100,
        }
    }

    fn check(self, outcome: &Outcome) -> Result<()> {
        let Outcome { lost, p99, last } = *outcome;
        ensure!(lost == 0, "{lost} of {PODS} never went on");
        match self {
            Self::Nobody | Self::Follower => {
                ensure!(p99 < RELEASE, "p99 is {p99:?}, above {RELEASE:?}");
            }
            Self::Leader => ensure!(last < TAKEN_OVER, "{last:?}, above {TAKEN_OVER:?}"),
        }
        Ok(())
    }
}

async fn measure(
    cluster: &Arc<Cluster>,
    mut replicas: Replicas,
    kill: Kill,
    waiters: &Path,
) -> Result<()> {
    let name = kill.name();
    let namespace = name.replace(' ', "-");
    let sandbox = Sandbox::new(Arc::clone(cluster), &namespace).await?;
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
    let dir = cluster.plane.dir().join(&namespace);
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
            let mut env = env;
            env.retain(|(name, _)| !name.ends_with("SERVER"));
            let out = (FILES, &*dir.join("shown"));
            Some(spawn(&sandbox, waiters, out, &env, Some(&trigger))?)
        }
        Kill::Follower | Kill::Leader => None,
    };
    connected(&replicas).await?;
    println!(
        "{name}: the replicas use {:?} MiB while all wait",
        replicas.memory()
    );

    let last = pods.iter().find(|pod| pod.name_any().contains("-last-"));
    let last = last.context("there is no last pod")?.name_any();
    let before = Writes::at_rest(&cluster.plane.client).await?;
    // Megabytes, which the apiserver has made for nobody else.
    tokio::time::sleep(Duration::from_secs(2)).await;
    std::fs::write(&trigger, "")?;
    if kill == Kill::Leader {
        replicas.kill_leader()?;
    }
    let opened = since();
    arrive(&sandbox, &last).await?;
    if kill == Kill::Follower {
        replicas.kill_follower()?;
    }
    let mut asked = Vec::new();
    for (process, out) in clients {
        asked.extend(ended(process, &out, opened).await?);
    }
    let outcome = report(name, "that ask the replicas", PODS, &asked);
    one_write(&sandbox, before).await?;
    let memory = replicas.peak_memory()?;
    println!("{name}: {memory} MiB over both replicas at most");
    sandbox
        .kubectl(&["delete", "jobset", "train", "--wait=false"], "")
        .await?;
    if let Some(files) = files {
        let shown = ended(files, &dir.join("shown"), opened).await?;
        let slow = report(name, "that wait for kubelet's file", FILES, &shown);
        let ratio = slow.p99.as_secs_f64() / outcome.p99.as_secs_f64();
        println!("{name}: p99 of the proposal's own way is {ratio:.0} times as long");
    }
    kill.check(&outcome)?;
    ensure!(memory < MEMORY, "{memory} MiB, above {MEMORY}");
    wait_for("the pods to go", PATIENCE, async || {
        let left = sandbox.pods().await?.len();
        ensure!(left == 0, "{left} are left");
        Ok(())
    })
    .await?;
    replicas.stop().await
}

/// Waits until all clients are connected.
async fn connected(replicas: &Replicas) -> Result<()> {
    wait_for("all clients to be connected", PATIENCE, async || {
        let open = replicas.connections()?;
        ensure!(
            open.iter().sum::<usize>() == LINES * PODS,
            "{open:?} are connected"
        );
        println!("{PODS} clients, {open:?} connections to the replicas");
        Ok(())
    })
    .await?;
    // The last of them have said what they want.
    tokio::time::sleep(Duration::from_secs(3)).await;
    Ok(())
}

fn since() -> u128 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_micros()
}

/// One ConfigMap was written, once, and no pod was written to.
async fn one_write(sandbox: &Sandbox, before: Writes) -> Result<()> {
    // Whoever would write twice has done so by now. Not later: the pods of this benchmark do not say that they
    // went on, and count as stragglers five seconds after the opening.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let after = Writes::of(&sandbox.client()).await?;
    after.are_one_more_than(before)?;
    let made = sandbox.api("v1", "ConfigMap").await?;
    let made = made
        .list(&ListParams::default().labels("muster.dev/barrier"))
        .await?;
    ensure!(made.items.len() == 1, "{} ConfigMaps", made.items.len());
    let mut touched = sandbox.pods().await?;
    touched.retain(|pod| pod.annotations().contains_key("muster.dev/barrier-opened"));
    ensure!(touched.is_empty(), "{} pods were touched", touched.len());
    println!(
        "{}: one write of a ConfigMap and none of pods",
        sandbox.namespace
    );
    Ok(())
}
