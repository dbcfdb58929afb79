//! JobSets of a bundle as the reconciler sees them, and what it decides for each of them.

use k8s_openapi::jiff::Timestamp;
use kube::core::DynamicObject;
use muster::cli::admit;
use muster::controller::bundles::partners;
use muster::controller::decide::{self, Actions, Seen, State};
use muster::gang::{Attempt, Identity, PartName, PartnerRef, SchedulerKind, WorkloadRef};
use muster::scheduler::{Dialect, Snapshot};
use muster::workload::seen::PodPhase;
use muster::workload::{Object, SeenPod, jobset};
use serde_json::{Value, json};

use crate::common::{self, seen::linked};

pub const WITH: &str = "muster.dev/bundle-with";

/// A JobSet with its members and what was made for it.
#[derive(Clone)]
pub struct Side {
    pub jobset: Value,
    pub pods: Vec<SeenPod>,
    pub made: Vec<DynamicObject>,
}

/// A cluster that serves the scheduler of a bundle.
pub fn cluster(scheduler: SchedulerKind) -> Snapshot {
    Snapshot::assumed(scheduler, Dialect::V1_37)
}

impl Side {
    /// A stored JobSet that is one gang of four, in the bundle "ring".
    pub fn new(scheduler: SchedulerKind, namespace: &str, name: &str, with: &str) -> Self {
        let text = std::fs::read_to_string(common::fixtures("rules/bundle-with-others.yaml"));
        let mut jobset = common::documents(&text.unwrap())[0].clone();
        jobset["metadata"]["namespace"] = json!(namespace);
        jobset["metadata"]["name"] = json!(name);
        let annotations = &mut jobset["metadata"]["annotations"];
        annotations[WITH] = json!(with);
        annotations["muster.dev/scheduler"] = json!(scheduler.as_str());
        let admitted = admit::create(&jobset::KIND, &jobset, &cluster(scheduler)).unwrap();
        assert!(admitted.errors.is_empty(), "{:?}", admitted.errors);
        let mut jobset = admitted.object;
        jobset["metadata"]["uid"] = json!(format!("uid-{namespace}-{name}"));
        Self {
            jobset,
            pods: Vec::new(),
            made: Vec::new(),
        }
    }

    pub fn text(&self, key: &str) -> &str {
        self.jobset["metadata"][key].as_str().unwrap()
    }

    fn reference(&self) -> PartnerRef {
        let workload = WorkloadRef::new(self.text("namespace"), self.text("name"));
        PartnerRef::new("JobSet", workload)
    }

    pub fn members(&mut self, phase: PodPhase, count: usize) {
        let restarts = self.jobset["status"]["restarts"].as_u64().unwrap_or(0);
        let restarts = u32::try_from(restarts).unwrap();
        let uid = self.text("uid").to_owned();
        self.pods = (0..count).map(|i| pod(&uid, i, restarts, phase)).collect();
    }

    pub fn restart(&mut self) {
        self.jobset["status"] = json!({"restarts": 1});
        self.members(PodPhase::Pending, 4);
    }

    pub fn finish(&mut self) {
        self.jobset["status"] = json!({"terminalState": "Completed"});
        self.members(PodPhase::Succeeded, 4);
    }

    /// Another object of the same name.
    pub fn recreate(&mut self) {
        self.jobset["metadata"]["uid"] = json!("another");
        self.made.clear();
        self.members(PodPhase::Pending, 4);
    }
}

pub fn pod(uid: &str, index: usize, attempt: u32, phase: PodPhase) -> SeenPod {
    let gang = Identity {
        uid: uid.to_owned(),
        part: PartName::new("all"),
        attempt: Attempt {
            whole: attempt,
            own: 0,
        },
        ..Identity::default()
    };
    linked(gang, format!("{index}-{attempt}"), phase)
}

fn read(json: &str) -> Object<'_> {
    Object::read(&jobset::KIND, json)
}

/// What is decided for one of several, as the reconciler looks the others up.
pub fn decide(cluster: &Snapshot, at: usize, all: &[Side]) -> Actions {
    let me = &all[at];
    let json = me.jobset.to_string();
    let object = read(&json);
    let view = object.workload().unwrap();
    let circle = partners::circle(view, me.text("namespace")).unwrap();
    let partners: Vec<_> = circle
        .others()
        .iter()
        .map(|other| {
            let found = all.iter().find(|side| side.reference() == *other);
            let json = found.map(|side| side.jobset.to_string());
            let object = json.as_deref().map(read);
            let seen = found.zip(object.as_ref()).map(|(side, object)| Seen {
                workload: object.workload().unwrap(),
                namespace: side.text("namespace"),
                pods: &side.pods,
                strangers: &[],
                made: &[],
                partners: &[],
                owner: None,
                waiters: &[],
                now: Timestamp::default(),
            });
            partners::look(other.clone(), &circle, seen.as_ref(), cluster)
        })
        .collect();
    let seen = Seen {
        workload: view,
        namespace: me.text("namespace"),
        pods: &me.pods,
        strangers: &[],
        made: &me.made,
        partners: &partners,
        owner: None,
        waiters: &[],
        now: Timestamp::default(),
    };
    decide::decide(&seen, cluster)
}

/// Decides for all of them in turn and carries it out: each sees what it owns.
pub fn settle(cluster: &Snapshot, all: &mut [Side]) {
    for at in 0..all.len() {
        let actions = decide(cluster, at, all);
        let written = actions.apply.iter().chain(&actions.delete);
        let written: Vec<_> = written.map(|o| o.metadata.name.clone()).collect();
        for side in &mut *all {
            side.made.retain(|o| !written.contains(&o.metadata.name));
            let uid = side.text("uid").to_owned();
            let own = |object: &&DynamicObject| {
                let mut owners = object.metadata.owner_references.iter().flatten();
                owners.any(|owner| owner.uid == uid)
            };
            side.made.extend(actions.apply.iter().filter(own).cloned());
        }
    }
}

pub fn waits_for(actions: &Actions) -> &str {
    let gang = &actions.gangs[0];
    assert_eq!(gang.state, State::Waiting);
    gang.evidence.partner.as_deref().unwrap()
}
