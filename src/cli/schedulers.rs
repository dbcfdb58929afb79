//! `muster schedulers`: what each scheduler can do, from the same data that refusals come from.

use crate::scheduler::abilities::Support;
use crate::scheduler::abilities::{Abilities, Bundles, Priorities, QuorumChange, Timeouts};
use crate::scheduler::known;

const HEADER: [&str; 9] = [
    "scheduler",
    "levels",
    "bundle",
    "queue",
    "priority class",
    "timeout",
    "minimum resources",
    "when members finish",
    "made for",
];

/// A part is of one of three levels, and every backend takes any part.
const LEVELS: &str = "workload, group, replica";

/// The table, in Markdown: it is the README's too.
pub fn table() -> String {
    let mut rows = vec![HEADER.map(str::to_owned)];
    rows.extend(known().map(|(name, backend)| row(name, backend.abilities())));
    let mut widths = [0; HEADER.len()];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let padded = |row: &[String; HEADER.len()]| {
        let cells = row.iter().zip(widths);
        line(
            cells
                .map(|(cell, width)| format!("{cell:width$}"))
                .collect(),
        )
    };
    let mut table = padded(&rows[0]);
    table.push_str(&line(widths.map(|width| "-".repeat(width)).to_vec()));
    rows[1..]
        .iter()
        .for_each(|row| table.push_str(&padded(row)));
    table
}

fn row(name: &str, abilities: &Abilities) -> [String; HEADER.len()] {
    let bundle = match abilities.bundle {
        Bundles::AcrossWorkloads { .. } => "of several workloads",
        Bundles::WithinNamespace { .. } => "of one namespace",
        Bundles::WithinWorkload(_) | Bundles::WithinWorkloadIf(_) => "of one workload",
        Bundles::No(_) => "no",
    };
    let queue = match abilities.queue {
        Support::Yes => "yes",
        Support::No(_) => "no",
    };
    let priority = match abilities.priorities {
        Priorities::MustBeEqual => "one per gang",
        Priorities::Carried => "carried over",
        Priorities::OnPodsOnly => "on pods only",
    };
    let timeout = match abilities.timeout {
        Timeouts::Muster => "Muster's",
        Timeouts::CarriedToo => "Muster's, and carried over",
    };
    let minimum = if abilities.min_resources { "yes" } else { "no" };
    let finish = match abilities.quorum_change {
        QuorumChange::Live => "the quorum follows",
        QuorumChange::Never(_) => "the quorum stays",
        QuorumChange::NotNeeded => "they still count",
    };
    [
        name,
        LEVELS,
        bundle,
        queue,
        priority,
        timeout,
        minimum,
        finish,
        abilities.made_for,
    ]
    .map(str::to_owned)
}
