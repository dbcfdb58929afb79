//! What the reader and the writer promise, against recorded answers of sigs.k8s.io/yaml.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Document, Problem, YamlError, documents, to_string};

fn one(text: &str) -> Value {
    read(text)
        .unwrap_or_else(|error| panic!("{text}: {error}"))
        .value
}

fn read(text: &str) -> Result<Document, YamlError> {
    documents(text).into_iter().next().expect("a document")
}

fn problem(text: &str) -> String {
    match read(text) {
        Ok(document) => panic!("{text} was read as {}", document.value),
        Err(error) => error.to_string(),
    }
}

#[test]
fn scalars_mean_what_they_mean_to_kubectl() {
    let table = include_str!("../../../fixtures/yaml/scalars.tsv");
    let mut wrong = Vec::new();
    for row in table.lines().filter(|row| !row.starts_with('#')) {
        let [scalar, value, key] = row.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{row}: three columns");
        };
        let text = format!("v: {scalar}\n");
        let got = read(&text).map(|document| document.value["v"].clone());
        let want: Option<Value> = (value != "error").then(|| serde_json::from_str(value).unwrap());
        if got.as_ref().ok() != want.as_ref() {
            wrong.push(format!("{text} want {value}, got {got:?}"));
        }
        let text = format!("{scalar} : v\n");
        let got = read(&text).map(|document| document.value);
        let want =
            (key != "error").then(|| json!({serde_json::from_str::<String>(key).unwrap(): "v"}));
        if got.as_ref().ok() != want.as_ref() {
            wrong.push(format!("{text} want key {key}, got {got:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_unquoted_off_arrives_as_false_and_a_quoted_one_as_text() {
    assert_eq!(one("gangMode: Off"), json!({"gangMode": false}));
    assert_eq!(one("gangMode: \"Off\""), json!({"gangMode": "Off"}));
    assert_eq!(one("gangMode: |-\n  Off"), json!({"gangMode": "Off"}));
}

#[test]
fn documents_are_counted_without_the_empty_ones() {
    let text = "# head\n---\n---\na: 1\n--- # next\n\nb: 2\n---\nnull\n--- {c: 3}\n...\n---\n";
    let found: Vec<_> = documents(text).into_iter().map(|d| d.unwrap()).collect();
    let seen: Vec<_> = found
        .iter()
        .map(|d| (d.index, d.line, d.value.to_string()))
        .collect();
    let want = [
        (0, 4, r#"{"a":1}"#),
        (1, 7, r#"{"b":2}"#),
        (2, 10, r#"{"c":3}"#),
    ];
    assert_eq!(
        seen,
        want.map(|(index, line, value)| (index, line, value.to_owned()))
    );
    assert!(documents("").is_empty() && documents("# only\n---\n").is_empty());
}

#[test]
fn a_broken_document_costs_only_itself() {
    let found = documents("a: 1\n---\nb: [1\nc: 2\n---\nd: 4\n");
    assert_eq!(found[0].as_ref().unwrap().value, json!({"a": 1}));
    let error = found[1].as_ref().unwrap_err();
    assert_eq!((error.index, error.line), (1, 4), "{error}");
    assert!(matches!(error.problem, Problem::Syntax(_)));
    let last = found[2].as_ref().unwrap();
    assert_eq!(
        (last.index, last.line, &last.value),
        (2, 6, &json!({"d": 4}))
    );
}

#[test]
fn json_is_read_too() {
    assert_eq!(
        one("{\n\t\"a\": [1, \"off\", null]\n}"),
        json!({"a": [1, "off", null]})
    );
    assert_eq!(one(r#"{"a": "\ud83d\ude00\/"}"#), json!({"a": "😀/"}));
    let found = documents("{\"a\": 1}\n{\"b\": 2}\n");
    let found: Vec<_> = found
        .into_iter()
        .map(|d| d.unwrap())
        .map(|d| (d.index, d.line, d.value))
        .collect();
    assert_eq!(found, [(0, 1, json!({"a": 1})), (1, 2, json!({"b": 2}))]);
}

#[test]
fn json_objects_one_after_the_other_are_found_where_they_begin() {
    let found = documents("{\"a\": 1} {\"b\": 2}\n\n  {\"ü\": 3} {}");
    let found: Vec<_> = found.into_iter().map(|d| d.unwrap().position("")).collect();
    assert_eq!(found, [(1, 1), (1, 10), (3, 3), (3, 12)]);
}

/// A cluster's workloads, as `kubectl get -o json` of each of them prints them.
#[test]
fn many_json_objects_take_as_long_as_their_text() {
    let start = Instant::now();
    let text = "{\"kind\": \"Job\",\n\"spec\": {}}\n".repeat(100_000);
    let found = documents(&text);
    assert_eq!(found.len(), 100_000);
    let last = found.last().unwrap().as_ref().unwrap();
    assert_eq!(last.position(""), (199_999, 1));
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[test]
fn windows_line_ends_and_a_byte_order_mark_are_no_trouble() {
    let found = documents("\u{feff}a: x\r\n---\r\nb: z\r\n");
    assert_eq!(found[0].as_ref().unwrap().value, json!({"a": "x"}));
    assert_eq!(
        (
            found[1].as_ref().unwrap().line,
            &found[1].as_ref().unwrap().value
        ),
        (3, &json!({"b": "z"}))
    );
}

#[test]
fn merge_keys_take_effect_where_they_stand() {
    assert_eq!(
        one("m:\n  x: 2\n  <<: {x: 1, z: 3}\n")["m"],
        json!({"x": 1, "z": 3})
    );
    assert_eq!(
        one("m:\n  <<: {x: 1, z: 3}\n  x: 2\n")["m"],
        json!({"x": 2, "z": 3})
    );
    assert_eq!(
        one("m:\n  <<: [{x: 1}, {x: 2, z: 3}]\n")["m"],
        json!({"x": 1, "z": 3})
    );
    assert_eq!(one("a: &a {x: 1}\nm:\n  <<: *a\n")["m"], json!({"x": 1}));
    assert_eq!(one("'<<': {x: 1}"), json!({"<<": {"x": 1}}));
    for text in [
        "m:\n  <<: ~\n",
        "a: &a [{x: 1}]\nm:\n  <<: *a\n",
        "m:\n  <<: [1]\n",
    ] {
        assert!(problem(text).ends_with("map merge requires map or sequence of maps as the value"));
    }
}

#[test]
fn errors_name_the_place_and_the_trouble() {
    for (text, want) in [
        (
            "a: 1\nb: 2\na: 3\n",
            "line 3, column 1: key \"a\" already set in map",
        ),
        (
            "a:\n  {x: 1, x: 2}\n",
            "line 2, column 10: key \"x\" already set in map",
        ),
        (
            "yes: 1\ntrue: 2\n",
            "line 2, column 1: key \"true\" already set in map",
        ),
        ("a: .inf\n", "line 1, column 4: `.inf` has no form in JSON"),
        (
            "a: !!int x\n",
            "line 1, column 10: cannot decode `x` as a !!int",
        ),
        (
            "? [a]\n: b\n",
            "line 1, column 3: a map key must be a string, a number or a boolean, not a list or a map",
        ),
        (
            "a: &a [*a]\n",
            "line 1, column 8: the value of an anchor contains itself",
        ),
        (
            "a: *b\n",
            "line 1, column 4: while parsing node, found unknown anchor",
        ),
    ] {
        assert_eq!(problem(text), want, "{text}");
    }
}

#[test]
fn a_field_is_found_where_its_key_stands() {
    let text = "---\nmetadata:\n  annotations:\n    muster.dev/queue: a\n    plain: b\nspec:\n  \
                replicatedJobs:\n  - name: x\n  - name: y\n    gangConfig: {gangMode: Off}\n  copy: &c {k: v}\n  other: *c\n";
    let document = read(text).unwrap();
    for (path, want) in [
        ("metadata.annotations[muster.dev/queue]", (4, 5)),
        ("metadata.annotations[plain]", (5, 5)),
        ("metadata.annotations.plain", (5, 5)),
        ("spec.replicatedJobs[1].gangConfig.gangMode", (10, 18)),
        ("spec.replicatedJobs[1]", (9, 5)),
        ("spec.replicatedJobs[1].gangConfig.missing[3].deep", (10, 5)),
        ("spec.replicatedJobs[7].name", (7, 3)),
        ("spec.other.k", (12, 3)),
        ("specific", (2, 1)),
        ("", (2, 1)),
    ] {
        assert_eq!(document.position(path), want, "{path}");
    }
}

#[test]
fn alias_bombs_are_refused_quickly() {
    let start = Instant::now();
    let mut laughs = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for n in 1..30 {
        let item = format!("*a{}", n - 1);
        laughs += &format!("a{n}: &a{n} [{}]\n", vec![item; 9].join(", "));
    }
    assert!(problem(&laughs).ends_with("document contains excessive aliasing"));

    let large = format!(
        "a: &a {}\nb: [{}]\n",
        "x".repeat(100_000),
        vec!["*a"; 100_000].join(", ")
    );
    assert!(problem(&large).ends_with("document contains excessive aliasing"));

    let mut ladder = String::from("a0: &a0 [x]\n");
    for n in 1..5000 {
        ladder += &format!("a{n}: &a{n} [*a{}]\n", n - 1);
    }
    assert!(problem(&ladder).ends_with("nested deeper than 127 levels"));
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[test]
fn deep_nesting_is_refused_not_overflown() {
    assert!(read(&"[".repeat(100_000)).is_err());
    assert!(read(&"- ".repeat(100_000)).is_err());
    assert!(read(&"{a: ".repeat(200)).is_err());
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    assert!(read(&nested(127)).is_ok());
    // Two objects are no YAML: they are read as JSON, to the same depth.
    let stream = |levels: usize| format!("{{\"a\": 1}}\n{{\"b\": {}}}", nested(levels));
    let second = |levels: usize| documents(&stream(levels)).remove(1);
    assert!(second(126).is_ok());
    let error = second(127).unwrap_err().to_string();
    assert!(error.ends_with("nested deeper than 127 levels"), "{error}");
}

#[test]
fn output_looks_like_that_of_kubectl() {
    let value = json!({
        "args": ["--flag", "-c", "a: b", "off", "1.0", "", "10Gi", "- x", "2001-01-01", "12:30:45", "it's #1", " x"],
        "empty": {"list": [], "map": {}, "none": null},
        "nested": [[1, [2.5]], {"a": {"b": true}, "c": [{"d": "e"}]}],
        "no": "yes",
        "script": "set -e\n\nrun\n",
        "tail": "a\nb",
        "keep": "a\n\n",
        "raw": "tab\there\u{1}",
        "muster.dev/queue": "http://x:80/y",
    });
    let want = "\
args:\n- --flag\n- -c\n- 'a: b'\n- \"off\"\n- \"1.0\"\n- \"\"\n- 10Gi\n- '- x'\n- \"2001-01-01\"\n- \"12:30:45\"\n- 'it''s #1'\n- ' x'\n\
empty:\n  list: []\n  map: {}\n  none: null\n\
keep: |+\n  a\n\n\
muster.dev/queue: http://x:80/y\n\
nested:\n- - 1\n  - - 2.5\n- a:\n    b: true\n  c:\n  - d: e\n\
\"no\": \"yes\"\n\
raw: \"tab\\there\\u0001\"\n\
script: |\n  set -e\n\n  run\n\
tail: |-\n  a\n  b\n";
    assert_eq!(to_string(&value), want);
    assert_eq!(one(want), value);
}

/// Each of them would be kept as a copy of all that is below it.
#[test]
fn anchors_inside_each_other_spend_the_same_budget_as_aliases() {
    let depth = 100;
    let open: String = (0..depth).map(|i| format!("&a{i} [")).collect();
    let text = format!("{open}{:?}{}", "x".repeat(1 << 20), "]".repeat(depth));
    let read = documents(&text);
    let problem = read[0].as_ref().unwrap_err().problem.clone();
    assert_eq!(problem, Problem::TooManyAliases);
}
