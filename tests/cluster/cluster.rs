//! A whole cluster: the control plane, the operators, KWOK. Tests share one, each in its sandbox.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::Signal;

use crate::components::Components;
use crate::control_plane::ControlPlane;
use crate::figures::Figures;
use crate::fleet::Home;
use crate::muster::{self, Muster};
use crate::node::images;
use crate::node::machine::Machine;
use crate::node::start::{self, Started};
use crate::objects::Objects;
use crate::operators::Operator;
use crate::ports::Port;
use crate::process::{Group, Process};
use crate::release::Release;
use crate::schedulers::{self, Kind, Retries};
use crate::third_party::{self, ThirdParty};

pub struct Cluster {
    // Fields drop in this order: clients of the apiserver first, so that they do not complain.
    processes: Vec<Process>,
    machine: Option<Machine>,
    pub plane: ControlPlane,
    pub objects: Objects,
    pub figures: Arc<Figures>,
    /// Where the Muster that most tests share shows its metrics.
    admin: Option<u16>,
}

/// Whether LeaderWorkerSet makes gangs itself.
#[derive(Default)]
enum LwsGangs {
    #[default]
    None,
    Own,
}

/// Whether Kueue decides when workloads may start.
#[derive(Default)]
enum Queues {
    #[default]
    None,
    Kueue,
}

/// What a cluster has beside what every one has.
#[derive(Default)]
struct Beside<'a> {
    schedulers: &'a [Kind],
    operators: &'a [ThirdParty],
    lws_gangs: LwsGangs,
    queues: Queues,
}

impl Beside<'static> {
    fn of(home: Home) -> Self {
        let (schedulers, operators): (&[Kind], &[ThirdParty]) = match home {
            Home::Schedulers => (schedulers::ALL, &[]),
            Home::KoordinatorAnnotations => (&[Kind::Koordinator(Retries::Calm)], &[]),
            Home::ThirdParty => (&[], third_party::ALL),
            // Whose pods must carry what Kueue adds.
            Home::Kueue => (&[Kind::Yunikorn], &[]),
            Home::Main | Home::Kubernetes1_36 | Home::Kubernetes1_35 | Home::Node => (&[], &[]),
        };
        let queues = match home {
            Home::Kueue => Queues::Kueue,
            _ => Queues::None,
        };
        Self {
            schedulers,
            operators,
            queues,
            ..Self::default()
        }
    }
}

impl Cluster {
    pub async fn start(
        components: Arc<Components>,
        group: Arc<Group>,
        home: Home,
        figures: Arc<Figures>,
    ) -> Result<Cluster> {
        if home == Home::Node {
            return Cluster::on_a_node(components, group, figures).await;
        }
        let start = Instant::now();
        let plane = ControlPlane::start(components, group, home.release(), home.name()).await?;
        let beside = Beside::of(home);
        let mut names = ["JobSet", "LeaderWorkerSet", "KWOK"]
            .map(str::to_owned)
            .to_vec();
        names.extend(beside.schedulers.iter().map(|kind| format!("{kind:?}")));
        names.extend(beside.operators.iter().map(|kind| format!("{kind:?}")));
        names.extend(matches!(beside.queues, Queues::Kueue).then(|| "Kueue".to_owned()));
        let mut cluster = Cluster::around_with(beside, plane, figures).await?;
        let flags: &[(&str, &str)] = match home {
            Home::KoordinatorAnnotations => &[("koordinator", "annotations")],
            _ => &[],
        };
        cluster.add_muster(flags).await?;
        let version = cluster.plane.client.apiserver_version().await?.git_version;
        let names = names.join(", ");
        let seconds = start.elapsed().as_secs_f64();
        println!("Kubernetes {version} with {names} and Muster: {seconds:.1} s");
        Ok(cluster)
    }

    async fn on_a_node(
        components: Arc<Components>,
        group: Arc<Group>,
        figures: Arc<Figures>,
    ) -> Result<Cluster> {
        let start = Instant::now();
        let started: Started = start::start(components, group, Home::Node.name()).await?;
        let cluster = Cluster {
            processes: started.processes,
            machine: Some(started.machine),
            plane: started.plane,
            objects: started.objects,
            figures,
            admin: None,
        };
        let version = cluster.plane.client.apiserver_version().await?.git_version;
        let seconds = start.elapsed().as_secs_f64();
        println!("Kubernetes {version} with a real node, JobSet and Muster: {seconds:.1} s");
        Ok(cluster)
    }

    /// One more cluster, without Muster, for tests that stop and start it themselves.
    pub async fn another(&self, name: &str) -> Result<Arc<Cluster>> {
        let plane = self.plane.another(self.plane.release, name).await?;
        let cluster = Cluster::around(plane, &[], Arc::clone(&self.figures)).await?;
        Ok(Arc::new(cluster))
    }

    /// One more cluster, with those schedulers, and with Muster configured by those flags.
    pub async fn another_with(
        &self,
        name: &str,
        with: &[Kind],
        flags: &[(&str, &str)],
    ) -> Result<Arc<Cluster>> {
        let plane = self.plane.another(self.plane.release, name).await?;
        let mut cluster = Cluster::around(plane, with, Arc::clone(&self.figures)).await?;
        cluster.add_muster(flags).await?;
        Ok(Arc::new(cluster))
    }

    /// One more cluster, with Volcano, where LeaderWorkerSet makes gangs itself; and with Muster.
    pub async fn another_with_lws_gangs(&self, name: &str) -> Result<Arc<Cluster>> {
        let plane = self.plane.another(self.plane.release, name).await?;
        let figures = Arc::clone(&self.figures);
        let beside = Beside {
            schedulers: &[Kind::Volcano],
            lws_gangs: LwsGangs::Own,
            ..Beside::default()
        };
        let mut cluster = Cluster::around_with(beside, plane, figures).await?;
        cluster.add_muster(&[]).await?;
        Ok(Arc::new(cluster))
    }

    /// One more cluster of another release, with Muster.
    pub async fn another_release(&self, release: Release, name: &str) -> Result<Arc<Cluster>> {
        let plane = self.plane.another(release, name).await?;
        let mut cluster = Cluster::around(plane, &[], Arc::clone(&self.figures)).await?;
        cluster.add_muster(&[]).await?;
        Ok(Arc::new(cluster))
    }

    async fn add_muster(&mut self, flags: &[(&str, &str)]) -> Result<()> {
        let port = Port::reserve()?;
        let mut muster = Muster::install(self, port.number).await?;
        for (name, value) in flags {
            muster = muster.with(name, value);
        }
        if images::is_shared() {
            muster = muster.program(&images::Place::own()?.program());
        }
        let admin = Port::reserve()?;
        self.admin = Some(admin.number);
        let process = muster.start_on(&self.plane, "muster-0", port, admin);
        self.processes.insert(0, process.await?);
        Ok(())
    }

    async fn around(plane: ControlPlane, with: &[Kind], figures: Arc<Figures>) -> Result<Cluster> {
        let beside = Beside {
            schedulers: with,
            ..Beside::default()
        };
        Cluster::around_with(beside, plane, figures).await
    }

    async fn around_with(
        beside: Beside<'_>,
        plane: ControlPlane,
        figures: Arc<Figures>,
    ) -> Result<Cluster> {
        let objects = Objects::new(plane.client.clone());
        let lws = async {
            match beside.lws_gangs {
                LwsGangs::None => Operator::install_lws(&plane, &objects).await,
                LwsGangs::Own => Operator::install_lws_with_gangs(&plane, &objects).await,
            }
        };
        let jobset = Operator::install_jobset(&plane, &objects);
        let (jobset, lws) =
            tokio::try_join!(jobset, lws).context("cannot install the operators")?;
        let kueue = match beside.queues {
            Queues::None => None,
            Queues::Kueue => Some(Operator::install_kueue(&plane, &objects).await?),
        };
        // With the others: their objects go through its webhooks too.
        let kueue = async {
            match kueue {
                Some(kueue) => kueue.start(&plane, &objects).await.map(Some),
                None => Ok(None),
            }
        };
        for kind in beside.schedulers {
            let installed = kind.install(&plane, &objects).await;
            installed.with_context(|| format!("cannot install {kind:?}"))?;
        }
        for operator in beside.operators {
            let installed = operator.install(&plane, &objects).await;
            installed.with_context(|| format!("cannot install {operator:?}"))?;
        }
        let (manager, scheduler, kwok, jobset, lws, kueue) = tokio::try_join!(
            plane.start_controller_manager(),
            plane.start_scheduler(),
            plane.start_kwok(),
            jobset.start(&plane, &objects),
            lws.start(&plane, &objects),
            kueue,
        )?;
        let mut processes = vec![jobset, lws, kwok, scheduler, manager];
        processes.extend(kueue);
        for kind in beside.schedulers {
            let started = kind.start(&plane, &objects).await;
            processes.extend(started.with_context(|| format!("cannot start {kind:?}"))?);
        }
        for operator in beside.operators {
            let started = operator.start(&plane).await;
            processes.push(started.with_context(|| format!("cannot start {operator:?}"))?);
        }
        Ok(Cluster {
            processes,
            machine: None,
            plane,
            objects,
            figures,
            admin: None,
        })
    }

    /// The real kubectl, as the cluster's administrator.
    pub fn kubectl(&self) -> Result<Command> {
        let mut command = self.plane.components().program("kubectl")?;
        command.env("KUBECONFIG", &self.plane.kubeconfig);
        Ok(command)
    }

    /// What Muster counts, as Prometheus would read it.
    pub async fn metrics(&self) -> Result<String> {
        let admin = self.admin.context("this cluster has no Muster")?;
        muster::metrics(admin).await
    }

    /// Where a component writes what it has to say.
    pub fn log(&self, name: &str) -> Result<&Path> {
        let name = format!("{}/{name}", self.plane.name);
        let found = self.processes.iter().find(|process| process.name == name);
        let process = found.with_context(|| format!("this cluster has no {name}"))?;
        Ok(&process.log)
    }

    /// Components that ended though nobody asked them to, with their last words.
    pub fn casualties(&self) -> Vec<String> {
        let dead = |process: &Process| {
            let status = process.exited()?;
            let words = process.last_words();
            Some(format!("{} ended ({status})\n{words}", process.name))
        };
        self.ask(dead)
    }

    /// Resident memory of the Muster that most tests share, in MiB.
    pub fn muster_memory(&self) -> Option<u64> {
        let muster = match self.machine {
            None => self.processes.first(),
            Some(_) => None,
        };
        muster.and_then(Process::memory)
    }

    /// Resident memory of all components, in MiB.
    pub fn memory(&self) -> u64 {
        self.ask(Process::memory).into_iter().sum()
    }

    /// CPU time of each component so far.
    pub fn cpu(&self) -> Vec<(String, Duration)> {
        self.ask(|process| Some((process.name.clone(), process.cpu()?)))
    }

    /// Stops all of it where it stands: nobody needs it any more, and idle control planes take a third of
    /// a core together.
    pub fn rest(&self) {
        self.ask(|process| process.signal(Signal::STOP).ok());
    }

    /// The real node, in the tests that have one.
    pub fn machine(&self) -> Result<&Machine> {
        self.machine.as_ref().context("this cluster has no node")
    }

    /// Asks each component.
    fn ask<T>(&self, mut question: impl FnMut(&Process) -> Option<T>) -> Vec<T> {
        let core = [&self.plane.etcd, &self.plane.apiserver];
        let all = core.into_iter().chain(&self.processes);
        let mut answers: Vec<T> = all.filter_map(&mut question).collect();
        if let Some(machine) = &self.machine {
            answers.extend(machine.ask(question));
        }
        answers
    }
}
