//! Plan and gang: what one workload object asks for, and a part once it has an identity.
//!
//! A plan is made from the spec alone. A part with an identity (uid, index, attempt, round) is a
//! gang.

use std::num::NonZeroU32;
use std::sync::Arc;

use super::barrier::Barrier;
use super::field::FieldError;
use super::limits::MAX_GANGS;
use super::name::{Attempt, GangName, Identity, is_dns_subdomain};
use super::part::{Level, Part, too_many_gangs};
use super::policy::Policy;
use super::resources::ResourceList;

/// What one workload object asks for.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Plan {
    pub(crate) parts: Vec<Part>,
    pub(crate) policy: Policy,
    pub(crate) barrier: Option<Barrier>,
}

impl Plan {
    /// Refuses a plan whose parts make more gangs together than one workload may have.
    pub(crate) fn check_gangs(&self) -> Result<(), FieldError> {
        let mut gangs: u64 = 0;
        for part in &self.parts {
            gangs += u64::from(part.replicas());
            if gangs > u64::from(MAX_GANGS) {
                let all = self.parts.iter().map(|part| u64::from(part.replicas()));
                return Err(too_many_gangs(part.at().clone(), all.sum()));
            }
        }
        Ok(())
    }

    /// The parts that start together with this one, itself among them, in the order of the spec.
    pub(crate) fn bundle_of(&self, part: &Part) -> impl Iterator<Item = &Part> {
        let name = part.name().clone();
        let bundle = part.bundle().map(|bundle| bundle.value.clone());
        self.parts.iter().filter(move |other| {
            let same = other.bundle().map(|b| &b.value) == bundle.as_ref();
            *other.name() == name || (bundle.is_some() && same)
        })
    }

    /// The gangs of one start of the workload, in the order of the spec: the position of each one's
    /// part, and its identity.
    pub(crate) fn identities(
        &self,
        namespace: &str,
        workload: &str,
        uid: &str,
        attempt: Attempt,
    ) -> Vec<(usize, Identity)> {
        let mut gangs = Vec::new();
        for (position, part) in self.parts.iter().enumerate() {
            let mut push = |index| {
                let identity = Identity {
                    namespace: namespace.to_owned(),
                    workload: workload.to_owned(),
                    uid: uid.to_owned(),
                    part: part.name().clone(),
                    index,
                    attempt,
                    ..Identity::default()
                };
                gangs.push((position, identity));
            };
            match part.level() {
                Level::Replica => (0..part.replicas()).for_each(|index| push(Some(index))),
                Level::Whole | Level::Group => push(None),
            }
        }
        gangs
    }
}

/// Who owns what is made for a workload: the workload object itself, or where gangs are declared by
/// pods, what these belong to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The kind of the workload.
    pub(crate) kind: &'static str,
    pub(crate) namespace: String,
    /// The name of a gang that its pods declare themselves.
    pub(crate) gang_name: Option<String>,
    /// What is made goes when all of these are gone; the first of them is said to be the controller.
    pub(crate) references: Vec<Reference>,
}

/// An object of the owner's namespace.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Reference {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) uid: String,
}

impl Reference {
    /// The same, if it can be an object at all. The apiserver checks next to nothing of a pod's owners,
    /// which whoever may create the pod writes.
    pub(crate) fn checked(self) -> Option<Self> {
        /// Longer than any uid, kind or version.
        const MAX: usize = 253;
        let plain = |text: &str| {
            let known = |c: char| c.is_ascii_alphanumeric() || "-./".contains(c);
            !text.is_empty() && text.len() <= MAX && text.chars().all(known)
        };
        let fits = [&self.api_version, &self.kind, &self.uid]
            .iter()
            .all(|text| plain(text));
        (fits && is_dns_subdomain(&self.name)).then_some(self)
    }
}

/// A part with an identity: the pods that are bound together or not at all.
#[derive(Debug, Clone)]
pub struct Gang<'p> {
    pub(crate) part: &'p Part,
    pub(crate) identity: Identity,
    quorum: u32,
    /// What starts together with it beyond its workload.
    pub(crate) allies: Arc<Allies>,
}

/// What of other workloads starts together with a gang.
#[derive(Debug, Clone, Default)]
pub(crate) struct Allies {
    pub(crate) gangs: Vec<Ally>,
    /// The name of a gang that has no pods: where one object is for all gangs, none starts while it is
    /// waited for.
    pub(crate) nobody: Option<GangName>,
}

/// A gang of another workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ally {
    pub(crate) identity: Identity,
    pub(crate) quorum: u32,
    pub(crate) min_resources: ResourceList,
    /// Of all its pods, when it is one.
    pub(crate) priority_class: Option<String>,
}

impl From<Gang<'_>> for Ally {
    fn from(gang: Gang<'_>) -> Self {
        Self {
            quorum: gang.quorum(),
            min_resources: gang.part.min_resources().clone(),
            priority_class: gang.part.priority_class().map(str::to_owned),
            identity: gang.identity,
        }
    }
}

impl<'p> Gang<'p> {
    pub(crate) fn new(part: &'p Part, identity: Identity) -> Self {
        Self {
            part,
            identity,
            quorum: part.quorum(),
            allies: Arc::default(),
        }
    }

    /// Members that must fit before any is bound: the part's quorum, or less once some are done.
    pub(crate) fn quorum(&self) -> u32 {
        self.quorum
    }

    /// Lowers the quorum to what is still to come after `succeeded` members are done: a quorum of
    /// pods that no longer exist would hold back the replacements of those that do.
    pub(crate) fn shrink(&mut self, succeeded: u64) {
        let left = self.part.completions().saturating_sub(succeeded);
        let left = u32::try_from(left).unwrap_or(u32::MAX);
        self.quorum = self.part.quorum().min(left.max(1));
    }

    /// Lowers the quorum to the members that are left where pods come and go: nobody makes others for
    /// them, and the quorum is a promise about starting.
    pub(crate) fn keep(&mut self, left: NonZeroU32) {
        self.quorum = self.quorum.min(left.get());
    }

    pub(crate) fn name(&self) -> GangName {
        self.identity.name()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_that_can_be_no_object_is_none() {
        let owner = |name: &str, kind: &str| {
            let reference = Reference {
                api_version: "foo.example/v1".to_owned(),
                kind: kind.to_owned(),
                name: name.to_owned(),
                uid: "8f2d2d52-3a0e-4d4f-9a44-6a4c4f6d3b7e".to_owned(),
            };
            reference.checked().is_some()
        };
        assert!(owner("train.v2", "Foo"));
        for name in ["", "../../x", "a b", "é", &"n".repeat(254)] {
            assert!(!owner(name, "Foo"), "{name}");
        }
        assert!(!owner("train", "") && !owner("train", &"k".repeat(254)));
        assert!(!owner("train", "Foo?x"));
    }
}
