//! Which nodes a pod asks for, in words.

use std::fmt;

use crate::gang::ask::{Ask, NodeTerm};
use crate::gang::selector::Expression;

/// Of each name and value: what a pod asks is free text.
const LONGEST: usize = 100;
/// Of the values of one label, and of the terms.
const MOST: usize = 4;

/// Which nodes a pod may use, as far as its spec says.
pub(super) struct Nodes<'a>(pub(super) &'a Ask);

impl fmt::Display for Nodes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.node_selector.is_empty() {
            write!(f, " with {}", labels(self.0))?;
        }
        match self.0.terms.is_empty() {
            true => Ok(()),
            false => f.write_str(" that its affinity allows"),
        }
    }
}

pub(super) fn on(nodes: &Nodes<'_>) -> String {
    match nodes.to_string() {
        any if any.is_empty() => any,
        some => format!(" on nodes{some}"),
    }
}

/// That no node has what a pod asks of it.
pub(super) fn none_matches(f: &mut fmt::Formatter<'_>, ask: Option<&Ask>) -> fmt::Result {
    let Some(ask) = ask else {
        return f.write_str("no node is allowed by its node affinity");
    };
    match (ask.node_selector.is_empty(), ask.terms.is_empty()) {
        (_, true) => write!(
            f,
            "no node has the labels that it asks for ({})",
            labels(ask)
        ),
        (true, false) => write!(f, "no node matches its node affinity ({})", affinity(ask)),
        (false, false) => write!(
            f,
            "no node matches both its nodeSelector ({}) and its node affinity ({})",
            labels(ask),
            affinity(ask)
        ),
    }
}

fn labels(ask: &Ask) -> String {
    let selector = ask.node_selector.iter();
    let labels: Vec<String> = selector
        .map(|(key, value)| format!("{}={}", plain(key), plain(value)))
        .collect();
    labels.join(",")
}

/// One of its terms must hold.
fn affinity(ask: &Ask) -> String {
    let terms = ask.terms.iter().take(MOST).map(term);
    let mut terms: Vec<String> = terms.collect();
    if ask.terms.len() > MOST {
        terms.push("...".to_owned());
    }
    terms.join(" or ")
}

fn term(term: &NodeTerm) -> String {
    let all = term.match_expressions.iter().chain(&term.match_fields);
    let all: Vec<String> = all.take(MOST).map(expression).collect();
    all.join(", ")
}

fn expression(asked: &Expression) -> String {
    let (key, first) = (plain(&asked.key), asked.values.first().map(|v| plain(v)));
    let values = || {
        let mut values: Vec<String> = asked.values.iter().take(MOST).map(|v| plain(v)).collect();
        if asked.values.len() > MOST {
            values.push("...".to_owned());
        }
        values.join(", ")
    };
    match (asked.operator.as_str(), first) {
        ("In", Some(value)) if asked.values.len() == 1 => format!("{key}={value}"),
        ("In", _) => format!("{key} in ({})", values()),
        ("NotIn", _) => format!("{key} not in ({})", values()),
        ("Exists", _) => format!("{key} exists"),
        ("DoesNotExist", _) => format!("{key} does not exist"),
        ("Gt", Some(value)) => format!("{key} > {value}"),
        ("Lt", Some(value)) => format!("{key} < {value}"),
        (other, _) => format!("{key} {}", plain(other)),
    }
}

fn plain(text: &str) -> String {
    let text = text.chars().filter(|c| !c.is_control());
    text.take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct None_<'a>(&'a Ask);

    impl fmt::Display for None_<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            none_matches(f, Some(self.0))
        }
    }

    fn asks(selector: &[(&str, &str)], expressions: Vec<Expression>) -> Ask {
        let selector = selector.iter();
        let term = NodeTerm {
            match_expressions: expressions,
            ..NodeTerm::default()
        };
        let empty = term.match_expressions.is_empty();
        Ask {
            node_selector: selector
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
            terms: if empty { Vec::new() } else { vec![term] },
            ..Ask::default()
        }
    }

    /// A node may have the labels of the selector: only both together are wrong.
    #[test]
    fn affinity_is_named_beside_a_selector_that_matches() {
        let large = || vec![Expression::one("gpu-mem", "Gt", "40")];
        let said = |ask: &Ask| None_(ask).to_string();
        assert_eq!(
            said(&asks(&[("pool", "a100")], large())),
            "no node matches both its nodeSelector (pool=a100) and its node affinity (gpu-mem > 40)"
        );
        assert_eq!(
            said(&asks(&[], large())),
            "no node matches its node affinity (gpu-mem > 40)"
        );
        assert_eq!(
            said(&asks(&[("a", "b")], Vec::new())),
            "no node has the labels that it asks for (a=b)"
        );
        let nodes = asks(&[("pool", "a100")], large());
        assert_eq!(
            on(&Nodes(&nodes)),
            " on nodes with pool=a100 that its affinity allows"
        );
    }

    #[test]
    fn each_operator_has_words_and_none_has_control_characters() {
        let of = |operator: &str, values: &[&str]| {
            expression(&Expression {
                key: "zone".to_owned(),
                operator: operator.to_owned(),
                values: values.iter().map(ToString::to_string).collect(),
            })
        };
        assert_eq!(of("In", &["a"]), "zone=a");
        assert_eq!(of("In", &["a", "b"]), "zone in (a, b)");
        assert_eq!(of("NotIn", &["a"]), "zone not in (a)");
        assert_eq!(of("Exists", &[]), "zone exists");
        assert_eq!(of("DoesNotExist", &[]), "zone does not exist");
        assert_eq!(of("Lt", &["3"]), "zone < 3");
        assert_eq!(
            of("In", &["a", "b", "c", "d", "e"]),
            "zone in (a, b, c, d, ...)"
        );
        assert_eq!(of("In", &["\u{1b}[2J\nx"]), "zone=[2Jx");
    }
}
