//! One look at a workload: caches in, writes out. What to write is decided elsewhere.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use kube::core::DynamicObject;
use kube::runtime::controller::Action;

use super::Cluster;
use super::backoff::{Backoffs, Words};
use super::barriers::status::BarrierStatus;
use super::barriers::stragglers::Stragglers;
use super::barriers::waiters::Waiter;
use super::bundles::neighbours::Neighbours;
use super::cache::by_owner::ByOwner;
use super::cache::stored::Stored;
use super::causes::Case;
use super::decide::{self, Actions, Seen};
use super::gang_members::Pods;
use super::mend::nudge::{Sleeper, Sleepers};
use super::mend::revive::{Revival, Revivals};
use super::metrics::OfKind;
use super::needs;
use super::owners::Owners;
use super::report::condition::Conditions;
use super::report::events::{EventPublisher, Refusal, Report};
use super::report::few::cut;
use super::revisions::Revisions;
use super::wanted::{NthStart, Starts, Wanted};
use super::watched_kind::{known_as, object_key};
use super::witness::Witnesses;
use super::write::{Done, Error, Outcome, Writer};
use crate::gang::{Owner, PartnerRef, TimeoutAction, WorkloadRef};
use crate::workload::facts::Watched;
use crate::workload::{Facts, Life, Object, SeenPod, Workload, child};

/// A gang whose object's name is taken is looked at this often.
const BLOCKED: Duration = Duration::from_secs(30);

/// Of the cause in what is said of a workload that was suspended.
const LONGEST_CAUSE: usize = 280;

/// Until the caches are filled.
const UNFILLED: Duration = Duration::from_millis(50);

/// What a look needs.
pub(super) struct Context {
    pub facts: &'static Facts,
    pub writer: Writer,
    pub cluster: Cluster,
    /// The workloads of all kinds.
    pub neighbours: Arc<Neighbours>,
    pub pods: Arc<ByOwner<SeenPod>>,
    /// The pods at start barriers.
    pub waiters: Arc<ByOwner<Waiter>>,
    pub witnesses: Arc<Witnesses>,
    pub stragglers: Stragglers,
    /// What Muster made, one for each kind.
    pub objects: Vec<Arc<ByOwner<Arc<DynamicObject>>>>,
    pub events: Arc<EventPublisher>,
    pub sleepers: Sleepers,
    pub conditions: Conditions,
    pub revivals: Arc<Revivals>,
    pub revisions: Arc<Revisions>,
    pub starts: Arc<Starts>,
    pub backoffs: Arc<Backoffs>,
    pub owners: Owners,
    pub metrics: OfKind,
}

pub(super) fn on_error(workload: Arc<Stored>, error: &Error, context: Arc<Context>) -> Action {
    context.metrics.failed();
    let (namespace, name) = (workload.namespace(), workload.name());
    let (after, words) = context.backoffs.failed(workload.uid(), error.to_string());
    match words {
        Words::New => tracing::warn!(namespace, name, %error, "the workload is tried again"),
        Words::Repeated => tracing::debug!(namespace, name, %error, "the same again"),
    }
    Action::requeue(after)
}

/// Brings the objects of a workload's gangs in order, and tells how the gangs stand.
pub(super) async fn look(workload: Arc<Stored>, context: Arc<Context>) -> Result<Action, Error> {
    let (namespace, uid) = (workload.namespace(), workload.uid());
    let object = Object::read(context.facts.kind, workload.text());
    if let Object::Unreadable(error) = &object {
        return Err(Error::Read(error.to_string()));
    }
    let Some(view) = object.workload() else {
        return Ok(Action::await_change());
    };
    // An unfilled cache would look like nothing made.
    if !context.is_filled() {
        return Ok(Action::requeue(UNFILLED));
    }
    context.metrics.looked();
    let pods = context.pods_of(&workload, view).await;
    let Pods {
        members: pods,
        strangers,
    } = pods;
    let made = context.made(&workload);
    let (made, behind) = context.writer.recent.lay_over(uid, made);
    let owner = context.owner(&workload, &pods, &made).await?;
    let cluster = context.cluster.load();
    let partners = context.neighbours.look_up(view, namespace, &cluster);
    let waiters = context
        .waiters
        .of(namespace, known_as(context.facts, &workload));
    let seen = Seen {
        workload: view,
        namespace,
        pods: &pods,
        strangers: &strangers,
        made: &made,
        partners: &partners,
        owner: owner.as_ref(),
        waiters: &waiters,
        now: Timestamp::now(),
    };
    let mut actions = decide::decide(&seen, &cluster);
    drop(cluster);
    let late = context.stragglers.hold_back(&mut actions);
    let mut done = Done::default();
    let writer = &context.writer;
    let carried_out = writer.carry_out(uid, &actions, &made, &mut done);
    let carried_out = carried_out.await;
    context.events.note_created(uid, &done);
    carried_out?;
    if done.barrier.is_none() {
        context.stragglers.wrote(&actions);
    }
    let keepers = actions.keepers.iter();
    keepers.for_each(|keeper| context.neighbours.tell(keeper));
    let sleepers = actions.sleepers.iter();
    let sleepers = sleepers.map(|(scheduler, object)| Sleeper {
        api: context.writer.api(object),
        name: object.name_any(),
        scheduler: *scheduler,
    });
    context.sleepers.set(uid, sleepers.collect());
    actions.failure = actions.finished.and_then(|_| workload.failure());
    actions.note_created(&done.created);
    let now = Timestamp::now();
    let start = NthStart {
        attempt: view.attempt(),
        round: child::round(view.meta()),
    };
    let begun = context.starts.note(uid, start, view.life(), now);
    let case = Case {
        workload: view,
        namespace,
        pods: &pods,
        makers: &[],
        wanted: match needs::of(&actions).is_empty() {
            true => Wanted::Unknown,
            false => Wanted::of(&workload).not_before(begun),
        },
        now,
    };
    let (witnesses, client) = (&context.witnesses, context.writer.client());
    // Before they are asked: what they say from then on has the workload looked at again. And after
    // it, since what they say may show that more is needed.
    context.witness(&workload, &actions);
    let stale = case.explain(&mut actions, witnesses, client).await;
    context.witness(&workload, &actions);
    context.events.wrote(&workload, &done, &actions.gangs).await;
    let mut report = context.events.compare(&workload, &actions);
    actions.broken = report.broken.take().or(actions.broken);
    context.metrics.stand(uid, &actions, &done.obstacles);
    if let Some(action) = report.timed_out {
        context.metrics.timed_out(action, report.timeouts);
    }
    // Before what can fail: the next look does not tell it again.
    context.events.publish(&workload, &report).await;
    let outcome = match report.timed_out {
        Some(TimeoutAction::Suspend) => context.writer.suspend(&workload).await?,
        _ => context.revive(&workload, view, &pods, &actions).await?,
    };
    if let (Outcome::Done, Some(TimeoutAction::Suspend)) = (&outcome, report.timed_out) {
        // It may be resumed before the next look.
        let now = Timestamp::now();
        context.starts.note(uid, start, Life::Suspended, now);
        let resume = resume(context.facts, &workload);
        let why = waited_for(&actions);
        let waited = |(limit, _)| {
            format!(
                "a gang waited longer than {limit:?}{why}, so it was suspended; to resume it: {resume}"
            )
        };
        actions.suspended_after = actions.timeout.map(waited);
    }
    if let Outcome::Refused(why) = outcome {
        let events = &context.events;
        events.refused(&workload, Refusal::Workload, why).await;
        report.again_in(BLOCKED);
    }
    let update = context
        .conditions
        .update(&workload, &actions, &done.obstacles);
    let held = context.writer.write_condition(&workload, update).await;
    let held = held.inspect_err(|_| context.conditions.forget(uid))?;
    let refused = done.barrier.as_deref();
    let status = actions.barrier.as_ref();
    let barrier = context.barrier(&workload, status, refused).await?;
    context.backoffs.succeeded(uid);
    // Nothing tells when a foreign object goes: only Muster's own are watched.
    let blocked = !done.obstacles.is_empty() || done.barrier.is_some();
    let blocked = blocked.then_some(BLOCKED);
    let again = [
        behind,
        blocked,
        held,
        late,
        barrier,
        report.look_again,
        stale,
    ];
    Ok(match again.into_iter().flatten().min() {
        Some(after) => Action::requeue(after),
        None => Action::await_change(),
    })
}

/// What the first gang waited for that did so for too long: events that say it are gone after an hour.
fn waited_for(actions: &Actions) -> String {
    let mut waiting = actions.gangs.iter().filter(|gang| gang.waits());
    let told = waiting.find_map(|gang| Some((gang, gang.causes.first()?)));
    told.map(|(gang, cause)| {
        format!(
            " ({}: {})",
            gang.name,
            cut(&cause.to_string(), LONGEST_CAUSE)
        )
    })
    .unwrap_or_default()
}

/// What to type to resume a workload.
pub(super) fn resume(facts: &Facts, workload: &Stored) -> String {
    let (kind, name, namespace) = (facts.kind.plural, workload.name(), workload.namespace());
    let patch = r#"{"spec":{"suspend":false}}"#;
    format!("kubectl patch {kind} {name} -n {namespace} --type merge -p '{patch}'")
}

impl Actions {
    /// A gang whose object was made a moment ago is so old, also if that is not seen yet.
    fn note_created(&mut self, created: &[String]) {
        let gangs = self.gangs.iter_mut().filter(|gang| gang.age.is_none());
        for gang in gangs.filter(|gang| created.contains(&gang.name)) {
            gang.age = Some(Duration::ZERO);
        }
    }
}

impl Context {
    fn is_filled(&self) -> bool {
        let pods = self.pods.is_filled() && self.waiters.is_filled();
        pods && self.objects.iter().all(|made| made.is_filled())
    }

    fn found(&self, workload: &Stored) -> Vec<SeenPod> {
        let owner = known_as(self.facts, workload);
        self.pods.of(workload.namespace(), owner)
    }

    /// What is watched only while a gang waits.
    fn witness(&self, workload: &Stored, actions: &Actions) {
        let needs = needs::of(actions);
        match needs.is_empty() {
            true => self.witnesses.done(workload.uid()),
            false => {
                let of = WorkloadRef::new(workload.namespace(), workload.name());
                let workload_ref = PartnerRef::new(self.facts.kind.name, of);
                self.witnesses.wait(workload.uid(), workload_ref, needs);
            }
        }
    }

    async fn pods_of(&self, workload: &Stored, view: &dyn Workload) -> Pods {
        let pods = self.found(workload);
        let client = self.writer.client();
        let revisions = self.revisions.of(client, self.facts, workload, view, &pods);
        let revisions = revisions.await;
        Pods::sort(pods, view, &revisions)
    }

    /// Who owns what is made for a workload that is no object itself; events are told of it too.
    async fn owner(
        &self,
        workload: &Stored,
        pods: &[SeenPod],
        made: &[DynamicObject],
    ) -> Result<Option<Owner>, Error> {
        if self.facts.watched != Watched::ByMembers {
            return Ok(None);
        }
        let owners = &self.owners;
        let found = owners.of(workload.namespace(), workload.name(), pods, made);
        let what = "find who made the pods";
        let owner = found.await.map_err(super::write::api_error(what))?;
        if let Some(first) = owner.references.first() {
            self.events.about(workload, first);
        }
        Ok(Some(owner))
    }

    fn made(&self, workload: &Stored) -> Vec<DynamicObject> {
        let objects = self.objects.iter();
        let key = object_key(self.facts, workload);
        let objects = objects.flat_map(|made| made.of(workload.namespace(), key));
        objects.map(Arc::unwrap_or_clone).collect()
    }

    /// Says how a start barrier stands, and tells stragglers; when to look again.
    async fn barrier(
        &self,
        workload: &Stored,
        status: Option<&BarrierStatus>,
        refused: Option<&str>,
    ) -> Result<Option<Duration>, Error> {
        let Some(status) = status else {
            return Ok(None);
        };
        let uid = workload.uid();
        let (update, report) = self.conditions.barrier(workload, status, refused);
        if let Some(outcome) = report.barrier {
            self.metrics.barrier(outcome);
        }
        self.events.publish(workload, &report).await;
        let held = self.writer.write_condition(workload, update).await;
        let held = held.inspect_err(|_| self.conditions.forget(uid))?;
        let due = match refused {
            // There is no file to look for.
            Some(_) => None,
            None => self.stragglers.tell(self.writer.client(), status).await,
        };
        Ok([held, due, status.again].into_iter().flatten().min())
    }

    /// Gives a lost gang a new round, or tells that only a person can.
    async fn revive(
        &self,
        workload: &Stored,
        view: &dyn Workload,
        pods: &[SeenPod],
        actions: &Actions,
    ) -> Result<Outcome, Error> {
        let uid = workload.uid();
        let revival = self.revivals.check(uid, view, pods, actions);
        let outcome = self.writer.revive(workload, &revival).await?;
        let (reason, note) = match revival {
            _ if outcome != Outcome::Done => return Ok(outcome),
            Revival::Suspend(note) => {
                self.metrics.revived();
                ("GangRevived", note)
            }
            Revival::Tell(note) => ("GangStuck", note),
            Revival::Nothing | Revival::Resume | Revival::Forget => return Ok(outcome),
        };
        self.revivals.forget(uid);
        let mut report = Report::default();
        report.warn(reason, note);
        self.events.publish(workload, &report).await;
        Ok(outcome)
    }
}
