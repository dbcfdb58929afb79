//! Where and when a review is decided: how many at once, on which thread, for how long.
//!
//! The threads of the runtime also serve probes, the Lease and the watches, so none of them may be
//! held up by a review. A small body does not hold one up for long, whatever is in it; the bench
//! `bounds` measures the worst ones. A larger body is decided on a thread of the blocking pool,
//! where it may take its time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use super::Handler;
use super::config::Config;
use super::metrics::{InFlight, Metrics};
use super::refusal::Refusal;
use super::share::Part;
use crate::admission::{Answer, Phase};

// Aborting on panic would turn one bad review into an outage.
#[cfg(panic = "abort")]
compile_error!("the server must be able to catch a handler's panic: build with panic = \"unwind\"");

/// The largest body that is decided on the thread of its connection. Most reviews are smaller, and
/// waiting for another thread would make each of them slower.
const SMALL: usize = 16 * 1024;

/// Larger bodies that are decided at the same time; the next ones wait for their turn. One may cost
/// 200 MiB while it is decided, and two of them fit the memory limit in the manifests.
pub const LARGE_AT_ONCE: usize = 2;

/// Decides reviews within the limits.
pub(super) struct Work {
    handler: Handler,
    metrics: Metrics,
    slots: Arc<Semaphore>,
    turns: Arc<Semaphore>,
    deadline: Duration,
}

/// An answer, and how long the handler took for it.
pub(super) type Decided = (Result<Answer, Refusal>, Duration);

/// A review that has its slot. What it holds is free when the work ends, even if nobody waits for
/// the answer any more.
struct Job {
    handler: Handler,
    phase: Phase,
    body: Vec<u8>,
    _slot: OwnedSemaphorePermit,
    _budget: Part,
    _in_flight: InFlight,
}

impl Work {
    pub(super) fn new(config: &Config, handler: Handler, metrics: Metrics) -> Self {
        Self {
            handler,
            metrics,
            slots: Arc::new(Semaphore::new(config.max_in_flight)),
            turns: Arc::new(Semaphore::new(LARGE_AT_ONCE)),
            deadline: config.review_deadline,
        }
    }

    /// Decides a review whose body is complete. Dropping the future, as hyper does when the caller
    /// is gone, gives up a review that waits for its turn.
    pub(super) async fn decide(
        &self,
        phase: Phase,
        body: Vec<u8>,
        budget: Part,
    ) -> Result<Decided, Refusal> {
        let until = Instant::now() + self.deadline;
        let slot = Arc::clone(&self.slots).try_acquire_owned();
        let job = Job {
            _slot: slot.map_err(|_| Refusal::Shed)?,
            _budget: budget,
            _in_flight: self.metrics.in_flight(),
            handler: Arc::clone(&self.handler),
            phase,
            body,
        };
        // Without the deadline: it could not stop a thread that computes, and a body of this size
        // costs at most 5 ms of CPU, whatever is in it; `benches/bounds.rs` fails otherwise.
        if job.body.len() <= SMALL {
            return Ok(job.run());
        }
        let turn = timeout_at(until, Arc::clone(&self.turns).acquire_owned()).await;
        let Ok(Ok(turn)) = turn else {
            return Err(Refusal::Shed);
        };
        let work = tokio::task::spawn_blocking(move || {
            let decided = job.run();
            drop(turn);
            decided
        });
        match timeout_at(until, work).await {
            Ok(Ok(decided)) => Ok(decided),
            Ok(Err(_)) => Err(Refusal::Panicked),
            Err(_) => Err(Refusal::Overdue {
                deadline: self.deadline,
            }),
        }
    }
}

impl Job {
    fn run(self) -> Decided {
        let started = Instant::now();
        let answer = match catch_unwind(AssertUnwindSafe(|| (self.handler)(self.phase, &self.body)))
        {
            Ok(answer) => answer.map_err(Refusal::from),
            Err(_) => Err(Refusal::Panicked),
        };
        (answer, started.elapsed())
    }
}
