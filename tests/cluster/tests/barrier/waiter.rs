//! The init container of one pod: `muster wait` as a process, told what the pod was told, with
//! directories in the place of its volumes.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Container, Pod};
use kube::ResourceExt as _;

use crate::health::{PATIENCE, wait_for};
use crate::process::Process;
use crate::sandbox::Sandbox;

pub struct Waiter {
    pub pod: String,
    pub barrier: String,
    pub dir: PathBuf,
    process: Process,
    command: Vec<String>,
    env: Vec<(String, String)>,
}

fn container(pod: &Pod) -> Option<&Container> {
    let mut containers = pod.spec.as_ref()?.init_containers.iter().flatten();
    containers.find(|container| container.name == "group-scheduling-init")
}

fn waits(pod: &Pod) -> bool {
    let statuses = pod
        .status
        .as_ref()
        .and_then(|s| s.init_container_statuses.as_ref());
    let mut statuses = statuses.into_iter().flatten();
    let own = statuses.find(|status| status.name == "group-scheduling-init");
    let running = own.and_then(|own| own.state.as_ref()?.running.as_ref());
    running.is_some() && pod.metadata.deletion_timestamp.is_none()
}

impl Waiter {
    fn start(sandbox: &Sandbox, pod: &Pod) -> Result<Waiter> {
        let container = container(pod).context("the pod has no container that waits")?;
        let name = pod.name_any();
        let plane = &sandbox.cluster.plane;
        let dir = plane
            .dir()
            .join("waiters")
            .join(&sandbox.namespace)
            .join(&name);
        for volume in ["mount", "clock"] {
            std::fs::create_dir_all(dir.join(volume))?;
        }
        let env = container.env.iter().flatten();
        let env: Vec<(String, String)> = env
            .map(|variable| {
                (
                    variable.name.clone(),
                    variable.value.clone().unwrap_or_default(),
                )
            })
            .collect();
        let told = env.iter().find(|(name, _)| name == "MUSTER_BARRIER");
        let (_, barrier) = told
            .and_then(|(_, place)| place.split_once('/'))
            .context("not told")?;
        let command = container.command.clone().unwrap_or_default();
        ensure!(
            command.first().map(String::as_str) == Some("/muster"),
            "{command:?}"
        );
        Ok(Waiter {
            process: run(sandbox, &name, &dir, &command, &env)?,
            barrier: barrier.to_owned(),
            pod: name,
            dir,
            command,
            env,
        })
    }

    /// Told something else than at admission.
    pub fn tell(&mut self, name: &str, value: &str) {
        self.env.retain(|(other, _)| other != name);
        self.env.push((name.to_owned(), value.to_owned()));
    }

    /// As kubelet restarts a container in place: the volumes stay.
    pub fn restart(&mut self, sandbox: &Sandbox) -> Result<()> {
        self.process = run(sandbox, &self.pod, &self.dir, &self.command, &self.env)?;
        Ok(())
    }

    /// Its exit status, once it has ended.
    pub fn ended(&self) -> Option<i32> {
        self.process
            .exited()
            .map(|status| status.code().unwrap_or(-1))
    }

    pub async fn ends(&self) -> Result<i32> {
        let what = format!("{} to end", self.pod);
        wait_for(&what, PATIENCE, async || self.ended().context("it waits")).await
    }

    /// Why it failed, as kubelet reads it.
    pub fn message(&self) -> Result<String> {
        Ok(std::fs::read_to_string(self.dir.join("log"))?)
    }

    /// As kubelet does it once it looks at the ConfigMap.
    pub fn mount(&self) -> Result<()> {
        Ok(std::fs::write(self.dir.join("mount/started"), "true")?)
    }
}

fn run(
    sandbox: &Sandbox,
    name: &str,
    dir: &std::path::Path,
    command: &[String],
    env: &[(String, String)],
) -> Result<Process> {
    let mut process = Command::new(env!("CARGO_BIN_EXE_muster"));
    process
        .args(&command[1..])
        .arg("--mount")
        .arg(dir.join("mount"))
        .arg("--clock")
        .arg(dir.join("clock"))
        .arg("--termination-log")
        .arg(dir.join("log"))
        .env_clear()
        .envs(env.iter().cloned());
    let plane = &sandbox.cluster.plane;
    plane.spawn(
        &format!("wait-{}-{name}", sandbox.namespace),
        process,
        vec![],
    )
}

impl Sandbox {
    /// Waits until so many pods wait, and runs their containers.
    pub async fn waiters(&self, count: usize) -> Result<Vec<Waiter>> {
        self.waiters_but(&[], count).await
    }

    /// The same for pods that are not among those.
    pub async fn waiters_but(&self, others: &[String], count: usize) -> Result<Vec<Waiter>> {
        let pods = self
            .wait_for(&format!("{count} pods at the barrier"), async || {
                let mut pods = self.pods().await?;
                pods.retain(|pod| waits(pod) && !others.contains(&pod.name_any()));
                ensure!(pods.len() == count, "{} wait", pods.len());
                Ok(pods)
            })
            .await?;
        pods.iter().map(|pod| Waiter::start(self, pod)).collect()
    }

    /// Waits until the main containers of so many pods run.
    pub async fn started(&self, count: usize) -> Result<()> {
        self.wait_for(&format!("{count} running pods"), async || {
            let pods = self.pods().await?;
            let runs = |pod: &&Pod| {
                pod.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Running")
            };
            let running = pods.iter().filter(runs).count();
            ensure!(running == count, "{running} run");
            Ok(())
        })
        .await
    }

    /// What a kubelet says when a container has ended well.
    pub async fn went_on(&self, waiter: &Waiter) -> Result<()> {
        self.annotate(&waiter.pod, "fake/passed=true").await
    }
}

/// Waits until all have ended well, and lets their pods run.
pub async fn all_pass(sandbox: &Sandbox, waiters: &mut Vec<Waiter>) -> Result<Duration> {
    let start = Instant::now();
    for waiter in waiters.iter() {
        let code = waiter.ends().await?;
        ensure!(code == 0, "{} ended with {code}", waiter.pod);
    }
    let took = start.elapsed();
    for waiter in waiters.drain(..) {
        sandbox.went_on(&waiter).await?;
    }
    Ok(took)
}

/// Looks for a while that nobody goes on.
pub async fn nobody_passes(waiters: &mut [Waiter], during: Duration) -> Result<()> {
    let start = Instant::now();
    while start.elapsed() < during {
        for waiter in waiters.iter() {
            let ended = waiter.ended();
            ensure!(ended.is_none(), "{} ended with {ended:?}", waiter.pod);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}
