//! Part and role: a group of pods with a size and a quorum, before it has an identity.
//!
//! An invalid part cannot be built: [`PartDraft::build`] checks its numbers or returns the error.

use std::num::NonZeroU32;

use super::field::{FieldError, FieldPath};
use super::limits::MAX_GANGS;
use super::name::{BundleName, PartName};
use super::policy::Located;
use super::resources::ResourceList;
use super::shape::Shape;

/// Every scheduler counts members in an int32.
const MAX_SIZE: u64 = i32::MAX as u64;

/// How much of a workload one gang spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Level {
    /// The whole workload is one gang.
    Whole,
    /// One group of its pods (a ReplicatedJob) is one gang.
    Group,
    /// Each replica of a group (a Job, a leader with its workers) is a gang of its own.
    Replica,
}

impl Level {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Whole => "Whole",
            Self::Group => "Group",
            Self::Replica => "Replica",
        }
    }
}

/// The pods of a part that come from one template.
#[derive(Debug, Clone, PartialEq)]
pub struct Role {
    pub(crate) name: String,
    /// Pods of this role in one gang.
    pub(crate) pods: u64,
    /// Pods of this role that must succeed before one gang is done.
    pub(crate) completions: u64,
    pub(crate) shape: Shape,
    /// Where the pods' spec stands in the workload.
    pub(crate) at: FieldPath,
}

/// A group of pods that is bound together or not at all, before it has an identity.
/// Built by [`PartDraft::build`] only, so its numbers always hold: `1 <= quorum <= size`.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    name: PartName,
    level: Level,
    replicas: u32,
    roles: Vec<Role>,
    size: NonZeroU32,
    quorum: NonZeroU32,
    min_resources: ResourceList,
    later: Vec<Role>,
    bundle: Option<Located<BundleName>>,
    at: FieldPath,
}

/// What a workload adapter knows of a part before its numbers are checked.
#[derive(Debug, Clone)]
pub(crate) struct PartDraft {
    pub(crate) name: PartName,
    pub(crate) level: Level,
    /// How many gangs: the replicas for [`Level::Replica`], else 1.
    pub(crate) replicas: u64,
    pub(crate) roles: Vec<Role>,
    /// Pods that are made only once these run, and whose room counts already.
    pub(crate) later: Vec<Role>,
    pub(crate) min_count: Option<Located<i64>>,
    pub(crate) bundle: Option<Located<BundleName>>,
    /// Where the user asked for this gang.
    pub(crate) at: FieldPath,
}

impl PartDraft {
    /// Checks the numbers. `None` for a part without pods.
    pub(crate) fn build(mut self) -> Result<Option<Part>, FieldError> {
        self.roles.retain(|role| role.pods > 0);
        let size = self
            .roles
            .iter()
            .try_fold(0u64, |sum, role| sum.checked_add(role.pods))
            .filter(|size| *size <= MAX_SIZE)
            .and_then(|size| u32::try_from(size).ok());
        let Some(size) = size else {
            return Err(FieldError::forbidden(
                self.at,
                format!(
                    "the gang would have more than {MAX_SIZE} pods, the most that a scheduler \
                     can count; use fewer replicas or less parallelism"
                ),
            ));
        };
        let Some(size) = NonZeroU32::new(size).filter(|_| self.replicas > 0) else {
            return Ok(None);
        };
        let replicas = u32::try_from(self.replicas).ok();
        let Some(replicas) = replicas.filter(|replicas| *replicas <= MAX_GANGS) else {
            return Err(too_many_gangs(self.at, self.replicas));
        };
        let quorum = match self.min_count {
            None => size,
            Some(count) => quorum(count, size)?,
        };
        let total = |roles: &[Role], quorum| {
            let mut total = min_resources(roles, quorum)?;
            let everybody = NonZeroU32::MAX;
            let later = min_resources(&self.later, everybody)?;
            total.checked_add(&later).ok().map(|()| total)
        };
        let min_resources = total(&self.roles, quorum).ok_or_else(|| {
            FieldError::forbidden(
                self.at.clone(),
                "the gang's resource requests add up to more than a quantity can hold",
            )
        })?;
        Ok(Some(Part {
            name: self.name,
            level: self.level,
            replicas,
            roles: self.roles,
            size,
            quorum,
            min_resources,
            later: self.later,
            bundle: self.bundle,
            at: self.at,
        }))
    }
}

/// Refuses more gangs than one workload may have.
pub(crate) fn too_many_gangs(at: FieldPath, gangs: u64) -> FieldError {
    let detail = format!(
        "one gang per replica would make {gangs} gangs, and more than {MAX_GANGS} objects are too \
         many for one workload; use Gang, or fewer replicas"
    );
    FieldError::forbidden(at, detail)
}

fn quorum(count: Located<i64>, size: NonZeroU32) -> Result<NonZeroU32, FieldError> {
    let refuse = |detail| Err(FieldError::invalid(count.at.clone(), count.value, detail));
    match u32::try_from(count.value).ok().and_then(NonZeroU32::new) {
        _ if count.value < 1 => refuse("must be at least 1; leave it out to wait for all".into()),
        Some(quorum) if quorum <= size => Ok(quorum),
        _ => refuse(format!(
            "must not exceed the gang's {size} pods, or the gang never starts"
        )),
    }
}

/// The least that any `quorum` pods of these roles need.
fn min_resources(roles: &[Role], quorum: NonZeroU32) -> Option<ResourceList> {
    let roles = roles.iter();
    let kinds: Vec<(&ResourceList, u64)> = roles
        .map(|role| (&role.shape.requests, role.pods))
        .collect();
    ResourceList::least_of(&kinds, u64::from(quorum.get()))
}

impl Part {
    pub(crate) fn name(&self) -> &PartName {
        &self.name
    }

    pub(crate) fn level(&self) -> Level {
        self.level
    }

    /// How many gangs this part becomes.
    pub(crate) fn replicas(&self) -> u32 {
        self.replicas
    }

    pub(crate) fn roles(&self) -> &[Role] {
        &self.roles
    }

    /// Pods of one gang.
    pub(crate) fn size(&self) -> u32 {
        self.size.get()
    }

    /// Members that must fit before any is bound.
    pub(crate) fn quorum(&self) -> u32 {
        self.quorum.get()
    }

    /// Whether it never starts when no more than `creatable` of its pods can exist before one of
    /// them is on a node.
    pub(crate) fn waits_for_itself(&self, creatable: u64) -> bool {
        u64::from(self.quorum()) > creatable
    }

    /// Pods that must succeed before one gang is done; more than its size where Jobs run in waves.
    pub(crate) fn completions(&self) -> u64 {
        let completions = self.roles.iter().map(|role| role.completions);
        completions.fold(0, u64::saturating_add)
    }

    /// Pods that are made only once this gang runs.
    pub(crate) fn later(&self) -> &[Role] {
        &self.later
    }

    /// The same part once it runs: the pods that are made later now exist and request their own room.
    #[must_use]
    pub(crate) fn started(mut self) -> Self {
        // A part of what could be counted can be counted.
        self.min_resources = min_resources(&self.roles, self.quorum).unwrap_or_default();
        self.later.clear();
        self
    }

    /// The same part where pods come and go, and nothing but the quorum is known of their number.
    #[must_use]
    pub(crate) fn of_quorum(mut self) -> Self {
        self.size = self.quorum;
        self
    }

    /// The least that a quorum of one gang needs, and those that come later.
    pub(crate) fn min_resources(&self) -> &ResourceList {
        &self.min_resources
    }

    pub(crate) fn bundle(&self) -> Option<&Located<BundleName>> {
        self.bundle.as_ref()
    }

    /// Where the user asked for this gang.
    pub(crate) fn at(&self) -> &FieldPath {
        &self.at
    }

    /// The priority class of all pods, when it is one.
    pub(crate) fn priority_class(&self) -> Option<&str> {
        let mut classes = self.roles.iter().map(Role::priority_class);
        let first = classes.next()?;
        classes.all(|class| class == first).then_some(first)?
    }
}

impl Role {
    pub(crate) fn priority_class(&self) -> Option<&str> {
        self.shape.priority_class.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(name: &str, pods: u64, cpu: &str) -> Role {
        let mut shape = Shape::default();
        if !cpu.is_empty() {
            shape.requests.insert("cpu", cpu.parse().unwrap());
        }
        Role {
            name: name.into(),
            pods,
            completions: pods,
            shape,
            at: FieldPath::default(),
        }
    }

    fn draft(roles: Vec<Role>, min_count: Option<i64>) -> PartDraft {
        PartDraft {
            name: PartName::whole(),
            level: Level::Whole,
            replicas: 1,
            roles,
            later: Vec::new(),
            min_count: min_count.map(|n| Located::new(n, FieldPath::new("min"))),
            bundle: None,
            at: FieldPath::new("at"),
        }
    }

    #[test]
    fn a_gang_has_the_sum_of_its_roles() {
        let part = draft(vec![role("a", 3, "1"), role("b", 4, "500m")], None);
        let part = part.build().unwrap().unwrap();
        assert_eq!((part.size(), part.quorum()), (7, 7));
        assert_eq!(part.min_resources().get("cpu").unwrap().to_string(), "5");
    }

    #[test]
    fn a_part_without_pods_is_no_gang() {
        assert_eq!(draft(vec![role("a", 0, "1")], None).build(), Ok(None));
        assert_eq!(draft(vec![], Some(0)).build(), Ok(None));
    }

    #[test]
    fn a_gang_that_no_scheduler_can_count_is_refused() {
        let max = i32::MAX as u64;
        assert!(draft(vec![role("a", max, "")], None).build().is_ok());
        assert!(
            draft(vec![role("a", max, ""), role("b", 1, "")], None)
                .build()
                .is_err()
        );
        assert!(
            draft(vec![role("a", u64::MAX, ""), role("b", u64::MAX, "")], None)
                .build()
                .is_err()
        );
    }

    #[test]
    fn a_quorum_lies_between_one_and_all() {
        for (count, fits) in [(-1, false), (0, false), (1, true), (4, true), (5, false)] {
            let built = draft(vec![role("a", 4, "1")], Some(count)).build();
            assert_eq!(built.is_ok(), fits, "{count}");
        }
        assert!(
            draft(vec![role("a", 4, "1")], Some(i64::MAX))
                .build()
                .is_err()
        );
    }

    #[test]
    fn a_quorum_needs_what_its_smallest_members_need() {
        let part = draft(vec![role("big", 2, "8"), role("small", 4, "")], Some(5));
        let part = part.build().unwrap().unwrap();
        assert_eq!(part.min_resources().get("cpu").unwrap().to_string(), "8");
    }

    #[test]
    fn the_room_of_those_that_come_later_counts_until_the_first_have_started() {
        let mut leader = draft(vec![role("leader", 1, "2")], None);
        leader.later = vec![role("workers", 3, "1")];
        let leader = leader.build().unwrap().unwrap();
        assert_eq!(leader.min_resources().get("cpu").unwrap().to_string(), "5");
        let leader = leader.started();
        assert_eq!(leader.min_resources().get("cpu").unwrap().to_string(), "2");
        assert!(leader.later().is_empty());
    }

    #[test]
    fn one_priority_class_is_the_gangs_and_two_are_none() {
        let mut roles = vec![role("a", 1, ""), role("b", 1, "")];
        roles[0].shape.priority_class = Some("high".into());
        let part = draft(roles.clone(), None).build().unwrap().unwrap();
        assert_eq!(part.priority_class(), None);
        roles[1].shape.priority_class = Some("high".into());
        let part = draft(roles, None).build().unwrap().unwrap();
        assert_eq!(part.priority_class(), Some("high"));
    }
}
