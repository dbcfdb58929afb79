//! The causes as a Markdown table, rewritten after each cell.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::sync::Mutex;

use anyhow::Result;

use super::{Scheduler, Seed};
use crate::node::images::Place;

static CELLS: Mutex<BTreeMap<(Seed, Scheduler), (f64, String)>> = Mutex::new(BTreeMap::new());

/// Notes a cell: seconds from the fact to the words.
pub fn note(scheduler: Scheduler, seed: Seed, seconds: f64, message: &str) -> Result<()> {
    let mut cells = CELLS.lock().unwrap_or_else(|poison| poison.into_inner());
    cells.insert((seed, scheduler), (seconds, message.to_owned()));
    let dir = Place::own()?.target.join("e2e");
    fs::create_dir_all(&dir)?;
    fs::write(dir.join("explain.md"), table(&cells))?;
    Ok(())
}

fn table(cells: &BTreeMap<(Seed, Scheduler), (f64, String)>) -> String {
    let mut text = "| cause | reason |".to_owned();
    for scheduler in Scheduler::ALL {
        let _ = write!(text, " {} |", scheduler.name());
    }
    text += "\n|---|---|";
    text += &"---|".repeat(Scheduler::ALL.len());
    text.push('\n');
    for seed in Seed::ALL {
        let _ = write!(text, "| {} | `{}` |", seed.title(), seed.reason());
        for scheduler in Scheduler::ALL {
            let cell = match cells.get(&(seed, scheduler)) {
                Some((seconds, _)) => format!("{seconds:.1} s"),
                None if seed.exists_on(scheduler) => "not run".to_owned(),
                None => "–".to_owned(),
            };
            let _ = write!(text, " {cell} |");
        }
        text.push('\n');
    }
    text
}
