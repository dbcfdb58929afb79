//! Jobs: children of other workloads. A Job that asks for a gang itself is refused.

use serde::Deserialize;

use super::child::{Child, Holder, Pods};
use super::facts::Kind;
use super::object::Reviewed;
use super::template::PodTemplate;
use super::view::{Meta, or_default};

/// `batch/v1` Job.
pub static KIND: Kind = Kind {
    group: "batch",
    version: "v1",
    name: "Job",
    plural: "jobs",
};

/// A Job, as far as its link goes.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Job<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    metadata: Meta<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    spec: JobSpec<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct JobSpec<'a> {
    suspend: Option<bool>,
    #[serde(borrow, deserialize_with = "or_default")]
    template: PodTemplate<'a>,
}

impl Reviewed for Job<'_> {
    const KIND: &'static Kind = &KIND;

    fn meta(&self) -> &Meta<'_> {
        &self.metadata
    }

    fn child(&self) -> Option<Child<'_>> {
        // Without a spec there is nowhere to write a link, and the apiserver refuses it.
        self.spec.template.spec.present.then(|| Child {
            meta: &self.metadata,
            pods: Pods {
                holder: Holder::Template {
                    path: &["spec", "template"],
                    suspended: self.spec.suspend == Some(true),
                },
                meta: self.spec.template.metadata.as_ref(),
                spec: &self.spec.template.spec,
            },
            unserved: "this version of Muster makes no gangs of plain Jobs; use a JobSet",
        })
    }
}
