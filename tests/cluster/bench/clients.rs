//! The clients of a benchmark: each is what `muster wait` is in a pod, thousands in a process.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;

use super::PATIENCE;
use crate::health::wait_for;
use crate::process::Process;
use crate::sandbox::Sandbox;

/// The variables of the container, which are the same for all.
pub fn told(pods: &[Pod]) -> Result<Vec<(String, String)>> {
    let containers = pods
        .first()
        .and_then(|pod| pod.spec.as_ref()?.init_containers.clone());
    let container = containers.and_then(|all| all.into_iter().next());
    let env = container
        .and_then(|container| container.env)
        .context("nobody was told")?;
    Ok(env
        .into_iter()
        .map(|v| (v.name, v.value.unwrap_or_default()))
        .collect())
}

pub fn spawn(
    sandbox: &Sandbox,
    program: &Path,
    (count, out): (usize, &Path),
    env: &[(String, String)],
    trigger: Option<&Path>,
) -> Result<Process> {
    let mut command = Command::new(program);
    command.arg(count.to_string()).arg(out).args(trigger);
    command.env_clear().envs(env.iter().cloned());
    let file = out.file_name().unwrap_or_default().to_string_lossy();
    let name = format!("waiters-{}-{file}", sandbox.namespace);
    sandbox.cluster.plane.spawn(&name, command, vec![])
}

/// How long each waited after the last one had come; nothing for one that was lost.
pub async fn ended(process: Process, out: &Path, opened: u128) -> Result<Vec<Option<Duration>>> {
    wait_for("the clients to end", PATIENCE, async || {
        process.exited().context("they still wait")
    })
    .await?;
    let text = std::fs::read_to_string(out)?;
    let waited = |line: &str| {
        let at: u128 = line.parse().ok()?;
        Some(Duration::from_micros(at.saturating_sub(opened) as u64))
    };
    Ok(text.lines().map(waited).collect())
}

/// What came of them.
pub struct Outcome {
    pub lost: usize,
    pub p99: Duration,
    pub last: Duration,
}

pub fn report(name: &str, how: &str, count: usize, waited: &[Option<Duration>]) -> Outcome {
    let mut times: Vec<Duration> = waited.iter().flatten().copied().collect();
    times.sort();
    let at = |share: f64| {
        let position = (times.len() as f64 * share) as usize;
        times
            .get(position.min(times.len().saturating_sub(1)))
            .copied()
            .unwrap_or(Duration::MAX)
    };
    let lost = count - times.len();
    println!(
        "{name}: {count} clients {how}: p50 {:.3} s, p99 {:.3} s, last {:.3} s, {lost} lost",
        at(0.5).as_secs_f64(),
        at(0.99).as_secs_f64(),
        at(1.0).as_secs_f64()
    );
    Outcome {
        lost,
        p99: at(0.99),
        last: at(1.0),
    }
}
