//! A look at a workload costs what the workload is large: twice the gangs, pods and objects take about
//! twice as long, and not four times.

use crate::common;
use crate::common::seen::{decide, linked};

use std::sync::Arc;
use std::time::Duration;

use muster::cli::admit;
use muster::controller::decide::Actions;
use muster::gang::{Attempt, Identity, PartName, SchedulerKind, Stamp, StampHash};
use muster::scheduler::{Dialect, Snapshot};
use muster::workload::seen::{PodPhase, Sealed};
use muster::workload::{Kind, SeenPod, jobset, lws};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

const FEW: u32 = 200;
/// So many times as many. Large, because what each gang costs by itself would hide a loop over all.
const TIMES: u32 = 16;

/// The lowest time of several, since others use the machine too.
fn time(look: impl Fn() -> Actions) -> Duration {
    // Of this thread, and not of the machine: other tests run at the same time.
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
    };
    let run = || {
        let start = now();
        look();
        now() - start
    };
    (0..5).map(|_| run()).min().unwrap()
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

fn stored(
    kind: &'static Kind,
    fixture: &str,
    replicas: &str,
    count: u32,
    cluster: &Snapshot,
) -> Value {
    let text = std::fs::read_to_string(common::fixtures(fixture)).unwrap();
    let mut object = common::documents(&text).remove(0);
    *object.pointer_mut(replicas).unwrap() = json!(count);
    let admitted = admit::create(kind, &object, cluster).unwrap();
    assert!(admitted.errors.is_empty(), "{:?}", admitted.errors);
    let mut stored = admitted.object;
    stored["metadata"]["uid"] = json!("4d1c");
    stored
}

fn pod(index: u32, number: u32, attempt: u32, phase: PodPhase) -> SeenPod {
    let gang = Identity {
        uid: "4d1c".to_owned(),
        part: PartName::new("workers"),
        index: Some(index),
        attempt: Attempt {
            whole: attempt,
            own: 0,
        },
        ..Identity::default()
    };
    linked(gang, format!("{index}-{number}"), phase)
}

/// All gangs have restarted. Of every second the old pods still run, and so its object is in use.
fn restarted(gangs: u32, cluster: &Snapshot) -> impl Fn() -> Actions + use<> {
    let path = "/spec/replicatedJobs/0/replicas";
    let fixture = "rules/accepted-job-replicas.yaml";
    let mut jobset = stored(&jobset::KIND, fixture, path, gangs, cluster);
    let before = decide(&jobset::KIND, &jobset, &[], &[], cluster);
    jobset["status"] = json!({"restarts": 1});
    let mut pods = Vec::new();
    for index in 0..gangs {
        pods.extend((0..4).map(|number| pod(index, number, 1, PodPhase::Pending)));
    }
    let old = (0..gangs).step_by(2);
    pods.extend(old.map(|index| pod(index, 9, 0, PodPhase::Bound)));
    let now = decide(&jobset::KIND, &jobset, &pods, &before.apply, cluster);
    assert!(now.gangs.len() == gangs as usize && now.delete.len() == gangs as usize / 2);
    let mut made = before.apply;
    made.extend(now.apply);
    let cluster = cluster.clone();
    move || decide(&jobset::KIND, &jobset, &pods, &made, &cluster)
}

#[test]
fn a_look_at_many_gangs_costs_as_much_as_there_are_gangs() {
    for scheduler in [SchedulerKind::NATIVE, SchedulerKind::COSCHEDULING] {
        let cluster = Snapshot::assumed(scheduler, Dialect::V1_37);
        is_linear(scheduler.as_str(), |gangs| restarted(gangs, &cluster));
    }
}

/// Replicas that wait, each with the object of its gang, and with one of an earlier life.
fn replicas(count: u32, cluster: &Snapshot) -> impl Fn() -> Actions + use<> {
    let kind = &lws::KIND;
    let set = stored(kind, "rules/lws.yaml", "/spec/replicas", count, cluster);
    let template = &set["spec"]["leaderWorkerTemplate"]["leaderTemplate"]["metadata"];
    let stamp = template["annotations"]["muster.dev/stamp"]
        .as_str()
        .unwrap();
    let stamp = Arc::new(Stamp::parse(stamp).unwrap());
    let pods = (0..4 * count).map(|number| {
        let leads = number % 4 == 0;
        let gang = Identity {
            uid: format!("key-{}", number / 4),
            part: PartName::new("replica"),
            index: Some(number / 4),
            revision: Some("1".to_owned()),
            ..Identity::default()
        };
        SeenPod {
            gang: Arc::new(gang),
            role: Some(if leads { "leader" } else { "workers" }),
            stamp: leads.then(|| Arc::clone(&stamp)),
            stamped: StampHash::default(),
            sealed: Sealed::Yes,
            ..pod(0, number, 0, PodPhase::Pending)
        }
    });
    let pods: Vec<SeenPod> = pods.collect();
    let mut made = decide(kind, &set, &pods, &[], cluster).apply;
    let earlier = made.clone().into_iter().map(|mut object| {
        let name = object.metadata.name.as_deref().unwrap_or_default();
        object.metadata.name = Some(format!("{name}-earlier"));
        let labels = object.metadata.labels.as_mut().unwrap();
        labels.insert("muster.dev/life".to_owned(), "earlier".to_owned());
        object
    });
    made.extend(earlier);
    let now = decide(kind, &set, &pods, &made, cluster);
    assert!(now.apply.is_empty() && now.delete.len() == count as usize);
    let cluster = cluster.clone();
    move || decide(kind, &set, &pods, &made, &cluster)
}

#[test]
fn a_look_at_many_replicas_costs_as_much_as_there_are_replicas() {
    let cluster = Snapshot::assumed(SchedulerKind::VOLCANO, Dialect::V1_37);
    is_linear("replicas", |count| replicas(count, &cluster));
}
