//! What the reconciler counts, in prometheus-client's terms, beside what the server counts.
//!
//! Label values are words of fixed lists: states, schedulers, causes, kinds. Nothing that a user
//! chooses (names, namespaces) becomes one. It decides nothing, and knows neither HTTP nor the cluster.

mod standing;

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use tokio::sync::watch;

use super::decide::Actions;
use crate::gang::{SchedulerKind, TimeoutAction};
use crate::leader::Leadership;
use crate::scheduler;
use crate::workload::{Facts, object};
use standing::{Look, Standings};

/// From a second to a day: a gang that waits is waited for by people, not by programs.
const BUCKETS: [f64; 12] = [
    1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 1800.0, 3600.0, 10800.0, 21600.0, 43200.0, 86400.0,
];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Scheduler {
    scheduler: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Timeout {
    action: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Barrier {
    outcome: &'static str,
}

/// How the wait at a start barrier ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BarrierOutcome {
    Opened,
    TimedOut,
    /// What would open it could not be written.
    Refused,
}

impl BarrierOutcome {
    const ALL: [Self; 3] = [Self::Opened, Self::TimedOut, Self::Refused];

    fn as_str(self) -> &'static str {
        match self {
            Self::Opened => "opened",
            Self::TimedOut => "timed_out",
            Self::Refused => "refused",
        }
    }
}

/// Handles to what is counted; clones share it.
#[derive(Debug, Clone)]
pub struct Metrics {
    standings: Arc<Standings>,
    waits: Family<Scheduler, Histogram, fn() -> Histogram>,
    timeouts: Family<Timeout, Counter>,
    revivals: Counter,
    nudges: Family<Scheduler, Counter>,
    looks: Family<Kind, Counter>,
    errors: Family<Kind, Counter>,
    barriers: Family<Barrier, Counter>,
}

impl Metrics {
    /// Counts from now on, and shows it in the registry.
    pub fn register(registry: &mut Registry, leadership: watch::Receiver<Leadership>) -> Self {
        let metrics = Self {
            standings: Arc::default(),
            waits: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            timeouts: Family::default(),
            revivals: Counter::default(),
            nudges: Family::default(),
            looks: Family::default(),
            errors: Family::default(),
            barriers: Family::default(),
        };
        metrics.start_at_zero();
        registry.register_collector(Box::new(Arc::clone(&metrics.standings)));
        registry.register_collector(Box::new(Leads(leadership)));
        registry.register_with_unit(
            "muster_gang_wait",
            "How long gangs waited for nodes that are placed now",
            Unit::Seconds,
            metrics.waits.clone(),
        );
        registry.register(
            "muster_gang_timeouts",
            "Gangs that waited longer than they may, by what is done then",
            metrics.timeouts.clone(),
        );
        registry.register(
            "muster_gang_revivals",
            "Workloads suspended and resumed because their scheduler had forgotten the gang",
            metrics.revivals.clone(),
        );
        registry.register(
            "muster_gang_nudges",
            "Writes that made a scheduler look at a waiting gang again, by scheduler",
            metrics.nudges.clone(),
        );
        registry.register(
            "muster_looks",
            "Looks at workloads, by their kind",
            metrics.looks.clone(),
        );
        registry.register(
            "muster_look_errors",
            "Looks at workloads that failed and are tried again",
            metrics.errors.clone(),
        );
        registry.register(
            "muster_start_barriers",
            "Start barriers, by how the wait ended",
            metrics.barriers.clone(),
        );
        metrics
    }

    /// A series that is there before its first event: Prometheus sees no increase in one that begins
    /// at 1.
    fn start_at_zero(&self) {
        for scheduler in scheduler::names() {
            drop(self.waits.get_or_create(&Scheduler { scheduler }));
            drop(self.nudges.get_or_create(&Scheduler { scheduler }));
        }
        for action in TimeoutAction::NAMES {
            drop(self.timeouts.get_or_create(&Timeout { action }));
        }
        for facts in object::workloads() {
            let kind = facts.kind.name;
            drop(self.looks.get_or_create(&Kind { kind }));
            drop(self.errors.get_or_create(&Kind { kind }));
        }
        for outcome in BarrierOutcome::ALL {
            let outcome = outcome.as_str();
            drop(self.barriers.get_or_create(&Barrier { outcome }));
        }
    }

    /// The same for workloads of one kind.
    pub fn of(&self, facts: &Facts) -> OfKind {
        OfKind {
            kind: facts.kind.name,
            all: self.clone(),
        }
    }

    /// Forgets how every gang stands: another replica leads, or all are looked at anew.
    pub fn clear(&self) {
        self.standings.clear();
    }
}

/// What is counted of workloads of one kind.
#[derive(Debug, Clone)]
pub struct OfKind {
    kind: &'static str,
    all: Metrics,
}

impl OfKind {
    /// Notes how the gangs of a workload stand at the end of a look, and what kept their objects from
    /// being written.
    pub fn stand(&self, uid: &str, actions: &Actions, obstacles: &[String]) {
        let now = Instant::now();
        let look = Look {
            kind: self.kind,
            actions,
            obstacles,
            now,
        };
        let ended = self.all.standings.note(uid, &look);
        for (scheduler, waited) in ended {
            let waits = self.all.waits.get_or_create(&Scheduler { scheduler });
            waits.observe(waited.as_secs_f64());
        }
    }

    /// A workload that is gone.
    pub(crate) fn forget(&self, uid: &str) {
        self.all.standings.forget(uid);
    }

    /// The same for all workloads of the kind but these.
    pub(crate) fn keep_only(&self, uids: &HashSet<String>) {
        self.all.standings.keep_only(self.kind, uids);
    }

    pub(crate) fn looked(&self) {
        let kind = self.kind;
        self.all.looks.get_or_create(&Kind { kind }).inc();
    }

    pub(crate) fn failed(&self) {
        let kind = self.kind;
        self.all.errors.get_or_create(&Kind { kind }).inc();
    }

    pub(crate) fn timed_out(&self, action: TimeoutAction, gangs: u64) {
        let action = action.as_str();
        let timeouts = self.all.timeouts.get_or_create(&Timeout { action });
        timeouts.inc_by(gangs);
    }

    pub(crate) fn revived(&self) {
        self.all.revivals.inc();
    }

    pub(crate) fn nudged(&self, scheduler: SchedulerKind) {
        let scheduler = scheduler.as_str();
        self.all
            .nudges
            .get_or_create(&Scheduler { scheduler })
            .inc();
    }

    pub(crate) fn barrier(&self, outcome: BarrierOutcome) {
        let outcome = outcome.as_str();
        self.all.barriers.get_or_create(&Barrier { outcome }).inc();
    }
}

/// Asked at each scrape, so that it is never out of date.
#[derive(Debug)]
struct Leads(watch::Receiver<Leadership>);

impl Collector for Leads {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let leads = *self.0.borrow() == Leadership::Leader;
        let encoder = encoder.encode_descriptor(
            "muster_leader",
            "Whether this replica reconciles",
            None,
            MetricType::Gauge,
        )?;
        ConstGauge::new(i64::from(leads)).encode(encoder)
    }
}

#[cfg(test)]
mod tests;
