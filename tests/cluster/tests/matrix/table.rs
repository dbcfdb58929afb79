//! The matrix as a Markdown table, rewritten after each cell.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::sync::Mutex;

use anyhow::Result;

use super::{Column, Row};
use crate::node::images::Place;

static CELLS: Mutex<BTreeMap<(Column, Row), String>> = Mutex::new(BTreeMap::new());

/// Notes a cell: seconds from the missing node to the last pod bound, or that it is refused.
pub fn note(column: Column, row: Row, text: String) -> Result<()> {
    let mut cells = CELLS.lock().unwrap_or_else(|poison| poison.into_inner());
    cells.insert((column, row), text);
    let dir = Place::own()?.target.join("e2e");
    fs::create_dir_all(&dir)?;
    fs::write(dir.join("matrix.md"), table(&cells))?;
    Ok(())
}

fn table(cells: &BTreeMap<(Column, Row), String>) -> String {
    let mut text = "| |".to_owned();
    for row in Row::ALL {
        let _ = write!(text, " {} |", row.title());
    }
    text += "\n|---|";
    text += &"---|".repeat(Row::ALL.len());
    text.push('\n');
    for column in Column::ALL {
        let _ = write!(text, "| {} |", column.title());
        for row in Row::ALL {
            let cell = cells.get(&(column, row)).map_or("not run", String::as_str);
            let _ = write!(text, " {cell} |");
        }
        text.push('\n');
    }
    text
}
