//! Waiting, always with a deadline, and with the reason when it passes.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use hyper::Request;
use kube::{Client, Config};

use crate::process::Process;

/// For what takes a second or two on an idle machine, and much longer beside six control planes on
/// two cores. What succeeds does not wait.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// Starting takes seconds; the rest is for a machine that compiles beside.
const START: Duration = Duration::from_secs(90);

/// Between two checks: each is a question to an API server, which has most of the CPU time of a run.
const FIRST_PAUSE: Duration = Duration::from_millis(30);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// Repeats `check` until it succeeds. Its error is what is still missing, and is shown when
/// `within` is over, so `check` may simply assert what should hold in the end.
pub async fn wait_for<T>(
    what: &str,
    within: Duration,
    mut check: impl AsyncFnMut() -> Result<T>,
) -> Result<T> {
    let start = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        match check().await {
            Ok(answer) => return Ok(answer),
            Err(missing) if start.elapsed() > within => {
                return Err(missing.context(format!("waited {within:?} in vain for {what}")));
            }
            Err(_) => tokio::time::sleep(pause).await,
        }
        pause = pause.mul_f64(1.2).min(LONGEST_PAUSE);
    }
}

/// Waits until `check` succeeds; at once an error with its last words when the process ends.
pub async fn ready(process: &Process, mut check: impl AsyncFnMut() -> Result<()>) -> Result<()> {
    let what = format!("{} to be ready", process.name);
    let mut ended = None;
    let outcome = wait_for(&what, START, async || {
        ended = process.exited();
        if ended.is_some() {
            return Ok(());
        }
        check().await
    })
    .await;
    let problem = match (ended, outcome) {
        (Some(status), _) => anyhow!("{} ended while starting ({status})", process.name),
        (None, Err(error)) => error,
        (None, Ok(())) => return Ok(()),
    };
    bail!("{problem:#}\n{}", process.last_words())
}

/// Answers when `path` gives 200. Components serve health on certificates of their own making.
pub struct Probe {
    client: Client,
    path: String,
}

impl Probe {
    pub fn new(base: &str, path: &str) -> Result<Probe> {
        let mut config = Config::new(base.parse()?);
        config.accept_invalid_certs = true;
        Ok(Probe::with(Client::try_from(config)?, path))
    }

    pub fn with(client: Client, path: &str) -> Probe {
        Probe {
            client,
            path: path.to_owned(),
        }
    }

    pub async fn check(&self) -> Result<()> {
        let request = Request::get(&self.path).body(Vec::new())?;
        // A port may accept and stay silent while its owner starts.
        let answer = self.client.request_text(request);
        match tokio::time::timeout(Duration::from_secs(5), answer).await {
            Ok(answer) => answer
                .map(|_| ())
                .map_err(|error| anyhow!("{}: {error}", self.path)),
            Err(_) => bail!("{} does not answer", self.path),
        }
    }
}
