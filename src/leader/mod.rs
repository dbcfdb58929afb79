//! Leader election by a Lease: of all replicas, one writes.
//!
//! Only the reconciler asks who leads; admission never does. Knows nothing of gangs. The rules are in
//! `claim`, here are the calls and the clock. Every write carries the resourceVersion that was read, so
//! that of two candidates for one expired Lease one gets a conflict.

mod claim;

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ObjectMeta, PostParams};
use kube::{Client, Error};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use claim::{LeaseAction, Observation};

/// The Lease's name, in Muster's own namespace.
pub const NAME: &str = "muster";

/// Whether this replica reconciles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leadership {
    /// It does.
    Leader,
    /// Another replica does, or none yet.
    Follower,
}

/// How long leadership holds, and how often it is looked after.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// A Lease that nobody renewed for this long may be taken. Whole seconds, as the Lease says.
    pub duration: Duration,
    /// A leader that could not renew for this long leads no more. Shorter than `duration`, so
    /// that it steps down before another takes over.
    pub deadline: Duration,
    /// How often the leader renews.
    pub renew: Duration,
    /// How often a follower looks: a released Lease is taken within this time.
    pub retry: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(15),
            deadline: Duration::from_secs(10),
            renew: Duration::from_secs(5),
            retry: Duration::from_secs(1),
        }
    }
}

/// A candidacy that goes on until it is released. Dropping it is like a crash: the task ends and
/// the Lease runs out by itself.
pub struct Election {
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Election {
    /// Stands for election. `identity` must differ between replicas: the pod's name does.
    pub fn start(
        client: Client,
        namespace: &str,
        identity: &str,
        timing: Timing,
    ) -> (watch::Receiver<Leadership>, Self) {
        let (leadership, receiver) = watch::channel(Leadership::Follower);
        let (stop, stopped) = oneshot::channel();
        let candidate = Candidate {
            api: Api::namespaced(client, namespace),
            identity: identity.to_owned(),
            timing,
            leadership,
            seen: None,
            renewed: None,
        };
        let task = tokio::spawn(candidate.run(stopped));
        let stop = Some(stop);
        (receiver, Self { stop, task })
    }

    /// Steps down, and gives the Lease back so that the next leader need not wait for it to run
    /// out.
    pub async fn release(mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        let _ = (&mut self.task).await;
    }
}

impl Drop for Election {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Candidate {
    api: Api<Lease>,
    identity: String,
    timing: Timing,
    leadership: watch::Sender<Leadership>,
    seen: Option<Observation>,
    /// When our last successful renewal was sent; `None` for a follower.
    renewed: Option<Instant>,
}

impl Candidate {
    async fn run(mut self, mut stop: oneshot::Receiver<()>) {
        loop {
            let begun = Instant::now();
            let budget = self.budget(begun);
            tokio::select! {
                // A call that hangs must not keep a leader past its deadline.
                outcome = tokio::time::timeout(budget, self.step(begun)) => self.judge(outcome),
                _ = &mut stop => break,
            }
            tokio::select! {
                () = tokio::time::sleep(self.pause()) => {}
                _ = &mut stop => break,
            }
        }
        // Stop leading before the Lease is given back: there must never be two leaders.
        self.tell(Leadership::Follower);
        // Also as a follower: the step that was cut short may have taken it.
        let released = tokio::time::timeout(self.timing.retry, self.give_back()).await;
        if !matches!(released, Ok(Ok(()))) {
            tracing::warn!(?released, "the lease was not given back, it will run out");
        }
    }

    /// How long a step may take.
    fn budget(&self, now: Instant) -> Duration {
        match self.renewed {
            Some(renewed) => (renewed + self.timing.deadline).saturating_duration_since(now),
            None => self.timing.deadline,
        }
    }

    fn pause(&self) -> Duration {
        match self.renewed {
            Some(renewed) if renewed.elapsed() < self.timing.renew => self.timing.renew,
            // A renewal that failed is tried again soon.
            _ => self.timing.retry,
        }
    }

    fn judge(&mut self, outcome: Result<Result<Leadership, Error>, tokio::time::error::Elapsed>) {
        match outcome {
            Ok(Ok(leadership)) => self.tell(leadership),
            Ok(Err(error)) => tracing::warn!(%error, "the lease cannot be read or written"),
            Err(_) => tracing::warn!("the lease cannot be reached in time"),
        }
        let overdue = |renewed: Instant| renewed.elapsed() >= self.timing.deadline;
        if self.renewed.is_some_and(overdue) {
            self.renewed = None;
            self.tell(Leadership::Follower);
        }
    }

    fn tell(&self, leadership: Leadership) {
        self.leadership.send_if_modified(|current| {
            let changed = *current != leadership;
            if changed {
                tracing::info!(?leadership, identity = self.identity, "leadership");
            }
            *current = leadership;
            changed
        });
    }

    /// One look at the Lease, and at most one write.
    async fn step(&mut self, now: Instant) -> Result<Leadership, Error> {
        let Some(lease) = self.api.get_opt(NAME).await? else {
            let lease = Lease {
                metadata: ObjectMeta {
                    name: Some(NAME.to_owned()),
                    ..ObjectMeta::default()
                },
                spec: Some(self.claim(LeaseSpec::default(), LeaseAction::Take)),
            };
            let made = self.api.create(&PostParams::default(), &lease).await;
            return self.written(made, now);
        };
        let spec = lease.spec.clone().unwrap_or_default();
        let seen = Observation::of(self.seen.take(), &spec, now);
        let action = seen.action(&self.identity, self.timing.duration, now);
        self.seen = Some(seen);
        if action == LeaseAction::Wait {
            self.renewed = None;
            return Ok(Leadership::Follower);
        }
        let lease = Lease {
            metadata: lease.metadata,
            spec: Some(self.claim(spec, action)),
        };
        let params = PostParams::default();
        let written = self.api.replace(NAME, &params, &lease).await;
        self.written(written, now)
    }

    /// Counts from when the step began: later would be too generous to a slow answer.
    fn written(
        &mut self,
        outcome: Result<Lease, Error>,
        begun: Instant,
    ) -> Result<Leadership, Error> {
        match outcome {
            Ok(_) => {
                self.renewed = Some(begun);
                Ok(Leadership::Leader)
            }
            // Another was faster. The next look says whether we still lead, and comes at once.
            Err(Error::Api(status)) if status.is_conflict() || status.is_already_exists() => {
                self.renewed = None;
                Ok(Leadership::Follower)
            }
            Err(error) => Err(error),
        }
    }

    fn claim(&self, spec: LeaseSpec, action: LeaseAction) -> LeaseSpec {
        let duration = self.timing.duration;
        claim::claim(spec, action, &self.identity, duration, Timestamp::now())
    }

    async fn give_back(&self) -> Result<(), Error> {
        let lease = self.api.get(NAME).await?;
        let spec = lease.spec.unwrap_or_default();
        if spec.holder_identity.as_deref() != Some(&self.identity) {
            return Ok(());
        }
        let lease = Lease {
            metadata: lease.metadata,
            spec: Some(claim::released(spec, Timestamp::now())),
        };
        self.api
            .replace(NAME, &PostParams::default(), &lease)
            .await?;
        Ok(())
    }
}
