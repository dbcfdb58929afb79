//! What Muster tells about a gang: events on its workload, each once, and the timeout.
//!
//! A gang that is first seen settled is not told again: a restart of Muster writes nothing.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use kube::core::DynamicObject;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, Resource as _};

use crate::controller::decide::{Actions, GangStatus};
use crate::controller::report::gang_history::GangHistory;
use crate::controller::write::Done;
use crate::gang::TimeoutAction;

/// A gang that waits no longer than this is not worth an event.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// The same gang is not told of more often than this, however often its reason changes.
pub const SILENCE: Duration = Duration::from_secs(60);

/// What a look at a workload's gangs brought.
#[derive(Debug, Default)]
pub struct Report {
    events: Vec<Notice>,
    /// A gang that the scheduler does not hold together, and what was told of it.
    pub broken: Option<String>,
    /// A gang waits longer than it may, and what is to be done.
    pub timed_out: Option<TimeoutAction>,
    pub look_again: Option<Duration>,
}

#[derive(Debug)]
struct Notice {
    kind: EventType,
    reason: &'static str,
    note: String,
}

/// What was told, and whom to tell.
pub struct EventPublisher {
    gangs: Mutex<HashMap<String, GangHistory>>,
    refusals: Mutex<HashMap<String, String>>,
    /// Objects that were made, by the workload's uid.
    untold: Mutex<HashMap<String, Vec<String>>>,
    client: Client,
}

impl EventPublisher {
    pub fn new(client: Client) -> Self {
        Self {
            gangs: Mutex::new(HashMap::new()),
            refusals: Mutex::new(HashMap::new()),
            untold: Mutex::new(HashMap::new()),
            client,
        }
    }

    /// Compares how the gangs stand with what is known.
    pub fn look(&self, workload: &str, actions: &Actions) -> Report {
        let (mut report, now) = (Report::default(), Instant::now());
        let mut known = self.gangs.lock().unwrap_or_else(PoisonError::into_inner);
        let names: Vec<&str> = actions.gangs.iter().map(|g| g.name.as_str()).collect();
        known.retain(|name, k| k.workload != workload || names.contains(&name.as_str()));
        for gang in &actions.gangs {
            let entry = known.entry(gang.name.clone());
            let entry = entry.or_insert_with(|| GangHistory::new(workload, gang, actions, now));
            entry.update(now, gang, actions, &mut report);
        }
        if let Some(reason) = &actions.refused
            && self.is_new_refusal(workload, reason)
        {
            report.events.push(warning("GangRefused", reason.clone()));
        }
        report
    }

    /// A deleted workload is never looked at again.
    pub fn forget(&self, workload: &str) {
        let mut gangs = self.gangs.lock().unwrap_or_else(PoisonError::into_inner);
        gangs.retain(|_, known| known.workload != workload);
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        refusals.retain(|key, _| !key.starts_with(workload));
        let mut untold = self.untold.lock().unwrap_or_else(PoisonError::into_inner);
        untold.remove(workload);
    }

    /// Publishes events; one that cannot be written is logged and dropped.
    pub async fn publish(&self, workload: &DynamicObject, report: &Report) {
        for notice in &report.events {
            self.send(workload, notice).await;
        }
    }

    /// Notes the objects that were made, until they are told of.
    pub fn note_created(&self, workload: &str, done: &Done) {
        if !done.created.is_empty() {
            let mut untold = self.untold.lock().unwrap_or_else(PoisonError::into_inner);
            let untold = untold.entry(workload.to_owned()).or_default();
            untold.extend(done.created.iter().cloned());
        }
    }

    /// Tells what came of the writes: gangs that are ready for their pods, or what is in the way.
    pub async fn wrote(&self, workload: &DynamicObject, done: &Done, gangs: &[GangStatus]) {
        let obstacles = done.obstacles.join("; ");
        if !obstacles.is_empty() {
            // A gang that lacks an object is not ready for its pods.
            return self.refused(workload, "objects", obstacles).await;
        }
        let uid = workload.metadata.uid.as_deref().unwrap_or_default();
        let untold = {
            let mut untold = self.untold.lock().unwrap_or_else(PoisonError::into_inner);
            untold.remove(uid).unwrap_or_default()
        };
        // Suspended meanwhile, it has no gang to tell of.
        if !untold.is_empty() && !gangs.is_empty() {
            self.send(workload, &created(gangs, &untold)).await;
        }
    }

    /// Tells why a write is refused, once for each reason. `of` is what was to be written.
    pub async fn refused(&self, workload: &DynamicObject, of: &str, why: String) {
        let uid = workload.metadata.uid.as_deref().unwrap_or_default();
        if self.is_new_refusal(&format!("{uid} {of}"), &why) {
            self.send(workload, &warning("GangRefused", why)).await;
        }
    }

    fn is_new_refusal(&self, workload: &str, note: &str) -> bool {
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        let before = refusals.insert(workload.to_owned(), note.to_owned());
        before.as_deref() != Some(note)
    }

    async fn send(&self, workload: &DynamicObject, notice: &Notice) {
        let types = workload.types.clone().unwrap_or_default();
        let reference = k8s_openapi::api::core::v1::ObjectReference {
            api_version: Some(types.api_version),
            kind: Some(types.kind),
            name: workload.meta().name.clone(),
            namespace: workload.meta().namespace.clone(),
            uid: workload.meta().uid.clone(),
            ..Default::default()
        };
        let event = Event {
            type_: notice.kind,
            reason: notice.reason.to_owned(),
            note: Some(notice.note.chars().take(1000).collect()),
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
            tracing::warn!(%error, reason = notice.reason, "an event could not be written");
        }
    }
}

/// The gangs that are new, where each has an object of its name; else all that the new object is for.
fn created(gangs: &[GangStatus], objects: &[String]) -> Notice {
    const NAMED: usize = 4;
    let all: Vec<&str> = gangs.iter().map(|gang| gang.name.as_str()).collect();
    let mut names = all.clone();
    names.retain(|name| objects.iter().any(|object| object == name));
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
    pub fn warn(&mut self, reason: &'static str, note: String) {
        self.events.push(warning(reason, note));
    }

    pub fn tell(&mut self, reason: &'static str, note: String) {
        self.events.push(Notice {
            kind: EventType::Normal,
            reason,
            note,
        });
    }

    #[cfg(test)]
    pub fn reasons(&self) -> impl Iterator<Item = &'static str> {
        self.events.iter().map(|notice| notice.reason)
    }

    pub fn again_in(&mut self, after: Duration) {
        self.look_again = Some(self.look_again.map_or(after, |other| other.min(after)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_new_gangs_are_told_as_created() {
        let gangs: Vec<GangStatus> = (0..6)
            .map(|index| GangStatus {
                name: format!("serve-replica-{index}"),
                ..GangStatus::example()
            })
            .collect();
        let told = |objects: &[&str]| {
            let objects: Vec<String> = objects.iter().map(ToString::to_string).collect();
            created(&gangs, &objects).note
        };
        assert_eq!(
            told(&["serve-replica-5"]),
            "1 gang(s) ready for their pods: serve-replica-5"
        );
        // One object for all of them, as on Kubernetes 1.35.
        assert_eq!(
            told(&["serve"]),
            "6 gang(s) ready for their pods: serve-replica-0, serve-replica-1, serve-replica-2, \
             serve-replica-3, ..."
        );
    }
}
