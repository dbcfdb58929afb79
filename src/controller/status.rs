//! What Muster tells about a gang: events on its JobSet, each once, and the timeout.
//!
//! A gang that is first seen settled is not told again: a restart of Muster writes nothing.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use kube::core::DynamicObject;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, Resource as _};

use super::decide::{Actions, Standing, State};
use super::write::Done;
use crate::gang::TimeoutAction;

/// A gang that waits no longer than this is not worth an event.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// The same gang is not told of more often than this, however often its reason changes.
const SILENCE: Duration = Duration::from_secs(60);

/// What a look at a JobSet's gangs brought.
#[derive(Debug, Default)]
pub struct News {
    events: Vec<Told>,
    /// The timeout has just passed, and what is to be done.
    pub timed_out: Option<TimeoutAction>,
    pub look_again: Option<Duration>,
}

#[derive(Debug)]
struct Told {
    kind: EventType,
    reason: &'static str,
    note: String,
}

/// What is remembered of a gang.
#[derive(Debug)]
struct Known {
    jobset: String,
    settled: bool,
    waiting_since: Instant,
    told: Option<(Instant, String)>,
    timed_out: bool,
    stranded: bool,
    /// It was whole once, or it was told that it is not.
    whole: bool,
    partial_since: Option<Instant>,
}

/// What was told, and whom to tell.
pub struct Memory {
    gangs: Mutex<HashMap<String, Known>>,
    refusals: Mutex<HashMap<String, String>>,
    client: Client,
}

impl Memory {
    pub fn new(client: Client) -> Self {
        Self {
            gangs: Mutex::new(HashMap::new()),
            refusals: Mutex::new(HashMap::new()),
            client,
        }
    }

    /// Compares how the gangs stand with what is known.
    pub fn look(&self, jobset: &str, actions: &Actions) -> News {
        let mut news = News::default();
        let mut known = self.gangs.lock().unwrap_or_else(PoisonError::into_inner);
        let names: Vec<&str> = actions.gangs.iter().map(|g| g.name.as_str()).collect();
        known.retain(|name, k| k.jobset != jobset || names.contains(&name.as_str()));
        for gang in &actions.gangs {
            let settled = gang.state == State::Scheduled;
            let entry = known.entry(gang.name.clone()).or_insert_with(|| Known {
                jobset: jobset.to_owned(),
                settled,
                waiting_since: Instant::now(),
                told: None,
                // An old gang that is not whole has lost members: it was whole once.
                whole: settled || gang.age.is_some_and(|age| age > SILENCE),
                partial_since: None,
                // What was due before Muster looked was told by whoever looked then.
                stranded: gang.stranded.is_some(),
                timed_out: gang.overdue(actions).is_some_and(|by| by > PATIENCE),
            });
            entry.update(gang, actions, &mut news);
        }
        if let Some(reason) = &actions.refused
            && self.is_new_refusal(jobset, reason)
        {
            news.events.push(warning("GangRefused", reason.clone()));
        }
        news
    }

    /// A deleted JobSet is never looked at again.
    pub fn forget(&self, jobset: &str) {
        let mut gangs = self.gangs.lock().unwrap_or_else(PoisonError::into_inner);
        gangs.retain(|_, known| known.jobset != jobset);
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        refusals.remove(jobset);
    }

    /// Publishes events; one that cannot be written is logged and dropped.
    pub async fn publish(&self, jobset: &DynamicObject, news: &News) {
        for told in &news.events {
            self.send(jobset, told).await;
        }
    }

    /// Tells what came of the writes: gangs that are ready for their pods, or what is in the way.
    pub async fn wrote(&self, jobset: &DynamicObject, done: &Done, gangs: &[Standing]) {
        let uid = jobset.metadata.uid.as_deref().unwrap_or_default();
        let obstacles = done.obstacles.join("; ");
        if !obstacles.is_empty() && self.is_new_refusal(uid, &obstacles) {
            let told = warning("GangRefused", obstacles);
            self.send(jobset, &told).await;
        }
        // A gang that lacks an object is not ready for its pods.
        if done.created > 0 && done.obstacles.is_empty() {
            self.send(jobset, &created(gangs)).await;
        }
    }

    fn is_new_refusal(&self, jobset: &str, note: &str) -> bool {
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        let before = refusals.insert(jobset.to_owned(), note.to_owned());
        before.as_deref() != Some(note)
    }

    async fn send(&self, jobset: &DynamicObject, told: &Told) {
        let types = jobset.types.clone().unwrap_or_default();
        let reference = k8s_openapi::api::core::v1::ObjectReference {
            api_version: Some(types.api_version),
            kind: Some(types.kind),
            name: jobset.meta().name.clone(),
            namespace: jobset.meta().namespace.clone(),
            uid: jobset.meta().uid.clone(),
            ..Default::default()
        };
        let event = Event {
            type_: told.kind,
            reason: told.reason.to_owned(),
            note: Some(told.note.chars().take(1000).collect()),
            action: "Gang".to_owned(),
            secondary: None,
        };
        let reporter = Reporter {
            controller: "muster".to_owned(),
            instance: None,
        };
        // A new one for each: kube's recorder (5.0) counts an event of the same reason within six
        // minutes as the first one again, and its words are lost. What is told twice is decided here.
        let recorder = Recorder::new(self.client.clone(), reporter);
        if let Err(error) = recorder.publish(&event, &reference).await {
            tracing::warn!(%error, reason = told.reason, "an event could not be written");
        }
    }
}

fn created(gangs: &[Standing]) -> Told {
    let names: Vec<&str> = gangs.iter().take(4).map(|g| g.name.as_str()).collect();
    let more = if gangs.len() > names.len() {
        ", ..."
    } else {
        ""
    };
    let count = gangs.len();
    let names = names.join(", ");
    Told {
        kind: EventType::Normal,
        reason: "GangCreated",
        note: format!("{count} gang(s) ready for their pods: {names}{more}"),
    }
}

/// Several schedulers say nothing of a gang that lacks pods, an object or a partner.
fn silence(gang: &Standing) -> String {
    if gang.live < gang.quorum as usize {
        return format!("only {} of its pods exist", gang.live);
    }
    "the scheduler has not said why".to_owned()
}

fn warning(reason: &'static str, note: String) -> Told {
    Told {
        kind: EventType::Warning,
        reason,
        note,
    }
}

impl Standing {
    /// By how much the gang has waited longer than it may.
    fn overdue(&self, actions: &Actions) -> Option<Duration> {
        let (limit, _) = actions.timeout?;
        let waits = self.state != State::Scheduled;
        self.age?.checked_sub(limit).filter(|_| waits)
    }
}

impl Known {
    fn update(&mut self, gang: &Standing, actions: &Actions, news: &mut News) {
        let now = Instant::now();
        if let Some(why) = &gang.stranded
            && !std::mem::replace(&mut self.stranded, true)
        {
            let note = format!("{}: {why}", gang.name);
            news.events.push(warning("GangStuck", note));
        }
        let reason = match &gang.state {
            State::Scheduled => {
                self.whole = true;
                if !self.settled {
                    self.settled = true;
                    news.events.push(Told {
                        kind: EventType::Normal,
                        reason: "GangScheduled",
                        note: format!("{}: {} of {} pods placed", gang.name, gang.bound, gang.size),
                    });
                }
                return;
            }
            State::Waiting(reason) => Some(reason.clone().unwrap_or_else(|| silence(gang))),
            // Its Jobs may still wait for others.
            State::Empty => None,
        };
        if self.settled {
            self.settled = false;
            self.waiting_since = now;
        }
        self.tell_partial(now, gang, news);
        self.tell_waiting(now, gang, reason, news);
        let Some((limit, action)) = actions.timeout else {
            return;
        };
        match gang.overdue(actions) {
            Some(_) if !self.timed_out => {
                self.timed_out = true;
                news.timed_out = Some(action);
                let then = match action {
                    TimeoutAction::Wait => "it waits on",
                    TimeoutAction::Suspend => "its workload is suspended",
                };
                let note = format!("{} waits longer than {limit:?}: {then}", gang.name);
                news.events.push(warning("GangTimedOut", note));
            }
            Some(_) => {}
            None => {
                let left = limit.saturating_sub(gang.age.unwrap_or_default());
                news.again_in(left + Duration::from_millis(100));
            }
        }
    }

    /// A gang of which some are placed and the others are not, for longer than placing takes.
    fn tell_partial(&mut self, now: Instant, gang: &Standing, news: &mut News) {
        if self.whole || gang.bound == 0 {
            self.partial_since = None;
            return;
        }
        let since = *self.partial_since.get_or_insert(now);
        match PATIENCE.checked_sub(now.duration_since(since)) {
            Some(left) if !left.is_zero() => news.again_in(left),
            _ => {
                self.whole = true;
                let note = format!(
                    "{}: {} pods are placed without the others, {} are needed: the scheduler does \
                     not hold them together; {}",
                    gang.name, gang.bound, gang.quorum, gang.suspect
                );
                news.events.push(warning("GangBroken", note));
            }
        }
    }

    fn tell_waiting(
        &mut self,
        now: Instant,
        gang: &Standing,
        reason: Option<String>,
        news: &mut News,
    ) {
        let waited = now.duration_since(self.waiting_since);
        if waited < PATIENCE {
            news.again_in(PATIENCE - waited);
            return;
        }
        let Some(reason) = reason else { return };
        // The scheduler's numbers change with every attempt; that is no news.
        let quiet = self
            .told
            .as_ref()
            .is_none_or(|(at, told)| *told != reason && now.duration_since(*at) >= SILENCE);
        if quiet {
            let note = format!(
                "{}: {} of {} pods placed, {} needed: {reason}",
                gang.name, gang.bound, gang.size, gang.quorum
            );
            news.events.push(warning("GangWaiting", note));
            self.told = Some((now, reason));
        }
    }
}

impl News {
    pub fn warn(&mut self, reason: &'static str, note: String) {
        self.events.push(warning(reason, note));
    }

    fn again_in(&mut self, after: Duration) {
        self.look_again = Some(self.look_again.map_or(after, |other| other.min(after)));
    }
}
