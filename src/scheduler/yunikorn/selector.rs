//! Label selectors of affinity terms and spread constraints, as Kubernetes matches them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::gang::selector::Expression;

pub(crate) type Labels = BTreeMap<String, String>;

/// A label selector, with what a term adds of the pod's own labels.
#[derive(Debug, Clone)]
pub(crate) struct Selector(pub Vec<Expression>);

impl Selector {
    /// The selector of a term or constraint; `None` where it has none, which matches nothing.
    pub(crate) fn read(term: &Value, own: &Labels) -> Option<Self> {
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

    pub(crate) fn matches(&self, labels: &Labels) -> bool {
        self.0.iter().all(|expression| {
            let value = labels.get(&expression.key).map(String::as_str);
            expression.holds(value).unwrap_or(false)
        })
    }

    pub(crate) fn write(&self, term: &mut Value) {
        term["labelSelector"] = json!({"matchExpressions": self.0});
        if let Some(term) = term.as_object_mut() {
            term.remove("matchLabelKeys");
            term.remove("mismatchLabelKeys");
        }
    }
}

/// The label keys that a term asks for.
pub(crate) fn keys(term: &Value) -> Vec<String> {
    let selector = &term["labelSelector"];
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let expressions = list(selector.get("matchExpressions")).map(|e| &e["key"]);
    let others = ["matchLabelKeys", "mismatchLabelKeys"];
    let others = others.into_iter().flat_map(|field| list(term.get(field)));
    let named = expressions.chain(others).filter_map(Value::as_str);
    let named = named.chain(labels.map(|(key, _)| key.as_str()));
    named.map(str::to_owned).collect()
}

pub(crate) fn list(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_term_adds_values_of_the_pods_own_labels() {
        let own = Labels::from([("uid".to_owned(), "4d1c".to_owned())]);
        let read = |field: &str| {
            let term = json!({"labelSelector": {}, field: ["uid", "unknown"]});
            Selector::read(&term, &own).unwrap()
        };
        assert!(read("matchLabelKeys").matches(&own));
        assert!(!read("mismatchLabelKeys").matches(&own));
    }
}
