//! What schedulers say in events alone, of the pods by which they keep room for a gang: watched while
//! such a gang waits.

use std::collections::BTreeSet;

use k8s_openapi::jiff::Timestamp;

use super::events::Told;
use super::heard::{Heard, Kept};
use super::latest::{Latest, Timed};
use crate::scheduler::TABLE;

/// The last words on each pod.
pub(super) type Words = Heard<Said>;

#[derive(Debug)]
pub(super) struct Said {
    message: String,
    at: Option<Timestamp>,
}

impl Timed for Said {
    fn at(&self) -> Option<Timestamp> {
        self.at
    }
}

impl Kept for Said {
    fn reasons() -> BTreeSet<&'static str> {
        let tells = TABLE.iter().filter_map(|entry| entry.tells.as_ref());
        tells.map(|tells| tells.reason).collect()
    }

    fn note(known: &mut Latest<Self>, event: Told) {
        let said = Said {
            message: event.message,
            at: event.last,
        };
        let older = known.get_mut(&event.who);
        if older.is_some_and(|older| older.at > said.at) {
            return;
        }
        // A scheduler says once that a pod does not fit in its queue, and much else of other pods: that
        // would take the place of what counts.
        let mut tells = TABLE.iter().filter_map(|entry| entry.tells.as_ref());
        match tells.any(|tells| (tells.queue)(&said.message).is_some()) {
            true => known.insert(event.who, said),
            false => known.remove(&event.who),
        }
    }
}

impl Words {
    /// What is said of pods whose names begin like this, the last first.
    pub(super) fn of(&self, namespace: &str, prefix: &str) -> Vec<String> {
        let said = self.lock();
        let said = said.of(namespace);
        let mut said: Vec<&Said> = said
            .filter(|(who, _)| who.name.starts_with(prefix))
            .map(|(_, said)| said)
            .collect();
        said.sort_by(|a, b| b.at.cmp(&a.at).then_with(|| a.message.cmp(&b.message)));
        said.into_iter().map(|said| said.message.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It is said once that a placeholder does not fit in its queue, and much else of other pods.
    #[test]
    fn what_else_is_said_does_not_push_out_what_is_wrong_with_a_queue() {
        let words = Words::default();
        let tell = |pod: usize, message: &str, at: usize| {
            let at = format!("2026-11-18T10:{:02}:{:02}Z", at / 60, at % 60);
            let mut event = Told::example(message, &at, &at);
            event.who.name = format!("tg-{pod}");
            words.note(event);
        };
        let full = "Request 'a' does not fit in queue 'root.ml' (requested map[pods:1], available \
                    map[pods:0])";
        tell(0, full, 0);
        for other in 1..200 {
            tell(other, "predicate failed", other);
        }
        assert_eq!(words.of("ml", "tg-0"), [full]);
        assert!(words.of("ml", "tg-1").is_empty());
        // It is said of the same pod that it fits.
        tell(0, "become schedulable", 201);
        assert!(words.of("ml", "tg-0").is_empty());
    }
}
