//! What each scheduler can do, as data; and the refusals that follow from it.
//!
//! One table for admission, the documentation and the command line: what a scheduler cannot do is
//! refused at `kubectl apply`, with the reason, and never dropped.

use std::collections::BTreeMap;

use crate::gang::{FieldError, Level, Part, Plan, SchedulerKind, Strictness};

/// Whether something works, and if not, why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Support {
    /// It works.
    Yes,
    /// It does not, and why.
    No(&'static str),
}

/// How far a bundle can reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bundles {
    /// The gangs of several workload objects, also of several namespaces: so many at most.
    AcrossWorkloads {
        /// How many gangs.
        most: usize,
    },
    /// The gangs of one workload object; why not of several, and what to do instead.
    WithinWorkload(&'static str),
    /// The same, if something holds that Muster cannot see.
    WithinWorkloadIf(&'static str),
    /// There are none, and why.
    No(&'static str),
}

/// What happens to the pods' priority class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Priorities {
    /// All pods of a gang must have the same one; it goes on the gang's object.
    MustBeEqual,
    /// It goes on the gang's object when all pods have the same one.
    Carried,
    /// The gang's object has no priority.
    OnPodsOnly,
}

/// Where the link is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkSite {
    /// In the Job's pod template, when the Job is created: one call per Job.
    JobTemplate,
    /// On each pod, when it is created.
    Pod,
}

/// What a resumed workload's gang is to the scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resume {
    /// A new gang under a new name; the link is rewritten when the Job resumes.
    NewGang,
    /// A new object under the same name: the link cannot change, because a Job's template keeps
    /// its `schedulingGroup` for life (Kubernetes 1.36 and 1.37 refuse the update even while
    /// the Job is suspended). The object is deleted once the suspended pods are gone, and with it all
    /// state; a workload that is resumed before keeps it, because no other of its name can be made
    /// while a pod refers to it, and pods of both rounds do.
    SameGang,
}

/// Whether a gang's quorum can follow its members as they finish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QuorumChange {
    /// The object takes a new quorum while the gang lives.
    Live,
    /// The quorum is fixed, and why: after members have finished, the replacement of another one
    /// waits.
    Never(&'static str),
    /// The scheduler counts finished members itself.
    NotNeeded,
}

/// Whether a scheduler tries a blocked gang again when room appears.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NewRoom {
    /// By itself.
    Noticed,
    /// Only after a write to the gang's object, or minutes later.
    WhenNudged,
}

/// Who keeps the time that a gang may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timeouts {
    /// Muster alone.
    Muster,
    /// Muster, and the scheduler is told.
    CarriedToo,
}

/// What is done for pods that are made only once others of their replica run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Later {
    /// Their room is held.
    Held,
    /// The first start only when there is room for all, which nobody holds.
    Counted,
    /// Nothing: the first start although there may be no room for the others.
    Unknown,
}

/// One scheduler's row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Abilities {
    /// Gangs that start together.
    pub(crate) bundle: Bundles,
    /// Queues.
    pub(crate) queue: Support,
    /// Gangs whose members keep their room while the rest is retried.
    pub(crate) non_strict: Support,
    /// The pods' priority class.
    pub(crate) priorities: Priorities,
    /// Where the link is written, unless the cluster says otherwise.
    pub(crate) link_site: LinkSite,
    /// What a resumed gang is.
    pub(crate) resume: Resume,
    /// The quorum as members finish.
    pub(crate) quorum_change: QuorumChange,
    /// What a blocked gang does when room appears.
    pub(crate) new_room: NewRoom,
    /// What works but surprises, said at every admission.
    pub(crate) caution: Option<&'static str>,
    /// Who keeps the time.
    pub(crate) timeout: Timeouts,
    /// Whether its object says what a quorum needs at least.
    pub(crate) min_resources: bool,
    /// Pods that are made only once others run.
    pub(crate) later: Later,
    /// The releases whose sources and programs the backend was made by.
    pub(crate) made_for: &'static str,
}

/// What of a plan this scheduler cannot do (errors), and what it does differently (warnings).
pub(crate) fn refusals(
    kind: SchedulerKind,
    abilities: &Abilities,
    plan: &Plan,
) -> (Vec<FieldError>, Vec<String>) {
    let mut errors = Vec::new();
    let mut warnings: Vec<String> = abilities.caution.map(str::to_owned).into_iter().collect();
    let refuse =
        |at, what: &str, why| FieldError::forbidden(at, format!("{kind} cannot do {what}: {why}"));
    if let (Some(queue), Support::No(why)) = (&plan.policy.queue, abilities.queue) {
        errors.push(refuse(queue.at.clone(), "queues", why));
    }
    if let (Some(strictness), Support::No(why)) = (&plan.policy.strictness, abilities.non_strict)
        && strictness.value == Strictness::NonStrict
    {
        errors.push(refuse(strictness.at.clone(), "NonStrict gangs", why));
    }
    let mut bundles: BTreeMap<&str, Vec<&Part>> = BTreeMap::new();
    for part in &plan.parts {
        if let Some(bundle) = part.bundle() {
            bundles.entry(bundle.value.as_str()).or_default().push(part);
        }
        if part.priority_class().is_none() {
            priorities(kind, abilities, part, &mut errors, &mut warnings);
        }
    }
    warnings.extend(later(kind, abilities, plan));
    let with = plan.policy.bundle_with.as_ref();
    let why_not = match abilities.bundle {
        Bundles::AcrossWorkloads { .. } => None,
        Bundles::WithinWorkload(why) => Some(why),
        Bundles::WithinWorkloadIf(_) => {
            // 1.37: parent and number never change, and replacements wait for a sibling that is gone.
            Some(
                "the number of gangs of a bundle never changes there, and a workload that has ended \
                 would hold back the pods of the others; remove it, or use koordinator",
            )
        }
        Bundles::No(_) => Some("it has no bundles; remove it, or use koordinator"),
    };
    if let (Some(with), Some(why)) = (with, why_not) {
        let detail = format!("{kind} cannot bundle the gangs of several workloads: {why}");
        errors.push(FieldError::forbidden(with.at.clone(), detail));
    }
    for (name, parts) in bundles {
        let Some(at) = parts[0].bundle().map(|b| b.at.clone()) else {
            continue;
        };
        match (abilities.bundle, with) {
            (Bundles::No(why), _) => errors.push(refuse(at, "bundles", why)),
            (Bundles::AcrossWorkloads { .. }, Some(with)) => {
                let others: Vec<String> = with.value.iter().map(ToString::to_string).collect();
                warnings.push(format!(
                    "the bundle {name:?} starts only together with {}, once each of them names \
                     all others in muster.dev/bundle-with",
                    others.join(", ")
                ));
            }
            (Bundles::AcrossWorkloads { .. }, None) if gangs(&parts) < 2 => {
                let remedy = match parts[0].level() {
                    Level::Whole => "name other workloads in muster.dev/bundle-with, or remove it",
                    Level::Group | Level::Replica => {
                        "remove it, give it another gang of this object, or name other workloads \
                         in muster.dev/bundle-with"
                    }
                };
                let detail = format!("the bundle {name:?} has only this one gang; {remedy}");
                errors.push(FieldError::forbidden(at, detail));
            }
            (Bundles::AcrossWorkloads { .. }, None) => warnings.push(format!(
                "the bundle {name:?} joins the gangs of this object only: those of other workloads \
                 are named in muster.dev/bundle-with"
            )),
            // Refused above.
            (_, Some(_)) => {}
            _ if gangs(&parts) < 2 => {
                let remedy = match parts[0].level() {
                    Level::Whole => "remove it, or use koordinator",
                    Level::Group | Level::Replica => {
                        "remove it, or give it another gang of this object"
                    }
                };
                let detail = format!(
                    "the bundle {name:?} has only this one gang, and {kind} cannot bundle the \
                     gangs of several workloads; {remedy}"
                );
                errors.push(FieldError::forbidden(at, detail));
            }
            _ => warnings.push(format!(
                "the bundle {name:?} joins the gangs of this object only: {kind} cannot bundle \
                 the gangs of several workloads"
            )),
        }
        if let Bundles::WithinWorkloadIf(condition) = abilities.bundle {
            warnings.push(format!("the bundle {name:?} holds only if {condition}"));
        }
        let class = parts[0].priority_class();
        if parts.iter().any(|part| part.priority_class() != class) {
            warnings.push(format!(
                "the gangs of the bundle {name:?} have different priority classes: the bundle as \
                 a whole gets none"
            ));
        }
    }
    (errors, warnings)
}

/// What is not promised to pods that are made only once others run.
fn later(kind: SchedulerKind, abilities: &Abilities, plan: &Plan) -> Option<String> {
    let first = plan.parts.iter().find(|part| !part.later().is_empty())?;
    let (first, others) = (first.name().as_str(), first.later().iter());
    let others: Vec<&str> = others.map(|role| role.name.as_str()).collect();
    let others = others.join(", ");
    let what = match abilities.later {
        Later::Held => return None,
        Later::Counted => "starts when there is room for all, but nobody holds it until then",
        Later::Unknown => "starts although there may be no room for them",
    };
    Some(format!(
        "the {others} are made once the {first} runs, and are bound together or not at all; on \
         {kind} the {first} {what}"
    ))
}

fn gangs(parts: &[&Part]) -> u64 {
    parts.iter().map(|part| u64::from(part.replicas())).sum()
}

/// A gang whose pods differ in priority class, or have none.
fn priorities(
    kind: SchedulerKind,
    abilities: &Abilities,
    part: &Part,
    errors: &mut Vec<FieldError>,
    warnings: &mut Vec<String>,
) {
    let Some(first) = part.roles().first() else {
        return;
    };
    let Some(other) = part
        .roles()
        .iter()
        .find(|role| role.priority_class() != first.priority_class())
    else {
        return;
    };
    let shown = |class: Option<&str>| class.map_or("none".to_owned(), |c| format!("{c:?}"));
    let at = other.at.child("priorityClassName");
    match abilities.priorities {
        Priorities::MustBeEqual => errors.push(FieldError::invalid(
            at,
            other.priority_class().unwrap_or(""),
            format!(
                "all pods of a {kind} gang must have one priority class, and {:?} has {}; \
                 give both the same",
                first.name,
                shown(first.priority_class())
            ),
        )),
        Priorities::Carried | Priorities::OnPodsOnly => warnings.push(format!(
            "{at}: the gang's pods have different priority classes ({} and {}): \
             the gang as a whole gets none",
            shown(first.priority_class()),
            shown(other.priority_class())
        )),
    }
}
