//! `bench-size`: what a replica needs, by how many gangs there are and how many reviews come.
//!
//! Muster is the program of its image, since the C library counts: `just bench-size` builds it. JobSets
//! of one gang each go through the real apiserver, JobSet controller and scheduler; KWOK plays the nodes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::health::wait_for;
use crate::install::{jobset, pod_template};
use crate::muster::{self, Muster};
use crate::node::images;
use crate::ports::Port;
use crate::process::Process;
use crate::sandbox::Sandbox;

/// Gangs, one row each.
const STEPS: [usize; 4] = [0, 100, 1_000, 5_000];
const PODS: usize = 2;
/// Each node takes 500 pods.
const NODES: usize = 22;

/// Reviews of one kind.
const REVIEWS: usize = 2_000;
/// Requests at a time: more would only wait for the apiserver's own limits.
const AT_ONCE: usize = 8;

/// Then nothing changes, and what Muster still does is the cost of being there.
const QUIET: Duration = Duration::from_secs(30);
const PATIENCE: Duration = Duration::from_secs(1_200);

fn gang(number: usize) -> Value {
    let mut gang = jobset(&format!("gang-{number}"));
    gang["metadata"]["annotations"] = json!({"muster.dev/gang-mode": "Gang"});
    let job = json!({"parallelism": PODS, "completions": PODS, "template": pod_template()});
    gang["spec"]["replicatedJobs"][0]["template"]["spec"] = job;
    gang
}

fn pod(number: usize) -> Value {
    let declares = json!({"muster.dev/gang-name": "ring", "muster.dev/min-count": "2"});
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": format!("pod-{number}"), "annotations": declares},
        "spec": pod_template()["spec"],
    })
}

struct Replica {
    process: Process,
    admin: u16,
}

impl Replica {
    async fn start(muster: &Muster, cluster: &Cluster, port: Port) -> Result<Replica> {
        let ports = (port, Port::reserve()?);
        let admin = ports.1.number;
        let process = muster.start_on(&cluster.plane, "muster-0", ports.0, ports.1);
        let process = process.await?;
        Ok(Replica { process, admin })
    }

    fn cpu(&self) -> Result<f64> {
        let cpu = self.process.cpu().context("its CPU time is not known")?;
        Ok(cpu.as_secs_f64())
    }

    async fn counts(&self, series: &str) -> Result<f64> {
        muster::sum(&muster::metrics(self.admin).await?, series)
    }

    /// Waits until it knows that so many gangs are placed.
    async fn knows(&self, gangs: usize) -> Result<()> {
        wait_for("all gangs to be placed", PATIENCE, async || {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let placed = self.counts("muster_gangs{state=\"scheduled\"").await?;
            ensure!(placed == gangs as f64, "{placed} are");
            ensure!(self.counts("muster_leader ").await? == 1.0, "it follows");
            Ok(())
        })
        .await
    }

    fn memory(&self) -> Result<(u64, u64)> {
        let memory = (self.process.memory(), self.process.peak_memory());
        memory.0.zip(memory.1).context("its memory is not known")
    }
}

pub async fn run(cluster: Arc<Cluster>, most: usize) -> Result<()> {
    let program = images::Place::own()?.program();
    ensure!(
        program.exists(),
        "{} is missing: `just bench-size` builds it",
        program.display()
    );
    let cluster = cluster.another("sizes").await?;
    let port = Port::reserve()?;
    let number = port.number;
    let muster = Muster::install(&cluster, number).await?.program(&program);
    let replica = Replica::start(&muster, &cluster, port).await?;
    let sandbox = Sandbox::new(Arc::clone(&cluster), "sizes").await?;
    sandbox.nodes(NODES, 64).await?;

    println!(
        "| gangs | pods | memory | at most | CPU time of a new gang | CPU while nothing changes |"
    );
    println!("|---|---|---|---|---|---|");
    let mut made = 0;
    for gangs in STEPS.into_iter().filter(|gangs| *gangs <= most) {
        let (start, before) = (Instant::now(), replica.cpu()?);
        create(&sandbox, made..gangs).await?;
        replica.knows(gangs).await?;
        let (took, spent) = (start.elapsed(), replica.cpu()? - before);
        let each = match gangs - made {
            0 => "".to_owned(),
            new => format!("{:.1} ms", 1e3 * spent / new as f64),
        };
        // What came last is still being told.
        tokio::time::sleep(QUIET / 3).await;
        let before = replica.cpu()?;
        tokio::time::sleep(QUIET).await;
        let idle = 1e3 * (replica.cpu()? - before) / QUIET.as_secs_f64();
        let (memory, peak) = replica.memory()?;
        let pods = PODS * gangs;
        println!("| {gangs} | {pods} | {memory} MiB | {peak} MiB | {each} | {idle:.0}m |");
        eprintln!("{gangs} gangs after {:.0} s", took.as_secs_f64());
        made = gangs;
    }

    for (kind, object) in [("JobSet", gang as fn(usize) -> Value), ("pod", pod)] {
        reviews(&sandbox, &replica, kind, object).await?;
    }

    ensure!(replica.process.stop(PATIENCE).await?.success());
    let start = Instant::now();
    let replica = Replica::start(&muster, &cluster, Port::again(number)?).await?;
    let ready = start.elapsed().as_secs_f64();
    replica.knows(made).await?;
    let known = start.elapsed().as_secs_f64();
    let ((_, peak), cpu) = (replica.memory()?, replica.cpu()?);
    println!(
        "a restart beside {made} gangs: ready after {ready:.1} s, all of them looked at after \
         {known:.1} s, {cpu:.1} s of CPU time, at most {peak} MiB"
    );
    Ok(())
}

async fn create(sandbox: &Sandbox, numbers: std::ops::Range<usize>) -> Result<()> {
    let objects = &sandbox.cluster.objects;
    let created = stream::iter(numbers).map(async |number| {
        let applied = objects.apply(&gang(number), &sandbox.namespace).await;
        applied.map(|_| ())
    });
    created.buffer_unordered(AT_ONCE).try_collect().await
}

/// Creates by dry run: through the apiserver and all webhooks, and nothing is stored.
async fn reviews(
    sandbox: &Sandbox,
    replica: &Replica,
    kind: &str,
    object: fn(usize) -> Value,
) -> Result<()> {
    const COUNTED: &str = "muster_admission_requests_total";
    let objects = &sandbox.cluster.objects;
    let (count, cpu) = (replica.counts(COUNTED).await?, replica.cpu()?);
    let start = Instant::now();
    // Of names that are not taken.
    let tried = stream::iter(1_000_000..1_000_000 + REVIEWS).map(async |number| {
        let tried = objects
            .try_create(&object(number), &sandbox.namespace)
            .await;
        tried.map(|_| ())
    });
    tried.buffer_unordered(AT_ONCE).try_collect::<()>().await?;
    let took = start.elapsed().as_secs_f64();
    let reviews = replica.counts(COUNTED).await? - count;
    ensure!(reviews >= REVIEWS as f64, "only {reviews} reviews");
    let each = (replica.cpu()? - cpu) / reviews;
    println!(
        "{reviews} reviews of a {kind} in {took:.0} s: {:.2} ms of CPU time each, so that one core \
         answers {:.0} a second",
        1e3 * each,
        1.0 / each
    );
    Ok(())
}
