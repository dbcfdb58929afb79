//! A workload's plan held against the scheduler that it goes to: for admission, the reconciler and
//! the command line alike.
//!
//! Pure. It knows neither a kind of workload nor a scheduler by name.

use std::collections::{HashMap, HashSet};

use crate::gang::{FieldError, FieldPath, Located, Owner, Part, Plan, Reference, Round, keys};
use crate::scheduler::{self, Scheduler, Snapshot};
use crate::workload::facts::Links;
use crate::workload::{Facts, Origin, Reading, Unasked, Workload, site};

/// A workload with everything that is wrong with it, and its scheduler when one could be found.
pub struct Judged {
    pub(crate) plan: Plan,
    pub(crate) errors: Vec<FieldError>,
    pub(crate) warnings: Vec<String>,
    pub(crate) unquoted_off: Vec<(Vec<String>, String)>,
    /// Whether a gang is asked for.
    pub(crate) asked: bool,
    /// The mode to write down on a workload that is ganged unasked.
    pub(crate) mode: Option<&'static str>,
    pub(crate) backend: Option<&'static dyn Scheduler>,
}

/// Judges a workload that is stamped now: by the scheduler that was chosen for it before, unless it
/// names another.
pub(crate) fn new(
    workload: &dyn Workload,
    old: Option<&dyn Workload>,
    namespace: &str,
    cluster: &Snapshot,
    unasked: Unasked,
) -> Judged {
    let stored = old.and_then(|old| old.meta().annotation(keys::SCHEDULER));
    keeping(workload, stored, namespace, cluster, unasked)
}

/// The same for one whose gang has a scheduler already.
pub(crate) fn keeping(
    workload: &dyn Workload,
    stored: Option<&str>,
    namespace: &str,
    cluster: &Snapshot,
    unasked: Unasked,
) -> Judged {
    let mut reading = workload.read(unasked);
    if let (None, Some(stored)) = (workload.meta().annotation(keys::SCHEDULER), stored) {
        let kind = scheduler::parse(stored);
        let policy = &mut reading.plan.policy;
        policy.scheduler = kind.map(|kind| Located::new(kind, annotation(keys::SCHEDULER)));
    }
    Judged::of(reading, |plan| choose(plan, namespace, cluster))
}

/// Judges a stored workload, whose gangs keep what was stamped on them.
pub(crate) fn stored(
    workload: &dyn Workload,
    namespace: &str,
    cluster: &Snapshot,
    unasked: Unasked,
) -> Judged {
    Judged::of(workload.read(unasked), |plan| {
        let kept = site::stamp(workload).map(|stamp| scheduler::stamped(&stamp, cluster));
        match kept {
            Some(Ok(backend)) => Ok(backend),
            _ => choose(plan, namespace, cluster),
        }
    })
}

/// What becomes of workloads of a kind that say nothing of gangs.
pub(crate) fn unasked(facts: &Facts, cluster: &Snapshot) -> Unasked {
    match cluster.ganged_unasked.contains(&facts.kind.name) {
        true => Unasked::Gang,
        false => Unasked::NoGang,
    }
}

/// The round as far as it tells the gangs of a workload apart: a link in a Job's template may have to
/// stay as it is, and then so does the gang's name.
pub(crate) fn round(facts: &Facts, backend: &dyn Scheduler, round: Round) -> Round {
    match facts.members.links {
        Links::OnPods => round,
        Links::InTemplates => backend.round(round),
    }
}

/// The owner of what is made for a workload.
pub(crate) fn owner(facts: &Facts, of: &Origin<'_>) -> Owner {
    Owner {
        kind: facts.kind.name,
        namespace: of.namespace.to_owned(),
        gang_name: None,
        references: vec![Reference {
            api_version: facts.kind.api_version(),
            kind: facts.kind.name.to_owned(),
            name: of.name.to_owned(),
            uid: of.uid.to_owned(),
        }],
    }
}

/// A start barrier waits for all pods of its targets, also where their gang starts with fewer: these hold
/// their nodes meanwhile.
fn barrier_beyond_quorum(plan: &Plan) -> Option<String> {
    let targets = plan.barrier.as_ref()?.targets.iter();
    let targets: HashSet<&str> = targets.map(|target| target.role.as_str()).collect();
    let targeted = |part: &&Part| {
        let mut roles = part.roles().iter();
        roles.any(|role| targets.contains(role.name.as_str()))
    };
    let mut small = plan.parts.iter().filter(|part| part.quorum() < part.size());
    small.find(targeted).map(|part| {
        format!(
            "the gang starts with {} of its {} pods, and the start barrier waits for all of them: those \
             that are placed hold their nodes until the others are placed too; leave out the minimum count \
             or the start barrier",
            part.quorum(),
            part.size()
        )
    })
}

/// Where no gang holds all pods of the start barrier, some are placed without the others, and hold their nodes
/// until those come. Of a workload without any gang that is what was asked for.
fn barrier_beyond_gangs(plan: &Plan) -> Option<&'static str> {
    let targets = plan.barrier.as_ref()?.targets.iter();
    let targets = targets.filter(|target| target.members() > 0);
    let mut together: HashMap<_, Vec<&Part>> = HashMap::new();
    for (i, part) in plan.parts.iter().enumerate() {
        let bundle = part.bundle().map(|bundle| &bundle.value);
        together.entry(bundle.ok_or(i)).or_default().push(part);
    }
    let hold_all = |parts: &Vec<&Part>| {
        let roles = parts.iter().flat_map(|part| part.roles());
        let roles: HashSet<&str> = roles.map(|role| role.name.as_str()).collect();
        let mut targets = targets.clone();
        parts.iter().all(|part| part.replicas() == 1)
            && targets.all(|target| roles.contains(target.role.as_str()))
    };
    (!together.is_empty() && !together.values().any(hold_all)).then_some(
        "no gang holds all pods of the start barrier: those that are placed hold their nodes until the \
         others are placed too; make all targets one gang, or let only the pods of one gang wait for \
         each other",
    )
}

/// Nobody waits for anybody.
fn barrier_of_few(plan: &Plan) -> Option<&'static str> {
    let members = plan.barrier.as_ref()?.members();
    (members < 2).then_some(
        "the start barrier has fewer than two pods, so that none waits for another one: leave it out",
    )
}

impl Judged {
    /// Judges what was read; `choose` finds the scheduler of its plan.
    fn of(
        reading: Reading,
        choose: impl FnOnce(&Plan) -> Result<&'static dyn Scheduler, FieldError>,
    ) -> Self {
        let mut judged = Self {
            plan: reading.plan,
            errors: reading.errors,
            warnings: reading.warnings,
            unquoted_off: reading.unquoted_off,
            asked: reading.asked.is_some(),
            mode: reading.mode,
            backend: None,
        };
        if let Err(error) = judged.plan.check_gangs() {
            // Without its parts it costs nobody anything.
            judged.errors.push(error);
            judged.plan.parts.clear();
        }
        let few = barrier_of_few(&judged.plan).map(str::to_owned);
        judged.warnings.extend(few);
        if judged.plan.parts.is_empty() {
            return judged;
        }
        let warnings = barrier_beyond_quorum(&judged.plan);
        let beyond = || barrier_beyond_gangs(&judged.plan).map(str::to_owned);
        judged.warnings.extend(warnings.or_else(beyond));
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
    pub(crate) fn gang(&self) -> String {
        let parts = self.plan.parts.iter().map(|part| part.name().as_str());
        parts.collect::<Vec<_>>().join(",")
    }
}

/// The scheduler that a new plan goes to on this cluster.
fn choose(
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
