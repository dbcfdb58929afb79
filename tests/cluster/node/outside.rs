//! What the user starts: it builds, waits for the tests inside the namespaces, and then looks
//! whether anything is left on the machine.

use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tokio::signal::unix::{SignalKind, signal};

use super::guard::{Guarded, Run};
use super::leftovers::Before;
use super::{endings, images, needs};
use crate::components::Components;
use crate::fleet::Home;
use crate::process::Group;
use crate::runner;
use crate::tests;

#[derive(clap::Args)]
pub struct Args {
    /// Run only the tests whose name contains this
    filter: Option<String>,
    /// Print the names of the tests and exit
    #[arg(long)]
    list: bool,
}

/// Whether all went well.
pub async fn run(args: Args) -> Result<bool> {
    let filter = args.filter.as_deref();
    let inside = runner::select(tests::node::all(), filter);
    let inside: Vec<String> = inside.into_iter().map(|test| test.name).collect();
    let outside = endings::select(filter);
    if args.list {
        for name in inside.iter().map(String::as_str).chain(outside.names()) {
            println!("{name}");
        }
        return Ok(true);
    }
    // A filter that selects nothing is a typing error, not a success.
    if inside.is_empty() && outside.is_empty() {
        bail!("no test has {:?} in its name", filter.unwrap_or_default());
    }
    needs::check()?;

    let start = Instant::now();
    let data = tempfile::Builder::new().prefix("muster-e2e-").tempdir()?;
    let logs = Path::new(env!("CARGO_TARGET_TMPDIR")).join("e2e-node-build");
    let group = Arc::new(Group::new(&data.keep(), &logs)?);
    let mut built = Duration::ZERO;
    let outcome = tokio::select! {
        outcome = work(&group, filter, !inside.is_empty(), &outside, &mut built) => outcome,
        () = interrupted() => {
            // What was dropped has ended the namespaces, and waited for it.
            group.end();
            eprintln!("interrupted");
            std::process::exit(130);
        }
    };
    group.end();
    let all = start.elapsed();
    println!(
        "the tests on a real node: {} s, of which {} s went into building; a warm run takes {} s",
        all.as_secs(),
        built.as_secs(),
        (all - built).as_secs()
    );
    outcome
}

async fn work(
    group: &Arc<Group>,
    filter: Option<&str>,
    inside: bool,
    outside: &endings::Selected,
    built: &mut Duration,
) -> Result<bool> {
    let mut good = true;
    if inside {
        let start = Instant::now();
        build(group).await?;
        *built = start.elapsed();
        let before = Before::look();
        let run = Run::new(filter, false)?;
        let status: ExitStatus = Guarded::start(&run)?.wait().await?;
        good &= status.success();
        let looked = Instant::now();
        let outcome = before.nothing_left_by(&run);
        good &= endings::report(outside.nothing, looked, outcome);
    }
    good &= outside.rehearse().await;
    Ok(good)
}

/// Everything that needs the network or takes long.
async fn build(group: &Arc<Group>) -> Result<()> {
    let builder = Arc::clone(group);
    let components = move || Components::build(&builder, &Home::Node.modules());
    images::build_muster_beside(group, components).await?;
    Ok(())
}

pub async fn interrupted() {
    let (Ok(mut interrupt), Ok(mut terminate)) = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
    ) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}
