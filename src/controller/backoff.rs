//! How long a workload waits after a look that failed: longer each time, and not as long as others, so
//! that what many workloads are refused does not come back at the same moments.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// After the first failure.
const FIRST: Duration = Duration::from_secs(2);
/// However often it failed: what stood in the way may be gone, and no watch tells it.
const LONGEST: Duration = Duration::from_secs(300);

/// Whether an error was told before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Words {
    New,
    Repeated,
}

#[derive(Debug, Default)]
struct Failures {
    count: u32,
    error: String,
}

/// The workloads whose last look failed, by uid.
#[derive(Debug, Default)]
pub(super) struct Backoffs(Mutex<HashMap<String, Failures>>);

impl Backoffs {
    /// When to look again after a failure, and whether its words are new.
    pub(super) fn failed(&self, uid: &str, error: String) -> (Duration, Words) {
        let mut all = self.lock();
        let failures = all.entry(uid.to_owned()).or_default();
        let words = match failures.error == error {
            true => Words::Repeated,
            false => Words::New,
        };
        let after = pause(failures.count, RandomState::new().hash_one(uid));
        failures.count = failures.count.saturating_add(1);
        failures.error = error;
        (after, words)
    }

    pub(super) fn succeeded(&self, uid: &str) {
        self.lock().remove(uid);
    }

    /// Forgets all workloads but these.
    pub(super) fn keep_only(&self, uids: &HashSet<String>) {
        self.lock().retain(|uid, _| uids.contains(uid));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Failures>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Twice as long after each failure; between half of that and all of it, by chance.
fn pause(failures: u32, random: u64) -> Duration {
    let factor = 2u32.saturating_pow(failures);
    let whole = FIRST.saturating_mul(factor).min(LONGEST);
    let share = (random % 1000) as u32;
    whole / 2 + whole / 2 * share / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_waits_longer_up_to_a_limit_and_not_all_the_same() {
        let most = |failures| pause(failures, 999);
        assert!(most(0) <= FIRST && pause(0, 0) >= FIRST / 2);
        for failures in 0..7 {
            assert!(pause(failures + 1, 0) > pause(failures, 0));
        }
        assert!(most(u32::MAX) <= LONGEST && pause(u32::MAX, 0) == LONGEST / 2);
        assert_ne!(pause(3, 1), pause(3, 500));
    }

    #[test]
    fn the_same_error_is_told_once_until_a_look_succeeds() {
        let backoffs = Backoffs::default();
        let words = |error: &str| backoffs.failed("4d1c", error.to_owned()).1;
        assert_eq!(
            [words("a"), words("a"), words("b"), words("b")],
            [Words::New, Words::Repeated, Words::New, Words::Repeated]
        );
        assert!(backoffs.failed("4d1c", "b".to_owned()).0 > FIRST);
        backoffs.succeeded("4d1c");
        let (after, words) = backoffs.failed("4d1c", "b".to_owned());
        assert!(after <= FIRST && words == Words::New);
    }
}
