//! The name under which the program was called: `muster`, or `kubectl muster` where kubectl found it as
//! a plugin. Help and errors use it, so that what they print can be typed.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::{Command, CommandFactory as _, Error, FromArgMatches as _};

use crate::args::Cli;

/// As its texts name it.
const OWN: &str = "muster";

/// What a plugin's file is called before its words.
const PLUGIN: &str = "kubectl-";

/// Reads the command line; the first word is what the program was called.
pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Cli, Error> {
    let words: Vec<OsString> = words.into_iter().collect();
    let mut command = command(words.first().map(OsString::as_os_str));
    let matches = command.try_get_matches_from_mut(words)?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// The grammar, with texts that name the command as it was called.
fn command(called: Option<&OsStr>) -> Command {
    let name = name(called);
    let command = Cli::command().bin_name(&name);
    match name == OWN {
        true => command,
        false => renamed(command, &name),
    }
}

/// A dash parts the words of a plugin, and an underscore is a dash.
fn name(called: Option<&OsStr>) -> String {
    let file = called.and_then(|called| Path::new(called).file_stem());
    let file = file.and_then(OsStr::to_str).unwrap_or(OWN);
    match file.strip_prefix(PLUGIN) {
        Some(words) => format!("kubectl {}", words.replace('-', " ").replace('_', "-")),
        None => file.to_owned(),
    }
}

/// The examples of a command and of those below it.
fn renamed(command: Command, name: &str) -> Command {
    let help = command.get_after_help().map(ToString::to_string);
    let command = match help {
        Some(help) => command.after_help(in_examples(&help, name)),
        None => command,
    };
    command.mut_subcommands(|below| renamed(below, name))
}

/// Of a text only the lines that can be typed: they are indented, or end a pipe.
fn in_examples(help: &str, name: &str) -> String {
    ["\n  ", "| "].iter().fold(help.to_owned(), |help, before| {
        help.replace(&format!("{before}{OWN} "), &format!("{before}{name} "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_is_named_as_kubectl_calls_it() {
        for (called, named) in [
            ("muster", "muster"),
            ("/usr/local/bin/muster", "muster"),
            ("./kubectl-muster", "kubectl muster"),
            ("/x/kubectl-muster.exe", "kubectl muster"),
            ("kubectl-gang-muster", "kubectl gang muster"),
            ("kubectl-my_muster", "kubectl my-muster"),
            ("gangs", "gangs"),
        ] {
            assert_eq!(name(Some(OsStr::new(called))), named);
        }
        assert_eq!(name(None), "muster");
    }

    /// Of every command, also those below others.
    #[test]
    fn no_example_names_another_command_than_the_one_that_was_called() {
        fn check(command: &Command) {
            let help = command.get_after_help().map(ToString::to_string);
            for line in help.unwrap_or_default().lines() {
                let typed = line.trim_start().starts_with("muster ") || line.contains("| muster ");
                assert!(!typed, "{}: {line}", command.get_name());
            }
            command.get_subcommands().for_each(check);
        }
        check(&command(Some(OsStr::new("kubectl-muster"))));
    }
}
