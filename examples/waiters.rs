//! Many pods at a start barrier, in one process: each runs what `muster wait` runs. For
//! `just bench-barrier`.
//!
//! ```sh
//! waiters 10000 OUT            # told by the variables of the container, as a pod is
//! waiters 1000 OUT TRIGGER     # the proposal's way: a file that each pod's kubelet shows later
//! ```
//!
//! Writes the time at which each went on to OUT, in microseconds since 1970, one to a line; `lost` for
//! one that did not.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use muster::barrier::wait::{Told, wait};

const TIMEOUT: Duration = Duration::from_secs(600);

/// Kubelet looks at a pod every minute, and up to half as much later (`pod_workers.go`).
const RESYNC: Duration = Duration::from_secs(60);

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [count, out, trigger @ ..] = &args[..] else {
        anyhow::bail!("waiters COUNT OUT [TRIGGER]");
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let trigger = trigger.first().map(PathBuf::from);
    let times = runtime.block_on(run(count.parse()?, trigger))?;
    std::fs::write(out, times.join("\n"))?;
    Ok(())
}

async fn run(count: usize, trigger: Option<PathBuf>) -> Result<Vec<String>> {
    let dir = tempfile::tempdir()?;
    let mut waiting = tokio::task::JoinSet::new();
    for number in 0..count {
        let mount = match trigger {
            Some(_) => dir.path().join(number.to_string()),
            None => dir.path().join("mount"),
        };
        std::fs::create_dir_all(&mount)?;
        let told = Told::read(TIMEOUT, mount.clone(), dir.path().to_owned(), |name| {
            std::env::var(name).ok()
        })?;
        if let Some(trigger) = trigger.clone() {
            tokio::spawn(kubelet(trigger, mount, number, count));
        }
        waiting.spawn(async move { wait(&told).await.is_ok().then(now) });
    }
    let times = waiting.join_all().await.into_iter();
    let shown = times.map(|time| time.map_or("lost".to_owned(), |time| time.to_string()));
    Ok(shown.collect())
}

/// Shows the file when its next look comes after the ConfigMap was written. The looks of many pods are
/// spread evenly over the time between two.
async fn kubelet(trigger: PathBuf, mount: PathBuf, number: usize, count: usize) -> Result<()> {
    while !trigger.exists() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let share = |number: usize| number as f64 / count as f64;
    // Two independent numbers between 0 and 1.
    let (phase, jitter) = (share(number), share(number.wrapping_mul(7919) % count));
    tokio::time::sleep(RESYNC.mul_f64((1.0 + 0.5 * jitter) * phase)).await;
    show(&mount).context("cannot show the file")
}

fn show(mount: &Path) -> std::io::Result<()> {
    std::fs::write(mount.join("started"), "true")
}

fn now() -> u128 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_micros()
}
