//! A whole cluster: the control plane, the operators, KWOK. Tests share one, each in its sandbox.

use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::components::Components;
use crate::control_plane::ControlPlane;
use crate::muster::Muster;
use crate::objects::Objects;
use crate::operators::Operator;
use crate::ports::Port;
use crate::process::{Group, Process};

pub struct Cluster {
    // Fields drop in this order: clients of the apiserver first, so that they do not complain.
    processes: Vec<Process>,
    pub plane: ControlPlane,
    pub objects: Objects,
}

impl Cluster {
    pub async fn start(
        components: Arc<Components>,
        group: Arc<Group>,
        name: &str,
    ) -> Result<Cluster> {
        let start = Instant::now();
        let plane = ControlPlane::start(components, group, name).await?;
        let mut cluster = Cluster::around(plane).await?;
        let port = Port::reserve()?;
        let muster = Muster::install(&cluster, port.number).await?;
        let process = muster.start_at(&cluster, "muster-0", port).await?;
        cluster.processes.insert(0, process);
        let version = cluster.plane.client.apiserver_version().await?.git_version;
        let seconds = start.elapsed().as_secs_f64();
        println!(
            "Kubernetes {version} with JobSet, LeaderWorkerSet, KWOK and Muster: {seconds:.1} s"
        );
        Ok(cluster)
    }

    /// One more cluster, without Muster, for tests that stop and start it themselves.
    pub async fn another(&self, name: &str) -> Result<Arc<Cluster>> {
        let plane = self.plane.another(name).await?;
        Ok(Arc::new(Cluster::around(plane).await?))
    }

    async fn around(plane: ControlPlane) -> Result<Cluster> {
        let objects = Objects::new(plane.client.clone());
        let (jobset, lws) = tokio::try_join!(
            Operator::install_jobset(&plane, &objects),
            Operator::install_lws(&plane, &objects),
        )
        .context("cannot install the operators")?;
        let (manager, scheduler, kwok, jobset, lws) = tokio::try_join!(
            plane.start_controller_manager(),
            plane.start_scheduler(),
            plane.start_kwok(),
            jobset.start(&plane, &objects),
            lws.start(&plane, &objects),
        )?;
        Ok(Cluster {
            processes: vec![jobset, lws, kwok, scheduler, manager],
            plane,
            objects,
        })
    }

    /// The real kubectl, as the cluster's administrator.
    pub fn kubectl(&self) -> Result<Command> {
        let mut command = self.plane.components().program("kubectl")?;
        command.env("KUBECONFIG", &self.plane.kubeconfig);
        Ok(command)
    }

    /// Components that ended though nobody asked them to, with their last words.
    pub fn casualties(&self) -> Vec<String> {
        let dead = |process: &Process| {
            let status = process.exited()?;
            let words = process.last_words();
            Some(format!("{} ended ({status})\n{words}", process.name))
        };
        self.all().filter_map(dead).collect()
    }

    /// Resident memory of all components, in MiB.
    pub fn memory(&self) -> u64 {
        self.all().filter_map(Process::memory).sum()
    }

    fn all(&self) -> impl Iterator<Item = &Process> {
        let core = [&self.plane.etcd, &self.plane.apiserver];
        core.into_iter().chain(&self.processes)
    }
}
