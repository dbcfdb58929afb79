//! The README and the pages of `docs/` keep their word: messages are those of the fixtures, commands
//! exist and print what is shown, links and names of tests lead somewhere.

mod chart;
mod commands;
mod flags;
mod page;
mod versions;

use std::collections::BTreeSet;

use page::{pages, read, text_under};

#[test]
fn every_message_in_a_table_is_one_that_muster_says() {
    let said = text_under("fixtures", "snap");
    let mut checked = 0;
    for page in pages() {
        for line in page.text.lines().filter(|line| line.starts_with("| ")) {
            let Some((_, rest)) = line.split_once("| `") else {
                continue;
            };
            let message = rest.trim_end_matches(" |").trim_end_matches('`');
            let is_message = ["Unsupported", "Forbidden", "Invalid", "Not found"]
                .iter()
                .any(|word| message.contains(&format!(": {word}")));
            if is_message {
                assert!(said.contains(message), "no fixture says: {message}");
                checked += 1;
            }
        }
    }
    assert!(checked >= 20, "only {checked} messages found");
}

#[test]
fn every_key_is_documented() {
    let page = read("docs/writing-gangs.md");
    let documented = |key: &str| page.contains(&format!("`muster.dev/{key}`"));
    for key in [
        "gang-mode",
        "min-count",
        "bundle",
        "bundle-with",
        "scheduler",
        "queue",
        "timeout",
        "timeout-action",
        "strictness",
        "start-barrier",
        "start-barrier-targets",
        "gang",
        "index",
        "stamp",
        "round",
    ] {
        assert!(documented(key), "{key}");
    }
    // What is added later must not be forgotten here.
    for rest in text_under("src", "rs")
        .split(": &str = \"muster.dev/")
        .skip(1)
    {
        let key = rest.split('"').next().unwrap();
        let is_condition = key.starts_with(char::is_uppercase);
        assert!(key.is_empty() || is_condition || documented(key), "{key}");
    }
}

#[test]
fn every_event_and_reason_is_documented() {
    let page = read("docs/tells.md");
    let mut checked = 0;
    for rest in text_under("src/controller", "rs").split('"') {
        let named = rest.strip_prefix("Gang").or(rest.strip_prefix("NoGang"));
        let is_word = |tail: &str| tail.chars().all(|c| c.is_ascii_alphabetic());
        if named.is_some_and(is_word) && rest != "Gang" {
            assert!(page.contains(&format!("`{rest}`")), "{rest}");
            checked += 1;
        }
    }
    assert!(checked >= 10, "only {checked} words found");
}

/// Both ways: a cause that is added is documented, and one that is gone is not.
#[test]
fn every_cause_is_documented_and_no_other() {
    let source = read("src/explain/cause.rs");
    let source = source.split("pub fn reason(").nth(1).unwrap();
    let is_reason = |word: &&str| {
        let letters = word.chars().all(|c| c.is_ascii_alphabetic());
        letters && word.starts_with(|c: char| c.is_ascii_uppercase())
    };
    let words = source.split('"').skip(1).step_by(2);
    let known: BTreeSet<&str> = words.filter(is_reason).collect();
    let page = read("docs/tells.md");
    let section = page.split("## Why a gang waits").nth(1).unwrap();
    let table = section.split("| reason | meaning |").nth(1).unwrap();
    let table = table.split("\n\n").next().unwrap();
    let cells = table.lines().filter_map(|line| line.split('|').nth(1));
    let told: BTreeSet<&str> = cells
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .chain(["GangWaiting"])
        .collect();
    assert!(told.len() > 30, "{told:?}");
    assert_eq!(known, told);
}

/// The table of how soon each cause is named has the rows that the tests write.
#[test]
fn the_table_of_causes_has_the_seeds_of_the_tests() {
    let source = read("tests/cluster/tests/explain/seed.rs");
    let facts = source.split("fn facts(self)").nth(1).unwrap();
    let facts = facts.split("\n    }\n").next().unwrap();
    let seeds = facts.split("=> (").skip(1).map(|arm| {
        let mut texts = arm.split('"').skip(1).step_by(2);
        (texts.next().unwrap(), texts.next().unwrap())
    });
    let seeds: Vec<(&str, &str)> = seeds.collect();
    let page = read("docs/tells.md");
    let table = page.split("| cause | reason |").nth(1).unwrap();
    let table = table.split("\n\n").next().unwrap();
    let rows = table.lines().skip(2).map(|line| {
        let mut cells = line.split('|').skip(1).map(str::trim);
        let title = cells.next().unwrap();
        assert!(!line.contains("not run"), "{line}");
        (title, cells.next().unwrap().trim_matches('`'))
    });
    let rows: Vec<(&str, &str)> = rows.collect();
    assert!(seeds.len() > 40, "{seeds:?}");
    assert_eq!(rows, seeds);
}

/// The page of schedulers names tests that exist.
#[test]
fn every_test_that_is_named_exists() {
    let page = read("docs/schedulers.md");
    let table = page
        .split("## What Muster adds to your scheduler")
        .nth(1)
        .and_then(|rest| rest.split("\n## ").next())
        .unwrap();
    let list = read("tests/cluster/tests/mod.rs");
    let names: BTreeSet<&str> = list
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .collect();
    let matrix = text_under("tests/cluster/tests/matrix", "rs").to_lowercase();
    let rows = table.lines().filter(|line| line.starts_with("| "));
    let mut checked = 0;
    for row in rows {
        let cell = row.trim_end_matches(" |").rsplit("| ").next().unwrap();
        for name in cell.split('`').skip(1).step_by(2) {
            let listed = match name.strip_prefix("matrix::") {
                Some(column) => matrix.contains(column),
                None => names.contains(name),
            };
            assert!(listed, "no test {name}");
            checked += 1;
        }
    }
    assert!(checked >= 20, "only {checked} tests are named");
    // Elsewhere in the prose a name of several words is a test's.
    for page in pages() {
        for span in page.spans() {
            let is_word = |c: char| c.is_ascii_lowercase() || c == '_';
            // A metric's name says whose it is.
            let metric = span.starts_with("muster_");
            if span.matches('_').count() >= 3 && span.chars().all(is_word) && !metric {
                assert!(names.contains(span.as_str()), "no test {span}");
            }
        }
    }
}

#[test]
fn the_matrix_has_the_rows_that_the_tests_write() {
    let written = text_under("tests/cluster/tests/matrix", "rs");
    let page = read("docs/matrix.md");
    let mut lines = page.lines().filter(|line| line.starts_with("| "));
    let header = lines.next().unwrap();
    let cells = |line: &str| line.matches('|').count() - 1;
    let titles = header.trim_end_matches('|').split('|').skip(2);
    let mut checked = 0;
    for row in titles.map(str::trim) {
        assert!(written.contains(&format!("\"{row}\"")), "{row}");
        checked += 1;
    }
    for line in lines {
        let title = line.split('|').nth(1).unwrap().trim();
        assert!(written.contains(&format!("\"{title}\"")), "{title}");
        assert_eq!(cells(line), cells(header), "{line}");
        checked += 1;
    }
    assert!(checked >= 12 + 9, "only {checked} titles");
}

#[test]
fn every_link_leads_somewhere() {
    let pages = pages();
    let mut checked = 0;
    for page in &pages {
        for link in page.links() {
            if link.contains("://") {
                continue;
            }
            let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = match path {
                "" => page.path.clone(),
                path => page.path.parent().unwrap().join(path),
            };
            let found = target.canonicalize();
            let found = found.unwrap_or_else(|_| panic!("{}: no file {link}", page.name()));
            if !anchor.is_empty() {
                let other = pages.iter().find(|other| other.path == found);
                let other = other.unwrap_or_else(|| panic!("{}: no page {link}", page.name()));
                let anchors = other.anchors();
                assert!(
                    anchors.contains(anchor),
                    "{}: no heading {link} among {anchors:?}",
                    page.name()
                );
            }
            checked += 1;
        }
    }
    assert!(checked >= 40, "only {checked} links found");
}

/// Whoever is woken by an alert finds what to do.
#[test]
fn every_alert_leads_to_a_heading_and_to_its_row() {
    let rules = read("manifests/monitoring/rules.yaml");
    let pages = pages();
    let page = pages.iter().find(|page| page.name() == "docs/operating.md");
    let (page, mut checked) = (page.unwrap(), 0);
    for line in rules.lines().map(str::trim) {
        if let Some(link) = line.strip_prefix("runbook: docs/operating.md#") {
            assert!(page.anchors().contains(link), "no heading {link}");
        }
        if let Some(alert) = line.strip_prefix("- alert: ") {
            let row = format!("| `{alert}` | ");
            assert!(page.text.contains(&row), "no row of {alert}");
            checked += 1;
        }
    }
    let links = rules.matches("runbook: docs/operating.md#").count();
    assert_eq!(checked, links, "each alert has one link");
    let rows = page.text.matches("\n| `Muster").count();
    assert_eq!(checked, rows, "a row of an alert that is no more");
}

#[test]
fn every_page_is_reached_from_the_readme() {
    let readme = read("README.md");
    for page in pages() {
        let name = page.name();
        if name.starts_with("docs/") {
            assert!(readme.contains(&format!("({name})")), "no link to {name}");
        }
    }
}

#[test]
fn lines_are_wrapped_at_100_characters() {
    for page in pages() {
        for line in page.prose() {
            let long = line.chars().count() > 100 && !line.starts_with('|');
            assert!(!long, "{}: {line}", page.name());
        }
    }
}
