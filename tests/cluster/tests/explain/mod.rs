//! Causes that are brought about on purpose, each of which Muster must name, and how soon it does.

mod command;
mod gang;
mod lives;
mod queue;
mod seed;
mod table;
mod watches;
pub mod world;

use std::collections::BTreeSet;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::fleet::Home;
use crate::runner::{Test, named};
use crate::sandbox::Sandbox;
pub use seed::Seed;

/// So soon after the fact its cause is told.
const SOON: Duration = Duration::from_secs(5);

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

    /// Bundles of native gangs are off by default.
    fn home(self, seed: Seed) -> Home {
        match self {
            _ if seed == Seed::KueueSuspends => Home::Kueue,
            Self::Native if seed != Seed::PartnerRefused => Home::Main,
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
            tests.push(named(name, scheduler.home(seed), move |sandbox| {
                is_named(sandbox, scheduler, seed)
            }));
        }
    }
    tests.push(named(
        "explain::an_old_refusal_does_not_time_out_a_resumed_gang".to_owned(),
        Home::Main,
        lives::an_old_refusal_does_not_time_out_a_resumed_gang,
    ));
    tests.push(named(
        "explain::refused_pods_of_other_names_time_out_since_the_first".to_owned(),
        Home::Main,
        lives::refused_pods_of_other_names_time_out_since_the_first,
    ));
    tests.push(named(
        "explain::others_are_watched_only_while_a_gang_waits_for_them".to_owned(),
        Home::Main,
        watches::others_are_watched_only_while_a_gang_waits_for_them,
    ));
    tests.push(named(
        "explain::what_another_controller_runs_is_left_to_it".to_owned(),
        Home::Main,
        lives::what_another_controller_runs_is_left_to_it,
    ));
    // What is counted, and what only the scheduler says.
    for seed in [Seed::AntiAffinity, Seed::Spread] {
        let name = "explain::a_gang_that_is_tried_again_and_again_keeps_its_cause";
        let name = format!("{name}::{}", seed.name());
        tests.push(named(name, Home::Schedulers, move |sandbox| {
            lives::a_gang_that_is_tried_again_and_again_keeps_its_cause(sandbox, seed)
        }));
    }
    tests.extend(command::all());
    tests
}

/// The first cause that is told is the one that was brought about.
async fn is_named(sandbox: Sandbox, scheduler: Scheduler, seed: Seed) -> Result<()> {
    let sandbox = match (seed, scheduler) {
        (Seed::GateOff, _) => world::half_on(&sandbox).await?,
        (Seed::LinkLost, Scheduler::Native) => world::without_links(&sandbox).await?,
        _ => sandbox,
    };
    let fact = seed.bring_about(&sandbox, scheduler).await?;
    let (seconds, message) = told(&sandbox, seed, fact).await?;
    println!(
        "{} on {}: {seconds:.1} s: {message}",
        seed.name(),
        scheduler.name()
    );
    table::note(scheduler, seed, seconds, &message)?;
    if let Some(placed) = seed.is_placed() {
        sandbox.condition("GangScheduled").await?;
        let said = explained(&sandbox).await?;
        ensure!(said.contains(placed), "{placed:?} is not in {said}");
    }
    if seed == Seed::KueueSuspends {
        let said = explained(&sandbox).await?;
        let first = format!("JobSet {}/train: suspended by Kueue", sandbox.namespace);
        ensure!(
            said.starts_with(&first) && said.contains(seed.says()),
            "{said}"
        );
    }
    if seed.is_a_wait() {
        says_the_same(&sandbox, scheduler, seed).await?;
    }
    ensure!(
        seconds < SOON.as_secs_f64(),
        "named after {seconds:.1} s only"
    );
    Ok(())
}

/// `muster explain`, with no help of the Muster that runs.
async fn says_the_same(sandbox: &Sandbox, scheduler: Scheduler, seed: Seed) -> Result<()> {
    let said = explained(sandbox).await?;
    let first = format!("1. {}: ", seed.reason());
    ensure!(said.contains(&first), "{first:?} is not in {said}");
    // Of the gang that lacks nothing itself. YuniKorn places it: placeholders keep the other's room.
    if seed == Seed::PartnerRefused && scheduler != Scheduler::Yunikorn {
        let missed = said.contains("1. BundleIncomplete: ");
        ensure!(missed, "no partner is missed in {said}");
    }
    Ok(())
}

async fn explained(sandbox: &Sandbox) -> Result<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_muster"));
    command
        .args(["explain", "jobset/train", "--namespace", &sandbox.namespace])
        .arg("--kubeconfig")
        .arg(&sandbox.cluster.plane.kubeconfig);
    let output = tokio::task::spawn_blocking(move || command.output()).await??;
    let said = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{said}{error}");
    Ok(said.into_owned())
}

/// How soon it is told, and in which words. Nothing else may be told before.
async fn told(sandbox: &Sandbox, seed: Seed, fact: Instant) -> Result<(f64, String)> {
    let jobsets = sandbox.api("jobset.x-k8s.io/v1alpha2", "JobSet").await?;
    let mut others = BTreeSet::new();
    let told = sandbox
        .wait_for(seed.reason(), async || {
            let jobset = jobsets.get("train").await?;
            let conditions = jobset.data["status"]["conditions"].as_array().cloned();
            let conditions = conditions.unwrap_or_default();
            let own = conditions.iter().find(|c| c["type"] == seed.condition());
            let reason = own.and_then(|c| c["reason"].as_str()).unwrap_or("none");
            let message = own.and_then(|c| c["message"].as_str()).unwrap_or_default();
            let said = reason == seed.reason() && message.contains(seed.says());
            if !said {
                others.insert(reason.to_owned());
            }
            ensure!(said, "it is {reason}: {message}");
            Ok((fact.elapsed().as_secs_f64(), message.to_owned()))
        })
        .await?;
    others.retain(|other| {
        let nothing = ["none", "GangWaiting"].contains(&other.as_str());
        !nothing && !seed.before().contains(&other.as_str())
    });
    ensure!(others.is_empty(), "told before {told:?}: {others:?}");
    Ok(told)
}
