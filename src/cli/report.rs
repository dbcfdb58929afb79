//! What `muster check` says of one object, as JSON or for people.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;

use crate::gang::resources::ResourceList;
use crate::gang::{Barrier, FieldError, Gang, Level};
use crate::workload::Facts;

/// One object's result. The field names are the command's JSON contract.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub(crate) file: String,
    pub(crate) document: usize,
    pub(crate) kind: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) allowed: bool,
    pub(crate) errors: Vec<ErrorReport>,
    pub(crate) warnings: Vec<String>,
    /// The first of its gangs.
    pub(crate) gangs: Vec<GangReport>,
    /// How many gangs it has in all.
    pub(crate) gang_count: u64,
    /// Its start barrier.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) barrier: Option<BarrierReport>,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BarrierReport {
    /// The roles that wait for each other.
    pub(crate) targets: Vec<String>,
    pub(crate) pods: u64,
    pub(crate) timeout_seconds: f64,
}

impl BarrierReport {
    pub(crate) fn new(barrier: &Barrier) -> Self {
        let targets = barrier.targets.iter();
        Self {
            targets: targets.map(|target| target.role.clone()).collect(),
            pods: barrier.members(),
            timeout_seconds: barrier.timeout.as_secs_f64(),
        }
    }
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct ErrorReport {
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    pub(crate) field: String,
    pub(crate) value: Option<Value>,
    pub(crate) message: String,
    /// The error as Kubernetes would print it.
    #[serde(skip)]
    pub(crate) text: String,
    /// Line and column in the file, from 1.
    #[serde(skip)]
    pub(crate) position: Option<(usize, usize)>,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GangReport {
    pub(crate) name: String,
    pub(crate) level: &'static str,
    pub(crate) part: String,
    pub(crate) index: Option<u32>,
    pub(crate) quorum: u32,
    pub(crate) pods: u32,
    pub(crate) min_resources: ResourceList,
}

impl GangReport {
    pub(crate) fn new(facts: &Facts, gang: &Gang<'_>) -> Self {
        let part = gang.part;
        let level = (facts.level)(part.level());
        let name = match part.level() {
            Level::Whole => "",
            Level::Group | Level::Replica => part.name().as_str(),
        };
        Self {
            name: gang.name().into_string(),
            level,
            part: name.to_owned(),
            index: gang.identity.index,
            quorum: part.quorum(),
            pods: part.size(),
            min_resources: part.min_resources().clone(),
        }
    }
}

impl ErrorReport {
    pub(crate) fn new(error: &FieldError, position: Option<(usize, usize)>) -> Self {
        let message = match error.detail.as_str() {
            "" => error.body(),
            detail => detail.to_owned(),
        };
        Self {
            kind: error.kind.name(),
            field: error.field.to_string(),
            value: error.value.clone(),
            message,
            text: error.to_string(),
            position,
        }
    }
}

impl Report {
    /// The report for people; `source` is the file's text, for the lines that carets point at.
    pub fn to_text(&self, source: &str) -> String {
        let mut out = String::new();
        let verdict = if self.allowed { "admitted" } else { "refused" };
        let name = match (self.kind.as_str(), self.name.as_str()) {
            ("", _) => format!("document {}", self.document + 1),
            (kind, name) => format!("{kind} {}/{name}", self.namespace),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{}: {name}: {verdict}", self.file);
        for error in &self.errors {
            let _ = writeln!(out, "  error: {}", error.text);
            if let Some((line, column)) = error.position {
                out.push_str(&caret(source, line, column));
            }
        }
        for warning in &self.warnings {
            let _ = writeln!(out, "  warning: {warning}");
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
