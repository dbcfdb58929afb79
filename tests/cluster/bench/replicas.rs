//! The two replicas of a benchmark, started for each measurement: what a process needed at most is of its
//! whole life.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, ListParams};
use rustix::process::Signal;

use super::PATIENCE;
use crate::cluster::Cluster;
use crate::health::wait_for;
use crate::install::NAMESPACE;
use crate::muster::Muster;
use crate::ports::Port;
use crate::process::Process;

const STOPPED: Duration = Duration::from_secs(20);

/// Muster as it was installed, and where its replicas listen.
pub struct Installed {
    muster: Muster,
    ports: [u16; 2],
    barriers: [Port; 2],
}

impl Installed {
    pub async fn new(cluster: &Cluster, program: &Path) -> Result<Installed> {
        let ports = [Port::reserve()?.number, Port::reserve()?.number];
        let barriers = [Port::reserve()?, Port::reserve()?];
        let servers = barriers
            .each_ref()
            .map(|port| format!("127.0.0.1:{}", port.number));
        // The apiserver calls the first one.
        let muster = Muster::install(cluster, ports[0]).await?;
        let muster = muster
            .program(program)
            .with("barrier-server", &servers.join(","));
        Ok(Installed {
            muster,
            ports,
            barriers,
        })
    }

    /// Starts both; the first one leads.
    pub async fn start(&self, cluster: &Cluster) -> Result<Replicas> {
        let mut replicas = Vec::new();
        for (number, (port, barrier)) in self.ports.into_iter().zip(&self.barriers).enumerate() {
            let at = format!("[::]:{}", barrier.number);
            let muster = self.muster.clone().with("barrier-listen", &at);
            let name = format!("muster-{number}");
            let port = Port::again(port)?;
            let process = muster.start_at(&cluster.plane, &name, port).await?;
            replicas.push(Replica {
                process,
                barrier: barrier.number,
            });
            leads(cluster, "muster-0").await?;
        }
        Ok(Replicas {
            alive: replicas,
            killed: 0,
        })
    }
}

async fn leads(cluster: &Cluster, name: &str) -> Result<()> {
    let leases: Api<Lease> = Api::namespaced(cluster.plane.client.clone(), NAMESPACE);
    wait_for("the first replica to lead", PATIENCE, async || {
        let leases = leases.list(&ListParams::default()).await?;
        let mut holders = leases.iter().filter_map(|lease| lease.spec.as_ref());
        let leads = holders.any(|spec| spec.holder_identity.as_deref() == Some(name));
        ensure!(leads, "it does not");
        Ok(())
    })
    .await
}

struct Replica {
    process: Process,
    barrier: u16,
}

pub struct Replicas {
    /// The leader first.
    alive: Vec<Replica>,
    /// What those needed that are gone, in MiB.
    killed: u64,
}

impl Replicas {
    pub fn kill_leader(&mut self) -> Result<()> {
        self.kill(0)
    }

    pub fn kill_follower(&mut self) -> Result<()> {
        self.kill(1)
    }

    fn kill(&mut self, number: usize) -> Result<()> {
        let replica = self.alive.remove(number);
        self.killed += replica.process.peak_memory().context("it is gone")?;
        replica.process.signal(Signal::KILL)
    }

    /// Resident memory of each, in MiB.
    pub fn memory(&self) -> Vec<u64> {
        let memory = |replica: &Replica| replica.process.memory();
        self.alive.iter().filter_map(memory).collect()
    }

    /// The most that each ever needed, together, in MiB.
    pub fn peak_memory(&self) -> Result<u64> {
        let mut sum = self.killed;
        for replica in &self.alive {
            sum += replica.process.peak_memory().context("a replica is gone")?;
        }
        Ok(sum)
    }

    /// Connections that each has open to pods, as the system counts them.
    pub fn connections(&self) -> Result<Vec<usize>> {
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
        Ok(self.alive.iter().map(of).collect())
    }

    /// Ends them in good order, so that the next ones need not wait for the Lease.
    pub async fn stop(self) -> Result<()> {
        for replica in self.alive.iter().rev() {
            replica.process.stop(STOPPED).await?;
        }
        Ok(())
    }
}
