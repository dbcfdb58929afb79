//! Since when the pods of a workload are wanted: what was refused before counts for nothing.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::cache::stored::Stored;
use crate::gang::Round;

/// What is refused so soon after a suspension was asked for before.
const UNDER_WAY: Duration = Duration::from_secs(7);

/// Since when the pods of a workload are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Not before then.
    Since(Timestamp),
    /// Nothing says it.
    Unknown,
}

impl Wanted {
    /// Of a workload that is not suspended: since it was created or resumed. The kinds that can be
    /// suspended say it in a condition of this type, once they were. It may say so still: JobSet (0.12)
    /// takes it back when all Jobs are resumed, and those that start in order are not for long. But a
    /// suspended workload asks for no pods.
    pub(super) fn of(workload: &Stored) -> Self {
        let created = workload.metadata.creation_timestamp.as_ref();
        let created = created.map(|created| created.0);
        let suspended = workload.condition("Suspended");
        let turned = suspended.as_ref().and_then(|suspended| {
            let time: Timestamp = suspended["lastTransitionTime"].as_str()?.parse().ok()?;
            match suspended["status"] == "True" {
                true => time.checked_add(UNDER_WAY).ok(),
                false => Some(time),
            }
        });
        turned.or(created).map_or(Self::Unknown, Self::Since)
    }
}

impl Wanted {
    /// Not before its round was seen to begin, either.
    pub(super) fn not_before(self, begun: Option<Timestamp>) -> Self {
        match (self, begun) {
            (Self::Since(time), Some(begun)) => Self::Since(time.max(begun)),
            (Self::Unknown, Some(begun)) => Self::Since(begun),
            (wanted, None) => wanted,
        }
    }
}

/// When the rounds of workloads were seen to begin, by uid: a workload may be resumed before its own
/// controller has noticed that it was suspended, and then no condition says so.
#[derive(Debug, Default)]
pub(super) struct Rounds(Mutex<HashMap<String, (Round, Option<Timestamp>)>>);

impl Rounds {
    /// A workload is in this round; since when, where that was seen to begin.
    pub(super) fn note(&self, uid: &str, round: Round, now: Timestamp) -> Option<Timestamp> {
        let mut rounds = self.lock();
        match rounds.get_mut(uid) {
            Some((known, begun)) => {
                if *known != round {
                    (*known, *begun) = (round, Some(now));
                }
                *begun
            }
            None => {
                rounds.insert(uid.to_owned(), (round, None));
                None
            }
        }
    }

    /// A deleted workload is never looked at again.
    pub(super) fn forget(&self, uid: &str) {
        self.lock().remove(uid);
    }

    /// Forgets all workloads but these.
    pub(super) fn keep_only(&self, uids: &HashSet<String>) {
        self.lock().retain(|uid, _| uids.contains(uid));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, (Round, Option<Timestamp>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_workload_is_wanted_since_it_was_created_or_resumed() {
        let wanted = |conditions: Value| {
            Wanted::of(&Stored::new(&json!({
                "metadata": {"name": "train", "creationTimestamp": "2026-01-01T10:00:00Z"},
                "status": {"conditions": conditions},
            })))
        };
        let since = |time: &str| Wanted::Since(time.parse().unwrap());
        let suspended = |status: &str| {
            let time = "2026-01-01T12:00:00Z";
            json!([{"type": "Suspended", "status": status, "lastTransitionTime": time}])
        };
        assert_eq!(wanted(json!([])), since("2026-01-01T10:00:00Z"));
        assert_eq!(wanted(suspended("True")), since("2026-01-01T12:00:07Z"));
        assert_eq!(wanted(suspended("False")), since("2026-01-01T12:00:00Z"));
        let nothing = Stored::new(&json!({"metadata": {"name": "ring"}}));
        assert_eq!(Wanted::of(&nothing), Wanted::Unknown);
    }

    /// Else one that is resumed at once would be suspended again at once.
    #[test]
    fn a_round_that_was_seen_to_begin_is_not_wanted_before() {
        let second = |second| Timestamp::from_second(second).unwrap();
        let rounds = Rounds::default();
        let note = |round, now| rounds.note("4d1c", Round(round), second(now));
        assert_eq!(note(3, 100), None, "it began before it was seen");
        assert_eq!(note(3, 110), None);
        assert_eq!(note(4, 120), Some(second(120)));
        assert_eq!(note(4, 130), Some(second(120)));
        let wanted = |since| Wanted::Since(second(since));
        assert_eq!(wanted(90).not_before(note(4, 131)), wanted(120));
        assert_eq!(wanted(125).not_before(note(4, 132)), wanted(125));
        assert_eq!(wanted(90).not_before(None), wanted(90));
        assert_eq!(Wanted::Unknown.not_before(note(4, 133)), wanted(120));
        rounds.forget("4d1c");
        assert_eq!(note(4, 140), None);
    }
}
