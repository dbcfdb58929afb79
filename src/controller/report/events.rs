//! What Muster tells about a gang: events on its workload, each once, and the timeout.
//!
//! A gang that is first seen settled is not told again: a restart of Muster writes nothing.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::core::ApiResource;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};

use crate::controller::cache::stored::Stored;
use crate::controller::decide::{Actions, GangStatus};
use crate::controller::metrics::BarrierOutcome;
use crate::controller::report::condition;
use crate::controller::report::few::{LONGEST, cut, few};
use crate::controller::report::gang_history::GangHistory;
use crate::controller::write::Done;
use crate::gang::field::shorten;
use crate::gang::{Reference, TimeoutAction};

/// A gang that waits no longer than this is not worth an event.
pub(crate) const FIRST_WORDS: Duration = Duration::from_secs(3);
/// A gang of which for no longer than this no more are placed is being placed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(4);
/// When causes are looked into again that were not known yet.
pub(crate) const NOT_YET: Duration = Duration::from_millis(300);
/// The same gang is not told of more often than this, however often its reason changes.
pub(crate) const SILENCE: Duration = Duration::from_secs(60);

/// So often another cause is told at once; where causes take turns, each is told after [`SILENCE`].
pub(crate) const TURNS: u32 = 4;

/// So many events of one reason tell of a gang of a workload within [`SILENCE`]. Of a workload with
/// more gangs the others are counted, in one event.
const TOLD_EACH: usize = 5;
/// The others are counted once no more of them have come for so long: soon, so that a workload whose
/// gangs have settled is not written to a minute later.
const GATHER: Duration = Duration::from_secs(2);

/// What a look at a workload's gangs brought.
#[derive(Debug, Default)]
pub(crate) struct Report {
    events: Vec<Notice>,
    /// A gang that the scheduler does not hold together, and what was told of it.
    pub broken: Option<String>,
    /// A gang waits longer than it may, and what is to be done.
    pub timed_out: Option<TimeoutAction>,
    /// So many gangs do so since this look.
    pub timeouts: u64,
    /// How the wait at a start barrier has ended.
    pub barrier: Option<BarrierOutcome>,
    pub look_again: Option<Duration>,
}

#[derive(Debug)]
struct Notice {
    kind: EventType,
    reason: &'static str,
    note: String,
}

/// What a refusal is about. Each is told by itself, and again only when its reason changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Refusal {
    Gangs,
    /// The objects of gangs could not be written.
    Objects,
    /// The workload itself could not be changed.
    Workload,
    /// Its pods keep each other from starting.
    Pods,
}

/// What was told of a workload.
#[derive(Debug, Default)]
struct History {
    gangs: HashMap<String, GangHistory>,
    refusals: HashMap<Refusal, String>,
    /// Objects that were made and not yet told of.
    untold: Vec<String>,
    /// What was told of its gangs lately, by the reason of the events.
    lately: HashMap<&'static str, Lately>,
}

/// The events of one reason in the last moments.
#[derive(Debug)]
struct Lately {
    since: Instant,
    kind: EventType,
    told: usize,
    /// Those that are not told by themselves, and not yet counted in an event.
    more: usize,
    /// When the last of these came.
    last: Instant,
}

impl History {
    fn is_empty(&self) -> bool {
        self.gangs.is_empty() && self.refusals.is_empty() && self.untold.is_empty()
    }

    /// Leaves the first few events of each reason within [`SILENCE`], and one that counts the others:
    /// when all gangs are counted, or after [`GATHER`].
    fn count(&mut self, now: Instant, gangs: usize, report: &mut Report) {
        if gangs > TOLD_EACH {
            for notice in std::mem::take(&mut report.events) {
                let lately = self.lately.entry(notice.reason).or_insert(Lately {
                    since: now,
                    kind: notice.kind,
                    told: 0,
                    more: 0,
                    last: now,
                });
                if lately.told < TOLD_EACH {
                    lately.told += 1;
                    report.events.push(notice);
                } else {
                    lately.more += 1;
                    lately.last = now;
                }
            }
        }
        self.lately.retain(|reason, lately| {
            let left = SILENCE.saturating_sub(now.duration_since(lately.since));
            let gather = GATHER.saturating_sub(now.duration_since(lately.last));
            let all = lately.told + lately.more >= gangs;
            if lately.more > 0 && (left.is_zero() || gather.is_zero() || all) {
                report.events.push(Notice {
                    kind: lately.kind,
                    reason,
                    note: format!("the same of {} more gangs", lately.more),
                });
                lately.more = 0;
            } else if lately.more > 0 {
                report.again_in(left.min(gather));
            }
            !left.is_zero()
        });
    }

    fn is_new_refusal(&mut self, of: Refusal, why: &str) -> bool {
        let before = self.refusals.insert(of, why.to_owned());
        before.as_deref() != Some(why)
    }

    /// Compares how the gangs stand with what is known; `shown` is the reason that the condition of their
    /// workload shows.
    fn compare(&mut self, now: Instant, actions: &Actions, shown: Option<&str>) -> Report {
        let mut report = Report::default();
        // Of one that was looked at before it is known what was told.
        let shown = shown.filter(|_| self.is_empty());
        let mut before = std::mem::take(&mut self.gangs);
        for gang in &actions.gangs {
            let known = before.remove(&gang.name);
            let mut known = known.unwrap_or_else(|| GangHistory::new(gang, actions, now, shown));
            known.update(now, gang, actions, &mut report);
            self.gangs.insert(gang.name.clone(), known);
        }
        self.count(now, actions.gangs.len(), &mut report);
        if let Some(reason) = &actions.refused
            && self.is_new_refusal(Refusal::Gangs, reason)
        {
            report.events.push(warning("GangRefused", reason.clone()));
        }
        if let Some(why) = &actions.broken
            && self.is_new_refusal(Refusal::Pods, why)
        {
            report.events.push(warning("GangBroken", why.clone()));
        }
        report
    }
}

/// Publishes events on workloads of one kind, and remembers what was told of each, by its uid.
pub(crate) struct EventPublisher {
    client: Client,
    kind: ApiResource,
    histories: Mutex<HashMap<String, History>>,
    /// What events are about, where a workload is no object: by its uid.
    about: Mutex<HashMap<String, ObjectReference>>,
}

impl EventPublisher {
    pub(crate) fn new(client: Client, kind: ApiResource) -> Self {
        Self {
            client,
            kind,
            histories: Mutex::default(),
            about: Mutex::default(),
        }
    }

    /// Compares how the gangs of a workload stand with what is known.
    pub(crate) fn compare(&self, workload: &Stored, actions: &Actions) -> Report {
        let shown = workload.condition(condition::TYPE);
        let shown = shown.as_ref().and_then(|shown| shown["reason"].as_str());
        self.with(workload.uid(), |history| {
            history.compare(Instant::now(), actions, shown)
        })
    }

    /// A deleted workload is never looked at again.
    pub(crate) fn forget(&self, workload: &str) {
        self.lock().remove(workload);
        self.lock_about().remove(workload);
    }

    /// Tells events of another object in the place of a workload that is none.
    pub(crate) fn about(&self, workload: &Stored, other: &Reference) {
        let reference = ObjectReference {
            api_version: Some(other.api_version.clone()),
            kind: Some(other.kind.clone()),
            name: Some(other.name.clone()),
            namespace: workload.metadata.namespace.clone(),
            uid: Some(other.uid.clone()),
            ..Default::default()
        };
        let uid = workload.uid().to_owned();
        self.lock_about().insert(uid, reference);
    }

    /// Forgets all workloads but these.
    pub(crate) fn keep_only(&self, uids: &HashSet<String>) {
        self.lock().retain(|uid, _| uids.contains(uid));
        self.lock_about().retain(|uid, _| uids.contains(uid));
    }

    /// Publishes events; one that cannot be written is logged and dropped.
    pub(crate) async fn publish(&self, workload: &Stored, report: &Report) {
        for notice in &report.events {
            self.send(workload, notice).await;
        }
    }

    /// Notes the objects that were made, until they are told of.
    pub(crate) fn note_created(&self, workload: &str, done: &Done) {
        if !done.created.is_empty() {
            let created = done.created.iter().cloned();
            self.with(workload, |history| history.untold.extend(created));
        }
    }

    /// Tells what came of the writes: gangs that are ready for their pods, or what is in the way.
    pub(crate) async fn wrote(&self, workload: &Stored, done: &Done, gangs: &[GangStatus]) {
        let obstacles = few(done.obstacles.iter().map(String::as_str));
        if !obstacles.is_empty() {
            // A gang that lacks an object is not ready for its pods.
            return self.refused(workload, Refusal::Objects, obstacles).await;
        }
        let untold = self.with(workload.uid(), |history| {
            std::mem::take(&mut history.untold)
        });
        // Suspended meanwhile, it has no gang to tell of.
        if !untold.is_empty() && !gangs.is_empty() {
            self.send(workload, &created(gangs, &untold)).await;
        }
    }

    /// Tells why something is refused, once for each reason.
    pub(crate) async fn refused(&self, workload: &Stored, of: Refusal, why: String) {
        if self.with(workload.uid(), |history| history.is_new_refusal(of, &why)) {
            self.send(workload, &warning("GangRefused", why)).await;
        }
    }

    /// Does something with what was told of a workload. Nothing is kept of one without gangs.
    fn with<T>(&self, workload: &str, change: impl FnOnce(&mut History) -> T) -> T {
        let mut histories = self.lock();
        let mut history = histories.remove(workload).unwrap_or_default();
        let result = change(&mut history);
        if !history.is_empty() {
            histories.insert(workload.to_owned(), history);
        }
        result
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, History>> {
        self.histories
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_about(&self) -> MutexGuard<'_, HashMap<String, ObjectReference>> {
        self.about.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn send(&self, workload: &Stored, notice: &Notice) {
        let about = self.lock_about().get(workload.uid()).cloned();
        let reference = about.unwrap_or_else(|| ObjectReference {
            api_version: Some(self.kind.api_version.clone()),
            kind: Some(self.kind.kind.clone()),
            name: workload.metadata.name.clone(),
            namespace: workload.metadata.namespace.clone(),
            uid: workload.metadata.uid.clone(),
            ..Default::default()
        });
        let event = Event {
            type_: notice.kind,
            reason: notice.reason.to_owned(),
            note: Some(cut(&notice.note, LONGEST)),
            action: "Gang".to_owned(),
            secondary: None,
        };
        let reporter = Reporter {
            controller: "muster".to_owned(),
            instance: None,
        };
        // A new one for each: kube's recorder (5.0) counts an event of the same reason within six
        // minutes as the first one again, and its text is lost. What is told twice is decided here.
        let recorder = Recorder::new(self.client.clone(), reporter);
        if let Err(error) = recorder.publish(&event, &reference).await {
            let error = shorten(error.to_string());
            tracing::warn!(
                error,
                reason = notice.reason,
                "an event could not be written"
            );
        }
    }
}

/// The gangs that are new, where each has an object of its name; else all that the new object is for.
fn created(gangs: &[GangStatus], objects: &[String]) -> Notice {
    const NAMED: usize = 4;
    let all: Vec<&str> = gangs.iter().map(|gang| gang.name.as_str()).collect();
    let mut names = all.clone();
    let objects: HashSet<&str> = objects.iter().map(String::as_str).collect();
    names.retain(|name| objects.contains(name));
    if names.is_empty() {
        names = all;
    }
    let count = names.len();
    let more = if count > NAMED { ", ..." } else { "" };
    names.truncate(NAMED);
    let names = names.join(", ");
    Notice {
        kind: EventType::Normal,
        reason: "GangCreated",
        note: format!("{count} gang(s) ready for their pods: {names}{more}"),
    }
}

fn warning(reason: &'static str, note: String) -> Notice {
    Notice {
        kind: EventType::Warning,
        reason,
        note,
    }
}

impl Report {
    pub(crate) fn warn(&mut self, reason: &'static str, note: String) {
        self.events.push(warning(reason, note));
    }

    pub(crate) fn tell(&mut self, reason: &'static str, note: String) {
        self.events.push(Notice {
            kind: EventType::Normal,
            reason,
            note,
        });
    }

    #[cfg(test)]
    pub(crate) fn reasons(&self) -> impl Iterator<Item = &'static str> {
        self.events.iter().map(|notice| notice.reason)
    }

    pub(crate) fn again_in(&mut self, after: Duration) {
        self.look_again = Some(self.look_again.map_or(after, |other| other.min(after)));
    }
}

#[cfg(test)]
mod tests;
