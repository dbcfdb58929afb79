//! Causes that are brought about on purpose, each of which Muster must name, and how soon it does.

mod command;
mod seed;
mod table;

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::fleet::Home;
use crate::runner::{Test, named};
use crate::sandbox::Sandbox;
pub use seed::Seed;

/// A gang may wait for three seconds before anything is said; the rest is a busy machine's.
const SOON: Duration = Duration::from_secs(10);

/// Who schedules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scheduler {
    Native,
    Volcano,
    Coscheduling,
    Koordinator,
    Yunikorn,
    Kai,
}

impl Scheduler {
    const ALL: [Scheduler; 6] = [
        Self::Native,
        Self::Volcano,
        Self::Coscheduling,
        Self::Koordinator,
        Self::Yunikorn,
        Self::Kai,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Volcano => "volcano",
            Self::Coscheduling => "coscheduling",
            Self::Koordinator => "koordinator",
            Self::Yunikorn => "yunikorn",
            Self::Kai => "kai",
        }
    }

    fn home(self) -> Home {
        match self {
            Self::Native => Home::Main,
            _ => Home::Schedulers,
        }
    }
}

pub fn all() -> Vec<Test> {
    let mut tests = Vec::new();
    for scheduler in Scheduler::ALL {
        for seed in Seed::ALL {
            if !seed.exists_on(scheduler) {
                continue;
            }
            let name = format!("explain::{}::{}", scheduler.name(), seed.name());
            tests.push(named(name, scheduler.home(), move |sandbox| {
                is_named(sandbox, scheduler, seed)
            }));
        }
    }
    tests.extend(command::all());
    tests
}

/// The first cause that is told is the one that was brought about.
async fn is_named(sandbox: Sandbox, scheduler: Scheduler, seed: Seed) -> Result<()> {
    let fact = seed.bring_about(&sandbox, scheduler).await?;
    let (seconds, message) = told(&sandbox, seed, fact).await?;
    ensure!(
        message.contains(seed.says()),
        "{:?} is not in {message:?}",
        seed.says()
    );
    println!(
        "{} on {}: {seconds:.1} s: {message}",
        seed.name(),
        scheduler.name()
    );
    table::note(scheduler, seed, seconds, &message)?;
    if seed.is_a_wait() {
        says_the_same(&sandbox, seed).await?;
    }
    ensure!(
        seconds < SOON.as_secs_f64(),
        "named after {seconds:.1} s only"
    );
    Ok(())
}

/// `muster explain`, with no help of the Muster that runs.
async fn says_the_same(sandbox: &Sandbox, seed: Seed) -> Result<()> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_muster"));
    command
        .args(["explain", "jobset/train", "--namespace", &sandbox.namespace])
        .arg("--kubeconfig")
        .arg(&sandbox.cluster.plane.kubeconfig);
    let output = tokio::task::spawn_blocking(move || command.output()).await??;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success() && said.contains(&format!("1. {}: ", seed.reason())),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

async fn told(sandbox: &Sandbox, seed: Seed, fact: Instant) -> Result<(f64, String)> {
    let jobsets = sandbox.api("jobset.x-k8s.io/v1alpha2", "JobSet").await?;
    sandbox
        .wait_for(seed.reason(), async || {
            let jobset = jobsets.get("train").await?;
            let conditions = jobset.data["status"]["conditions"].as_array().cloned();
            let conditions = conditions.unwrap_or_default();
            let own = conditions
                .iter()
                .find(|c| c["type"] == "muster.dev/GangScheduled");
            let reason = own.and_then(|c| c["reason"].as_str()).unwrap_or("none");
            let message = own.and_then(|c| c["message"].as_str()).unwrap_or_default();
            ensure!(reason == seed.reason(), "it is {reason}: {message}");
            Ok((fact.elapsed().as_secs_f64(), message.to_owned()))
        })
        .await
}
