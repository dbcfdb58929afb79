//! What controllers were told when they could not create pods: their events, watched.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::events::Told;
use super::heard::{Heard, Kept};
use super::latest::{Latest, Timed};
use crate::explain::refusal::{REPEATED, Refusal};
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
    /// What must be fixed first first, and of the same the last: controllers try again one after the
    /// other, and by time alone each attempt would bring another cause to the top. What nobody has
    /// repeated while others were refused comes last: it was fixed.
    pub(super) fn of<T>(
        &self,
        namespace: &str,
        makes: impl Fn(&str, &str) -> Option<T>,
    ) -> Vec<(T, Refusal)> {
        let told = self.lock();
        let told = told.of(namespace);
        let told =
            told.filter_map(|(who, series)| Some((makes(&who.kind, &who.name)?, &series.refusal)));
        let mut refusals: Vec<(T, Refusal)> = told
            .map(|(makes, refusal)| (makes, refusal.clone()))
            .collect();
        let last = refusals
            .iter()
            .filter_map(|(_, refusal)| refusal.at())
            .max();
        let is_old = |refusal: &Refusal| {
            let since = last
                .zip(refusal.at())
                .map(|(last, at)| last.duration_since(at));
            since.is_some_and(|since| Duration::try_from(since).unwrap_or_default() > REPEATED)
        };
        refusals.sort_by(|(_, a), (_, b)| {
            let order = is_old(a).cmp(&is_old(b)).then_with(|| a.by.cmp(&b.by));
            let order = order.then_with(|| b.at().cmp(&a.at()));
            order.then_with(|| a.words.cmp(&b.words))
        });
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
        let (_, refusal) = refusals.of("ml", |_, _| Some(())).remove(0);
        assert!(refusal.words.contains("train-a"), "{refusal:?}");
    }

    #[test]
    fn what_must_be_fixed_first_comes_first_whoever_tried_last() {
        let (early, late) = ("2026-01-01T10:00:00Z", "2026-01-01T10:05:00Z");
        let account = "pods is forbidden: error looking up service account ml/nobody";
        let quota = "pods is forbidden: exceeded quota: small";
        for (of_account, of_quota) in [(early, late), (late, early)] {
            let refusals = Refusals::default();
            for (maker, words, at) in [("a", account, of_account), ("b", quota, of_quota)] {
                let mut event = Told::example(words, at, at);
                event.who.name = maker.to_owned();
                refusals.note(event);
            }
            let told = refusals.of("ml", |_, name| Some(name.to_owned()));
            let makers: Vec<&str> = told.iter().map(|(maker, _)| maker.as_str()).collect();
            assert_eq!(makers, ["a", "b"]);
        }
    }

    /// The account was made since, and one of two Jobs has all of its pods.
    #[test]
    fn what_nobody_repeats_comes_after_what_is_refused_now() {
        let refusals = Refusals::default();
        let account = "pods is forbidden: error looking up service account ml/nobody";
        let quota = "pods is forbidden: exceeded quota: small";
        for (maker, words, at) in [
            ("a", account, "2026-01-01T10:00:00Z"),
            ("b", quota, "2026-01-01T10:06:00Z"),
        ] {
            let mut event = Told::example(words, at, at);
            event.who.name = maker.to_owned();
            refusals.note(event);
        }
        let told = refusals.of("ml", |_, name| Some(name.to_owned()));
        let makers: Vec<&str> = told.iter().map(|(maker, _)| maker.as_str()).collect();
        assert_eq!(makers, ["b", "a"]);
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
            let (_, refusal) = refusals.of("ml", |_, _| Some(())).remove(0);
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
