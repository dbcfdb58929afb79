//! What pods wish of their place, and placeholders cannot all hold for them, or not as a user would
//! think.

use serde_json::Value;

use super::placeholder::{self, APART, Kin, NEAR, SPREAD, TaskGroup};
use super::placeholder::{counted, draws_together, required};
use super::selector::{Labels, Selector, list};
use crate::gang::selector::Expression;
use crate::gang::{FieldError, FieldPath, KeptApart, Level, Role};

/// A role of a gang, and how its pods are described.
pub(crate) struct Wishes<'p> {
    pub(crate) role: &'p Role,
    pub(crate) level: Level,
    pub(crate) group: TaskGroup,
}

impl Wishes<'_> {
    /// The labels of its pods, with a stand-in for what all pods of the gang will have alike.
    pub(crate) fn labels(&self) -> Labels {
        let (labels_by_controller, of_job) = (&self.role.shape.controller_labels, self.of_job());
        let mut all = placeholder::labels(&self.group);
        for key in labels_by_controller.shared().chain(of_job.shared) {
            let alike = || "alike".to_owned();
            all.entry(key.to_owned()).or_insert_with(alike);
        }
        all
    }

    /// The keys that a Job's pods have alike: a gang of one Job shares them.
    fn of_job(&self) -> OfJob {
        let keys = self.role.shape.controller_labels.job.iter().copied();
        let (shared, varying) = match self.level {
            Level::Replica => (keys.collect(), Vec::new()),
            Level::Whole | Level::Group => (Vec::new(), keys.collect()),
        };
        OfJob { shared, varying }
    }

    fn at(&self, kind: &str) -> FieldPath {
        match kind {
            SPREAD => self.role.at.child(SPREAD),
            kind => self.role.at.child("affinity").child(kind),
        }
    }

    fn of(&self, kind: &str) -> Vec<&Value> {
        match kind {
            SPREAD => placeholder::spread(&self.group).collect(),
            kind => required(&self.group, kind).collect(),
        }
    }

    /// What the placeholders of a role, which are all alike, cannot hold.
    pub(crate) fn check(&self, kin: &[Kin]) -> Vec<FieldError> {
        let mut varying = self.of_job().varying;
        varying.extend(self.role.shape.controller_labels.pod);
        let (own, mut errors) = (self.labels(), Vec::new());
        if let Some(KeptApart { key, at, instead }) = &self.role.shape.kept_apart
            && varying.contains(key)
        {
            let detail = format!(
                "exclusive topology keeps pods of the gang apart by {key}, {ALIKE}; {instead}"
            );
            errors.push(FieldError::forbidden(at.clone(), detail));
        }
        for kind in [NEAR, APART, SPREAD] {
            let terms = self.of(kind).into_iter();
            let differs = terms.filter_map(|term| told_apart(term, &varying, &own, kin));
            errors.extend(differs.take(1).map(|key| {
                FieldError::forbidden(
                    self.at(kind),
                    format!(
                        "it asks for {key}, which differs between the gang's pods, {ALIKE}; ask for \
                         a label that all of them have"
                    ),
                )
            }));
        }
        let size: u64 = kin.iter().map(|(_, members)| members).sum();
        let single = |constraint| size > 1 && counted(constraint, &own, kin) == 1;
        if self.of(SPREAD).into_iter().any(single) {
            errors.push(FieldError::forbidden(
                self.at(SPREAD),
                "it spreads single pods of several gangs, for which yunikorn's placeholders cannot \
                 hold room; use whenUnsatisfiable: ScheduleAnyway",
            ));
        }
        errors
    }

    /// What is held to the gang, although pods of others may match.
    pub(crate) fn warnings(&self, kin: &[Kin]) -> Vec<String> {
        let (own, mut warnings) = (self.labels(), Vec::new());
        if draws_together(required(&self.group, NEAR), &own, kin, None) {
            warnings.push(format!(
                "{}: on yunikorn the gang's pods look for each other only, and not for pods of \
                 other gangs that match; the first of them chooses the place, and they wait there \
                 although another may have room for all",
                self.at(NEAR)
            ));
        }
        let own_alone = |constraint| counted(constraint, &own, kin) > 1;
        if self.of(SPREAD).into_iter().any(own_alone) {
            warnings.push(format!(
                "{}: on yunikorn only the gang's own pods are spread, and pods of other gangs that \
                 match are not counted",
                self.at(SPREAD)
            ));
        }
        warnings
    }
}

const ALIKE: &str = "and yunikorn's placeholders of one template are all alike";

/// The key by which a term tells pods of the gang apart: with the pod's own value, or with one that
/// is given beside a selector of the gang. An index is none of another workload's in particular.
fn told_apart(term: &Value, varying: &[&str], own: &Labels, kin: &[Kin]) -> Option<String> {
    let varies = |key: &str| varying.contains(&key);
    let fields = ["matchLabelKeys", "mismatchLabelKeys"].into_iter();
    let mut named = fields.flat_map(|field| list(term.get(field)));
    if let Some(key) = named.find_map(|key| key.as_str().filter(|key| varies(key))) {
        return Some(key.to_owned());
    }
    let (given, rest): (Vec<_>, Vec<_>) = Selector::read(term, own)?
        .0
        .into_iter()
        .partition(|e| varies(&e.key) && !e.values.is_empty());
    let alone = rest.is_empty();
    let rest = Selector(rest);
    let gang = kin.iter().any(|(labels, _)| rest.matches(labels));
    let ours = |e: &Expression| gang && (!alone || e.key.ends_with("-index"));
    given
        .into_iter()
        .find(ours)
        .map(|expression| expression.key)
}

struct OfJob {
    shared: Vec<&'static str>,
    varying: Vec<&'static str>,
}
