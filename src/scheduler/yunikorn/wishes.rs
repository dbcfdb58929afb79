//! What pods wish of their place, and placeholders cannot all hold for them, or not as a user would
//! think.

use serde_json::Value;

use super::placeholder::{self, APART, NEAR, SPREAD, TaskGroup, counts, draws_together, required};
use super::selector::{Labels, keys};
use crate::gang::{FieldError, FieldPath, Level, Role};

/// A role of a gang, and how its pods are described.
pub struct Wishes<'p> {
    pub role: &'p Role,
    pub level: Level,
    pub group: TaskGroup,
}

impl Wishes<'_> {
    /// The labels of its pods, with a stand-in for what all pods of the gang will have alike.
    pub fn labels(&self) -> Labels {
        let (written, of_job) = (&self.role.shape.written, self.of_job());
        let mut all = placeholder::labels(&self.group);
        for key in written.shared().chain(of_job.shared) {
            let alike = || "alike".to_owned();
            all.entry(key.to_owned()).or_insert_with(alike);
        }
        all
    }

    /// The keys that a Job's pods have alike: a gang of one Job shares them.
    fn of_job(&self) -> OfJob {
        let keys = self.role.shape.written.job.iter().copied();
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

    /// Placeholders of one role are all alike.
    pub fn check(&self) -> Vec<FieldError> {
        let mut varying = self.of_job().varying;
        varying.extend(self.role.shape.written.pod);
        let mut errors = Vec::new();
        if let Some(key) = self.role.shape.apart_by.filter(|key| varying.contains(key)) {
            errors.push(FieldError::forbidden(
                self.role.at.clone(),
                format!(
                    "exclusive topology keeps Jobs apart by {key}, and yunikorn's placeholders of \
                     one template are all alike; use the node-selector strategy, or make each Job \
                     a gang of its own"
                ),
            ));
        }
        for kind in [NEAR, APART, SPREAD] {
            let mut asked = self.of(kind).into_iter().flat_map(keys);
            let differs = asked.find(|key| varying.contains(&key.as_str()));
            errors.extend(differs.map(|key| {
                FieldError::forbidden(
                    self.at(kind),
                    format!(
                        "it asks for {key}, which differs between the gang's pods, and yunikorn's \
                         placeholders of one template are all alike; remove it"
                    ),
                )
            }));
        }
        errors
    }

    /// What is held to the gang, although pods of others may match.
    pub fn warnings(&self, kin: &[Labels]) -> Vec<String> {
        let (own, mut warnings) = (self.labels(), Vec::new());
        if draws_together(required(&self.group, NEAR), &own, kin, None) {
            warnings.push(format!(
                "{}: on yunikorn the gang's pods look for each other only, and not for pods of \
                 others that match; the first of them chooses the place, and they wait there \
                 although another may have room for all",
                self.at(NEAR)
            ));
        }
        if self.of(SPREAD).into_iter().any(|c| counts(c, &own, kin)) {
            warnings.push(format!(
                "{}: on yunikorn the gang's own pods are spread, and pods of others that match are \
                 not counted",
                self.at(SPREAD)
            ));
        }
        warnings
    }
}

struct OfJob {
    shared: Vec<&'static str>,
    varying: Vec<&'static str>,
}
