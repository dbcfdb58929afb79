//! What a scheduler cannot do of a plan: refused at `kubectl apply`, with the reason, and never dropped.

use std::collections::BTreeMap;

use super::abilities::{Abilities, Bundles, Later, Priorities, Support};
use crate::gang::{
    Circle, FieldError, Level, Located, Named, Part, Plan, SchedulerKind, Strictness,
};

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
        Bundles::AcrossWorkloads { .. } | Bundles::WithinNamespace { .. } => None,
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
    if let (Some(with), Bundles::WithinNamespace { why, .. }) = (with, abilities.bundle) {
        errors.extend(out_of_reach(kind, with, why));
    }
    let of_several = abilities.bundle.of_several().is_some();
    for (name, parts) in bundles {
        let Some(at) = parts[0].bundle().map(|b| b.at.clone()) else {
            continue;
        };
        match (abilities.bundle, with) {
            (Bundles::No(why), _) => errors.push(refuse(at, "bundles", why)),
            (_, Some(with)) if of_several => {
                let others = with.value.others().iter();
                let others: Vec<String> = others.map(ToString::to_string).collect();
                warnings.push(format!(
                    "the bundle {name:?} starts only together with {}, once each of them names \
                     all others in muster.dev/bundle-with",
                    others.join(", ")
                ));
            }
            (_, None) if of_several && gangs(&parts) < 2 => {
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
            (_, None) if of_several => warnings.push(format!(
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

/// Partners with which a workload cannot share an object.
fn out_of_reach(
    kind: SchedulerKind,
    with: &Located<Circle>,
    why: &str,
) -> impl Iterator<Item = FieldError> {
    let abroad = with.value.abroad().map(move |other| {
        let detail = format!(
            "{kind} cannot bundle the gangs of several namespaces: {why}; keep {other} in one \
             namespace with this one, or use koordinator"
        );
        FieldError::forbidden(with.at.clone(), detail)
    });
    let drawn = (with.value.named() == Named::Drawn).then(|| {
        let detail = format!(
            "on {kind} a bundle is named after all its workloads: give this one a metadata.name in \
             the place of metadata.generateName"
        );
        FieldError::forbidden(with.at.clone(), detail)
    });
    abroad.chain(drawn)
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
