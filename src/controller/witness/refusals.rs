//! What controllers were told when they could not create pods: their events, watched.

use std::collections::BTreeSet;

use k8s_openapi::jiff::Timestamp;

use super::events::Told;
use super::heard::{Heard, Kept};
use super::latest::{Latest, Timed};
use crate::explain::refusal::Refusal;
use crate::workload::object::workloads;

/// The refusals of each controller.
pub(super) type Refusals = Heard<Series>;

/// What one controller was told. Another object of its name is another one, and begins anew: a Job that
/// is made again, when its workload restarts.
#[derive(Debug)]
pub(super) struct Series {
    uid: String,
    refusal: Refusal,
}

impl Timed for Series {
    fn at(&self) -> Option<Timestamp> {
        self.refusal.at()
    }
}

impl Kept for Series {
    /// Each kind of workload names those of its controllers.
    fn reasons() -> BTreeSet<&'static str> {
        let failures = workloads().flat_map(|facts| facts.members.failures);
        failures.copied().collect()
    }

    fn note(known: &mut Latest<Self>, event: Told) {
        let refusal = Refusal::read(&event.message, event.first, event.last);
        match known.get_mut(&event.who) {
            Some(series) if series.uid == event.uid => series.refusal.join(refusal),
            // Of one that is gone.
            Some(series) if series.at() > refusal.at() => {}
            _ => {
                let uid = event.uid;
                known.insert(event.who, Series { uid, refusal });
            }
        }
    }
}

impl Refusals {
    pub(super) fn of(&self, namespace: &str, makes: impl Fn(&str, &str) -> bool) -> Vec<Refusal> {
        let told = self.lock();
        let told = told.of(namespace);
        let told = told.filter(|(who, _)| makes(&who.kind, &who.name));
        let mut refusals: Vec<Refusal> = told.map(|(_, series)| series.refusal.clone()).collect();
        refusals.sort_by(|a, b| b.at().cmp(&a.at()).then_with(|| a.words.cmp(&b.words)));
        refusals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(pod: &str, first: &str, last: &str) -> Told {
        let message = format!("pods is forbidden: exceeded quota: pods, requested: {pod}");
        Told::example(&message, first, last)
    }

    #[test]
    fn an_event_of_the_future_does_not_hide_what_is_told_now() {
        let forged = event("forged", "2099-01-01T00:00:00Z", "2099-01-01T00:00:00Z");
        let refusals = Refusals::default();
        refusals.note(forged);
        std::thread::sleep(std::time::Duration::from_millis(2));
        let now = Timestamp::now().to_string();
        refusals.note(event("train-a", &now, &now));
        let refusal = refusals.of("ml", |_, _| true).remove(0);
        assert!(refusal.words.contains("train-a"), "{refusal:?}");
    }

    /// Else a restarted workload would have waited since its last attempt was refused.
    #[test]
    fn a_controller_that_is_made_again_is_refused_anew() {
        let (early, late) = ("2026-01-01T10:00:00Z", "2026-01-01T10:20:00Z");
        let again = |pod: &str, time: &str| Told {
            uid: "2".to_owned(),
            ..event(pod, time, time)
        };
        let since = |events: Vec<Told>| {
            let refusals = Refusals::default();
            events.into_iter().for_each(|event| refusals.note(event));
            let refusal = refusals.of("ml", |_, _| true).remove(0);
            refusal.since(Timestamp::UNIX_EPOCH).unwrap().to_string()
        };
        assert_eq!(
            since(vec![event("a", early, early), event("b", late, late)]),
            early
        );
        assert_eq!(
            since(vec![event("a", early, early), again("b", late)]),
            late
        );
        assert_eq!(
            since(vec![again("b", late), event("a", early, early)]),
            late
        );
    }
}
