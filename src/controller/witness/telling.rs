//! What a scheduler said of a gang a moment ago.
//!
//! Coscheduling (0.34.7) tries a gang that does not fit again and again. Each time another member is the
//! one for which there is no node, and for moments no pod says why: each of them was rejected with the
//! others. So what was said counts for a moment longer.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::fits::Key;
use crate::controller::cache::expiring::Expiring;
use crate::explain::Evidence;
use crate::gang::Unscheduled;

/// So long what was said counts. A member may wait ten seconds for the others before it is tried again.
const LASTS: Duration = Duration::from_secs(12);

/// The last words of each gang that told something of nodes.
pub(super) struct Telling(Mutex<Expiring<Key, Unscheduled>>);

impl Default for Telling {
    fn default() -> Self {
        Self(Mutex::new(Expiring::new(LASTS)))
    }
}

impl Telling {
    /// Notes what is said of a gang, and adds to it what was said a moment ago where it tells nothing: for
    /// how long that still counts.
    pub(super) fn recall(&self, gang: Key, known: &mut Evidence, now: Instant) -> Option<Duration> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(words) = known.telling() {
            last.insert(gang, words.clone(), now);
            return None;
        }
        let (words, left) = last.get(&gang, now)?;
        known.words.push((words.clone(), 1));
        Some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(message: &str) -> Evidence {
        let words = Unscheduled {
            reason: "Unschedulable".to_owned(),
            message: message.to_owned(),
        };
        Evidence {
            words: vec![(words, 3)],
            ..Evidence::default()
        }
    }

    #[test]
    fn what_was_said_of_nodes_counts_for_a_moment_after_pods_say_it_no_more() {
        let (telling, start) = (Telling::default(), Instant::now());
        let gang = || ("ml".to_owned(), "train-all-0".to_owned());
        let quoted = |gang, message: &str, after: u64| {
            let mut known = says(message);
            let left = telling.recall(gang, &mut known, start + Duration::from_secs(after));
            (known.quotation().map(str::to_owned), left)
        };
        let said = |text: &str| (Some(text.to_owned()), None);
        let told =
            "0/2 nodes are available: 2 node(s) didn't match pod topology spread constraints.";
        let rejected = "optimistic rejection in PostFilter";
        assert_eq!(quoted(gang(), rejected, 0), said(rejected));
        assert_eq!(quoted(gang(), told, 1), said(told));
        let four = Some(Duration::from_secs(4));
        assert_eq!(quoted(gang(), rejected, 9), (said(told).0, four));
        let other = ("ml".to_owned(), "other".to_owned());
        assert_eq!(quoted(other, rejected, 9), said(rejected));
        assert_eq!(quoted(gang(), rejected, 14), said(rejected));
    }
}
