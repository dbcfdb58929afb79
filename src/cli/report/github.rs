//! A report as workflow commands, from which GitHub makes annotations on the lines of a change.

use std::fmt::Write as _;

use super::super::terminal::printable;
use super::{Position, Report};

/// A line for each error and each warning.
pub(in crate::cli) fn commands(report: &Report) -> String {
    let mut out = String::new();
    for error in &report.errors {
        out.push_str(&command("error", report, error.position, &error.text));
    }
    for warning in &report.warnings {
        let position = Some(warning.position);
        out.push_str(&command("warning", report, position, &warning.text));
    }
    out
}

/// A line for a file that cannot be read.
pub(in crate::cli) fn trouble(message: &str) -> String {
    format!("::error::{}\n", data(message))
}

fn command(level: &str, report: &Report, position: Option<Position>, message: &str) -> String {
    let mut properties = String::new();
    // Standard input is no file of the change. Writing to a String cannot fail.
    if report.file != "-" {
        let _ = write!(properties, "file={},", property(&report.file));
        if let Some(Position { line, column }) = position {
            let _ = write!(properties, "line={line},col={column},");
        }
    }
    let title = property(&report.subject());
    format!("::{level} {properties}title={title}::{}\n", data(message))
}

/// What stands after the last `::`.
fn data(text: &str) -> String {
    let escaped = text.replace('%', "%25").replace('\r', "%0D");
    printable(&escaped.replace('\n', "%0A"))
}

/// What stands between commas.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_end_a_command_is_escaped() {
        assert_eq!(data("100%\r\na: b, c"), "100%25%0D%0Aa: b, c");
        assert_eq!(data("spec[\x1b[31m]"), "spec[�[31m]");
        assert_eq!(property("a:b,c%\n"), "a%3Ab%2Cc%25%0A");
    }
}
