//! Jobs: children of other workloads, or workloads of their own.
//!
//! A Job that carries the stamp of another workload is a child of that. Any other is a workload: one
//! gang. Its pods are linked one by one when they are created, and not in its template, since its uid
//! is not known yet when the template is admitted.

pub mod children;
mod facts;
mod read;
mod view;

use std::borrow::Cow;

use serde_json::Value;

use super::child::{self, Child, Holder, Pods};
use super::object::{Made, Maker};
use super::pods::Declaring;
use super::view::Meta;
use super::{
    Admit, Facts, Kind, Life, Origin, Outlook, Reading, Reviewed, SeenPod, Site, Start, Unasked,
    Workload, keys, object,
};
use crate::gang::{Attempt, FieldError, FieldPath, Part, Plan};

pub use facts::KIND;
use facts::{DECLARED_BY_PODS, FACTS, TEMPLATE};
pub(super) use facts::{KNOBS, POD_TEMPLATE};
pub(crate) use view::Job;

/// What its pods are in a gang.
const ROLE: &str = "pods";

const TEMPLATE_PATH: [&str; 2] = ["spec", "template"];

fn template_path() -> FieldPath {
    FieldPath::new("spec").child("template")
}

impl Reviewed for Job<'_> {
    const KIND: &'static Kind = &KIND;
    const FACTS: Option<&'static Facts> = Some(&FACTS);

    fn meta(&self) -> &Meta<'_> {
        &self.metadata
    }

    fn workload(&self) -> Option<&dyn Workload> {
        let of = self.metadata.controller_kind();
        let mut others = object::workloads();
        let child = self.metadata.label(keys::GANG).is_some()
            || others.any(|facts| Some(facts.kind.name) == of);
        let declaring = self.declaring().is_some();
        (!child && !declaring).then_some(self as &dyn Workload)
    }

    /// A Job whose pods declare a gang themselves is in none: often a controller that knows nothing of
    /// gangs has made it.
    fn maker(&self) -> Option<Maker<'_>> {
        let declaring = self.declaring()?;
        let stamped = self.metadata.label(keys::GANG).is_some();
        (!stamped).then(|| Maker {
            errors: keys::check(
                &DECLARED_BY_PODS,
                &FieldPath::new("metadata"),
                Some(&self.metadata),
            )
            .collect(),
            template: Some(Made::Pods(declaring)),
            ..Maker::default()
        })
    }

    fn child(&self) -> Option<Child<'_>> {
        // Without a spec there is nowhere to write a link, and the apiserver refuses it.
        self.spec.template.spec.present.then(|| Child {
            meta: &self.metadata,
            pods: Pods {
                holder: Holder::Template {
                    path: &TEMPLATE_PATH,
                    suspended: self.suspended(),
                },
                meta: self.spec.template.metadata.as_ref(),
                spec: &self.spec.template.spec,
            },
            unserved: "it belongs to a workload that asks for no gang",
        })
    }

    fn check(&self) -> Result<(), FieldError> {
        let spec = template_path().child("spec");
        self.spec.template.spec.check(&spec)
    }
}

impl Job<'_> {
    /// Its pods, where these declare a gang themselves.
    fn declaring(&self) -> Option<Declaring<'_>> {
        let template = self.spec.template.metadata.as_ref();
        // A gang of the Job's own beside another scheduler's words is the Job's to judge.
        let modes = self.metadata.annotation(keys::GANG_MODE).is_some();
        let own_words = template.is_some_and(|meta| meta.annotation(keys::GANG_NAME).is_some());
        if modes && !own_words {
            return None;
        }
        Declaring::new(Pods {
            holder: Holder::Template {
                path: &TEMPLATE_PATH,
                suspended: self.suspended(),
            },
            meta: self.spec.template.metadata.as_ref(),
            spec: &self.spec.template.spec,
        })
    }
}

impl Workload for Job<'_> {
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

    fn sites(&self) -> Vec<Site<'_>> {
        let owned = |path: &[&str]| path.iter().map(|&step| step.to_owned()).collect();
        let template = &self.spec.template;
        let steps: [(&[&str], bool); 3] = [
            (&["spec"], self.spec.present),
            (&TEMPLATE_PATH, template.present),
            (&["spec", "template", "spec"], template.spec.present),
        ];
        let missing = steps.iter().filter(|(_, present)| !present);
        vec![Site {
            path: owned(&TEMPLATE_PATH),
            at: template_path(),
            missing: missing.map(|(path, _)| owned(path)).collect(),
            meta: template.metadata.as_ref(),
            pods: Some(template),
            role: ROLE,
            place: self.pods_place.unwrap_or(&TEMPLATE),
        }]
    }

    /// Kubernetes lets the template of a suspended Job change once its pods are gone and it counts as
    /// not started: always from 1.36 on, and up to 1.35 only if it never was.
    fn may_begin_a_round(&self) -> bool {
        self.status.start_time.is_none() && self.status.active == 0
    }

    fn has_ended(&self, _part: &Part) -> bool {
        self.status.succeeded > 0 || self.status.failed > 0
    }

    fn outlook<'p>(&self, plan: &'p Plan, of: &Origin<'_>, _pods: &[SeenPod]) -> Outlook<'p> {
        let mut gangs = plan.identities(of.namespace, of.name, of.uid, Attempt::default());
        for (_, identity) in &mut gangs {
            identity.round = child::round(&self.metadata);
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

    fn children(
        &self,
        stored: &Value,
        of: &Origin<'_>,
        plan: &Plan,
        _most: usize,
        admit: &mut Admit<'_>,
    ) -> Vec<Value> {
        match plan.parts.is_empty() {
            true => Vec::new(),
            false => children::linked(stored, of, admit),
        }
    }
}
