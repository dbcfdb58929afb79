//! A report for people: the verdict, each error above its line with a caret, the gangs.

use std::fmt::Write as _;

use super::super::terminal::Lines;
use super::{BarrierReport, GangReport, Position, Report};

impl Report {
    /// The report for people; `source` is the file's text, for the lines that carets point at.
    pub fn to_text(&self, source: &str) -> String {
        let mut out = Lines::default();
        let name = self.subject();
        if !self.checked {
            for warning in &self.warnings {
                out.add(format_args!("{}: {name}: {}", self.file, warning.text));
            }
            return out.into_text();
        }
        let verdict = match (self.allowed, self.ganged) {
            (true, true) => "admitted",
            (true, false) => "admitted, no gang",
            (false, _) => "refused",
        };
        out.add(format_args!("{}: {name}: {verdict}", self.file));
        for error in &self.errors {
            out.add(format_args!("  error: {}", error.text));
            if let Some(Position { line, column }) = error.position {
                caret(source, line, column, &mut out);
            }
        }
        for warning in &self.warnings {
            out.add(format_args!("  warning: {}", warning.text));
        }
        /// More than this nobody reads.
        const LISTED: usize = 20;
        for gang in self.gangs.iter().take(LISTED) {
            out.add(format_args!("  gang {}", gang.to_text()));
        }
        let more = self.gang_count.saturating_sub(LISTED as u64);
        if more > 0 {
            let plural = if more == 1 { "" } else { "s" };
            out.add(format_args!("  and {more} more gang{plural}"));
        }
        if let Some(barrier) = &self.barrier {
            let BarrierReport {
                targets,
                pods,
                timeout_seconds,
                container,
                image,
            } = barrier;
            let targets = targets.join(", ");
            let wait = match pods {
                1 => "pod waits for nobody else",
                _ => "pods wait for each other",
            };
            out.add(format_args!(
                "  start barrier: {pods} {wait} ({targets}), each for at most \
                 {timeout_seconds}s, in the init container {container} ({image})"
            ));
        }
        out.into_text()
    }
}

impl GangReport {
    fn to_text(&self) -> String {
        let plural = if self.pods == 1 { "" } else { "s" };
        let mut out = format!("{}: {} pod{plural}", self.name, self.pods);
        if self.quorum != self.pods {
            // Writing to a String cannot fail.
            let _ = write!(out, ", {} of them at least", self.quorum);
        }
        for (name, quantity) in self.min_resources.iter() {
            let _ = write!(out, ", {name} {quantity}");
        }
        out
    }
}

/// The line that an error is in, and below it where.
fn caret(source: &str, line: usize, column: usize, out: &mut Lines) {
    let Some(text) = source.lines().nth(line.saturating_sub(1)) else {
        return;
    };
    // A file of one line would bury the caret.
    const WIDTH: usize = 160;
    let text = text.chars().take(WIDTH);
    let text: String = text.map(|c| if c == '\t' { ' ' } else { c }).collect();
    if column > WIDTH {
        return;
    }
    let margin = line.to_string();
    let blank = " ".repeat(margin.len());
    let pad = " ".repeat(column.saturating_sub(1));
    out.add(format_args!("    {margin} | {text}"));
    out.add(format_args!("    {blank} | {pad}^"));
}

#[cfg(test)]
mod tests {
    use crate::cli::check;
    use crate::cli::files::Source;
    use crate::cli::report::github;
    use crate::scheduler::{Dialect, Snapshot, TABLE};
    use crate::workload::KINDS;

    #[test]
    fn what_a_file_says_neither_begins_a_line_nor_moves_the_cursor() {
        let kind = KINDS[0].kind;
        let (version, kind) = (kind.api_version(), kind.name);
        let text = format!(
            "apiVersion: {version}\nkind: {kind}\nmetadata:\n  name: \"a\\n::error file=x::pwned\"\n  \
             annotations:\n    \"muster.dev/\\e[31m\": b # \u{202e}\nspec:\n  \"\\e[33m\": 1\n"
        );
        let source = Source {
            name: "a.yaml".to_owned(),
            text,
        };
        let cluster = Snapshot::assumed(TABLE[0].kind, Dialect::ALL[0]);
        let reports = check::check_source(&source, &cluster);
        assert_eq!(reports.len(), 1);
        let [for_people, for_github] = [
            reports[0].to_text(&source.text),
            github::commands(&reports[0]),
        ];
        for said in [&for_people, &for_github] {
            assert!(said.contains("pwned") && said.contains("[33m"), "{said}");
            assert!(!said.contains(['\u{1b}', '\u{202e}']), "{said:?}");
        }
        assert!(
            !for_people.lines().any(|line| line.starts_with("::")),
            "{for_people}"
        );
        let own = |line: &str| line.starts_with("::error file=a.yaml,");
        assert!(for_github.lines().all(own), "{for_github}");
    }
}
