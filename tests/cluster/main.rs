//! End-to-end tests on a real Kubernetes control plane, on loopback, with nothing mocked.
//!
//! ```sh
//! cargo test --test e2e                # everything
//! cargo test --test e2e -- FILTER      # the tests whose name contains FILTER
//! cargo test --test e2e -- --list
//! cargo test --test e2e -- build       # only build the components
//! cargo test --test e2e -- node        # the tests on a real node: see `node`
//! ```
//!
//! The components are built with Go once per machine ([`components`]), start in seconds
//! ([`cluster`]) and end with the run ([`process`]). Each test gets a [`sandbox`].

mod apiserver;
mod before;
mod bench;
mod calls;
mod cert_manager;
mod clock;
mod cluster;
#[path = "../common/mod.rs"]
mod common;
mod compile;
mod components;
mod control_plane;
mod demo;
mod fields;
mod figures;
mod fleet;
mod health;
mod helm;
mod install;
mod kubeconfig;
mod long;
mod manifests;
mod modules;
mod muster;
mod node;
mod objects;
mod operators;
mod pki;
mod ports;
mod process;
mod progress;
mod release;
mod runner;
mod sandbox;
mod schedulers;
mod service;
mod sizes;
mod stream;
mod tests;
mod third_party;

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::LocalSet;

use crate::before::VersionBefore;
use crate::components::Components;
use crate::fleet::{Fleet, Home};
use crate::modules::Module;
use crate::node::guard::Run;
use crate::process::Group;
use crate::runner::{Summary, Test};

#[derive(Parser)]
#[command(about = "End-to-end tests on a real Kubernetes control plane")]
struct Args {
    /// Run only the tests whose name contains this
    filter: Option<String>,
    /// Print the names of the tests and exit
    #[arg(long)]
    list: bool,
    /// How many tests run at a time
    #[arg(long, default_value_t = 4)]
    jobs: usize,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Subcommand)]
enum Action {
    /// Only build the components, and Muster's image where the tests on a real node can run
    Build,
    /// Ten thousand pods at one start barrier: how soon they go on, and what it costs
    BenchBarrier,
    /// What a replica needs by the number of gangs and of reviews
    BenchSize {
        /// How many gangs at most
        #[arg(default_value_t = 1_000)]
        gangs: usize,
    },
    /// Bring the cluster up, show a gang wait and start, and stay until Ctrl-C
    Demo,
    /// Run the tests on a real node, which needs root
    Node(node::outside::Args),
    // The parts of `node`, which this program starts itself.
    #[command(hide = true)]
    NodeGuard(Run),
    #[command(hide = true)]
    NodeInit(Run),
    #[command(hide = true)]
    NodeInside(Run),
    #[command(hide = true)]
    NodePanic(Run),
    #[command(hide = true)]
    NodeStay(Run),
}

fn main() -> ExitCode {
    let args = Args::parse();
    // One line: where an assertion failed says enough, and tests run side by side.
    std::panic::set_hook(Box::new(|panic| eprintln!("{panic}")));
    start(args).unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn start(args: Args) -> Result<ExitCode> {
    let good = |good: bool| Ok(ExitCode::from(u8::from(!good)));
    // Without a runtime: the first process of a namespace reaps every child that it gets.
    match &args.action {
        Some(Action::NodeGuard(run)) => return good(node::guard::guard(run)?.success()),
        Some(Action::NodeInit(run)) => return Ok(ExitCode::from(node::init::init(run)?)),
        _ => {}
    }
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    match args.action {
        Some(Action::Node(args)) => good(runtime.block_on(node::outside::run(args))?),
        Some(Action::NodePanic(run)) => {
            runtime.block_on(node::endings::play(run, true))?;
            good(false)
        }
        Some(Action::NodeStay(run)) => {
            runtime.block_on(node::endings::play(run, false))?;
            good(false)
        }
        _ => match runtime.block_on(run(args))? {
            None => good(true),
            Some(summary) => {
                println!("{summary}");
                good(summary.good())
            }
        },
    }
}

/// How the tests went, if any were to run.
async fn run(args: Args) -> Result<Option<Summary>> {
    let tests = match &args.action {
        Some(Action::NodeInside(run)) => runner::select(tests::node::all(), Some(&run.filter)),
        _ => runner::select(tests::all(), args.filter.as_deref()),
    };
    if args.list {
        for test in &tests {
            println!("{}", test.name);
        }
        return Ok(None);
    }
    // A filter that selects nothing is a typing error, not a success.
    if tests.is_empty() {
        bail!(
            "no test has {:?} in its name",
            args.filter.unwrap_or_default()
        );
    }

    let since = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let run = format!("{}-{}", since.as_secs(), std::process::id());
    // Only for its owner: the administrator's key lies in it. Removed by the group.
    let data = tempfile::Builder::new()
        .prefix("muster-e2e-")
        .tempdir()?
        .keep();
    let logs = Path::new(env!("CARGO_TARGET_TMPDIR")).join("e2e");
    remove_old(&logs);
    let logs = logs.join(run);
    let group = Arc::new(Group::new(&data, &logs)?);
    end_on_signals(Arc::clone(&group))?;

    let outcome = work(args, tests, &group).await;
    group.end();
    // Removing an empty directory succeeds: a run that failed before anything was started.
    let good = matches!(&outcome, Ok(None)) || matches!(&outcome, Ok(Some(s)) if s.good());
    if good {
        group.forget_logs();
    } else if fs::remove_dir(&logs).is_err() {
        println!("logs: {}", logs.display());
    }
    outcome
}

/// Keeps the logs of the last few failed runs; their names begin with the time.
fn remove_old(logs: &Path) {
    let entries = fs::read_dir(logs).into_iter().flatten().flatten();
    let mut runs: Vec<_> = entries.map(|entry| entry.path()).collect();
    runs.sort();
    for old in runs.iter().rev().skip(9) {
        let _ = fs::remove_dir_all(old);
    }
}

async fn work(args: Args, tests: Vec<Test>, group: &Arc<Group>) -> Result<Option<Summary>> {
    let builder = Arc::clone(group);
    // Only what the chosen tests need: a filter need not wait for every scheduler.
    let needed: Vec<&Module> = match args.action {
        Some(Action::Build) => modules::ALL.to_vec(),
        Some(Action::Demo | Action::BenchBarrier | Action::BenchSize { .. }) => {
            Home::Main.modules()
        }
        _ => {
            let needs = |module: &&&Module| {
                let mut homes = tests.iter().flat_map(Test::modules);
                homes.any(|other| other.name == module.name)
            };
            modules::ALL.iter().filter(needs).copied().collect()
        }
    };
    let before = tests.iter().any(Test::is_beside_the_version_before);
    let before = before || matches!(args.action, Some(Action::Build));
    // What tests need of the builder's work they wait for, each by itself.
    let awaited = match args.action {
        None => components::is_building()?,
        Some(_) => false,
    };
    let build = move || -> Result<Components> {
        if awaited {
            println!("another run builds the components: each test starts when it has its own");
            return Components::of(&needed);
        }
        let components = Components::build(&builder, &needed)?;
        if before {
            VersionBefore::build(&builder)?;
        }
        Ok(components)
    };
    if let Some(Action::Build) = args.action {
        let _builder = components::announce_builder()?;
        match node::needs::check() {
            Ok(()) => node::images::build_muster_beside(group, build).await?,
            Err(lacks) => {
                println!("without Muster's image, for {lacks}");
                tokio::task::spawn_blocking(build).await??
            }
        };
        println!("components are in {}", components::cache_dir()?.display());
        return Ok(None);
    }
    let components = match node::images::is_shared() {
        true => node::images::build_muster_beside(group, build).await?,
        false => tokio::task::spawn_blocking(build).await??,
    };
    let fleet = Arc::new(Fleet::new(components, Arc::clone(group)));
    if let Some(Action::Demo) = args.action {
        demo::run(fleet.cluster(Home::Main).await?).await?;
        return Ok(None);
    }
    if let Some(Action::BenchBarrier) = args.action {
        bench::run(fleet.cluster(Home::Main).await?).await?;
        return Ok(None);
    }
    if let Some(Action::BenchSize { gangs }) = args.action {
        sizes::run(fleet.cluster(Home::Main).await?, gangs).await?;
        return Ok(None);
    }
    // Tests on the only node restart what all of them use.
    let jobs = match args.action {
        Some(Action::NodeInside(_)) => 1,
        _ => args.jobs,
    };
    let tests = runner::run(tests, jobs, &fleet, &group.logs);
    Ok(Some(LocalSet::new().run_until(tests).await))
}

/// The guard would end the components anyway; this also waits for it and says where the logs are.
fn end_on_signals(group: Arc<Group>) -> Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        group.end();
        eprintln!("interrupted; logs: {}", group.logs.display());
        std::process::exit(130);
    });
    Ok(())
}
