//! JobSets: all three levels of KEP-1068, from `gangConfig` fields and from annotations.
//!
//! It knows JobSet's semantics (who is created when, how many pods a Job runs, how restarts are
//! counted) and no scheduler.

mod barrier;
mod children;
pub(crate) mod crd;
mod facts;
mod fields;
mod groups;
mod modes;
mod order;
mod read;
mod topology;
mod view;

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::Value;

use super::template::PodTemplate;
use super::view::Meta;
use super::{
    Admit, Facts, GangField, Kind, Life, Makes, Origin, Outlook, Reading, Reviewed, SeenPod, Site,
    Start, Unasked, Workload,
};
use crate::gang::{Attempt, FieldError, FieldPath, Part, Plan, Round};
use crate::workload::{child, numbered};

pub use children::{ChildRef, job, pod};
pub use facts::KIND;
use facts::{FACTS, GROUP, POD_TEMPLATE};
pub(crate) use view::JobSet;
use view::ReplicatedJob;

impl Reviewed for JobSet<'_> {
    const KIND: &'static Kind = &KIND;
    const FACTS: Option<&'static Facts> = Some(&FACTS);

    fn meta(&self) -> &Meta<'_> {
        &self.metadata
    }

    fn workload(&self) -> Option<&dyn Workload> {
        Some(self)
    }

    fn check(&self) -> Result<(), FieldError> {
        let mut jobs = self.spec.replicated_jobs.iter().enumerate();
        jobs.try_for_each(|(i, job)| job.pods_template().spec.check(&pods_path(i).child("spec")))
    }
}

impl Workload for JobSet<'_> {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn meta(&self) -> &Meta<'_> {
        &self.metadata
    }

    fn life(&self) -> Life {
        if self.managed_by_other() {
            Life::LeftAlone
        } else if self.metadata.deleting() {
            Life::Deleting
        } else if self.finished() {
            Life::Finished
        } else if self.suspended() {
            Life::Suspended
        } else {
            Life::Live
        }
    }

    fn manager(&self) -> Option<&str> {
        let manager = self.spec.managed_by.as_deref();
        manager.filter(|_| self.managed_by_other())
    }

    fn read(&self, _unasked: Unasked) -> Reading {
        read::read(self)
    }

    /// Two of each ReplicatedJob: the metadata of its Jobs, and that of their pods.
    fn sites(&self) -> Vec<Site<'_>> {
        let jobs = self.spec.replicated_jobs.iter().enumerate();
        jobs.flat_map(|(i, job)| sites(i, job)).collect()
    }

    fn gang_fields(&self) -> Vec<GangField> {
        fields::gang_fields(self)
    }

    fn attempt(&self) -> u32 {
        self.status.restarts
    }

    /// All gangs of the JobSet's current attempt; each replica with its own restarts.
    fn outlook<'p>(&self, plan: &'p Plan, of: &Origin<'_>, pods: &[SeenPod]) -> Outlook<'p> {
        let attempt = Attempt {
            whole: self.status.restarts,
            own: 0,
        };
        let round = child::round(&self.metadata);
        let living = living_rounds(pods, round);
        let groups = self.status.replicated_jobs_status.iter();
        let own_restarts: HashMap<&str, &[u32]> = groups
            .map(|group| (&*group.name, &*group.job_restarts))
            .collect();
        let mut gangs = plan.identities(of.namespace, of.name, of.uid, attempt);
        for (_, identity) in &mut gangs {
            if let Some(index) = identity.index {
                let own = own_restarts.get(identity.part.as_str());
                let own = own.and_then(|restarts| restarts.get(index as usize));
                identity.attempt.own = own.copied().unwrap_or(0);
            }
            let key = (identity.part.as_str(), identity.index, identity.attempt);
            identity.round = living.get(&key).copied().unwrap_or(round);
        }
        let start = Start {
            plan: Cow::Borrowed(plan),
            stamp: None,
            gangs,
        };
        Outlook {
            starts: vec![start],
            ..Outlook::default()
        }
    }

    fn awaits(&self, part: &Part, _live: usize) -> Option<String> {
        order::awaited(self, part)
    }

    fn has_ended(&self, part: &Part) -> bool {
        let groups = self.status.replicated_jobs_status.iter();
        let of_part = |name: &str| part.roles().iter().any(|role| role.name == name);
        let mut own = groups.filter(|group| of_part(&group.name));
        own.any(|group| group.succeeded + group.failed > 0)
    }

    /// Its Jobs are named after it, the ReplicatedJob and their index.
    fn made_by(&self, kind: &str, name: &str) -> Option<Makes> {
        if self.is(kind, name) {
            return Some(Makes::Any);
        }
        let own = self.metadata.name.as_deref()?;
        let rest = name.strip_prefix(own)?.strip_prefix('-')?;
        let (role, replica) = rest.rsplit_once('-')?;
        let mut groups = self.spec.replicated_jobs.iter();
        let known = groups.any(|known| &*known.name == role);
        let job = kind == super::job::KIND.name && known;
        numbered(replica).filter(|_| job).map(|replica| Makes::Of {
            role: role.to_owned(),
            replica,
        })
    }

    fn children(
        &self,
        stored: &Value,
        of: &Origin<'_>,
        plan: &Plan,
        most: usize,
        admit: &mut Admit<'_>,
    ) -> Vec<Value> {
        children::linked(stored, of, plan, most, admit)
    }
}

/// The latest round of each gang that has live pods, where that is not after the JobSet's. It may be
/// resumed before its controller has seen that it was suspended: its Jobs are not touched then, and
/// their pods go on in the round in which they were made.
fn living_rounds(pods: &[SeenPod], round: Round) -> HashMap<(&str, Option<u32>, Attempt), Round> {
    let mut living = HashMap::new();
    for pod in pods.iter().filter(|pod| !pod.going && pod.phase.is_live()) {
        let gang = &*pod.gang;
        if gang.round <= round {
            let key = (gang.part.as_str(), gang.index, gang.attempt);
            let latest = living.entry(key).or_insert(gang.round);
            *latest = gang.round.max(*latest);
        }
    }
    living
}

fn sites<'o>(index: usize, job: &'o ReplicatedJob<'o>) -> [Site<'o>; 2] {
    let path = |steps: &[&str]| -> Vec<String> {
        let index = index.to_string();
        let steps = ["spec", "replicatedJobs", &index]
            .into_iter()
            .chain(steps.iter().copied());
        steps.map(str::to_owned).collect()
    };
    let outer = &["template"][..];
    let spec = &["template", "spec"][..];
    let inner = &["template", "spec", "template"][..];
    let pod_spec = &["template", "spec", "template", "spec"][..];
    let missing = |steps: &[(&[&str], bool)]| -> Vec<Vec<String>> {
        let missing = steps.iter().filter(|(_, present)| !present);
        missing.map(|(steps, _)| path(steps)).collect()
    };
    let template = &job.template;
    let pods = &*template.spec.template;
    [
        Site {
            path: path(outer),
            at: group_path(index).child("template"),
            missing: missing(&[(outer, template.present)]),
            meta: template.metadata.as_ref(),
            pods: None,
            role: &job.name,
            place: &GROUP,
        },
        Site {
            path: path(inner),
            at: pods_path(index),
            missing: missing(&[
                (outer, template.present),
                (spec, template.spec.present),
                (inner, template.spec.template.present),
                (pod_spec, pods.spec.present),
            ]),
            meta: pods.metadata.as_ref(),
            pods: Some(pods),
            role: &job.name,
            place: &POD_TEMPLATE,
        },
    ]
}

impl<'a> ReplicatedJob<'a> {
    fn pods_template(&self) -> &PodTemplate<'a> {
        &self.template.spec.template
    }
}

/// `spec.replicatedJobs[i]`
fn group_path(index: usize) -> FieldPath {
    FieldPath::new("spec").child("replicatedJobs").index(index)
}

/// `spec.replicatedJobs[i].template.spec.template`
fn pods_path(index: usize) -> FieldPath {
    let template = group_path(index).child("template");
    template.child("spec").child("template")
}

fn annotations_path() -> FieldPath {
    FieldPath::new("metadata").child("annotations")
}
