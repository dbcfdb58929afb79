//! LeaderWorkerSets: a gang per replica (KEP-407), asked for by annotation or by configuration.
//!
//! It knows when LeaderWorkerSet makes which pods, and no scheduler.

mod args;
pub mod children;
mod facts;
mod outlook;
mod read;
mod replica;
mod stamp;
mod transition;
mod view;

use std::borrow::Cow;

use serde_json::{Value, json};

use super::view::Meta;
use super::{
    Admit, Facts, Kind, Life, Makes, Origin, Outlook, Reading, Reviewed, SeenPod, Site, Template,
    Transition, Unasked, Workload, numbered,
};
use crate::gang::{FieldError, Part, Plan, Stamp, Words};

pub(crate) use args::LwsArgs;
pub use facts::KIND;
use facts::{FACTS, TEMPLATE};
pub use replica::{GROUP_KEY, WORKER_INDEX};
use replica::{LEADER, REPLICA, WORKERS};
use stamp::Order;
pub(crate) use view::LeaderWorkerSet;
use view::{LEADER_TEMPLATE, template_path};

impl Reviewed for LeaderWorkerSet<'_> {
    const KIND: &'static Kind = &KIND;
    const FACTS: Option<&'static Facts> = Some(&FACTS);

    fn meta(&self) -> &Meta<'_> {
        &self.metadata
    }

    fn workload(&self) -> Option<&dyn Workload> {
        Some(self)
    }

    fn check(&self) -> Result<(), FieldError> {
        let template = &self.spec.leader_worker_template;
        let leader = template.leader_template.as_ref();
        let leader = leader.map(|leader| (LEADER_TEMPLATE, leader));
        let workers = (view::WORKER_TEMPLATE, &*template.worker_template);
        let mut both = leader.into_iter().chain([workers]);
        both.try_for_each(|(field, pods)| pods.spec.check(&template_path(field).child("spec")))
    }
}

impl Workload for LeaderWorkerSet<'_> {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn meta(&self) -> &Meta<'_> {
        &self.metadata
    }

    fn life(&self) -> Life {
        match self.metadata.deleting() {
            true => Life::Deleting,
            false => Life::Live,
        }
    }

    fn read(&self, unasked: Unasked) -> Reading {
        read::read(self, unasked)
    }

    fn sites(&self) -> Vec<Site<'_>> {
        let template = &self.spec.leader_worker_template;
        let leader = template
            .leader_template
            .as_ref()
            .map(|pods| (LEADER_TEMPLATE, LEADER, pods));
        let workers = (view::WORKER_TEMPLATE, WORKERS, &*template.worker_template);
        // Without workers of its own the template is not used, but a key in it is still misplaced.
        let both = leader.into_iter().chain([workers]);
        both.map(|(field, role, pods)| {
            let path = ["spec", "leaderWorkerTemplate", field];
            let spec = [&path[..], &["spec"]].concat();
            let owned = |path: &[&str]| path.iter().map(|&step| step.to_owned()).collect();
            Site {
                path: owned(&path),
                at: template_path(field),
                missing: if pods.spec.present {
                    Vec::new()
                } else {
                    vec![owned(&spec)]
                },
                meta: pods.metadata.as_ref(),
                pods: Some(pods),
                role,
                place: &TEMPLATE,
            }
        })
        .collect()
    }

    fn extend_stamp(&self, plan: &Plan, stamp: &mut Stamp) {
        stamp.ordinal = 0;
        let order = self.order();
        if order == Order::LeaderFirst {
            stamp.size = u32::try_from(self.size()).unwrap_or(u32::MAX);
            stamp.quorum = stamp.size;
        }
        stamp.workload = Words::of(&stamp::of_plan(order, plan));
    }

    /// Also where a replica is two gangs.
    fn label<'p>(&self, _part: &'p Part) -> Cow<'p, str> {
        Cow::Borrowed(REPLICA)
    }

    fn template(&self) -> Value {
        let raw = self.spec.leader_worker_template.raw;
        let value: Option<Value> = raw.and_then(|raw| serde_json::from_str(raw.get()).ok());
        json!({"spec": {"leaderWorkerTemplate": value}})
    }

    fn transition(&self, old: &dyn Workload, stamp: &Stamp, template: Template) -> Transition {
        transition::transition(self, old, stamp, template)
    }

    fn outlook<'p>(&self, plan: &'p Plan, of: &Origin<'_>, pods: &[SeenPod]) -> Outlook<'p> {
        outlook::outlook(self, plan, of, pods)
    }

    /// A part of the workers alone is one whose leader starts before them.
    fn awaits(&self, part: &Part, live: usize) -> Option<String> {
        let later = part.name().as_str() == WORKERS && live == 0;
        let why = "its pods are made once the leader is ready (startupPolicy: LeaderReady)";
        later.then(|| why.to_owned())
    }

    fn gang_count(&self, plan: &Plan) -> u64 {
        let parts = plan.parts.len() as u64;
        self.replicas().saturating_mul(parts)
    }

    /// The StatefulSet of its leaders has its name, those of workers end with the leader's number.
    fn made_by(&self, kind: &str, name: &str) -> Option<Makes> {
        if self.is(kind, name) {
            return Some(Makes::Any);
        }
        let own = self.metadata.name.as_deref()?;
        let rest = name.strip_prefix(own).filter(|_| kind == "StatefulSet")?;
        if rest.is_empty() {
            return Some(Makes::First);
        }
        let replica = numbered(rest.strip_prefix('-')?)?;
        let role = WORKERS.to_owned();
        Some(Makes::Of { role, replica })
    }

    fn children(
        &self,
        stored: &Value,
        of: &Origin<'_>,
        plan: &Plan,
        most: usize,
        admit: &mut Admit<'_>,
    ) -> Vec<Value> {
        match plan.parts.is_empty() {
            true => Vec::new(),
            false => children::linked(self, stored, of, most, admit),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::workload::Object;

    #[test]
    fn a_set_is_not_told_what_another_of_a_similar_name_was_refused() {
        let serve = json!({
            "apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet",
            "metadata": {"name": "serve", "namespace": "ml"},
            "spec": {"leaderWorkerTemplate": {"workerTemplate": {"spec": {"containers": []}}}},
        })
        .to_string();
        let object = Object::read(&KIND, &serve);
        let made_by = |kind, name| object.workload().unwrap().made_by(kind, name);
        let workers = |replica| {
            let role = WORKERS.to_owned();
            Some(Makes::Of { role, replica })
        };
        assert_eq!(made_by("StatefulSet", "serve"), Some(Makes::First));
        assert_eq!(made_by("StatefulSet", "serve-0"), workers(0));
        assert_eq!(made_by("StatefulSet", "serve-12"), workers(12));
        for other in [
            "serve2",
            "serve-",
            "serve-+1",
            "serve-a",
            "serve-1-2",
            "ser",
        ] {
            assert_eq!(made_by("StatefulSet", other), None, "{other}");
        }
        assert_eq!(made_by("Job", "serve-0"), None);
        assert_eq!(made_by("LeaderWorkerSet", "serve"), Some(Makes::Any));
    }
}
