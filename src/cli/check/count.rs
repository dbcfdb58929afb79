//! How many objects of a run were admitted, and what else there was, for the last lines.

use std::collections::BTreeSet;
use std::io::Write;

use serde_json::Value;

use super::super::one_of;
use super::super::terminal::printable;
use super::Report;
use crate::workload::object;

/// What was found so far.
#[derive(Default)]
pub(super) struct Count {
    admitted: usize,
    pub(super) refused: usize,
    gangs: u64,
    /// The kinds that Muster does not handle.
    skipped: BTreeSet<String>,
}

impl Count {
    pub(super) fn note(&mut self, report: &Report) {
        match report.allowed {
            true => self.admitted += 1,
            false => self.refused += 1,
        }
        self.gangs = self.gangs.saturating_add(report.gang_count);
    }

    pub(super) fn skip(&mut self, object: &Value) {
        self.skipped.insert(kind(object));
    }

    pub(super) fn summary(&self, out: &mut dyn Write) -> std::io::Result<()> {
        if self.admitted + self.refused == 0 {
            let skipped: Vec<&str> = self.skipped.iter().map(String::as_str).collect();
            let only = match &skipped[..] {
                [] => String::new(),
                kinds => format!(", only {}", kinds.join(", ")),
            };
            let kinds = one_of(&object::names());
            let only = printable(&only);
            return writeln!(out, "nothing to check: no {kinds} found{only}");
        }
        writeln!(out, "{} admitted, {} refused", self.admitted, self.refused)
    }

    pub(super) fn about_names(&self, out: &mut dyn Write) -> std::io::Result<()> {
        if self.gangs == 0 {
            return Ok(());
        }
        writeln!(
            out,
            "(a cluster gives each gang's name another ending: it depends on the object's uid)"
        )
    }
}

/// What an object says that it is.
fn kind(object: &Value) -> String {
    let text = |key: &str| object[key].as_str().unwrap_or_default();
    let kind = format!("{} {}", text("apiVersion"), text("kind"));
    kind.trim().to_owned()
}
