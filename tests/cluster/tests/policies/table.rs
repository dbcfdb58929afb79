//! The tables of docs/policies.md: which of Muster's errors the policies give too.

use std::cell::Cell;
use std::fs;

use anyhow::{Context, Result, bail, ensure};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/policies.md");

/// What a table says of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The policies give the same error.
    Same,
    /// They give another one at the same path.
    OtherWords,
    /// The apiserver has refused the object before.
    Before,
    /// The apiserver has dropped the field.
    Dropped,
    /// They do not give it.
    No,
}

pub struct Row {
    /// Muster's words, with `…` for any text.
    pattern: String,
    pub verdict: Verdict,
    /// Whether a fixture has shown it.
    shown: Cell<bool>,
}

impl Row {
    pub fn show(&self) {
        self.shown.set(true);
    }

    fn matches(&self, message: &str) -> bool {
        let mut parts = self.pattern.split('…');
        let mut rest = message;
        let first = parts.next().unwrap_or_default();
        let Some(after) = rest.strip_prefix(first) else {
            return false;
        };
        rest = after;
        let parts: Vec<&str> = parts.collect();
        let Some((last, middle)) = parts.split_last() else {
            return rest.is_empty();
        };
        for part in middle {
            match rest.split_once(part) {
                Some((_, after)) => rest = after,
                None => return false,
            }
        }
        rest.ends_with(last)
    }
}

pub struct Table(Vec<Row>);

impl Table {
    pub fn read() -> Result<Table> {
        let page = fs::read_to_string(PAGE)?;
        let section = |heading: &str| {
            let after = page.split(&format!("\n## {heading}\n")).nth(1);
            let after = after.with_context(|| format!("no section {heading:?}"))?;
            anyhow::Ok(after.split("\n## ").next().unwrap_or_default())
        };
        let mut rows = Vec::new();
        for cells in cells(section("What they leave")?) {
            let [pattern, verdict, _] = &cells[..] else {
                bail!("not three cells: {cells:?}");
            };
            let verdict = match *verdict {
                "other words" => Verdict::OtherWords,
                "before" => Verdict::Before,
                "dropped" => Verdict::Dropped,
                "no" => Verdict::No,
                _ => bail!("{verdict:?} is no verdict"),
            };
            rows.push(row(pattern, verdict)?);
        }
        for cells in cells(section("What they refuse")?) {
            let [_, pattern] = &cells[..] else {
                bail!("not two cells: {cells:?}");
            };
            rows.push(row(pattern, Verdict::Same)?);
        }
        ensure!(rows.len() > 50, "only {} rows", rows.len());
        Ok(Table(rows))
    }

    /// The row of an error, without its path. What is left comes first: its texts are narrower.
    pub fn row(&self, message: &str) -> Option<&Row> {
        self.0.iter().find(|row| row.matches(message))
    }

    /// Rows that no fixture has shown.
    pub fn unshown(&self) -> Vec<String> {
        let rows = self.0.iter().filter(|row| !row.shown.get());
        rows.map(|row| format!("{:?}: {}", row.verdict, row.pattern))
            .collect()
    }
}

fn row(cell: &str, verdict: Verdict) -> Result<Row> {
    let pattern = cell
        .strip_prefix('`')
        .and_then(|cell| cell.strip_suffix('`'));
    let pattern = pattern.with_context(|| format!("{cell} is no message"))?;
    Ok(Row {
        pattern: pattern.to_owned(),
        verdict,
        shown: Cell::new(false),
    })
}

/// The cells of a section's table, without its head.
fn cells(section: &str) -> impl Iterator<Item = Vec<&str>> {
    let lines = section.lines().filter(|line| line.starts_with('|'));
    let rows = lines.map(|line| {
        let inner = line.trim_start_matches('|').trim_end_matches('|');
        inner.split('|').map(str::trim).collect::<Vec<_>>()
    });
    rows.skip(2)
}
