//! Selectors of labels, of pods and of nodes, as Kubernetes matches them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What a selector asks of one label.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Expression {
    pub(crate) key: String,
    pub(crate) operator: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) values: Vec<String>,
}

impl Expression {
    pub(crate) fn one(key: &str, operator: &str, value: &str) -> Self {
        Self {
            key: key.to_owned(),
            operator: operator.to_owned(),
            values: vec![value.to_owned()],
        }
    }

    /// Whether a label of this value, or its absence, is as asked; nothing where the operator is not
    /// known.
    pub(crate) fn holds(&self, value: Option<&str>) -> Option<bool> {
        let among = |value: &str| self.values.iter().any(|v| v == value);
        let number = |text: &str| text.parse::<i64>().ok();
        let wanted = || self.values.first().and_then(|v| number(v));
        let compared = |so: fn(&i64, &i64) -> bool| {
            let both = value.and_then(number).zip(wanted());
            both.is_some_and(|(is, than)| so(&is, &than))
        };
        Some(match self.operator.as_str() {
            "In" => value.is_some_and(among),
            "NotIn" => !value.is_some_and(among),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            // Of nodes alone.
            "Lt" => compared(i64::lt),
            "Gt" => compared(i64::gt),
            _ => return None,
        })
    }
}

/// A `labelSelector`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Selector {
    match_labels: BTreeMap<String, String>,
    match_expressions: Vec<Expression>,
}

impl Selector {
    /// One that selects everything.
    pub(crate) fn is_empty(&self) -> bool {
        self.match_labels.is_empty() && self.match_expressions.is_empty()
    }

    /// Whether it selects what has these labels. What is not known selects nothing.
    pub(crate) fn matches(&self, labels: Option<&BTreeMap<String, String>>) -> bool {
        let label = |key: &str| labels?.get(key).map(String::as_str);
        let equal = |(key, value): (&String, &String)| label(key) == Some(value);
        let holds = |asked: &Expression| asked.holds(label(&asked.key)).unwrap_or(false);
        self.match_labels.iter().all(equal) && self.match_expressions.iter().all(holds)
    }

    /// All that is written in it.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &String> {
        let labels = self.match_labels.iter();
        let labels = labels.flat_map(|(key, value)| [key, value]);
        let expressions = self.match_expressions.iter();
        labels.chain(expressions.flat_map(|e| [&e.key, &e.operator].into_iter().chain(&e.values)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_holds_as_kubernetes_says() {
        let holds = |operator: &str, values: &[&str], value: Option<&str>| {
            let expression = Expression {
                key: "app".to_owned(),
                operator: operator.to_owned(),
                values: values.iter().map(|value| (*value).to_owned()).collect(),
            };
            expression.holds(value)
        };
        let (train, none) = (Some("train"), None);
        assert_eq!(holds("In", &["train", "serve"], train), Some(true));
        assert_eq!(holds("In", &["serve"], train), Some(false));
        assert_eq!(holds("In", &["train"], none), Some(false));
        assert_eq!(holds("NotIn", &["train"], train), Some(false));
        assert_eq!(holds("NotIn", &["train"], none), Some(true));
        assert_eq!(holds("Exists", &[], train), Some(true));
        assert_eq!(holds("DoesNotExist", &[], none), Some(true));
        assert_eq!(holds("Gt", &["7"], Some("8")), Some(true));
        assert_eq!(holds("Lt", &["7"], Some("8")), Some(false));
        assert_eq!(holds("Lt", &["7"], train), Some(false));
        assert_eq!(holds("Likes", &["train"], train), None);
    }
}
