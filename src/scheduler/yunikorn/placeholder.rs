//! How a placeholder keeps near other pods, or away from them, as its pod will.
//!
//! YuniKorn (1.8) gives a placeholder the affinity of its task group and none of its pod's labels.
//! As it stands in the pod, affinity to the gang's own label would never hold: no such pod exists
//! before the gang starts. Nor would the gang start if placeholders had the labels: a pod that keeps
//! away from its like cannot take the place of a placeholder that is still there. So placeholders
//! carry the labels that selectors ask for under keys of their own, and look for each other there.
//! Terms that only pods of others can fulfil stay what they are.
//!
//! Only what the scheduler must hold to is changed. It works on the words of a task group, which are
//! those of a pod's spec; what cannot be read is left to the apiserver.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::gang::link::YUNIKORN_APP;

/// A task group: what the placeholders of a role have. Until [`as_placeholders`] its labels are
/// those of the pods.
pub type Group = Map<String, Value>;

type Labels = BTreeMap<String, String>;

pub const LABELS: &str = "labels";
pub const SPREAD: &str = "topologySpreadConstraints";
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// On placeholders alone: a selector without it could mean the pods too.
const MARK: &str = "placeholder.muster.dev";
const PREFIX: &str = "placeholder.muster.dev/";

/// The groups of an application, by role.
pub type Groups = Vec<(String, Group)>;

/// Leaves of the pods' labels those that a selector of any group asks for.
pub fn keep_asked_labels(groups: &mut Groups) {
    let all = groups.iter().flat_map(|(_, group)| terms(group));
    let asked: BTreeSet<String> = all.flat_map(keys).collect();
    for (_, group) in groups {
        let mut labels = labels(group);
        labels.retain(|key, _| asked.contains(key));
        set_labels(group, &labels);
    }
}

/// The role of pods that must be near others of the gang.
pub fn drawn_together(groups: &Groups) -> Option<&str> {
    let kin: Vec<Labels> = groups.iter().map(|(_, group)| labels(group)).collect();
    let together = |group: &Group, own: &Labels| {
        let near = group.get("affinity").map(|a| &a["podAffinity"][REQUIRED]);
        let mut near = list(near).filter_map(|term| Selector::read(term, own));
        near.any(|selector| kin.iter().any(|labels| selector.matches(labels)))
    };
    let mut roles = groups.iter().zip(&kin);
    let drawn = roles.find(|((_, group), own)| together(group, own));
    drawn.map(|((role, _), _)| role.as_str())
}

/// Makes the groups of an application speak of placeholders. `namespace` is where its pods are.
pub fn as_placeholders(groups: &mut Groups, application: &str, namespace: &str) {
    keep_asked_labels(groups);
    if groups.iter().all(|(_, group)| terms(group).is_empty()) {
        return;
    }
    let kin: Vec<Labels> = groups.iter().map(|(_, group)| labels(group)).collect();
    for ((role, group), own) in groups.iter_mut().zip(&kin) {
        let gang = Gang {
            own,
            kin: &kin,
            application,
            namespace,
        };
        gang.rewrite(group);
        let mut labels: Labels = own.iter().map(|(k, v)| (mirrored(k), v.clone())).collect();
        labels.insert(MARK.to_owned(), role.clone());
        set_labels(group, &labels);
    }
}

struct Gang<'a> {
    own: &'a Labels,
    kin: &'a [Labels],
    application: &'a str,
    namespace: &'a str,
}

impl Gang<'_> {
    fn rewrite(&self, group: &mut Group) {
        if let Some(near) = required(group, "podAffinity") {
            for term in near.iter_mut() {
                let Some(selector) = Selector::read(term, self.own) else {
                    continue;
                };
                let ours = self.reaches(term) && self.kin.iter().any(|l| selector.matches(l));
                let selector = if ours { selector.mirrored() } else { selector };
                selector.write(term);
            }
        }
        if let Some(far) = required(group, "podAntiAffinity") {
            let mut among = Vec::new();
            for term in far.iter_mut() {
                let Some(selector) = Selector::read(term, self.own) else {
                    continue;
                };
                let mut placeholders = term.clone();
                selector.clone().mirrored().write(&mut placeholders);
                among.push(placeholders);
                selector.of_others(self.application).write(term);
            }
            far.extend(among);
        }
        if let Some(Value::Array(spread)) = group.get_mut(SPREAD) {
            for constraint in spread.iter_mut() {
                if let Some(selector) = Selector::read(constraint, self.own) {
                    selector.mirrored().write(constraint);
                }
            }
        }
    }

    /// Whether a term looks into the gang's own namespace. Of a selector it is assumed.
    fn reaches(&self, term: &Value) -> bool {
        let named = term["namespaces"].as_array().filter(|n| !n.is_empty());
        let here = named.is_none_or(|names| names.iter().any(|name| name == self.namespace));
        here || !term["namespaceSelector"].is_null()
    }
}

/// A label selector, with what a term adds of the pod's own labels.
#[derive(Debug, Clone)]
struct Selector(Vec<Expression>);

#[derive(Debug, Clone)]
struct Expression {
    key: String,
    operator: String,
    values: Vec<String>,
}

impl Selector {
    /// The selector of a term or constraint; `None` where it has none, which matches nothing.
    fn read(term: &Value, own: &Labels) -> Option<Self> {
        let selector = term.get("labelSelector")?.as_object()?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let mut all = Vec::new();
        let labels = selector.get("matchLabels").and_then(Value::as_object);
        for (key, value) in labels.into_iter().flatten() {
            all.push(Expression::one(key, "In", value.as_str()?));
        }
        for expression in list(selector.get("matchExpressions")) {
            all.push(Expression {
                key: text(&expression["key"])?,
                operator: text(&expression["operator"])?,
                values: list(expression.get("values")).filter_map(text).collect(),
            });
        }
        for (field, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
            let keys = list(term.get(field)).filter_map(Value::as_str);
            let own = keys.filter_map(|key| Some((key, own.get(key)?)));
            all.extend(own.map(|(key, value)| Expression::one(key, operator, value)));
        }
        Some(Self(all))
    }

    fn matches(&self, labels: &Labels) -> bool {
        self.0.iter().all(|expression| {
            let value = labels.get(&expression.key);
            let listed = value.is_some_and(|value| expression.values.contains(value));
            match expression.operator.as_str() {
                "In" => listed,
                "NotIn" => !listed,
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                _ => false,
            }
        })
    }

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
        let app = Expression::one(YUNIKORN_APP.key, "NotIn", application);
        self.0.push(app);
        self
    }

    fn write(&self, term: &mut Value) {
        let expressions: Vec<Value> = self.0.iter().map(Expression::to_json).collect();
        term["labelSelector"] = json!({"matchExpressions": expressions});
        if let Some(term) = term.as_object_mut() {
            term.remove("matchLabelKeys");
            term.remove("mismatchLabelKeys");
        }
    }
}

impl Expression {
    fn one(key: &str, operator: &str, value: &str) -> Self {
        Self {
            key: key.to_owned(),
            operator: operator.to_owned(),
            values: vec![value.to_owned()],
        }
    }

    fn to_json(&self) -> Value {
        let mut json = json!({"key": self.key, "operator": self.operator});
        if !self.values.is_empty() {
            json["values"] = json!(self.values);
        }
        json
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
fn terms(group: &Group) -> Vec<&Value> {
    let of = |kind: &str| {
        let affinity = group.get("affinity");
        list(affinity.map(|affinity| &affinity[kind][REQUIRED]))
    };
    let spread = list(group.get(SPREAD));
    let near = of("podAffinity").chain(of("podAntiAffinity"));
    near.chain(spread).collect()
}

fn required<'g>(group: &'g mut Group, kind: &str) -> Option<&'g mut Vec<Value>> {
    let affinity = group.get_mut("affinity")?;
    affinity.get_mut(kind)?.get_mut(REQUIRED)?.as_array_mut()
}

/// The label keys that a term asks for.
fn keys(term: &Value) -> Vec<String> {
    let selector = &term["labelSelector"];
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let expressions = list(selector.get("matchExpressions")).map(|e| &e["key"]);
    let others = ["matchLabelKeys", "mismatchLabelKeys"];
    let others = others.into_iter().flat_map(|field| list(term.get(field)));
    let named = expressions.chain(others).filter_map(Value::as_str);
    let named = named.chain(labels.map(|(key, _)| key.as_str()));
    named.map(str::to_owned).collect()
}

fn list(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

fn labels(group: &Group) -> Labels {
    let labels = group.get(LABELS).and_then(Value::as_object);
    let labels = labels.into_iter().flatten();
    labels
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

fn set_labels(group: &mut Group, labels: &Labels) {
    match labels.is_empty() {
        true => group.remove(LABELS),
        false => group.insert(LABELS.to_owned(), json!(labels)),
    };
}

#[cfg(test)]
mod tests;
