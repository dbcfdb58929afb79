//! What the run measured by the way, printed at its end.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What two hundred settled gangs cost.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    pub gangs: usize,
    pub writes: u64,
    /// Muster's resident memory in MiB.
    pub memory: u64,
}

#[derive(Debug, Default)]
struct Seen {
    starts: Vec<Duration>,
    cost: Option<Cost>,
}

/// Shared by all clusters of a run.
#[derive(Debug, Default)]
pub struct Figures(Mutex<Seen>);

impl Figures {
    /// A ganged JobSet's last pod was bound so long after its creation, with room from the start.
    pub fn started(&self, after: Duration) {
        self.lock().starts.push(after);
    }

    pub fn cost(&self, cost: Cost) {
        self.lock().cost = Some(cost);
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Display for Figures {
    /// Only what was measured: a filter may have left the rest out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut seen = self.lock();
        seen.starts.sort();
        let starts = &seen.starts;
        if let (Some(median), Some(max)) = (starts.get(starts.len() / 2), starts.last()) {
            writeln!(
                f,
                "from a JobSet's creation to its last pod bound: median {:.1} s, max {:.1} s ({} \
                 JobSets)",
                median.as_secs_f64(),
                max.as_secs_f64(),
                starts.len()
            )?;
        }
        if let Some(cost) = seen.cost {
            writeln!(
                f,
                "{} gangs: {:.2} writes per gang, Muster uses {} MiB",
                cost.gangs,
                cost.writes as f64 / cost.gangs as f64,
                cost.memory
            )?;
        }
        Ok(())
    }
}
