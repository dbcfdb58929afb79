//! How often it is counted whether gangs fit: a count costs what the cluster is large, and a thousand
//! gangs may wait. What was counted is said again while nothing has changed; gangs that ask for the same
//! share a count; and beyond so many counts in a second a gang has to wait for its own.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::controller::cache::expiring::Expiring;
use crate::explain::fit::Fit;
use crate::explain::room::Own;
use crate::gang::Ask;

/// What is younger is not counted again, whatever has changed.
const FRESH: Duration = Duration::from_secs(1);
/// What is older is not said any more.
const KEPT: Duration = Duration::from_secs(120);
/// So many counts in a second, of all gangs together; for half of them it is not the first.
const MOST: u32 = 20;
/// So many counts are looked through for one that answers another gang too.
const SHARED: usize = 64;
/// The longest that a gang waits for its count.
const LONGEST: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);

/// A gang, by its namespace and name.
pub(super) type Key = (String, String);

/// Whether a gang fits, as far as it was counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::controller) enum Count {
    /// It was counted; after so long another count may say something else.
    Known(Box<Fit>, Option<Duration>),
    /// Others are counted first: ask again after so long.
    Later(Duration),
    /// Not all nodes and pods were seen.
    Unseen,
}

/// Whether counts are rationed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::controller) enum Pace {
    /// For gangs that are looked at again and again.
    #[default]
    Rationed,
    /// For one look at each.
    Free,
}

/// What is asked. Equal questions have equal answers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Question<'a> {
    pub(super) asks: &'a [(Arc<Ask>, u32)],
    pub(super) needed: u32,
    pub(super) own: Own<'a>,
    /// Of which state of the cluster.
    pub(super) version: u64,
}

#[derive(Debug)]
struct Counted {
    at: Instant,
    version: u64,
    asks: Vec<(Arc<Ask>, u32)>,
    placeholders: Option<String>,
    workload: Option<String>,
    fit: Fit,
}

impl Counted {
    fn answers(&self, question: &Question<'_>) -> bool {
        let Own {
            placeholders,
            workload,
        } = question.own;
        self.fit.needed == question.needed
            && self.placeholders.as_deref() == placeholders
            && self.workload.as_deref() == workload
            && self.asks == question.asks
    }

    /// What is said without another count, if it may be.
    fn still(&self, question: &Question<'_>, now: Instant) -> Option<Count> {
        let age = now.duration_since(self.at);
        if self.version == question.version {
            return Some(Count::Known(Box::new(self.fit.clone()), None));
        }
        let left = FRESH.checked_sub(age).filter(|left| !left.is_zero())?;
        Some(Count::Known(Box::new(self.fit.clone()), Some(left)))
    }
}

/// What was counted lately.
pub(super) struct Fits {
    pace: Pace,
    inner: Mutex<Inner>,
}

struct Inner {
    counted: Expiring<Key, Arc<Counted>>,
    /// The last counts, the newest first.
    lately: VecDeque<Arc<Counted>>,
    second: Instant,
    /// How often it was asked in this second, by those that were never counted and by the others.
    asked: [u32; 2],
}

impl Fits {
    pub(super) fn new(pace: Pace) -> Self {
        Self {
            pace,
            inner: Mutex::new(Inner {
                counted: Expiring::new(KEPT),
                lately: VecDeque::new(),
                second: Instant::now(),
                asked: [0, 0],
            }),
        }
    }

    /// What `count` says, or said of the same question lately.
    pub(super) fn get(
        &self,
        key: Key,
        question: &Question<'_>,
        now: Instant,
        count: impl FnOnce() -> Option<Fit>,
    ) -> Count {
        let known = {
            let mut inner = self.lock();
            let known = inner.known(&key, question, now);
            if let Some(still) = known.as_ref().and_then(|known| known.still(question, now)) {
                if let Some(known) = known {
                    inner.counted.insert(key, known, now);
                }
                return still;
            }
            let ration = match self.pace {
                Pace::Free => Ok(()),
                Pace::Rationed => inner.ration(now, known.is_none()),
            };
            if let Err(after) = ration {
                return match known {
                    Some(known) => Count::Known(Box::new(known.fit.clone()), Some(after)),
                    None => Count::Later(after),
                };
            }
            known
        };
        let Some(fit) = count() else {
            return match known {
                Some(known) => Count::Known(Box::new(known.fit.clone()), None),
                None => Count::Unseen,
            };
        };
        let counted = Arc::new(Counted {
            at: now,
            version: question.version,
            asks: question.asks.to_vec(),
            placeholders: question.own.placeholders.map(str::to_owned),
            workload: question.own.workload.map(str::to_owned),
            fit: fit.clone(),
        });
        let mut inner = self.lock();
        inner.lately.push_front(Arc::clone(&counted));
        inner.lately.truncate(SHARED);
        inner.counted.insert(key, counted, now);
        Count::Known(Box::new(fit), None)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// The last count that answers a question: of this gang or of another one.
    fn known(&self, key: &Key, question: &Question<'_>, now: Instant) -> Option<Arc<Counted>> {
        let own = self.counted.get(key, now).map(|(known, _)| known);
        let fresh = |known: &&Arc<Counted>| now.duration_since(known.at) < KEPT;
        let all = own.into_iter().chain(self.lately.iter().filter(fresh));
        let mut all = all.filter(|known| known.answers(question));
        let first = all.next()?;
        let newest = all.fold(first, |a, b| if b.at > a.at { b } else { a });
        Some(Arc::clone(newest))
    }

    /// Whether one more may be counted; else after how long to ask again. Those that were never counted
    /// come before the others, and each has its turn.
    fn ration(&mut self, now: Instant, first: bool) -> Result<(), Duration> {
        if now.duration_since(self.second) >= SECOND {
            (self.second, self.asked) = (now, [0, 0]);
        }
        let (asked, most) = match first {
            true => (&mut self.asked[0], MOST - MOST / 2),
            false => (&mut self.asked[1], MOST / 2),
        };
        *asked += 1;
        match (*asked).checked_sub(most + 1) {
            None => Ok(()),
            Some(behind) => Err(LONGEST.min(SECOND * (1 + behind / most))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(gang: u32) -> Key {
        ("ml".to_owned(), format!("train-{gang}"))
    }

    fn asks(priority: u32) -> Vec<(Arc<Ask>, u32)> {
        let ask = Ask {
            priority: i32::try_from(priority).unwrap(),
            ..Ask::default()
        };
        vec![(Arc::new(ask), 9)]
    }

    fn question(asks: &[(Arc<Ask>, u32)], version: u64) -> Question<'_> {
        Question {
            asks,
            needed: 9,
            own: Own::default(),
            version,
        }
    }

    fn fit() -> Fit {
        Fit {
            needed: 9,
            ..Fit::default()
        }
    }

    #[test]
    fn gangs_that_ask_for_the_same_share_a_count() {
        let (fits, now, mut counts) = (Fits::new(Pace::Rationed), Instant::now(), 0);
        for gang in 0..30 {
            let asks = asks(0);
            let got = fits.get(key(gang), &question(&asks, 1), now, || {
                counts += 1;
                Some(fit())
            });
            assert_eq!(got, Count::Known(Box::new(fit()), None), "{gang}");
        }
        assert_eq!(counts, 1);
        let (asks, count) = (asks(0), || None);
        let other = Question {
            needed: 8,
            ..question(&asks, 1)
        };
        let own = Question {
            own: Own {
                workload: Some("ml/train"),
                ..Own::default()
            },
            ..question(&asks, 1)
        };
        for other in [other, own] {
            let got = fits.get(key(99), &other, now, count);
            assert_eq!(got, Count::Unseen, "another question");
        }
    }

    /// Else those that come first would be counted again and again, and the others never.
    #[test]
    fn every_gang_of_many_is_counted_in_its_turn() {
        let (fits, start) = (Fits::new(Pace::Rationed), Instant::now());
        let mut due: Vec<(u32, Duration)> = (0..30).map(|gang| (gang, Duration::ZERO)).collect();
        let mut version = 0;
        for second in 0..10 {
            let now = SECOND * second;
            version += 1;
            due.retain_mut(|(gang, at)| {
                if *at > now {
                    return true;
                }
                let asks = asks(*gang);
                match fits.get(key(*gang), &question(&asks, version), start + now, || {
                    Some(fit())
                }) {
                    Count::Later(after) => {
                        *at = now + after;
                        true
                    }
                    Count::Known(..) => false,
                    Count::Unseen => panic!("{gang}"),
                }
            });
            // Those that are known are asked about all the time.
            for gang in 0..30 {
                let asks = asks(gang);
                if !due.iter().any(|(other, _)| *other == gang) {
                    fits.get(key(gang), &question(&asks, version), start + now, || {
                        Some(fit())
                    });
                }
            }
        }
        assert_eq!(due, []);
    }

    #[test]
    fn a_thousand_gangs_that_wait_are_not_all_counted_at_once() {
        let (fits, now, mut counts) = (Fits::new(Pace::Rationed), Instant::now(), 0);
        let mut last = Duration::ZERO;
        for gang in 0..1000 {
            let asks = asks(gang);
            let got = fits.get(key(gang), &question(&asks, 1), now, || {
                counts += 1;
                Some(fit())
            });
            if let Count::Later(after) = got {
                last = after;
            }
        }
        assert!(counts <= MOST, "{counts}");
        assert_eq!(last, LONGEST, "they do not all ask again at once");
    }

    #[test]
    fn a_command_counts_for_each_gang() {
        let (fits, now) = (Fits::new(Pace::Free), Instant::now());
        for gang in 0..1000 {
            let asks = asks(gang);
            let got = fits.get(key(gang), &question(&asks, 1), now, || Some(fit()));
            assert_eq!(got, Count::Known(Box::new(fit()), None));
        }
    }

    #[test]
    fn what_changed_a_moment_after_a_count_is_counted_a_moment_later() {
        let (fits, start) = (Fits::new(Pace::Rationed), Instant::now());
        let (asks, more) = (asks(0), Fit { fits: 9, ..fit() });
        let get = |version, after: u64, says: &Fit| {
            let now = start + Duration::from_millis(after);
            fits.get(key(0), &question(&asks, version), now, || {
                Some(says.clone())
            })
        };
        assert_eq!(get(1, 0, &fit()), Count::Known(Box::new(fit()), None));
        assert_eq!(
            get(1, 90_000, &more),
            Count::Known(Box::new(fit()), None),
            "the same"
        );
        assert_eq!(get(2, 90_001, &fit()), Count::Known(Box::new(fit()), None));
        let left = Some(Duration::from_millis(600));
        assert_eq!(get(3, 90_401, &more), Count::Known(Box::new(fit()), left));
        assert_eq!(
            get(3, 91_001, &more),
            Count::Known(Box::new(more.clone()), None)
        );
    }
}
