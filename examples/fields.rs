//! Writes `src/cli/schema/fields.txt`, the fields that `muster check` knows, from the Go modules that
//! the tests pin. For a new version of one of them; the end-to-end test `fields` compares.

#[path = "../tests/cluster/fields.rs"]
mod fields;

use std::path::Path;

fn main() -> anyhow::Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cli/schema/fields.txt");
    Ok(std::fs::write(path, fields::table()?)?)
}
