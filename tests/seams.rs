//! The seams of the code base: what is known of one scheduler stands in that scheduler's files, what
//! is known of one kind of workload in that kind's folder, and nowhere else. So another scheduler
//! costs one file and one line, another kind of workload one folder and one line.
//!
//! Looks at identifiers and string literals of `src/`; comments may explain with names.

use std::fs;
use std::path::{Path, PathBuf};

/// Every Rust file under `src/`, by its path from there.
fn sources() -> Vec<(String, String)> {
    fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => walk(&path, found),
                false if path.extension().is_some_and(|e| e == "rs") => found.push(path),
                false => {}
            }
        }
    }
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut paths = Vec::new();
    walk(&src, &mut paths);
    paths.sort();
    let read = |path: PathBuf| {
        let name = path.strip_prefix(&src).unwrap().to_str().unwrap();
        (name.replace('\\', "/"), fs::read_to_string(&path).unwrap())
    };
    paths.into_iter().map(read).collect()
}

/// A file's text without its comments; strings keep theirs.
fn without_comments(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let taken = if rest.starts_with("//") {
            let end = rest.find('\n').unwrap_or(rest.len());
            rest = &rest[end..];
            continue;
        } else if let Some(raw) = raw_string(rest) {
            raw
        } else if first == '"' {
            string(rest)
        } else if rest.starts_with("'\"'") {
            3
        } else {
            first.len_utf8()
        };
        out.push_str(&rest[..taken]);
        rest = &rest[taken..];
    }
    out
}

/// The length of a raw string that starts here.
fn raw_string(text: &str) -> Option<usize> {
    let hashes = text.strip_prefix('r')?;
    let fence = hashes.len() - hashes.trim_start_matches('#').len();
    let body = hashes[fence..].strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(fence));
    let end = body.find(&close)?;
    Some(1 + fence + 1 + end + close.len())
}

/// The length of a string that starts here.
fn string(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The words of identifiers and strings: `NativeLink`, `native_link` and `"native-link"` are the
/// words native and link.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut lower = false;
    for c in line.chars() {
        if !c.is_alphanumeric() || c.is_uppercase() && lower {
            words.push(String::new());
        }
        lower = c.is_lowercase();
        if c.is_alphanumeric() {
            words.last_mut().unwrap().extend(c.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Whether a line names one scheduler. `native` and `kai` are parts of other words too.
fn names_a_scheduler(line: &str) -> bool {
    let plain = line.to_lowercase();
    let names = ["volcano", "coscheduling", "koordinator", "yunikorn"];
    names.iter().any(|name| plain.contains(name))
        || words(line)
            .iter()
            .any(|word| word == "native" || word == "kai")
}

#[test]
fn a_scheduler_is_named_in_its_own_files_only() {
    // The words of a scheduler that a user may write for any of them.
    let dialect = "workload/declaration/koordinator";
    let mut named = Vec::new();
    for (name, text) in sources() {
        if name.starts_with("scheduler/") || name.starts_with(dialect) {
            continue;
        }
        for line in without_comments(&text).lines() {
            // An example of a command line needs some scheduler's name.
            let example = name == "args.rs" && line.starts_with("  muster ");
            let dialect = name == "workload/declaration/mod.rs"
                && [
                    "pub(crate) mod koordinator;",
                    "pub(crate) use koordinator as dialect;",
                ]
                .contains(&line);
            if !example && !dialect && names_a_scheduler(line) {
                named.push(format!("{name}: {}", line.trim()));
            }
        }
    }
    assert!(named.is_empty(), "{}", named.join("\n"));
}

/// Whether a line names one kind of workload.
fn names_a_workload(line: &str) -> bool {
    let plain = line.to_lowercase().replace('_', "");
    ["jobset", "leaderworkerset", "lws"]
        .iter()
        .any(|name| plain.contains(name))
}

/// A text without one item, from what opens it to its closing brace.
fn without_item(text: &str, opening: &str) -> String {
    let Some(start) = text.find(opening) else {
        panic!("there is no {opening:?} any more: its exception can go");
    };
    let end = text[start..].find("\n}").expect("an item ends") + start + 2;
    format!("{}{}", &text[..start], &text[end..])
}

/// What may name a kind of workload outside of the kind's folder, taken out of a file.
fn without_table(name: &str, code: String) -> String {
    match name {
        // The table, and what it is a table of.
        "workload/mod.rs" => [
            "object::kinds! {",
            "struct WorkloadArgs {",
            "impl WorkloadArgs {",
        ]
        .into_iter()
        .fold(code, |code, item| without_item(&code, item))
        .lines()
        .filter(|line| {
            !line
                .trim_start_matches("pub")
                .trim_start()
                .starts_with("mod ")
        })
        .collect::<Vec<_>>()
        .join("\n"),
        // The command that extends JobSet's CRD.
        "args.rs" => without_item(&code, "enum Crd {"),
        _ => code,
    }
}

#[test]
fn a_workload_is_named_in_its_own_folder_only() {
    // A folder under `workload/` is one kind's.
    let kind = |name: &str| {
        name.strip_prefix("workload/")
            .is_some_and(|rest| rest.contains('/'))
    };
    let mut named = Vec::new();
    for (name, text) in sources() {
        if kind(&name) || name == "cli/crd.rs" {
            continue;
        }
        // A unit test may take one kind as its example.
        let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or(&text);
        for line in without_table(&name, without_comments(code)).lines() {
            if names_a_workload(line) {
                named.push(format!("{name}: {}", line.trim()));
            }
        }
    }
    assert!(named.is_empty(), "{}", named.join("\n"));
}

#[test]
fn names_of_workloads_are_found_in_any_spelling() {
    for line in [
        "let jobset = 1;",
        "\"JobSet\"",
        "job_set",
        "LEADER_WORKER_SET",
        "LwsArgs",
        "\"leaderworkerset.sigs.k8s.io/name\"",
    ] {
        assert!(names_a_workload(line), "{line}");
    }
    for line in ["Job", "\"jobs\"", "leader", "workers", "set"] {
        assert!(!names_a_workload(line), "{line}");
    }
    let table = "mod a;\nkinds! {\n    JobSet: x,\n}\nfn b() {}\n";
    assert_eq!(without_item(table, "kinds! {"), "mod a;\n\nfn b() {}\n");
}

#[test]
fn names_are_found_in_identifiers_and_strings_and_not_in_comments() {
    let code = without_comments(
        "let a = \"// \\\" kai\"; // volcano\nlet b = r#\"a \" native\"#; /// native\nlet c = '\"'; // kai",
    );
    assert_eq!(
        code,
        "let a = \"// \\\" kai\"; \nlet b = r#\"a \" native\"#; \nlet c = '\"'; "
    );
    for line in [
        "Native::new",
        "NATIVE",
        "\"native-1.37\"",
        "native_link",
        "is_kai()",
        "enableYuniKorn",
    ] {
        assert!(names_a_scheduler(line), "{line}");
    }
    for line in [
        "SubjectAlternativeName",
        "alternatives",
        "kaiser",
        "scheduler",
    ] {
        assert!(!names_a_scheduler(line), "{line}");
    }
}
