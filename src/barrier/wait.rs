//! `muster wait`: the init container of a start barrier. It ends when all members have started, or
//! fails when its time is over.
//!
//! It asks the replicas of Muster, and looks for the file that kubelet mounts once the barrier is open.
//! The first word that comes counts: without a replica it is slower, and never wrong. The pod's
//! service account needs no right and no token.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{fmt, io};

use tokio::sync::watch;

use super::container::{MISSING, OPEN, env};
use super::line::{Question, When};
use super::replicas::{Heard, Replicas};

/// How often the file is looked for.
const LOOK: Duration = Duration::from_millis(500);
/// For the last answer when the time is over.
const PATIENCE: Duration = Duration::from_secs(2);

/// Why it did not wait to the end, or waited in vain.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The container was not told where it belongs.
    #[error(
        "this pod was not told which start barrier it waits at ({0} is missing): it was created \
         while Muster's webhooks were not called; delete the pod once they are called again, or \
         recreate the workload if Muster was uninstalled"
    )]
    NotTold(&'static str),
    /// Not all came in time.
    #[error("{0}")]
    TimedOut(String),
    /// The CA or the address of the replicas makes no sense.
    #[error("cannot ask the replicas of Muster: {0}")]
    Replicas(String),
    /// The volume that keeps the time cannot be used.
    #[error("cannot remember since when this pod waits, in {}: {source}", path.display())]
    Clock {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// What a pod was told.
pub struct Told {
    /// How long it waits.
    pub timeout: Duration,
    /// Where the ConfigMap is mounted.
    pub mount: PathBuf,
    /// Where it remembers since when it waits.
    pub clock: PathBuf,
    question: Question,
    replicas: Option<Replicas>,
}

impl Told {
    /// By the variables of the container.
    pub fn read(
        timeout: Duration,
        mount: PathBuf,
        clock: PathBuf,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, Error> {
        let needed = |name| variable(name).ok_or(Error::NotTold(name));
        let place = needed(env::BARRIER)?;
        let (namespace, barrier) = place.split_once('/').ok_or(Error::NotTold(env::BARRIER))?;
        let question = Question {
            when: When::Now,
            namespace: namespace.to_owned(),
            barrier: barrier.to_owned(),
            token: needed(env::TOKEN)?,
        };
        let replicas = match variable(env::SERVER).zip(variable(env::CA)) {
            // Slower without them, and never wrong.
            Some((servers, ca)) => Replicas::new(&servers, &ca)
                .inspect_err(|error| eprintln!("{error}: waiting for the file"))
                .ok(),
            None => None,
        };
        Ok(Self {
            timeout,
            mount,
            clock,
            question,
            replicas,
        })
    }
}

/// Waits until the barrier is open.
pub async fn wait(told: &Told) -> Result<(), Error> {
    let left = told.timeout.saturating_sub(waited(&told.clock)?);
    // One that was restarted after its time still hears it when the others have come meanwhile.
    let left = left.max(PATIENCE / 2);
    let (late, mut is_late) = watch::channel(false);
    let asked = async {
        match &told.replicas {
            Some(replicas) => replicas.ask(&told.question, is_late.clone()).await,
            None => {
                over(&mut is_late).await;
                Heard::Missing(String::new())
            }
        }
    };
    let timed = async {
        tokio::time::sleep(left).await;
        let _ = late.send(true);
        tokio::time::sleep(PATIENCE).await;
    };
    let missing = tokio::select! {
        () = shown(&told.mount) => return Ok(()),
        heard = asked => match heard {
            Heard::Open => return Ok(()),
            Heard::Missing(missing) => missing,
        },
        () = timed => String::new(),
    };
    if is_shown(&told.mount) {
        return Ok(());
    }
    let missing = match missing.is_empty() {
        true => std::fs::read_to_string(told.mount.join(MISSING)).unwrap_or_default(),
        false => missing,
    };
    Err(Error::TimedOut(timed_out(told.timeout, missing.trim())))
}

/// Comes back when the time is over.
pub(super) async fn over(late: &mut watch::Receiver<bool>) {
    let _ = late.wait_for(|late| *late).await;
}

fn timed_out(timeout: Duration, missing: &str) -> String {
    let timeout = Seconds(timeout);
    match missing {
        "" => format!(
            "the start barrier did not open within {timeout}: not all members have started, and no \
             replica of Muster says which"
        ),
        missing => format!("the start barrier did not open within {timeout}: {missing}"),
    }
}

/// A time as people write it.
pub(crate) struct Seconds(pub(crate) Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}s", self.0.as_secs_f64())
    }
}

/// How long this pod has waited already. Kubelet restarts an init container in place.
fn waited(clock: &Path) -> Result<Duration, Error> {
    let path = clock.join("since");
    let failed = |source| Error::Clock {
        path: path.clone(),
        source,
    };
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    match std::fs::read_to_string(&path) {
        // A clock that was put back counts as if it had just begun.
        Ok(text) => {
            let since = text.trim().parse().map(Duration::from_millis);
            Ok(now.saturating_sub(since.unwrap_or(now)))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let text = now.as_millis().to_string();
            std::fs::write(&path, text).map_err(failed)?;
            Ok(Duration::ZERO)
        }
        Err(error) => Err(failed(error)),
    }
}

fn is_shown(mount: &Path) -> bool {
    mount.join(OPEN).exists()
}

async fn shown(mount: &Path) {
    while !is_shown(mount) {
        tokio::time::sleep(LOOK).await;
    }
}
