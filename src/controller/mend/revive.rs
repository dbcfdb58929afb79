//! Gangs that never start once a waiting member is deleted, and how they come back.
//!
//! YuniKorn (1.8) forgets a gang whose first pod is deleted, and pods that come later under the same
//! application id never start, although nodes are free. A new round is a new application. So the workload
//! is suspended, which takes its pods away, and resumed when they are gone. An annotation on it
//! says so in between: whoever leads then resumes it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::controller::decide::{Actions, GangStatus, State};
use crate::workload::seen::PodPhase;
use crate::workload::{Life, SeenPod, Suspension, Workload, keys};

/// What is to be done about a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Revival {
    Nothing,
    /// Its gang is lost: take the pods away, and tell this.
    Suspend(String),
    /// Its gang is lost, and only a person can help: tell this.
    Tell(String),
    /// Its pods are gone: start them again.
    Resume,
    /// Somebody else has resumed it.
    Forget,
}

/// The members that wait or have waited, by the gang's name.
type Waiting = HashMap<String, BTreeSet<String>>;

/// What was seen of gangs that wait, by the workload's uid.
#[derive(Debug, Default)]
pub(crate) struct Revivals(Mutex<HashMap<String, Waiting>>);

impl Revivals {
    pub(crate) fn check(
        &self,
        uid: &str,
        workload: &dyn Workload,
        pods: &[SeenPod],
        actions: &Actions,
    ) -> Revival {
        if workload.facts().suspension == Suspension::None {
            return Revival::Nothing;
        }
        // Anybody may have written the annotation: it counts only where Muster writes it itself.
        let Some(why) = actions.orphans else {
            self.forget(uid);
            return Revival::Nothing;
        };
        let meta = workload.meta();
        // Kueue alone suspends and resumes the workloads of its queues.
        let ours = meta.label(keys::KUEUE_QUEUE).is_none();
        if ours && meta.annotation(keys::REVIVING).is_some() {
            self.forget(uid);
            return match workload.life() {
                Life::Suspended if pods.iter().any(|pod| pod.phase.is_live()) => Revival::Nothing,
                Life::Suspended => Revival::Resume,
                _ => Revival::Forget,
            };
        }
        let lost = self.lost(uid, pods, &actions.gangs).join(", ");
        if lost.is_empty() {
            return Revival::Nothing;
        }
        let note = format!("{lost}: a pod was deleted while the gang waited, and {why}");
        let kind = workload.facts().kind.name;
        // Other gangs of the workload may run: a suspension would end them.
        let running = pods.iter().any(|pod| pod.phase == PodPhase::Bound);
        if ours && !running {
            Revival::Suspend(format!("{note}: the {kind} is suspended and resumed"))
        } else {
            Revival::Tell(format!("{note}: suspend the {kind} and resume it"))
        }
    }

    /// The gangs of which a waiting member was deleted, or all were. A gang that has a member on a node
    /// has been placed once, and a replacement is placed by itself.
    ///
    /// A member counts as long as it exists, whatever becomes of it meanwhile: one that is being
    /// deleted and still has a finalizer is marked as failed by Kubernetes (pod garbage collector, every
    /// 20 seconds), and is gone only then.
    ///
    /// They are found again at every look until [`Self::forget`]: what is done about it may fail.
    fn lost(&self, uid: &str, pods: &[SeenPod], gangs: &[GangStatus]) -> Vec<String> {
        let mut all = self.lock();
        let mut before = all.remove(uid).unwrap_or_default();
        let existing: HashSet<&str> = pods.iter().map(|pod| pod.uid.as_str()).collect();
        let (mut now, mut lost) = (Waiting::new(), Vec::new());
        let open = |gang: &&GangStatus| gang.state != State::Scheduled && gang.bound == 0;
        for gang in gangs.iter().filter(open) {
            let mut members = before.remove(&gang.name).unwrap_or_default();
            if members.iter().any(|uid| !existing.contains(uid.as_str())) {
                lost.push(gang.name.clone());
            }
            members.extend(gang.pending.iter().cloned());
            if !members.is_empty() {
                now.insert(gang.name.clone(), members);
            }
        }
        if !now.is_empty() {
            all.insert(uid.to_owned(), now);
        }
        lost
    }

    /// A workload that is gone or has no such gang, or for which all is done.
    pub(crate) fn forget(&self, uid: &str) {
        self.lock().remove(uid);
    }

    /// The same for all workloads but these.
    pub(crate) fn keep_only(&self, uids: &HashSet<String>) {
        self.lock().retain(|uid, _| uids.contains(uid));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Waiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::workload::{Object, jobset};

    fn pod(uid: &str, phase: PodPhase) -> SeenPod {
        SeenPod {
            uid: uid.to_owned(),
            phase,
            ..SeenPod::example()
        }
    }

    fn look(revivals: &Revivals, manifest: &Value, pods: &[SeenPod]) -> Revival {
        let bound = pods.iter().filter(|p| p.phase == PodPhase::Bound).count();
        let pending = pods.iter().filter(|p| p.phase == PodPhase::Pending);
        let actions = Actions {
            orphans: Some("it is forgotten"),
            gangs: vec![GangStatus {
                state: match pods {
                    [] => State::Empty,
                    _ => State::Waiting,
                },
                bound,
                live: pods.len(),
                pending: pending.map(|pod| pod.uid.clone()).collect(),
                ..GangStatus::example()
            }],
            ..Actions::default()
        };
        let json = manifest.to_string();
        let object = Object::read(&jobset::KIND, &json);
        let workload = object.workload().unwrap();
        revivals.check("4d1c", workload, pods, &actions)
    }

    fn waiting(uids: &[&str]) -> Vec<SeenPod> {
        uids.iter().map(|uid| pod(uid, PodPhase::Pending)).collect()
    }

    #[test]
    fn a_gang_that_loses_a_waiting_member_is_lost_until_something_is_done() {
        let (revivals, jobset) = (Revivals::default(), json!({"metadata": {}}));
        let step = |uids: &[&str]| look(&revivals, &jobset, &waiting(uids));
        assert_eq!(step(&["a", "b"]), Revival::Nothing);
        assert_eq!(step(&["a", "b", "c"]), Revival::Nothing);
        assert!(matches!(step(&["b", "c", "d"]), Revival::Suspend(_)));
        // The JobSet had changed meanwhile: it was not suspended.
        assert!(matches!(step(&["b", "c", "d"]), Revival::Suspend(_)));
        revivals.forget("4d1c");
        assert_eq!(step(&["b", "c", "d"]), Revival::Nothing);
    }

    #[test]
    fn a_gang_that_loses_all_its_members_at_once_is_lost_too() {
        let (revivals, jobset) = (Revivals::default(), json!({"metadata": {}}));
        assert_eq!(look(&revivals, &jobset, &[]), Revival::Nothing);
        let members = waiting(&["a", "b"]);
        assert_eq!(look(&revivals, &jobset, &members), Revival::Nothing);
        let lost = look(&revivals, &jobset, &[]);
        assert!(matches!(lost, Revival::Suspend(_)), "{lost:?}");
    }

    #[test]
    fn a_member_that_is_placed_or_fails_is_not_lost() {
        let (revivals, jobset) = (Revivals::default(), json!({"metadata": {}}));
        for phase in [PodPhase::Bound, PodPhase::Failed] {
            look(&revivals, &jobset, &waiting(&["a", "b"]));
            let now = [pod("a", phase), pod("b", PodPhase::Pending)];
            assert_eq!(look(&revivals, &jobset, &now), Revival::Nothing);
        }
    }

    #[test]
    fn a_member_that_fails_while_it_is_deleted_is_lost_when_it_is_gone() {
        let (revivals, jobset) = (Revivals::default(), json!({"metadata": {}}));
        look(&revivals, &jobset, &waiting(&["a", "b"]));
        let failed = [pod("a", PodPhase::Failed), pod("b", PodPhase::Pending)];
        assert_eq!(look(&revivals, &jobset, &failed), Revival::Nothing);
        let lost = look(&revivals, &jobset, &waiting(&["b", "c"]));
        assert!(matches!(lost, Revival::Suspend(_)), "{lost:?}");
    }

    #[test]
    fn kueue_is_not_overruled() {
        let revivals = Revivals::default();
        let jobset = json!({"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "q"},
            "annotations": {"muster.dev/reviving": "true"}}, "spec": {"suspend": true}});
        assert_eq!(look(&revivals, &jobset, &waiting(&["a"])), Revival::Nothing);
        let lost = look(&revivals, &jobset, &waiting(&["b"]));
        assert!(matches!(lost, Revival::Tell(_)), "{lost:?}");
    }

    #[test]
    fn a_marked_jobset_without_a_gang_of_musters_is_not_written_to() {
        for suspend in [true, false] {
            let marked = json!({"metadata": {"annotations": {"muster.dev/reviving": "true"}},
                "spec": {"suspend": suspend}});
            let json = marked.to_string();
            let object = Object::read(&jobset::KIND, &json);
            let workload = object.workload().unwrap();
            let revival = Revivals::default().check("4d1c", workload, &[], &Actions::default());
            assert_eq!(revival, Revival::Nothing);
        }
    }

    #[test]
    fn a_marked_jobset_is_resumed_when_its_pods_are_gone() {
        let revivals = Revivals::default();
        let marked = |suspend: bool| {
            json!({"metadata": {"annotations": {"muster.dev/reviving": "true"}},
                "spec": {"suspend": suspend}})
        };
        assert_eq!(
            look(&revivals, &marked(true), &waiting(&["a"])),
            Revival::Nothing
        );
        assert_eq!(look(&revivals, &marked(true), &[]), Revival::Resume);
        assert_eq!(look(&revivals, &marked(false), &[]), Revival::Forget);
    }
}
