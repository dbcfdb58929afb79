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
        if older.is_none_or(|older| older.at <= said.at) {
            known.insert(event.who, said);
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
