//! Every flag of `muster serve` is documented for operators, as the command line has it.

use std::collections::BTreeMap;

use clap::CommandFactory as _;
use muster::args::Cli;

use crate::page::read;

/// The variable of a flag, and its default.
type Facts = (String, String);

fn known() -> BTreeMap<String, Facts> {
    let cli = Cli::command();
    let serve = cli.find_subcommand("serve").unwrap();
    let text = |word: Option<String>| word.map_or(String::new(), |word| format!("`{word}`"));
    let shown = serve.get_arguments().filter(|flag| !flag.is_hide_set());
    let flags = shown.filter_map(|flag| {
        let variable = flag.get_env().map(|name| name.display().to_string());
        let default = flag.get_default_values().first();
        let default = default.map(|value| value.display().to_string());
        Some((
            format!("--{}", flag.get_long()?),
            (text(variable), text(default)),
        ))
    });
    flags.collect()
}

#[test]
fn every_flag_is_documented_with_its_variable_and_its_default() {
    let page = read("docs/operating.md");
    let table = page.split("\n| flag | variable | by default | for |\n");
    let rows = table.last().unwrap().lines().skip(1);
    let rows = rows.take_while(|line| line.starts_with('|'));
    let documented: BTreeMap<String, Facts> = rows
        .map(|row| {
            let mut cells = row.split('|').skip(1).map(str::trim);
            let mut cell = || cells.next().unwrap().to_owned();
            let (flag, variable, default) = (cell(), cell(), cell());
            assert!(!cell().is_empty(), "{flag}: for what?");
            (flag.trim_matches('`').to_owned(), (variable, default))
        })
        .collect();
    assert!(documented.len() >= 15, "{documented:?}");
    assert_eq!(documented, known());
}
