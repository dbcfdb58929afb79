//! A look at a workload costs what the workload is large: twice the gangs, pods and objects take about
//! twice as long, and not four times.

mod common;

use std::time::{Duration, Instant};

use kube::core::DynamicObject;
use muster::admission::object::{self, Kind, Object};
use muster::cli::admit;
use muster::controller::decide::{self, Actions, Seen, Workload};
use muster::controller::observe::{LinkedBy, PodPhase, ReplicaLife, SeenPod};
use muster::gang::{Attempt, SchedulerKind, Stamp};
use muster::scheduler::{Dialect, Snapshot};
use serde_json::{Value, json};

const FEW: u32 = 200;
/// So many times as many. Large, because what each gang costs by itself would hide a loop over all.
const TIMES: u32 = 16;

/// The lowest time of several, since others use the machine too.
fn time(look: impl Fn() -> Actions) -> Duration {
    let run = || {
        let start = Instant::now();
        look();
        start.elapsed()
    };
    (0..3).map(|_| run()).min().unwrap()
}

/// Fails when a gang among many takes twice as long as a gang among few. `look` makes a look at a
/// workload with so many gangs.
fn is_linear<L: Fn() -> Actions>(what: &str, look: impl Fn(u32) -> L) {
    let (few, many) = (time(look(FEW)), time(look(TIMES * FEW)));
    assert!(
        many < 2 * TIMES * few,
        "{what}: {FEW} gangs take {few:?}, {TIMES} times as many {many:?}"
    );
}

fn stored(kind: Kind, fixture: &str, replicas: &str, count: u32, cluster: &Snapshot) -> Value {
    let text = std::fs::read_to_string(common::fixtures(fixture)).unwrap();
    let mut object = common::documents(&text).remove(0);
    *object.pointer_mut(replicas).unwrap() = json!(count);
    let admitted = admit::create(kind, &object, cluster).unwrap();
    assert!(admitted.errors.is_empty(), "{:?}", admitted.errors);
    let mut stored = admitted.object;
    stored["metadata"]["uid"] = json!("4d1c");
    stored
}

fn decide(
    kind: Kind,
    object: &Value,
    pods: &[SeenPod],
    made: &[DynamicObject],
    cluster: &Snapshot,
) -> Actions {
    let json = object.to_string();
    let view = object::read(kind, &json).unwrap();
    let seen = Seen {
        workload: match &view {
            Object::JobSet(jobset) => Workload::JobSet(jobset),
            Object::LeaderWorkerSet(lws) => Workload::LeaderWorkerSet(lws),
            _ => panic!("neither a JobSet nor a LeaderWorkerSet"),
        },
        namespace: "ml",
        pods,
        made,
        partners: &[],
    };
    decide::decide(&seen, cluster)
}

fn pod(index: u32, number: u32, phase: PodPhase) -> SeenPod {
    SeenPod {
        uid: format!("{index}-{number}"),
        part: "workers".to_owned(),
        index,
        attempt: Attempt::default(),
        round: Default::default(),
        life: None,
        phase,
        created: None,
        going: false,
        unscheduled: None,
    }
}

/// All gangs have restarted. Of every second the old pods still run, and so its object is in use.
fn restarted(gangs: u32, cluster: &Snapshot) -> impl Fn() -> Actions + use<> {
    let path = "/spec/replicatedJobs/0/replicas";
    let fixture = "rules/accepted-job-replicas.yaml";
    let mut jobset = stored(Kind::JobSet, fixture, path, gangs, cluster);
    let before = decide(Kind::JobSet, &jobset, &[], &[], cluster);
    jobset["status"] = json!({"restarts": 1});
    let mut pods = Vec::new();
    for index in 0..gangs {
        pods.extend((0..4).map(|number| pod(index, number, PodPhase::Pending)));
    }
    pods.iter_mut().for_each(|pod| pod.attempt.whole = 1);
    let old = (0..gangs).step_by(2);
    pods.extend(old.map(|index| pod(index, 9, PodPhase::Bound)));
    let now = decide(Kind::JobSet, &jobset, &pods, &before.apply, cluster);
    assert!(now.gangs.len() == gangs as usize && now.delete.len() == gangs as usize / 2);
    let mut made = before.apply;
    made.extend(now.apply);
    let cluster = cluster.clone();
    move || decide(Kind::JobSet, &jobset, &pods, &made, &cluster)
}

#[test]
fn a_look_at_many_gangs_costs_as_much_as_there_are_gangs() {
    for scheduler in [SchedulerKind::Native, SchedulerKind::Coscheduling] {
        let cluster = Snapshot::assumed(scheduler, Dialect::V1_37);
        is_linear(scheduler.as_str(), |gangs| restarted(gangs, &cluster));
    }
}

/// Replicas that wait, each with the object of its gang, and with one of an earlier life.
fn replicas(count: u32, cluster: &Snapshot) -> impl Fn() -> Actions + use<> {
    let kind = Kind::LeaderWorkerSet;
    let lws = stored(kind, "rules/lws.yaml", "/spec/replicas", count, cluster);
    let template = &lws["spec"]["leaderWorkerTemplate"]["leaderTemplate"]["metadata"];
    let stamp = template["annotations"]["muster.dev/stamp"]
        .as_str()
        .unwrap();
    let stamp = Stamp::parse(stamp).unwrap();
    let pods = (0..4 * count).map(|number| SeenPod {
        life: Some(Box::new(ReplicaLife {
            key: format!("key-{}", number / 4),
            index: (number / 4).to_string(),
            revision: "1".to_owned(),
            leader: (number % 4 == 0).then(|| stamp.clone()),
            linked: LinkedBy::Muster,
        })),
        ..pod(0, number, PodPhase::Pending)
    });
    let pods: Vec<SeenPod> = pods.collect();
    let mut made = decide(kind, &lws, &pods, &[], cluster).apply;
    let earlier = made.clone().into_iter().map(|mut object| {
        let name = object.metadata.name.as_deref().unwrap_or_default();
        object.metadata.name = Some(format!("{name}-earlier"));
        let labels = object.metadata.labels.as_mut().unwrap();
        labels.insert("muster.dev/life".to_owned(), "earlier".to_owned());
        object
    });
    made.extend(earlier);
    let now = decide(kind, &lws, &pods, &made, cluster);
    assert!(now.apply.is_empty() && now.delete.len() == count as usize);
    let cluster = cluster.clone();
    move || decide(kind, &lws, &pods, &made, &cluster)
}

#[test]
fn a_look_at_many_replicas_costs_as_much_as_there_are_replicas() {
    let cluster = Snapshot::assumed(SchedulerKind::Volcano, Dialect::V1_37);
    is_linear("replicas", |count| replicas(count, &cluster));
}
