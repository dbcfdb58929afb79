//! How a placeholder keeps near other pods, or away from them, as its pod will.
//!
//! YuniKorn (1.8) gives a placeholder the affinity of its task group and none of its pod's labels.
//! As it stands in the pod, affinity to the gang's own label would never hold: no such pod exists
//! before the gang starts. Nor would the gang start if placeholders had the labels: a pod that keeps
//! away from its like cannot take the place of a placeholder that is still there. So placeholders
//! carry the labels that selectors ask for under keys of their own, and look for each other there.
//! Terms that only pods of others can fulfil stay what they are.
//!
//! A pod takes the place of its placeholder only if its own terms hold there; where they do not,
//! YuniKorn tries other nodes, pod by pod, and the gang starts by halves. So pods look for pods of
//! their own gang only, as their placeholders do.
//!
//! Only what the scheduler must hold to is changed. It works on the words of a task group, which are
//! those of a pod's spec; what cannot be read is left to the apiserver.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::APPLICATION;
use super::selector::{Labels, Selector, keys, list};
use crate::gang::selector::Expression;

/// What the placeholders of a role have. Until [`as_placeholders`] its labels are those of the pods.
pub(crate) type TaskGroup = Map<String, Value>;

/// The task groups of an application, by role.
pub(crate) type TaskGroups = Vec<(String, TaskGroup)>;

pub(crate) const LABELS: &str = "labels";
pub(crate) const MEMBERS: &str = "minMember";
pub(crate) const SPREAD: &str = "topologySpreadConstraints";
pub(crate) const NEAR: &str = "podAffinity";
pub(crate) const APART: &str = "podAntiAffinity";
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// On placeholders alone, with the application's id: a selector without it could mean the pods too.
const MARK: &str = "placeholder.muster.dev";
const PREFIX: &str = "placeholder.muster.dev/";

/// Leaves of the pods' labels those that a selector of any group asks for.
pub(crate) fn keep_asked_labels(groups: &mut TaskGroups) {
    let all = groups.iter().flat_map(|(_, group)| wishes(group));
    let asked: BTreeSet<String> = all.flat_map(keys).collect();
    for (_, group) in groups {
        retain_labels(group, |key| asked.contains(key));
    }
}

pub(crate) fn retain_labels(group: &mut TaskGroup, keep: impl Fn(&str) -> bool) {
    let mut labels = labels(group);
    labels.retain(|key, _| keep(key));
    set_labels(group, &labels);
}

/// Gives every group labels that all pods of the application have.
pub(crate) fn share_labels(groups: &mut TaskGroups, shared: &Labels) {
    for (_, group) in groups {
        let mut labels = labels(group);
        labels.extend(shared.clone());
        set_labels(group, &labels);
    }
}

/// Holds what pods wish of each other to the application: placeholders do not follow pods of others
/// that match too, and a pod whose wishes lead elsewhere would not take its placeholder's place. Nor
/// would one whose wishes concern its own placeholder, which has the application's id and no label
/// of the pods. The id must be among the groups' labels here.
pub(crate) fn confine(groups: &mut TaskGroups, application: &str, namespace: &str) {
    let kin = kin(groups);
    let bare = Labels::from([(APPLICATION.key.to_owned(), application.to_owned())]);
    let ours = Expression::one(APPLICATION.key, "In", application);
    let pods = Expression::one(MARK, "NotIn", application);
    for ((_, group), (own, _)) in groups.iter_mut().zip(&kin) {
        let spare_placeholders = |term: &mut Value| {
            if Selector::read(term, own).is_some_and(|selector| selector.matches(&bare)) {
                narrow(term, &pods);
            }
        };
        let hold_to_gang = |term: &mut Value| {
            narrow(term, &ours);
            spare_placeholders(term);
        };
        if let Some(near) = required_mut(group, NEAR)
            && draws_together(near.iter(), own, &kin, Some(namespace))
        {
            near.iter_mut().for_each(hold_to_gang);
        }
        let apart = required_mut(group, APART).into_iter().flatten();
        apart.for_each(spare_placeholders);
        if let Some(Value::Array(spread)) = group.get_mut(SPREAD) {
            let spread = spread.iter_mut().filter(|constraint| is_hard(constraint));
            spread
                .filter(|constraint| counted(constraint, own, &kin) > 1)
                .for_each(hold_to_gang);
        }
    }
}

/// Adds an expression to the selector of a term, once.
fn narrow(term: &mut Value, expression: &Expression) {
    // The apiserver refuses a key that is in both, and there it says the same.
    if list(term.get("matchLabelKeys")).any(|key| *key == expression.key) {
        return;
    }
    let expression = json!(expression);
    match &mut term["labelSelector"]["matchExpressions"] {
        Value::Array(all) if all.contains(&expression) => {}
        Value::Array(all) => all.push(expression),
        other => *other = json!([expression]),
    }
}

/// Makes the groups of an application, as [`confine`] left them, speak of placeholders.
pub(crate) fn as_placeholders(groups: &mut TaskGroups, application: &str, namespace: &str) {
    groups.iter_mut().for_each(|(_, group)| drop_soft(group));
    keep_asked_labels(groups);
    if groups.iter().all(|(_, group)| wishes(group).is_empty()) {
        return;
    }
    let kin = kin(groups);
    for ((_, group), (own, _)) in groups.iter_mut().zip(&kin) {
        if let Some(near) = required_mut(group, NEAR) {
            let ours = draws_together(near.iter(), own, &kin, Some(namespace));
            near.iter_mut().for_each(|term| {
                rewrite(term, own, |s| if ours { s.mirrored() } else { s });
            });
        }
        if let Some(apart) = required_mut(group, APART) {
            let mut among = apart.clone();
            among.retain_mut(|term| rewrite(term, own, Selector::mirrored).is_some());
            apart.iter_mut().for_each(|term| {
                rewrite(term, own, |s| s.of_others(application));
            });
            apart.extend(among);
        }
        if let Some(Value::Array(spread)) = group.get_mut(SPREAD) {
            for constraint in spread.iter_mut() {
                // One that spreads single pods of several gangs is not for placeholders.
                let ours = counted(constraint, own, &kin) > 1;
                rewrite(constraint, own, |s| if ours { s.mirrored() } else { s });
            }
        }
        let mut labels: Labels = own.iter().map(|(k, v)| (mirrored(k), v.clone())).collect();
        labels.insert(MARK.to_owned(), application.to_owned());
        set_labels(group, &labels);
    }
}

fn rewrite(term: &mut Value, own: &Labels, change: impl Fn(Selector) -> Selector) -> Option<()> {
    let selector = Selector::read(term, own)?;
    change(selector).write(term);
    Some(())
}

/// Soft constraints are wishes that YuniKorn does not weigh.
pub(crate) fn drop_soft(group: &mut TaskGroup) {
    if let Some(Value::Array(spread)) = group.get_mut(SPREAD) {
        spread.retain(is_hard);
        if spread.is_empty() {
            group.remove(SPREAD);
        }
    }
}

fn is_hard(constraint: &Value) -> bool {
    constraint["whenUnsatisfiable"] == "DoNotSchedule"
}

/// The pods of a role: their labels, and how many.
pub(crate) type Kin = (Labels, u64);

fn kin(groups: &TaskGroups) -> Vec<Kin> {
    let members = |group: &TaskGroup| group.get(MEMBERS).and_then(Value::as_u64);
    let kin = groups.iter();
    kin.map(|(_, group)| (labels(group), members(group).unwrap_or_default()))
        .collect()
}

/// Whether pods of the gang itself are what these terms ask for. A pod must match all of them
/// (InterPodAffinity), and so the first one of a gang may go anywhere.
pub(crate) fn draws_together<'t>(
    terms: impl Iterator<Item = &'t Value>,
    own: &Labels,
    kin: &[Kin],
    namespace: Option<&str>,
) -> bool {
    let selector = |term| Selector::read(term, own).filter(|_| reaches(term, namespace));
    let Some(selectors) = terms.map(selector).collect::<Option<Vec<Selector>>>() else {
        return false;
    };
    let fits = |(labels, _): &Kin| selectors.iter().all(|selector| selector.matches(labels));
    !selectors.is_empty() && kin.iter().any(fits)
}

/// How many pods of the gang a constraint counts. An empty selector counts none (PodTopologySpread).
pub(crate) fn counted(constraint: &Value, own: &Labels, kin: &[Kin]) -> u64 {
    let selector = Selector::read(constraint, own).filter(|selector| !selector.0.is_empty());
    let counted = selector.map(|selector| {
        let kin = kin.iter().filter(|(labels, _)| selector.matches(labels));
        kin.map(|(_, members)| members).sum()
    });
    counted.unwrap_or_default()
}

/// Whether a term looks into the gang's own namespace, as far as that can be told.
fn reaches(term: &Value, namespace: Option<&str>) -> bool {
    let named = list(term.get("namespaces")).next().is_some();
    let here = namespace.is_none() || list(term.get("namespaces")).any(|n| n.as_str() == namespace);
    match &term["namespaceSelector"] {
        Value::Object(selector) if selector.is_empty() => true,
        Value::Null => !named || here,
        _ => named && here,
    }
}

impl Selector {
    /// The same of placeholders.
    fn mirrored(mut self) -> Self {
        for expression in &mut self.0 {
            expression.key = mirrored(&expression.key);
        }
        self.0.push(Expression {
            key: MARK.to_owned(),
            operator: "Exists".to_owned(),
            values: Vec::new(),
        });
        self
    }

    /// The same, without the pods of this application: they come where their placeholders are.
    fn of_others(mut self, application: &str) -> Self {
        let app = Expression::one(APPLICATION.key, "NotIn", application);
        self.0.push(app);
        self
    }
}

/// A pod's label key, as its placeholder has it.
fn mirrored(key: &str) -> String {
    /// Of the part of a key behind its prefix.
    const MAX: usize = 63;
    let name = key.replace('/', "_");
    if name.len() <= MAX {
        return format!("{PREFIX}{name}");
    }
    let digest = Sha256::digest(key.as_bytes());
    let hash: String = digest.iter().take(10).map(|b| format!("{b:02x}")).collect();
    format!("{PREFIX}{hash}")
}

/// The terms and constraints that a group must hold to.
fn wishes(group: &TaskGroup) -> Vec<&Value> {
    let near = required(group, NEAR).chain(required(group, APART));
    near.chain(spread(group)).collect()
}

pub(crate) fn required<'g>(
    group: &'g TaskGroup,
    kind: &str,
) -> impl Iterator<Item = &'g Value> + Clone + use<'g> {
    let affinity = group.get("affinity");
    let terms = affinity.map(|affinity| &affinity[kind][REQUIRED]);
    terms.and_then(Value::as_array).into_iter().flatten()
}

/// The constraints that must hold.
pub(crate) fn spread(group: &TaskGroup) -> impl Iterator<Item = &Value> {
    list(group.get(SPREAD)).filter(|constraint| is_hard(constraint))
}

fn required_mut<'g>(group: &'g mut TaskGroup, kind: &str) -> Option<&'g mut Vec<Value>> {
    let affinity = group.get_mut("affinity")?;
    affinity.get_mut(kind)?.get_mut(REQUIRED)?.as_array_mut()
}

pub(crate) fn labels(group: &TaskGroup) -> Labels {
    let labels = group.get(LABELS).and_then(Value::as_object);
    let labels = labels.into_iter().flatten();
    labels
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

fn set_labels(group: &mut TaskGroup, labels: &Labels) {
    match labels.is_empty() {
        true => group.remove(LABELS),
        false => group.insert(LABELS.to_owned(), json!(labels)),
    };
}

#[cfg(test)]
mod tests;
