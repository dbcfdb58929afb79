//! How often it is counted whether gangs fit: a count costs what the cluster is large, and a thousand
//! gangs may wait. What was counted a moment ago is said again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::controller::cache::expiring::Expiring;
use crate::explain::fit::Fit;
use crate::gang::Ask;

/// What is younger is not counted again.
const FRESH: Duration = Duration::from_secs(2);
/// What is older is not said any more.
const KEPT: Duration = Duration::from_secs(120);
/// So many counts in a second, of all gangs together.
const MOST: u32 = 20;

/// A gang, by its namespace and name.
pub(super) type Key = (String, String);

#[derive(Debug, Clone)]
struct Counted {
    at: Instant,
    asks: Vec<(Arc<Ask>, u32)>,
    fit: Fit,
}

/// What was counted lately.
pub(super) struct Fits(Mutex<Inner>);

struct Inner {
    counted: Expiring<Key, Counted>,
    second: Instant,
    count: u32,
}

impl Default for Fits {
    fn default() -> Self {
        Self(Mutex::new(Inner {
            counted: Expiring::new(KEPT),
            second: Instant::now(),
            count: 0,
        }))
    }
}

impl Fits {
    /// What `count` says, or said lately; nothing where others were counted too often.
    pub(super) fn get(
        &self,
        key: Key,
        asks: &[(Arc<Ask>, u32)],
        needed: u32,
        count: impl FnOnce() -> Option<Fit>,
    ) -> Option<Fit> {
        let now = Instant::now();
        let known = {
            let mut inner = self.lock();
            let known = inner.counted.get(&key, now).map(|(known, _)| known.clone());
            let known = known.filter(|known| known.asks == asks && known.fit.needed == needed);
            let fresh = |known: &Counted| now.duration_since(known.at) < FRESH;
            if known.as_ref().is_some_and(fresh) || !inner.may_count(now) {
                return known.map(|known| known.fit);
            }
            known
        };
        let Some(fit) = count() else {
            return known.map(|known| known.fit);
        };
        let counted = Counted {
            at: now,
            asks: asks.to_vec(),
            fit: fit.clone(),
        };
        self.lock().counted.insert(key, counted, now);
        Some(fit)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn may_count(&mut self, now: Instant) -> bool {
        if now.duration_since(self.second) >= Duration::from_secs(1) {
            (self.second, self.count) = (now, 0);
        }
        self.count += 1;
        self.count <= MOST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_gangs_that_wait_are_not_all_counted_at_once() {
        let (fits, mut counts) = (Fits::default(), 0);
        for _ in 0..2 {
            for gang in 0..1000 {
                let key = ("ml".to_owned(), format!("train-{gang}"));
                fits.get(key, &[], 9, || {
                    counts += 1;
                    let needed = 9;
                    Some(Fit {
                        needed,
                        ..Fit::default()
                    })
                });
            }
        }
        // The loop may take more than a second on a busy machine.
        assert!((MOST..20 * MOST).contains(&counts), "{counts}");
        let first = ("ml".to_owned(), "train-0".to_owned());
        assert!(fits.get(first.clone(), &[], 9, || None).is_some());
        assert!(
            fits.get(first, &[], 8, || None).is_none(),
            "another question"
        );
    }
}
