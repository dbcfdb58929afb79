//! As much of Prometheus's language as the alerts and the dashboard use: which metrics an expression
//! reads, and by which labels. Whether it is an expression at all, Prometheus's own parser tells in the
//! end-to-end tests.

/// How a label's value is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Matching {
    Is,
    IsOneOf,
    IsNot,
}

/// A metric of Muster's, and the labels that are asked for.
#[derive(Debug, PartialEq, Eq)]
pub struct Selector {
    pub metric: String,
    pub matchers: Vec<(String, Matching, String)>,
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Every metric of Muster's that an expression reads.
pub fn selectors(expr: &str) -> Vec<Selector> {
    let mut found = Vec::new();
    let mut rest = expr;
    while let Some(at) = rest.find("muster_") {
        let text = &rest[at..];
        let end = text.find(|c| !is_word(c)).unwrap_or(text.len());
        let (metric, after) = text.split_at(end);
        let matchers = match after.strip_prefix('{') {
            Some(inside) => matchers(inside.split('}').next().unwrap()),
            None => Vec::new(),
        };
        found.push(Selector {
            metric: metric.to_owned(),
            matchers,
        });
        rest = after;
    }
    found
}

fn matchers(text: &str) -> Vec<(String, Matching, String)> {
    let matcher = |text: &str| {
        let end = text.find(|c| !is_word(c)).unwrap();
        let (label, after) = text.split_at(end);
        let (operator, value) = after.split_once('"').unwrap();
        let matching = match operator {
            "=" => Matching::Is,
            "=~" => Matching::IsOneOf,
            "!=" | "!~" => Matching::IsNot,
            _ => panic!("{text}: {operator} is not known here"),
        };
        let value = value.strip_suffix('"').unwrap();
        (label.to_owned(), matching, value.to_owned())
    };
    text.split(',').map(matcher).collect()
}

/// The labels that an expression groups by; `le` is every histogram's.
pub fn grouped_by(expr: &str) -> Vec<String> {
    let groups = expr.split("by (").skip(1);
    groups
        .flat_map(|rest| rest.split(')').next().unwrap().split(','))
        .map(|label| label.trim().to_owned())
        .filter(|label| label != "le")
        .collect()
}

#[test]
fn metrics_and_labels_are_found_in_an_expression() {
    let expr = "sum by (a, le) (rate(muster_x_total{b=\"1\",c=~\"2|3\"}[5m])) > 0 or muster_y";
    let matcher = |label: &str, how, value: &str| (label.to_owned(), how, value.to_owned());
    let expected = [
        Selector {
            metric: "muster_x_total".to_owned(),
            matchers: vec![
                matcher("b", Matching::Is, "1"),
                matcher("c", Matching::IsOneOf, "2|3"),
            ],
        },
        Selector {
            metric: "muster_y".to_owned(),
            matchers: Vec::new(),
        },
    ];
    assert_eq!(selectors(expr), expected);
    assert_eq!(grouped_by(expr), ["a"]);
}
