//! Whatever a page tells a reader to run can be run, and prints what the page shows.

use std::collections::BTreeSet;
use std::process::{Command, Output};

use crate::page::{pages, read, root, shows, text_under, words};

fn muster(args: &[String]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_muster"))
        .args(args)
        .current_dir(root())
        .env("COLUMNS", "200")
        .output()
        .unwrap()
}

fn printed(args: &[String]) -> String {
    String::from_utf8(muster(args).stdout).unwrap()
}

/// What serves until it is stopped, and what asks a cluster. The latter is typed on one: `guide` among
/// the tests on a real node.
const NOT_HERE: [&str; 4] = ["serve", "verify", "status", "explain"];

#[test]
fn what_a_command_is_shown_to_print_is_what_it_prints() {
    let mut checked = 0;
    for page in pages() {
        for typed in page.typed().into_iter().flatten() {
            let Some(command) = typed.command.strip_prefix("muster ") else {
                continue;
            };
            let command = words(command);
            let Some(shown) = typed.shown else { continue };
            if NOT_HERE.contains(&command[0].as_str()) {
                continue;
            }
            let compared = shows(&shown, &printed(&command));
            compared.unwrap_or_else(|differs| panic!("{}: {command:?}: {differs}", page.name()));
            checked += 1;
        }
    }
    assert!(checked >= 3, "only {checked} outputs are shown");
}

#[test]
fn the_table_of_schedulers_is_what_the_command_prints() {
    let printed = printed(&words("schedulers"));
    assert!(printed.lines().count() > 6, "{printed}");
    let shown = format!("`muster schedulers` prints:\n\n{printed}\n");
    let page = read("docs/schedulers.md");
    assert!(page.contains(&shown), "the page should have:\n{shown}");
}

#[test]
fn every_muster_command_is_one_that_muster_knows() {
    let mut checked = 0;
    for page in pages() {
        for command in page.commands_of("muster") {
            let shown = format!("{}: muster {}", page.name(), command.join(" "));
            let flags = command
                .iter()
                .filter(|word| word.starts_with('-') && *word != "-");
            let takes_words = ["crd"].contains(&command[0].as_str()) && command.len() > 1;
            let mut help = command[..if takes_words { 2 } else { 1 }].to_vec();
            help.retain(|word| !word.starts_with('-'));
            help.push("--help".to_owned());
            let output = muster(&help);
            assert!(output.status.success(), "{shown}: no such command");
            let help = String::from_utf8(output.stdout).unwrap();
            let known: BTreeSet<&str> = help
                .lines()
                .filter(|line| line.trim_start().starts_with('-'))
                .flat_map(|line| line.split([' ', ',']))
                .filter(|word| word.starts_with('-'))
                .collect();
            for flag in flags {
                assert!(known.contains(flag.as_str()), "{shown}: no flag {flag}");
            }
            checked += 1;
        }
    }
    assert!(checked >= 20, "only {checked} commands found");
}

/// Those that need no cluster, as far as their files are not the reader's own.
#[test]
fn every_check_and_render_can_be_run_as_shown() {
    let mut checked = 0;
    for page in pages() {
        for command in page.commands_of("muster") {
            let is_file = |word: &String| root().join(word).exists();
            let runs = ["check", "render"].contains(&command[0].as_str());
            if runs && command[1..].iter().any(is_file) {
                let output = muster(&command);
                let said = String::from_utf8_lossy(&output.stderr);
                assert_ne!(output.status.code(), Some(2), "{command:?}: {said}");
                assert!(!output.stdout.is_empty(), "{command:?} prints nothing");
                checked += 1;
            }
        }
    }
    assert!(checked >= 8, "only {checked} commands found");
}

#[test]
fn every_just_and_cargo_command_exists() {
    let recipes = read("justfile");
    let manifest = read("Cargo.toml");
    let tests = read("tests/cluster/tests/mod.rs");
    let mut checked = 0;
    for page in pages() {
        for command in page.commands_of("just") {
            let named = |line: &str| {
                let rest = line.strip_prefix(command[0].as_str());
                rest.is_some_and(|rest| rest.starts_with([' ', ':']))
            };
            assert!(
                recipes.lines().any(named),
                "{}: just {command:?}",
                page.name()
            );
            checked += 1;
        }
        for command in page.commands_of("cargo") {
            let shown = format!("{}: cargo {}", page.name(), command.join(" "));
            let value = |flag: &str| {
                let at = command.iter().position(|word| word == flag)?;
                Some(command[at + 1].as_str())
            };
            for flag in ["--test", "--bench"] {
                if let Some(name) = value(flag) {
                    let target = format!("[[{}]]\nname = \"{name}\"", &flag[2..]);
                    let file = root().join(format!("tests/{name}.rs"));
                    assert!(manifest.contains(&target) || file.exists(), "{shown}");
                }
            }
            if let Some(name) = value("--features") {
                assert!(manifest.contains(&format!("\n{name} = [")), "{shown}");
            }
            if let Some(filter) = value("--").filter(|_| value("--test") == Some("e2e")) {
                let word = ["NAME", "--list", "build", "demo", "node"].contains(&filter);
                assert!(word || tests.contains(filter), "{shown}");
            }
            checked += 1;
        }
    }
    assert!(checked >= 10, "only {checked} commands found");
}

/// Whoever copies the commands installs what there is, and removes every webhook configuration.
#[test]
fn what_kubectl_installs_and_removes_exists() {
    let base = text_under("manifests/base", "yaml");
    let configurations: BTreeSet<&str> = base
        .split("WebhookConfiguration\nmetadata:\n  name: ")
        .skip(1)
        .map(|rest| rest.lines().next().unwrap())
        .collect();
    assert_eq!(configurations.len(), 3, "{configurations:?}");
    for page in pages() {
        let mut removed = BTreeSet::new();
        let commands = page.commands_of("kubectl");
        for command in &commands {
            let flag = command.iter().position(|word| word == "-k");
            if let Some(folder) = flag.and_then(|at| command.get(at + 1)) {
                let file = format!("{folder}/kustomization.yaml");
                assert!(root().join(&file).exists(), "{}: {file}", page.name());
            }
            if command.len() > 1 && command[1].ends_with("webhookconfiguration") {
                removed.extend(command[2..].iter().map(String::as_str));
            }
        }
        let installs = commands.iter().any(|command| command[0] == "delete");
        assert!(
            !installs || removed == configurations,
            "{}: {removed:?}",
            page.name()
        );
    }
}
