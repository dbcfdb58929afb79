//! How many objects of a run were admitted, and what else there was, for the last lines.

use std::collections::BTreeSet;
use std::io::Write;

use serde_json::Value;

use super::super::one_of;
use super::super::terminal::printable;
use super::Report;
use crate::gang::keys;
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
        match (report.checked, report.allowed) {
            (true, true) => self.admitted += 1,
            (true, false) => self.refused += 1,
            (false, _) => drop(self.skipped.insert(report.kind.clone())),
        }
        self.gangs = self.gangs.saturating_add(report.gang_count);
    }

    pub(super) fn skip(&mut self, object: &Value) {
        self.skipped.insert(kind(object));
    }

    /// Whether there was no object that could be checked.
    pub(super) fn is_empty(&self) -> bool {
        self.admitted + self.refused == 0
    }

    pub(super) fn summary(&self, out: &mut dyn Write) -> std::io::Result<()> {
        if self.is_empty() {
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
    match kind.trim() {
        "" => "what is no object of an API".to_owned(),
        kind => kind.to_owned(),
    }
}

/// Whether an object asks Muster for something, itself or in a template of pods in it. A selector
/// that names a key of Muster's asks for nothing.
pub(super) fn asks(value: &Value) -> bool {
    match value {
        Value::Object(fields) => {
            let metadata = fields.get("metadata");
            let keyed = |of: &str| {
                let keys = metadata.and_then(|metadata| metadata[of].as_object());
                keys.is_some_and(|keys| keys.keys().any(|key| key.starts_with(keys::PREFIX)))
            };
            keyed("annotations") || keyed("labels") || fields.values().any(asks)
        }
        Value::Array(items) => items.iter().any(asks),
        _ => false,
    }
}
