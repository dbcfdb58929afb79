//! Barriers without replicas: killed while all wait, killed when it opens, or out of reach.

use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::Api;
use rustix::process::Signal;

use super::super::words::{group, jobset};
use super::door::Door;
use super::waiter::{Waiter, nobody_passes};
use crate::cluster::Cluster;
use crate::muster::Muster;
use crate::ports::Port;
use crate::process::Process;
use crate::sandbox::Sandbox;

const BARRIER: &str = "muster.dev/start-barrier: 120s";

/// Muster as it was installed, with the ports of its replicas.
struct Replicas {
    muster: Muster,
    port: u16,
    barrier: u16,
    /// The second one: who asks for it is told by the first.
    others: Vec<u16>,
    /// Where pods ask, if not at the replicas' own ports.
    doors: Vec<u16>,
}

impl Replicas {
    async fn install(cluster: &Cluster) -> Result<Replicas> {
        let port = Port::reserve()?.number;
        let muster = Muster::install(cluster, port).await?;
        Ok(Replicas {
            muster,
            port,
            barrier: Port::reserve()?.number,
            others: vec![Port::reserve()?.number, Port::reserve()?.number],
            doors: Vec::new(),
        })
    }

    /// Puts a door before each of them.
    async fn behind_doors(&mut self) -> Result<[Door; 2]> {
        let doors = [
            Door::before(self.barrier).await?,
            Door::before(self.others[1]).await?,
        ];
        self.doors = doors.iter().map(|door| door.port).collect();
        Ok(doors)
    }

    async fn start(&self, cluster: &Cluster, number: u16) -> Result<Process> {
        let (port, barrier) = match number {
            1 => (self.port, self.barrier),
            _ => (self.others[0], self.others[1]),
        };
        let ports = match &self.doors[..] {
            [] => &[self.barrier, self.others[1]],
            doors => doors,
        };
        let servers = ports.iter().map(|port| format!("127.0.0.1:{port}"));
        let servers = servers.collect::<Vec<_>>().join(",");
        let muster = self.muster.clone();
        let muster = muster
            .with("barrier-listen", &format!("127.0.0.1:{barrier}"))
            .with("barrier-server", &servers);
        let name = format!("muster-{number}");
        muster
            .start_at(&cluster.plane, &name, Port::again(port)?)
            .await
    }
}

async fn two_of_three(sandbox: &Sandbox) -> Result<Vec<Waiter>> {
    sandbox.nodes(1, 2).await?;
    sandbox
        .apply(&jobset(BARRIER, "", &[group("workers", 1, 3, "")]))
        .await?;
    sandbox.waiters(2).await
}

async fn the_last(sandbox: &Sandbox, waiters: &mut Vec<Waiter>) -> Result<()> {
    let before: Vec<String> = waiters.iter().map(|waiter| waiter.pod.clone()).collect();
    sandbox.nodes(1, 1).await?;
    waiters.extend(sandbox.waiters_but(&before, 1).await?);
    Ok(())
}

async fn is_open(sandbox: &Sandbox) -> Result<()> {
    sandbox
        .wait_for("the barrier to open", async || {
            let made = sandbox.barriers().await?;
            ensure!(made.len() == 1 && made[0].1 == "started", "{made:?}");
            Ok(())
        })
        .await
}

/// Restarted while all wait, and both killed when it opens: nothing is lost.
pub async fn replicas_that_are_killed_lose_nobody(sandbox: Sandbox) -> Result<()> {
    let cluster = sandbox.cluster.another("barrier").await?;
    let replicas = Replicas::install(&cluster).await?;
    let first = replicas.start(&cluster, 1).await?;
    let second = replicas.start(&cluster, 2).await?;
    let sandbox = Sandbox::new(cluster.clone(), "killed").await?;
    let mut waiters = two_of_three(&sandbox).await?;
    nobody_passes(&mut waiters, Duration::from_secs(1)).await?;
    for process in [first, second] {
        process.signal(Signal::KILL)?;
        drop(process);
    }
    nobody_passes(&mut waiters, Duration::from_secs(1)).await?;
    let first = replicas.start(&cluster, 1).await?;
    let second = replicas.start(&cluster, 2).await?;
    the_last(&sandbox, &mut waiters).await?;
    for waiter in &waiters {
        let code = waiter.ends().await?;
        ensure!(code == 0, "{} ended with {code}", waiter.pod);
    }

    // Once more, in another namespace, and now nobody is there to tell it: who reached no replica before.
    let sandbox = Sandbox::new(cluster.clone(), "killed-at-opening").await?;
    let mut waiters = two_of_three(&sandbox).await?;
    // Those who wait cannot reach a replica from now on; the leader still opens the barrier.
    for waiter in &mut waiters {
        waiter.cut_off(&sandbox)?;
    }
    the_last(&sandbox, &mut waiters).await?;
    is_open(&sandbox).await?;
    for process in [first, second] {
        process.signal(Signal::KILL)?;
        drop(process);
    }
    let (cut_off, last) = waiters.split_at_mut(2);
    nobody_passes(cut_off, Duration::from_secs(1)).await?;
    for waiter in cut_off.iter().chain(last.iter()) {
        waiter.mount()?;
        let code = waiter.ends().await?;
        ensure!(code == 0, "{} ended with {code}", waiter.pod);
    }
    Ok(())
}

/// Both have opened it, and are killed before any pod has heard of it. Those who waited at them go on when
/// their kubelet shows the file.
pub async fn replicas_that_are_killed_as_they_tell_lose_nobody(sandbox: Sandbox) -> Result<()> {
    let cluster = sandbox.cluster.another("telling").await?;
    let mut replicas = Replicas::install(&cluster).await?;
    let doors = replicas.behind_doors().await?;
    let processes = [
        replicas.start(&cluster, 1).await?,
        replicas.start(&cluster, 2).await?,
    ];
    let sandbox = Sandbox::new(cluster.clone(), "killed-as-they-tell").await?;
    let mut waiters = two_of_three(&sandbox).await?;
    let leading = || doors.each_ref().map(Door::leading);
    sandbox
        .wait_for("each pod to be connected to both", async || {
            ensure!(leading() == [2, 2], "{:?} are connected", leading());
            Ok(())
        })
        .await?;
    nobody_passes(&mut waiters, Duration::from_millis(500)).await?;
    doors.iter().for_each(Door::shut);
    sandbox.nodes(1, 1).await?;
    is_open(&sandbox).await?;
    sandbox
        .wait_for("the replicas to tell both pods", async || {
            let told: usize = doors.iter().map(Door::told).sum();
            ensure!(told == 2, "{told} are told");
            Ok(())
        })
        .await?;
    for process in processes {
        process.signal(Signal::KILL)?;
        drop(process);
    }
    doors.iter().for_each(Door::gone);
    let before: Vec<String> = waiters.iter().map(|waiter| waiter.pod.clone()).collect();
    waiters.extend(sandbox.waiters_but(&before, 1).await?);
    nobody_passes(&mut waiters, Duration::from_secs(2)).await?;
    ensure!(leading() == [0, 0], "{:?} are connected", leading());
    for waiter in &waiters {
        waiter.mount()?;
        let code = waiter.ends().await?;
        ensure!(code == 0, "{} ended with {code}", waiter.pod);
    }
    Ok(())
}

/// As behind a mesh without native sidecars, or where egress is denied: only the file opens it, and
/// the kubelets of those pods are told to look.
pub async fn where_no_replica_is_reached_the_file_opens_it(sandbox: Sandbox) -> Result<()> {
    let mut waiters = two_of_three(&sandbox).await?;
    for waiter in &mut waiters {
        waiter.cut_off(&sandbox)?;
    }
    the_last(&sandbox, &mut waiters).await?;
    is_open(&sandbox).await?;
    ensure!(waiters[2].ends().await? == 0);
    sandbox.went_on(&waiters[2]).await?;
    let pods: Api<Pod> = Api::namespaced(sandbox.client(), &sandbox.namespace);
    let (cut_off, reached) = waiters.split_at_mut(2);
    for waiter in cut_off.iter() {
        sandbox
            .wait_for("the straggler to be touched", async || {
                let pod = pods.get(&waiter.pod).await?;
                let touched = pod.annotations().get("muster.dev/barrier-opened");
                ensure!(touched == Some(&waiter.barrier), "{touched:?}");
                Ok(())
            })
            .await?;
        waiter.mount()?;
        let code = waiter.ends().await?;
        ensure!(code == 0, "{} ended with {code}", waiter.pod);
    }
    let pod = pods.get(&reached[0].pod).await?;
    let touched = pod.annotations().get("muster.dev/barrier-opened");
    ensure!(touched.is_none(), "a pod that went on was written to");
    Ok(())
}

impl Waiter {
    /// Runs its container anew, in a network in which no replica is reached.
    fn cut_off(&mut self, sandbox: &Sandbox) -> Result<()> {
        self.tell("MUSTER_BARRIER_SERVER", "127.0.0.1:1");
        self.restart(sandbox)
    }
}
