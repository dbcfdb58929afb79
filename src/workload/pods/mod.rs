//! Pods: children of workloads, directly or by a Job, or members of a gang that they declare
//! themselves, whatever controller made them.
//!
//! Such a gang is one per namespace and name, and has no object of its own. The reconciler looks at it
//! as at a workload of kind Pod: one stands for all ([`stand_in`]).

#[cfg(test)]
pub(crate) mod example;
mod facts;
mod name;
mod outlook;
mod own;
mod read;
mod stamp;

use serde::Deserialize;

use super::child::{Child, Holder, Pods};
use super::declaration::dialect;
use super::given::{Given, or_default};
use super::object::Reviewed;
use super::template::{PodSpec, filled_in_pod};
use super::view::Meta;
use super::{Facts, Life, Origin, Outlook, Reading, SeenPod, Unasked, Workload, keys};
use crate::gang::{Plan, SchedulerKind};

use facts::FACTS;
pub use facts::KIND;
pub(super) use facts::KNOBS;
pub(super) use name::revision_key;
pub(crate) use name::{identity, name};
pub(crate) use own::{Own, seen, stand_in};
pub(crate) use read::undeclared;
pub(crate) use read::{ROLE, speaks_dialect, translated};
pub(crate) use stamp::{PodStamp, difference, place};

/// A pod, as far as its gang goes.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Pod<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    metadata: Meta<'a>,
    #[serde(borrow, deserialize_with = "filled_in_pod")]
    spec: Given<PodSpec<'a>>,
}

impl Pod<'_> {
    fn pods(&self) -> Pods<'_> {
        Pods {
            holder: Holder::Pod,
            meta: Some(&self.metadata),
            spec: &self.spec,
        }
    }
}

/// Whether a pod or a template of pods says something of a gang of its own.
pub(crate) fn declares(meta: &Meta<'_>) -> bool {
    let annotations = meta.annotations.as_ref();
    annotations.is_some_and(|all| all.get(keys::GANG_NAME).is_some())
        || meta.label(keys::GANG_NAME).is_some()
        || speaks_dialect(meta)
}

/// The scheduler that understands what a pod says in words of its own.
pub(crate) fn spoken_by(meta: &Meta<'_>) -> Option<SchedulerKind> {
    speaks_dialect(meta).then_some(dialect::SPOKEN_BY)
}

impl Reviewed for Pod<'_> {
    const KIND: &'static super::Kind = &KIND;
    const FACTS: Option<&'static Facts> = Some(&FACTS);

    fn meta(&self) -> &Meta<'_> {
        &self.metadata
    }

    fn workload(&self) -> Option<&dyn Workload> {
        let stamped = self.metadata.label(keys::GANG).is_some();
        (!stamped && declares(&self.metadata)).then_some(self)
    }

    fn child(&self) -> Option<Child<'_>> {
        // Without a spec there is nowhere to write a link, and the apiserver refuses it.
        self.spec.present.then(|| Child {
            meta: &self.metadata,
            pods: self.pods(),
            unserved: "a pod has no modes: declare its gang with muster.dev/gang-name and \
                       muster.dev/min-count",
        })
    }
}

/// Pods of a template that declare their gang, before there is one.
pub(crate) struct Declaring<'o> {
    meta: &'o Meta<'o>,
    pods: Pods<'o>,
}

impl<'o> Declaring<'o> {
    /// `None` where they declare none.
    pub(super) fn new(pods: Pods<'o>) -> Option<Self> {
        let meta = pods.meta.filter(|meta| declares(meta))?;
        Some(Self { meta, pods })
    }

    /// Where their template stands.
    pub(super) fn path(&self) -> &'static [&'static str] {
        self.pods.path()
    }

    /// How many of them start together, where that can be read.
    pub(super) fn quorum(&self) -> Option<u64> {
        let plan = read::read(&self.pods).plan;
        plan.parts.first().map(|part| u64::from(part.quorum()))
    }
}

impl Workload for Declaring<'_> {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn meta(&self) -> &Meta<'_> {
        self.meta
    }

    fn life(&self) -> Life {
        Life::Live
    }

    fn read(&self, _unasked: Unasked) -> Reading {
        read::read(&self.pods)
    }

    fn outlook<'p>(&self, _plan: &'p Plan, of: &Origin<'_>, pods: &[SeenPod]) -> Outlook<'p> {
        outlook::outlook(of, pods)
    }
}

impl Workload for Pod<'_> {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn meta(&self) -> &Meta<'_> {
        &self.metadata
    }

    fn life(&self) -> Life {
        Life::Live
    }

    fn read(&self, _unasked: Unasked) -> Reading {
        read::read(&self.pods())
    }

    fn outlook<'p>(&self, _plan: &'p Plan, of: &Origin<'_>, pods: &[SeenPod]) -> Outlook<'p> {
        outlook::outlook(of, pods)
    }
}
