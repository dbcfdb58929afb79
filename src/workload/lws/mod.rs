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
    Admit, Facts, Kind, Life, Origin, Outlook, Reading, Reviewed, SeenPod, Site, Template,
    Transition, Unasked, Workload,
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

    fn gang_count(&self, plan: &Plan) -> u64 {
        let parts = plan.parts.len() as u64;
        self.replicas().saturating_mul(parts)
    }

    /// The StatefulSet of its leaders has its name, those of workers end with the leader's number.
    fn makes_pods(&self, kind: &str, name: &str) -> bool {
        let set = || {
            let own = self.metadata.name.as_deref()?;
            let rest = name.strip_prefix(own)?;
            let index = rest.strip_prefix('-').unwrap_or(rest);
            let numbered = index.bytes().all(|byte| byte.is_ascii_digit());
            (kind == "StatefulSet" && numbered).then_some(())
        };
        self.is(kind, name) || set().is_some()
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
