//! Since when the pods of a workload are wanted: what was refused before counts for nothing.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::cache::stored::Stored;
use crate::gang::Round;
use crate::workload::Life;

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
    /// Not before its start was seen to begin, either.
    pub(super) fn not_before(self, begun: Option<Timestamp>) -> Self {
        match (self, begun) {
            (Self::Since(time), Some(begun)) => Self::Since(time.max(begun)),
            (Self::Unknown, Some(begun)) => Self::Since(begun),
            (wanted, None) => wanted,
        }
    }
}

/// Which start of a workload it is: another after each restart, and after each suspension whose resume
/// wrote it down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NthStart {
    pub(super) attempt: u32,
    pub(super) round: Round,
}

/// When the starts of workloads were seen to begin, by uid: a workload may be resumed before its own
/// controller has noticed that it was suspended, and then no condition says so.
#[derive(Debug, Default)]
pub(super) struct Starts(Mutex<HashMap<String, Begun>>);

#[derive(Debug)]
struct Begun {
    start: NthStart,
    life: Life,
    at: Option<Timestamp>,
}

impl Starts {
    /// A workload is in this start; since when, where that was seen to begin.
    pub(super) fn note(
        &self,
        uid: &str,
        start: NthStart,
        life: Life,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let mut starts = self.lock();
        let Some(known) = starts.get_mut(uid) else {
            let at = None;
            starts.insert(uid.to_owned(), Begun { start, life, at });
            return None;
        };
        let resumed = known.life == Life::Suspended && life != Life::Suspended;
        if known.start != start || resumed {
            known.at = Some(now);
        }
        (known.start, known.life) = (start, life);
        known.at
    }

    /// A deleted workload is never looked at again.
    pub(super) fn forget(&self, uid: &str) {
        self.lock().remove(uid);
    }

    /// Forgets all workloads but these.
    pub(super) fn keep_only(&self, uids: &HashSet<String>) {
        self.lock().retain(|uid, _| uids.contains(uid));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Begun>> {
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

    /// Else one that is resumed at once would be suspended again at once, and one that restarts would have
    /// waited since its first attempt.
    #[test]
    fn a_start_that_was_seen_to_begin_is_not_wanted_before() {
        let second = |second| Timestamp::from_second(second).unwrap();
        let starts = Starts::default();
        let note_as = |(attempt, round), life, now| {
            let round = Round(round);
            starts.note("4d1c", NthStart { attempt, round }, life, second(now))
        };
        let note = |start, now| note_as(start, Life::Live, now);
        assert_eq!(note((0, 3), 100), None, "it began before it was seen");
        assert_eq!(note((0, 3), 110), None);
        assert_eq!(note((0, 4), 120), Some(second(120)));
        assert_eq!(note((0, 4), 130), Some(second(120)));
        let wanted = |since| Wanted::Since(second(since));
        assert_eq!(wanted(90).not_before(note((0, 4), 131)), wanted(120));
        assert_eq!(wanted(125).not_before(note((0, 4), 132)), wanted(125));
        assert_eq!(wanted(90).not_before(None), wanted(90));
        assert_eq!(Wanted::Unknown.not_before(note((0, 4), 133)), wanted(120));
        assert_eq!(note((1, 4), 140), Some(second(140)), "restarted");
        // Pods that live on keep the round of a Job.
        note_as((1, 4), Life::Suspended, 150);
        assert_eq!(note((1, 4), 160), Some(second(160)), "resumed");
        assert_eq!(note((1, 4), 170), Some(second(160)));
        starts.forget("4d1c");
        assert_eq!(note((1, 4), 180), None);
    }
}
