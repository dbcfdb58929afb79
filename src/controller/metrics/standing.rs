//! How the gangs of each workload stand, as of its last look, and the sums over all of them.
//!
//! A look costs what its own workload is large: the sums are carried along. Only a scrape walks over all
//! gangs that wait. It is told how gangs stand, and finds out nothing itself.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

use crate::controller::decide::{Actions, GangStatus, State};
use crate::explain::Cause;

/// What a look at a workload brought.
pub(super) struct Look<'a> {
    pub(super) kind: &'static str,
    pub(super) actions: &'a Actions,
    /// Why objects of its gangs could not be written.
    pub(super) obstacles: &'a [String],
    pub(super) now: Instant,
}

/// What gangs are counted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct Labels {
    state: &'static str,
    scheduler: &'static str,
    cause: &'static str,
}

impl Labels {
    fn of(gang: &GangStatus) -> Self {
        Self {
            state: state(&gang.state),
            scheduler: gang.scheduler.as_str(),
            cause: cause_of(gang),
        }
    }
}

fn state(state: &State) -> &'static str {
    match state {
        State::Empty => "empty",
        State::Waiting => "waiting",
        State::Scheduled => "scheduled",
    }
}

/// Why a gang waits, in one word of a fixed list; empty for one that does not.
fn cause_of(gang: &GangStatus) -> &'static str {
    match gang.waits() {
        true => gang.causes.first().unwrap_or(&Cause::Unknown).reason(),
        false => "",
    }
}

/// What is wrong with a workload as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Trouble {
    /// Its scheduler does not hold a gang together, or its pods keep each other from starting.
    Broken,
    /// It asks for a gang, and nothing is made.
    Refused,
}

impl Trouble {
    const ALL: [Self; 2] = [Self::Broken, Self::Refused];

    fn as_str(self) -> &'static str {
        match self {
            Self::Broken => "broken",
            Self::Refused => "refused",
        }
    }

    fn of(look: &Look<'_>) -> Vec<Self> {
        let broken = look.actions.broken.is_some();
        let refused = look.actions.refused.is_some() || !look.obstacles.is_empty();
        let broken = broken.then_some(Self::Broken);
        broken
            .into_iter()
            .chain(refused.then_some(Self::Refused))
            .collect()
    }
}

/// How long a gang had waited when it was looked at. Not a time at which it began: that may be before
/// this machine's clock of [`Instant`]s.
#[derive(Debug, Clone, Copy)]
struct Wait {
    seen: Instant,
    before: Duration,
}

impl Wait {
    fn until(self, now: Instant) -> Duration {
        self.before + now.saturating_duration_since(self.seen)
    }
}

/// One workload at its last look.
#[derive(Debug)]
struct Standing {
    kind: &'static str,
    counts: BTreeMap<Labels, i64>,
    troubles: Vec<Trouble>,
    /// The gangs that are not placed, by name, and those waits that have begun.
    open: HashMap<String, Option<Wait>>,
}

impl Standing {
    /// A workload as it is now. The waits that have ended since the last look are added to `ended`.
    fn new(
        before: &HashMap<String, Option<Wait>>,
        look: &Look<'_>,
        ended: &mut Vec<(&'static str, Duration)>,
    ) -> Self {
        let now = look.now;
        let (mut counts, mut open) = (BTreeMap::new(), HashMap::new());
        for gang in &look.actions.gangs {
            *counts.entry(Labels::of(gang)).or_default() += 1;
            let known = before.get(&gang.name).copied();
            match gang.state {
                State::Scheduled => {
                    // One that was placed between two looks did not wait for long; one that is first
                    // seen placed may have been so for days, and does not count.
                    let waited = known.map(|wait| wait.map_or(Duration::ZERO, |w| w.until(now)));
                    ended.extend(waited.map(|waited| (gang.scheduler.as_str(), waited)));
                }
                State::Waiting => {
                    let sofar = || known.flatten().map(|wait| wait.until(now));
                    let wait = Wait {
                        seen: now,
                        before: gang.waited.or_else(sofar).unwrap_or_default(),
                    };
                    open.insert(gang.name.clone(), Some(wait));
                }
                State::Empty => {
                    open.insert(gang.name.clone(), None);
                }
            }
        }
        Self {
            kind: look.kind,
            counts,
            troubles: Trouble::of(look),
            open,
        }
    }

    fn is_empty(&self) -> bool {
        self.counts.is_empty() && self.troubles.is_empty()
    }
}

#[derive(Debug, Default)]
struct All {
    /// By the workload's uid; those without gangs and troubles are left out.
    workloads: HashMap<String, Standing>,
    counts: BTreeMap<Labels, i64>,
    troubles: BTreeMap<Trouble, i64>,
}

impl All {
    fn add(&mut self, uid: &str, standing: Standing) {
        for (labels, count) in &standing.counts {
            *self.counts.entry(*labels).or_default() += count;
        }
        for trouble in &standing.troubles {
            *self.troubles.entry(*trouble).or_default() += 1;
        }
        self.workloads.insert(uid.to_owned(), standing);
    }

    fn remove(&mut self, uid: &str) -> Option<Standing> {
        let standing = self.workloads.remove(uid)?;
        for (labels, count) in &standing.counts {
            let sum = self.counts.entry(*labels).or_default();
            *sum -= count;
            if *sum == 0 {
                self.counts.remove(labels);
            }
        }
        for trouble in &standing.troubles {
            *self.troubles.entry(*trouble).or_default() -= 1;
        }
        Some(standing)
    }

    fn oldest_wait(&self, now: Instant) -> Duration {
        let open = self.workloads.values().flat_map(|w| w.open.values());
        let waits = open.flatten().map(|wait| wait.until(now));
        waits.max().unwrap_or_default()
    }
}

/// How the gangs of all workloads stand.
#[derive(Debug, Default)]
pub(super) struct Standings(Mutex<All>);

impl Standings {
    /// Notes how the gangs of a workload stand; the waits that have ended, with their schedulers.
    pub(super) fn note(&self, uid: &str, look: &Look<'_>) -> Vec<(&'static str, Duration)> {
        let mut all = self.lock();
        let before = all.remove(uid).map(|before| before.open);
        let mut ended = Vec::new();
        let before = before.unwrap_or_default();
        let standing = Standing::new(&before, look, &mut ended);
        if !standing.is_empty() {
            all.add(uid, standing);
        }
        ended
    }

    pub(super) fn forget(&self, uid: &str) {
        self.lock().remove(uid);
    }

    pub(super) fn keep_only(&self, kind: &str, uids: &HashSet<String>) {
        let mut all = self.lock();
        let gone = |(uid, standing): (&String, &Standing)| {
            let gone = standing.kind == kind && !uids.contains(uid);
            gone.then(|| uid.clone())
        };
        let gone: Vec<String> = all.workloads.iter().filter_map(gone).collect();
        for uid in gone {
            all.remove(&uid);
        }
    }

    pub(super) fn clear(&self) {
        *self.lock() = All::default();
    }

    fn lock(&self) -> MutexGuard<'_, All> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let all = self.lock();
        let troubled = all.troubles.values().any(|count| *count != 0);
        all.workloads.is_empty() && all.counts.is_empty() && !troubled
    }

    #[cfg(test)]
    pub(super) fn oldest_wait(&self, now: Instant) -> Duration {
        self.lock().oldest_wait(now)
    }
}

impl Collector for Standings {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let all = self.lock();
        let mut family = encoder.encode_descriptor(
            "muster_gangs",
            "Gangs of now, by how they stand; only the leader knows",
            None,
            MetricType::Gauge,
        )?;
        for (labels, count) in &all.counts {
            ConstGauge::new(*count).encode(family.encode_family(labels)?)?;
        }
        let oldest = all.oldest_wait(Instant::now()).as_secs_f64();
        ConstGauge::new(oldest).encode(encoder.encode_descriptor(
            "muster_gang_oldest_wait",
            "How long the gang has waited that waits longest; 0 if none does",
            Some(&Unit::Seconds),
            MetricType::Gauge,
        )?)?;
        let mut family = encoder.encode_descriptor(
            "muster_troubled_workloads",
            "Workloads whose gangs are not held together (broken) or not made (refused)",
            None,
            MetricType::Gauge,
        )?;
        for trouble in Trouble::ALL {
            let count = all.troubles.get(&trouble).copied().unwrap_or(0);
            let labels = [("trouble", trouble.as_str())];
            ConstGauge::new(count).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}
