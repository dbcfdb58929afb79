//! However a run ends, nothing of it is left on the machine. Looked at from outside, and so not
//! tests like the others, which run inside.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use super::guard::{Guarded, Run};
use super::leftovers::Before;
use crate::health::{PATIENCE, wait_for};

/// After the tests.
const NOTHING: &str = "node::nothing_is_left_on_the_machine";

/// How the process that the user started may end in the middle of a run.
const CUT_OFF: &[(&str, Option<Signal>)] = &[
    ("node::a_panic_leaves_nothing", None),
    ("node::an_interrupt_leaves_nothing", Some(Signal::INT)),
    ("node::a_termination_leaves_nothing", Some(Signal::TERM)),
    ("node::a_killed_run_leaves_nothing", Some(Signal::KILL)),
];

type CutOff = &'static (&'static str, Option<Signal>);

/// The tests of this file that a filter chooses.
pub struct Selected {
    /// The other tests are followed by this one, whatever the filter.
    pub nothing: &'static str,
    cut_off: Vec<CutOff>,
}

pub fn select(filter: Option<&str>) -> Selected {
    let filter = filter.unwrap_or_default();
    let cut_off = CUT_OFF.iter().filter(|(name, _)| name.contains(filter));
    Selected {
        nothing: NOTHING,
        cut_off: cut_off.collect(),
    }
}

impl Selected {
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let cut_off = self.cut_off.iter().map(|(name, _)| *name);
        cut_off.chain([self.nothing])
    }

    pub fn is_empty(&self) -> bool {
        self.cut_off.is_empty()
    }

    /// Whether all went well.
    pub async fn rehearse(&self) -> bool {
        let mut good = true;
        for (name, signal) in &self.cut_off {
            let start = Instant::now();
            let outcome = cut_off(*signal).await;
            good &= report(name, start, outcome);
        }
        good
    }
}

/// Prints a test's line as the others have it.
pub fn report(name: &str, start: Instant, outcome: Result<()>) -> bool {
    let seconds = start.elapsed().as_secs_f64();
    match &outcome {
        Ok(()) => println!("ok     {name} ({seconds:.1} s)"),
        Err(error) => println!("FAILED {name} ({seconds:.1} s)\n  {error:#}"),
    }
    outcome.is_ok()
}

/// Starts a run that has only the namespaces, ends it, and looks.
async fn cut_off(signal: Option<Signal>) -> Result<()> {
    let before = Before::look();
    let run = Run::new(None, true)?;
    let part = match signal {
        None => "node-panic",
        Some(_) => "node-stay",
    };
    let words = run.command(part)?;
    let mut child = Command::new(&words[0])
        .args(&words[1..])
        .process_group(0)
        .spawn()?;
    let left = |kind: &str| {
        let left = before.left_by(&run);
        let found = left.iter().any(|line| line.starts_with(kind));
        found.then_some(()).with_context(|| format!("no {kind}"))
    };
    let mut ended = None;
    wait_for("something to leave", PATIENCE, async || {
        ended = child.try_wait()?;
        if ended.is_some() {
            return Ok(());
        }
        for kind in ["process", "cgroup", "file"] {
            left(kind)?;
        }
        let ready = run.scratch.join("ready").exists();
        ready.then_some(()).context("the namespaces are not ready")
    })
    .await?;
    if let Some(status) = ended {
        bail!("it ended by itself ({status})");
    }
    match signal {
        Some(signal) => kill_process(Pid::from_child(&child), signal)?,
        // Tells it to panic.
        None => std::fs::write(run.scratch.join("panic"), "")?,
    }
    // Only the guard survives the worst, and cleans up by itself.
    let within = Duration::from_secs(40);
    let start = Instant::now();
    while child.try_wait()?.is_none() {
        ensure!(start.elapsed() < within, "it runs on after {within:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    wait_for("nothing to be left", within, async || {
        before.nothing_left_by(&run)
    })
    .await
}

/// What [`cut_off`] starts: a run as `outside` has it, without tests.
pub async fn play(run: Run, panics: bool) -> Result<()> {
    let mut guarded = Guarded::start(&run)?;
    let told = wait_for("the word to panic", Duration::from_secs(600), async || {
        let told = run.scratch.join("panic").exists();
        told.then_some(()).context("not yet")
    });
    tokio::select! {
        told = told => told?,
        status = guarded.wait() => bail!("the namespaces ended by themselves: {}", status?),
        () = super::outside::interrupted() => return Err(anyhow!("interrupted")),
    }
    assert!(!panics, "as told");
    Ok(())
}
