//! Log lines that a peer can provoke: the first at once, then few, with the number of those left out.
//!
//! It knows nothing of what the lines say.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// After a line, this long none of its kind. The metrics count each time.
const SILENCE: Duration = Duration::from_secs(10);

/// Lines of one kind.
#[derive(Debug, Default)]
pub(super) struct Sparing(Mutex<Told>);

#[derive(Debug, Default)]
struct Told {
    last: Option<Instant>,
    left_out: u64,
}

impl Sparing {
    /// If a line may be written now: how many were left out since the last.
    pub(super) fn turn(&self, now: Instant) -> Option<u64> {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let silent = |last| now.saturating_duration_since(last) < SILENCE;
        if told.last.is_some_and(silent) {
            told.left_out += 1;
            return None;
        }
        told.last = Some(now);
        Some(std::mem::take(&mut told.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_one_line_in_ten_seconds_and_the_next_one_counts_it() {
        let lines = Sparing::default();
        let start = Instant::now();
        assert_eq!(lines.turn(start), Some(0));
        for millis in 1..=1000 {
            assert_eq!(lines.turn(start + Duration::from_millis(millis)), None);
        }
        assert_eq!(lines.turn(start + SILENCE), Some(1000));
        assert_eq!(lines.turn(start + SILENCE), None);
        assert_eq!(lines.turn(start + SILENCE * 3), Some(1));
    }
}
