//! A report for people: the verdict, each error above its line with a caret, the gangs.

use std::fmt::Write as _;

use super::{BarrierReport, GangReport, Position, Report};

impl Report {
    /// The report for people; `source` is the file's text, for the lines that carets point at.
    pub fn to_text(&self, source: &str) -> String {
        let mut out = String::new();
        let verdict = match (self.allowed, self.ganged) {
            (true, true) => "admitted",
            (true, false) => "admitted, no gang",
            (false, _) => "refused",
        };
        let name = self.subject();
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{}: {name}: {verdict}", self.file);
        for error in &self.errors {
            let _ = writeln!(out, "  error: {}", error.text);
            if let Some(Position { line, column }) = error.position {
                out.push_str(&caret(source, line, column));
            }
        }
        for warning in &self.warnings {
            let _ = writeln!(out, "  warning: {}", warning.text);
        }
        /// More than this nobody reads.
        const LISTED: usize = 20;
        for gang in self.gangs.iter().take(LISTED) {
            let _ = writeln!(out, "  gang {}", gang.to_text());
        }
        let more = self.gang_count.saturating_sub(LISTED as u64);
        if more > 0 {
            let plural = if more == 1 { "" } else { "s" };
            let _ = writeln!(out, "  and {more} more gang{plural}");
        }
        if let Some(barrier) = &self.barrier {
            let BarrierReport {
                targets,
                pods,
                timeout_seconds,
            } = barrier;
            let targets = targets.join(", ");
            let plural = if *pods == 1 { "" } else { "s" };
            let _ = writeln!(
                out,
                "  start barrier: {pods} pod{plural} wait for each other ({targets}), each for at most \
                 {timeout_seconds}s"
            );
        }
        out
    }
}

impl GangReport {
    fn to_text(&self) -> String {
        let plural = if self.pods == 1 { "" } else { "s" };
        let mut out = format!("{}: {} pod{plural}", self.name, self.pods);
        if self.quorum != self.pods {
            let _ = write!(out, ", {} of them at least", self.quorum);
        }
        for (name, quantity) in self.min_resources.iter() {
            let _ = write!(out, ", {name} {quantity}");
        }
        out
    }
}

fn caret(source: &str, line: usize, column: usize) -> String {
    let Some(text) = source.lines().nth(line.saturating_sub(1)) else {
        return String::new();
    };
    // A file of one line would bury the caret.
    const WIDTH: usize = 160;
    let text: String = text.chars().take(WIDTH).collect();
    if column > WIDTH {
        return String::new();
    }
    let margin = line.to_string();
    let blank = " ".repeat(margin.len());
    let pad: String = text
        .chars()
        .take(column.saturating_sub(1))
        .map(|c| if c == '\t' { '\t' } else { ' ' })
        .collect();
    format!("    {margin} | {text}\n    {blank} | {pad}^\n")
}
