//! A workload's plan held against the scheduler that it will go to.

use crate::gang::{FieldError, FieldPath, Plan};
use crate::scheduler::{self, Scheduler, Snapshot};
use crate::workload::{Reading, keys};

/// A workload with everything that is wrong with it, and its scheduler when one could be found.
pub struct Judged {
    pub plan: Plan,
    pub errors: Vec<FieldError>,
    pub warnings: Vec<String>,
    pub unquoted_off: Vec<(Vec<String>, String)>,
    pub backend: Option<&'static dyn Scheduler>,
}

impl Judged {
    /// Judges what was read; `choose` finds the scheduler of its plan.
    pub fn of(
        reading: Reading,
        choose: impl FnOnce(&Plan) -> Result<&'static dyn Scheduler, FieldError>,
    ) -> Self {
        let mut judged = Self {
            plan: reading.plan,
            errors: reading.errors,
            warnings: reading.warnings,
            unquoted_off: reading.unquoted_off,
            backend: None,
        };
        if judged.plan.parts.is_empty() {
            return judged;
        }
        match choose(&judged.plan) {
            Err(error) => judged.errors.push(error),
            Ok(backend) => judged.hold_against(backend),
        }
        judged
    }

    fn hold_against(&mut self, backend: &'static dyn Scheduler) {
        let kind = backend.kind();
        let (errors, warnings) = scheduler::refusals(kind, backend.abilities(), &self.plan);
        self.errors.extend(scheduler::check_scheduler_names(
            &self.plan,
            backend.entry(),
        ));
        self.errors.extend(errors);
        self.errors.extend(backend.check(&self.plan));
        self.warnings.extend(warnings);
        self.warnings.extend(backend.warnings(&self.plan));
        self.backend = Some(backend);
    }

    /// The names of its parts, for the log.
    pub fn gang(&self) -> String {
        let parts = self.plan.parts.iter().map(|part| part.name().as_str());
        parts.collect::<Vec<_>>().join(",")
    }
}

/// The scheduler that a new plan goes to on this cluster.
pub fn choose(
    plan: &Plan,
    namespace: &str,
    cluster: &Snapshot,
) -> Result<&'static dyn Scheduler, FieldError> {
    let kind = scheduler::resolve(plan, namespace, cluster)?;
    scheduler::backend(kind, cluster).map_err(|unavailable| {
        let at = match &plan.policy.scheduler {
            Some(scheduler) => scheduler.at.clone(),
            None => annotation(keys::SCHEDULER),
        };
        FieldError::invalid(at, kind.as_str(), unavailable.to_string())
    })
}

fn annotation(key: &str) -> FieldPath {
    FieldPath::new("metadata").child("annotations").key(key)
}
