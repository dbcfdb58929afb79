//! Runs tests side by side, each in a sandbox of its own, and says how each went.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail, ensure};
use tokio::sync::Semaphore;
use tokio::task::{JoinError, JoinSet};

use crate::before::VersionBefore;
use crate::components::{self, Components};
use crate::fleet::{Fleet, Home};
use crate::long::Length;
use crate::modules::Module;
use crate::sandbox::Sandbox;

/// So many tests that fail beside others are run once more by themselves, and are told: on a busy machine
/// a component of Kubernetes may take longer than a test waits. If more fail, it is not that.
const SECOND_CHANCES: usize = 3;
/// So many components are told with their CPU time, which is what bounds a run on few cores.
const DEAREST: usize = 12;
/// So often a test looks whether another run has built what it needs.
const BUILT_POLL: Duration = Duration::from_secs(2);
/// Added to the number of a test that is run again, so that it gets another namespace.
const AGAIN: usize = 1_000;

type Outcome = Pin<Box<dyn Future<Output = Result<()>>>>;

/// What few tests need.
#[derive(Clone, Copy)]
enum Also {
    Group(&'static Module),
    VersionBefore,
}

/// How often a test may fail.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Chances {
    /// What fails beside others may pass alone.
    Two,
    One,
}

pub struct Test {
    pub name: String,
    pub home: Home,
    chances: Chances,
    /// What it needs beside what its home is made of.
    also: Option<Also>,
    run: Box<dyn Fn(Sandbox) -> Outcome>,
}

impl Test {
    /// A test that needs programs of another group too.
    pub fn with(self, also: &'static Module) -> Test {
        let also = Some(Also::Group(also));
        Test { also, ..self }
    }

    /// A test that runs the version before this one too.
    pub fn beside_the_version_before(self) -> Test {
        let also = Some(Also::VersionBefore);
        Test { also, ..self }
    }

    /// A test whose promise is that nothing fails: one failure is enough, on a busy machine too.
    pub fn strict(self) -> Test {
        let chances = Chances::One;
        Test { chances, ..self }
    }

    pub fn is_beside_the_version_before(&self) -> bool {
        matches!(self.also, Some(Also::VersionBefore))
    }

    fn is_built(&self, components: &Components) -> bool {
        let before = !self.is_beside_the_version_before() || VersionBefore::built().is_ok();
        before && self.modules().all(|module| components.have_built(module))
    }

    /// Waits for a run that builds what it needs. Without one everything is built before the first test.
    async fn until_built(&self, components: &Components) -> Result<()> {
        loop {
            // In this order: a builder that has ended meanwhile has built it.
            let building = components::is_building()?;
            if self.is_built(components) {
                return Ok(());
            }
            ensure!(
                building,
                "the run that built the components ended without what this needs"
            );
            tokio::time::sleep(BUILT_POLL).await;
        }
    }

    /// What must be built for it.
    pub fn modules(&self) -> impl Iterator<Item = &'static Module> {
        let also = match self.also {
            Some(Also::Group(group)) => Some(group),
            Some(Also::VersionBefore) | None => None,
        };
        self.home.modules().into_iter().chain(also)
    }
}

/// A test is an async function; its path below `tests` is its name.
pub fn test<F, R>(function: F) -> Test
where
    F: Fn(Sandbox) -> R + 'static,
    R: Future<Output = Result<()>> + 'static,
{
    test_in(Home::Main, function)
}

/// A test in another cluster than the main one.
pub fn test_in<F, R>(home: Home, function: F) -> Test
where
    F: Fn(Sandbox) -> R + 'static,
    R: Future<Output = Result<()>> + 'static,
{
    let path = std::any::type_name::<F>();
    let name = path.split_once("tests::").map_or(path, |(_, name)| name);
    named(name.to_owned(), home, function)
}

/// A test that shares its function with others.
pub fn named<F, R>(name: String, home: Home, function: F) -> Test
where
    F: Fn(Sandbox) -> R + 'static,
    R: Future<Output = Result<()>> + 'static,
{
    Test {
        name,
        home,
        chances: Chances::Two,
        also: None,
        run: Box::new(move |sandbox| Box::pin(function(sandbox))),
    }
}

/// Those that a filter chooses, by their clusters' turns.
pub fn select(tests: Vec<Test>, filter: Option<&str>) -> Vec<Test> {
    let filter = filter.unwrap_or_default();
    let chosen = tests.into_iter().filter(|test| test.name.contains(filter));
    let mut chosen: Vec<Test> = chosen.collect();
    chosen.sort_by_key(|test| test.home.turn());
    chosen
}

/// How a run went.
pub struct Summary {
    passed: usize,
    failed: usize,
    /// Those of the passed that failed beside others.
    alone: Vec<String>,
    casualties: usize,
}

impl Summary {
    /// A component that ended by itself spoils a run even when no test noticed.
    pub fn good(&self) -> bool {
        self.failed == 0 && self.casualties == 0
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tests = self.passed + self.failed;
        write!(
            f,
            "{tests} tests: {} passed, {} failed",
            self.passed, self.failed
        )?;
        for name in &self.alone {
            write!(
                f,
                "\n{name} failed beside others, and passed alone: it is flaky"
            )?;
        }
        Ok(())
    }
}

/// Runs on one thread, inside a `LocalSet`: a test only waits for answers,
/// and so its futures need not be `Send`, which async closures cannot promise yet.
pub async fn run(tests: Vec<Test>, jobs: usize, fleet: &Arc<Fleet>, logs: &Path) -> Summary {
    let slots = Arc::new(Semaphore::new(jobs.max(1)));
    let mut running = JoinSet::new();
    let mut homes = Homes::of(&tests);
    for (number, test) in tests.into_iter().enumerate() {
        let (slots, fleet) = (Arc::clone(&slots), Arc::clone(fleet));
        let logs = logs.to_owned();
        running.spawn_local(async move {
            let built = test.until_built(&fleet.components).await;
            let _slot = slots.acquire_owned().await;
            if let Err(error) = built {
                println!("FAILED {}\n  {error:#}", test.name);
                return (false, number, test);
            }
            let passed = report(&test, number, &fleet, &logs).await;
            (passed, number, test)
        });
    }
    let (mut passed, mut failed, mut fallen) = (0, 0, Vec::new());
    while let Some(outcome) = running.join_next().await {
        match outcome {
            Ok((true, _, test)) => {
                passed += 1;
                homes.passed(test.home, fleet);
            }
            Ok((false, number, test)) => fallen.push((number, test)),
            Err(_) => failed += 1,
        }
    }
    let mut alone = Vec::new();
    failed += fallen.len();
    let again = second_chances(fallen);
    failed -= again.len();
    for (number, test) in again {
        println!("alone: {}", test.name);
        match report(&test, number + AGAIN, fleet, logs).await {
            true => {
                passed += 1;
                alone.push(test.name);
            }
            false => failed += 1,
        }
    }
    let casualties: Vec<String> = fleet.started().flat_map(|c| c.casualties()).collect();
    for casualty in &casualties {
        println!("{casualty}");
    }
    let memory: u64 = fleet.started().map(|cluster| cluster.memory()).sum();
    println!("components use {memory} MiB");
    let mut cpu: Vec<_> = fleet.started().flat_map(|c| c.cpu()).collect();
    cpu.sort_by_key(|(_, time)| Reverse(*time));
    for (name, time) in cpu.iter().take(DEAREST) {
        println!("{name} has used {} s of CPU time", time.as_secs());
    }
    for cluster in fleet.started() {
        if let Some(memory) = cluster.muster_memory() {
            println!(
                "Muster of {} uses {memory} MiB after all tests",
                cluster.plane.name
            );
        }
    }
    print!("{}", fleet.figures);
    Summary {
        passed,
        failed,
        alone,
        casualties: casualties.len(),
    }
}

/// How many tests of each cluster have not passed yet.
struct Homes(HashMap<&'static str, usize>);

impl Homes {
    fn of(tests: &[Test]) -> Homes {
        let mut left = HashMap::new();
        for test in tests {
            *left.entry(test.home.name()).or_default() += 1;
        }
        Homes(left)
    }

    /// The cluster of one that failed goes on: it may get a second chance.
    fn passed(&mut self, home: Home, fleet: &Fleet) {
        if let Some(left) = self.0.get_mut(home.name()) {
            *left -= 1;
            // What runs on a real node is ended in order.
            if *left == 0 && home != Home::Node {
                fleet.rest(home);
            }
        }
    }
}

/// Those of the failed that are run once more.
pub fn second_chances(mut failed: Vec<(usize, Test)>) -> Vec<(usize, Test)> {
    failed.retain(|(_, test)| test.chances == Chances::Two);
    if failed.len() > SECOND_CHANCES {
        failed.clear();
    }
    failed
}

/// Runs one test and prints its line.
async fn report(test: &Test, number: usize, fleet: &Fleet, logs: &Path) -> bool {
    let start = Instant::now();
    let outcome = attempt(test, number, fleet, logs).await;
    let seconds = start.elapsed().as_secs_f64();
    match outcome {
        Ok(()) => println!("ok     {} ({seconds:.1} s)", test.name),
        Err(ref error) => println!("FAILED {} ({seconds:.1} s)\n  {error:#}", test.name),
    }
    outcome.is_ok()
}

async fn attempt(test: &Test, number: usize, fleet: &Fleet, logs: &Path) -> Result<()> {
    let cluster = fleet.cluster(test.home).await?;
    let sandbox = Sandbox::new(cluster, &namespace(&test.name, number)).await?;
    // A task of its own, so that a failed assertion fails this test only.
    let task = tokio::task::spawn_local((test.run)(sandbox.clone()));
    let abort = task.abort_handle();
    let limit = Length::of_this_run().limit();
    let outcome = match tokio::time::timeout(limit, task).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(panic)) => Err(anyhow!("panicked: {}", message(panic))),
        Err(_) => {
            abort.abort();
            Err(anyhow!("still running after {limit:?}"))
        }
    };
    if let Err(error) = &outcome {
        let path = logs.join(format!("{}.txt", sandbox.namespace));
        let state = sandbox.describe().await;
        fs::write(&path, format!("{}\n{error:#}\n\n{state}", test.name))?;
        bail!("{error:#}\n  its namespace: {}", path.display());
    }
    sandbox.clear().await?;
    outcome
}

fn message(panic: JoinError) -> String {
    let Ok(payload) = panic.try_into_panic() else {
        return "cancelled".to_owned();
    };
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
    text.unwrap_or("no message").to_owned()
}

/// A namespace name that tells its test: node names and label values are made of it, hence short.
fn namespace(test: &str, number: usize) -> String {
    let name = test.replace("::", "-").replace('_', "-");
    let short: String = name.chars().take(45).collect();
    format!("{}-{number}", short.trim_end_matches('-'))
}
