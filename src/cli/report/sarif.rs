//! Reports as SARIF 2.1.0, which code scanning services and editors read.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::{Position, Report};

/// The rule that warnings are results of.
const WARNING: (&str, &str) = ("Warning", "Admitted, and worth knowing");
/// The rule that objects of other kinds and patches are results of.
const NOT_CHECKED: (&str, &str) = ("NotChecked", "Not checked");

/// The rule of a report's warnings.
fn rule_of_warnings(report: &Report) -> (&'static str, &'static str) {
    match report.checked {
        true => WARNING,
        false => NOT_CHECKED,
    }
}

/// The log of one run; `unread` are the files that could not be read, and why.
pub(in crate::cli) fn log(reports: &[Report], unread: &[String]) -> Value {
    let rules = rules(reports);
    let results: Vec<Value> = reports.iter().flat_map(|r| results(r, &rules)).collect();
    let descriptors: Vec<Value> = rules
        .iter()
        .map(|(id, text)| json!({"id": id, "shortDescription": {"text": text}}))
        .collect();
    let notes = unread
        .iter()
        .map(|text| json!({"level": "error", "message": {"text": text}}));
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": env!("CARGO_PKG_NAME"),
                "version": env!("CARGO_PKG_VERSION"),
                "rules": descriptors,
            }},
            "columnKind": "unicodeCodePoints",
            "invocations": [{
                "executionSuccessful": unread.is_empty(),
                "toolExecutionNotifications": notes.collect::<Vec<_>>(),
            }],
            "results": results,
        }],
    })
}

/// The rules that have results, by their names.
fn rules(reports: &[Report]) -> BTreeMap<&'static str, &'static str> {
    let errors = reports.iter().flat_map(|report| &report.errors);
    let warned = reports.iter().filter(|report| !report.warnings.is_empty());
    errors
        .map(|error| (error.kind, error.phrase))
        .chain(warned.map(rule_of_warnings))
        .collect()
}

fn results(report: &Report, rules: &BTreeMap<&'static str, &'static str>) -> Vec<Value> {
    let result = |rule: &str, level: &str, text: &str, position: Option<Position>| {
        json!({
            "ruleId": rule,
            "ruleIndex": rules.keys().position(|id| *id == rule),
            "level": level,
            "message": {"text": format!("{}: {text}", report.subject())},
            "locations": location(&report.file, position).into_iter().collect::<Vec<_>>(),
        })
    };
    let errors = report.errors.iter();
    let errors = errors.map(|error| result(error.kind, "error", &error.text, error.position));
    let warnings = report.warnings.iter().map(|warning| {
        let (rule, _) = rule_of_warnings(report);
        result(rule, "warning", &warning.text, Some(warning.position))
    });
    errors.chain(warnings).collect()
}

/// Where in which file; nowhere for standard input without a name.
fn location(file: &str, position: Option<Position>) -> Option<Value> {
    if file == "-" {
        return None;
    }
    let mut physical = Map::new();
    physical.insert("artifactLocation".to_owned(), json!({"uri": uri(file)}));
    if let Some(Position { line, column }) = position {
        let region = json!({"startLine": line, "startColumn": column});
        physical.insert("region".to_owned(), region);
    }
    Some(json!({"physicalLocation": physical}))
}

/// A path as a URI: what is not a letter, a digit or one of a few marks is written as bytes.
fn uri(path: &str) -> String {
    let mut uri = String::new();
    if Path::new(path).is_absolute() {
        uri.push_str("file://");
    }
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b'~' => {
                uri.push(char::from(byte));
            }
            // Writing to a String cannot fail.
            _ => drop(write!(uri, "%{byte:02X}")),
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::uri;

    #[test]
    fn a_path_is_written_as_a_uri() {
        assert_eq!(uri("a b/ü:1.yaml"), "a%20b/%C3%BC%3A1.yaml");
        assert_eq!(uri("/a/b.yaml"), "file:///a/b.yaml");
    }
}
