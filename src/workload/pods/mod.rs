//! Pods: children of workloads, directly or by a Job. One that asks for a gang itself is refused.

use serde::Deserialize;

use super::child::{Child, Holder, Pods};
use super::facts::Kind;
use super::object::Reviewed;
use super::template::PodSpec;
use super::view::{Given, Meta, or_default};

/// `v1` Pod.
pub static KIND: Kind = Kind {
    group: "",
    version: "v1",
    name: "Pod",
    plural: "pods",
};

/// A pod, as far as its link goes.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Pod<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    metadata: Meta<'a>,
    #[serde(borrow)]
    spec: Given<PodSpec<'a>>,
}

impl Reviewed for Pod<'_> {
    const KIND: &'static Kind = &KIND;

    fn meta(&self) -> &Meta<'_> {
        &self.metadata
    }

    fn child(&self) -> Option<Child<'_>> {
        // Without a spec there is nowhere to write a link, and the apiserver refuses it.
        self.spec.present.then(|| Child {
            meta: &self.metadata,
            pods: Pods {
                holder: Holder::Pod,
                meta: Some(&self.metadata),
                spec: &self.spec,
            },
            unserved: "this version of Muster makes no gangs of single pods; use a Job or a JobSet",
        })
    }
}
