use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::*;

/// A pod's metadata and everything that is refused of it, a line each.
fn refused(meta: &Value) -> Vec<String> {
    let (words, errors) = asked_with(meta);
    assert_eq!(words.is_none(), !errors.is_empty(), "{meta}: {errors:?}");
    errors
}

fn asked_with(meta: &Value) -> (Option<Words>, Vec<String>) {
    let json = meta.to_string();
    let meta: Meta<'_> = serde_json::from_str(&json).unwrap();
    let mut errors = Vec::new();
    let at = FieldPath::new("metadata");
    let words = read(&meta, "ml", &at, &mut errors);
    if let Some(words) = &words {
        errors.extend(words.contradictions(&meta, &at));
    }
    let shown = errors.iter().map(ToString::to_string).collect();
    (words.filter(|_| errors.is_empty()), shown)
}

/// A gang of five with another word.
fn with(key: &str, value: impl Into<Value>) -> Value {
    let mut meta = json!({"annotations": {NAME: "gang-a", MIN_AVAILABLE: "5"}});
    meta["annotations"][key] = value.into();
    meta
}

fn words(meta: &Value) -> Words {
    let (words, errors) = asked_with(meta);
    words.unwrap_or_else(|| panic!("{meta}: {errors:?}"))
}

#[test]
fn a_pod_asks_with_any_of_the_words() {
    let asks = |meta: Value| asked(&serde_json::from_str(&meta.to_string()).unwrap());
    for key in KEYS.into_iter().chain(OLDER_KEYS) {
        assert!(asks(json!({"annotations": {key: ""}})), "{key}");
    }
    for key in OLDER_KEYS {
        assert!(asks(json!({"labels": {key: ""}})), "{key}");
    }
    // A gang with an object, the answer of the scheduler, and labels that it does not read.
    assert!(!asks(json!({
        "labels": {"pod-group.scheduling.sigs.k8s.io": "a", NAME: "a"},
        "annotations": {"gang.scheduling.koordinator.sh/timeout": "true"},
    })));
    assert_eq!(asked_with(&json!({"labels": {"app": "a"}})), (None, vec![]));
}

#[test]
fn all_words_are_read_with_their_places() {
    let read = words(&json!({"annotations": {
        NAME: "gang-a",
        MIN_AVAILABLE: "5",
        TOTAL_NUMBER: "8",
        WAITING_TIME: "1h",
        MODE: "NonStrict",
        GROUPS: r#"["ml/gang-a", "web/gang.b"]"#,
    }}));
    let at = |key| FieldPath::new("metadata").child("annotations").key(key);
    assert_eq!(
        read,
        Words {
            name: Located::new("gang-a".to_owned(), at(NAME)),
            min_count: Located::new(5, at(MIN_AVAILABLE)),
            total: Some(Located::new(8, at(TOTAL_NUMBER))),
            timeout: Some(Located::new(Duration::from_secs(3600), at(WAITING_TIME))),
            strictness: Some(Located::new(Strictness::NonStrict, at(MODE))),
            groups: Some(Located::new(
                vec![WorkloadRef::new("web", "gang.b")],
                at(GROUPS)
            )),
        }
    );
}

#[test]
fn what_is_empty_is_not_set() {
    let plain = words(&json!({"annotations": {NAME: "gang-a", MIN_AVAILABLE: "5"}}));
    for key in [TOTAL_NUMBER, WAITING_TIME, MODE, GROUPS] {
        assert_eq!(words(&with(key, "")), plain, "{key}");
    }
    for alone in ["[]", " [ ] ", "null", r#"["ml/gang-a"]"#] {
        assert_eq!(words(&with(GROUPS, alone)), plain, "{alone}");
    }
}

#[test]
fn the_older_spelling_is_read_as_labels_and_as_annotations() {
    let older = json!({OLDER_NAME: "gang-a", OLDER_MIN_AVAILABLE: "5"});
    for place in ["labels", "annotations"] {
        let read = words(&json!({ place: older }));
        assert_eq!((&*read.name.value, read.min_count.value), ("gang-a", 5));
        let at = FieldPath::new("metadata").child(place).key(OLDER_NAME);
        assert_eq!(read.name.at, at);
    }
    // Name and number may be spelled differently, and one of them twice.
    let mixed = json!({
        "labels": {OLDER_NAME: "gang-a"},
        "annotations": {MIN_AVAILABLE: "5", OLDER_MIN_AVAILABLE: "05"},
    });
    assert_eq!(words(&mixed).min_count.value, 5);
}

#[test]
fn spellings_that_disagree_are_refused_with_both_places() {
    let mut meta = with(OLDER_MIN_AVAILABLE, "4");
    meta["labels"] = json!({OLDER_NAME: "gang-b"});
    assert_eq!(
        refused(&meta),
        [
            "metadata.labels[pod-group.scheduling.sigs.k8s.io/name]: Invalid value: \"gang-b\": \
             disagrees with metadata.annotations[gang.scheduling.koordinator.sh/name], which is \
             \"gang-a\"; set one of them, or both alike",
            "metadata.annotations[pod-group.scheduling.sigs.k8s.io/min-available]: Invalid value: \
             \"4\": disagrees with \
             metadata.annotations[gang.scheduling.koordinator.sh/min-available], which is \"5\"; \
             set one of them, or both alike",
        ]
    );
}

#[test]
fn name_and_number_come_together() {
    let at = |key| format!("metadata.annotations[{key}]: Required value: ");
    for (key, value, missing) in [
        (NAME, "gang-a", vec![at(MIN_AVAILABLE)]),
        (OLDER_NAME, "gang-a", vec![at(MIN_AVAILABLE)]),
        (MIN_AVAILABLE, "5", vec![at(NAME)]),
        (OLDER_MIN_AVAILABLE, "5", vec![at(NAME)]),
        (MODE, "Strict", vec![at(NAME), at(MIN_AVAILABLE)]),
        (GROUPS, "", vec![at(NAME), at(MIN_AVAILABLE)]),
    ] {
        let errors = refused(&json!({"annotations": {key: value}}));
        assert_eq!(errors.len(), missing.len(), "{key}: {errors:?}");
        for (error, missing) in errors.iter().zip(missing) {
            assert!(error.starts_with(&missing), "{key}: {error}");
        }
    }
}

#[test]
fn a_value_that_the_scheduler_would_ignore_is_refused_at_its_place() {
    let (long, many) = ("a".repeat(64), names(18));
    let far = format!("[\"ml/gang-a\"{}]", " ".repeat(9000));
    let whole = "must be a whole number of pods from 1 to 2147483647";
    let subdomain = "must be a DNS subdomain (RFC 1123)";
    let duration = "must be a duration such as";
    let list = "must be a list in JSON, such as [\"namespace-a/gang-a\"";
    let gang = "must be a gang's namespace and name, such as \"namespace/name\"";
    let itself = "must name this gang too, as \"ml/gang-a\"";
    for (key, value, why) in [
        (NAME, json!(""), subdomain),
        (NAME, json!("Gang-A"), subdomain),
        (NAME, json!("gang_a"), subdomain),
        (NAME, json!("ml/gang-a"), subdomain),
        (NAME, json!("-a"), subdomain),
        (NAME, json!(long), subdomain),
        (NAME, json!(5), "write it in quotes, \"5\""),
        (OLDER_NAME, json!("Gang-A"), subdomain),
        (MIN_AVAILABLE, json!(""), whole),
        (MIN_AVAILABLE, json!("0"), whole),
        (MIN_AVAILABLE, json!("-1"), whole),
        (MIN_AVAILABLE, json!("+5"), whole),
        (MIN_AVAILABLE, json!("5.0"), whole),
        (MIN_AVAILABLE, json!(" 5"), whole),
        (MIN_AVAILABLE, json!("٥"), whole),
        (MIN_AVAILABLE, json!("2147483648"), whole),
        (MIN_AVAILABLE, json!("99999999999999999999"), whole),
        (MIN_AVAILABLE, json!(5), "write it in quotes, \"5\""),
        (MIN_AVAILABLE, json!(null), "it has no value"),
        (OLDER_MIN_AVAILABLE, json!("five"), whole),
        (TOTAL_NUMBER, json!("0"), whole),
        (TOTAL_NUMBER, json!("five"), whole),
        (TOTAL_NUMBER, json!(5), "write it in quotes, \"5\""),
        (
            TOTAL_NUMBER,
            json!("4"),
            "must be at least 5, which metadata.annotations[gang",
        ),
        (WAITING_TIME, json!("3600"), duration),
        (WAITING_TIME, json!("1 hour"), duration),
        (WAITING_TIME, json!("0s"), "must be greater than zero"),
        (WAITING_TIME, json!("-5m"), "must be greater than zero"),
        (
            WAITING_TIME,
            json!("9999999h"),
            "is longer than Go's longest duration",
        ),
        (
            WAITING_TIME,
            json!(3600),
            "must be a duration in quotes, such as \"3600s\"",
        ),
        (MODE, json!("strict"), "did you mean \"Strict\"?"),
        (MODE, json!("non-strict"), "did you mean \"NonStrict\"?"),
        (
            MODE,
            json!("Gang"),
            "supported values: \"Strict\", \"NonStrict\"",
        ),
        (MODE, json!(true), "write it in quotes"),
        (GROUPS, json!("ml/gang-a"), list),
        (GROUPS, json!("{}"), list),
        (GROUPS, json!("[\"ml/gang-a\""), list),
        (GROUPS, json!("[".repeat(5000)), list),
        (
            GROUPS,
            json!(["ml/gang-a"]),
            "write the list in quotes, such as '[\"namespace-a",
        ),
        (GROUPS, json!(far), "may not be more than 8192 bytes"),
        (GROUPS, json!(many), "must have at most 17 items"),
        (GROUPS, json!(r#"["gang-a"]"#), gang),
        (GROUPS, json!(r#"["ml/gang-a", "a/b/c"]"#), gang),
        (GROUPS, json!(r#"["ml/gang-a", "ML/gang-b"]"#), gang),
        (GROUPS, json!(r#"["ml/gang-a", 5, null]"#), gang),
        (
            GROUPS,
            json!(r#"["ml/gang-a", "ml/gang-a"]"#),
            "Duplicate value: \"ml/gang-a\"",
        ),
        (GROUPS, json!(r#"["ml/gang-b"]"#), itself),
        (GROUPS, json!(r#"["web/gang-a"]"#), itself),
    ] {
        let errors = refused(&with(key, value.clone()));
        let at = format!("metadata.annotations[{key}]: ");
        let found = |error: &String| error.starts_with(&at) && error.contains(why);
        assert!(!errors.is_empty(), "{key}: {value}");
        assert!(errors.iter().all(found), "{key}: {value}: {errors:?}");
    }
}

/// A list of gangs, of which the first is that of the tests.
fn names(count: usize) -> String {
    let others = (1..count).map(|i| format!("web/gang-{i}"));
    let all: Vec<String> = ["ml/gang-a".to_owned()].into_iter().chain(others).collect();
    json!(all).to_string()
}

#[test]
fn sixteen_other_gangs_can_be_named() {
    let read = words(&with(GROUPS, names(17)));
    assert_eq!(read.groups.map(|groups| groups.value.len()), Some(16));
}

#[test]
fn everything_wrong_is_said_at_once() {
    let errors = refused(&json!({"annotations": {
        NAME: "A",
        MIN_AVAILABLE: "0",
        TOTAL_NUMBER: "x",
        WAITING_TIME: "x",
        MODE: "x",
        GROUPS: "x",
    }}));
    let keys = errors
        .iter()
        .map(|error| error.split([':', '[', ']']).nth(1));
    assert_eq!(keys.flatten().collect::<Vec<_>>(), KEYS);
}

#[test]
fn a_word_of_musters_own_that_says_otherwise_is_refused_with_both_places() {
    let both = |changes: &[(&str, &str)]| {
        let mut meta = json!({"annotations": {
            NAME: "gang-a",
            MIN_AVAILABLE: "5",
            WAITING_TIME: "60s",
            MODE: "Strict",
            keys::GANG_NAME: "gang-a",
            keys::MIN_COUNT: "5",
            keys::TIMEOUT: "1m",
            keys::STRICTNESS: "Strict",
        }});
        for (key, value) in changes {
            meta["annotations"][*key] = json!(value);
        }
        meta
    };
    assert_eq!(refused(&both(&[])), [] as [&str; 0]);
    let changes = [
        (keys::GANG_NAME, "gang-b", NAME, "gang-a"),
        (keys::MIN_COUNT, "4", MIN_AVAILABLE, "5"),
        (keys::TIMEOUT, "2m", WAITING_TIME, "60s"),
        (keys::STRICTNESS, "NonStrict", MODE, "Strict"),
    ];
    let at_once: Vec<(&str, &str)> = changes.iter().map(|(k, v, ..)| (*k, *v)).collect();
    let expected = changes.map(|(own, says, key, value)| {
        format!(
            "metadata.annotations[{key}]: Invalid value: \"{value}\": disagrees with \
             metadata.annotations[{own}], which is \"{says}\"; set one of them, or both alike"
        )
    });
    assert_eq!(refused(&both(&at_once)), expected);
    // Its own reader says what is wrong with it.
    assert_eq!(refused(&both(&[(keys::TIMEOUT, "soon")])), [] as [&str; 0]);
}

/// The name of a gang, its quorum and the other gangs of its group.
type Told = BTreeMap<String, (i64, Vec<String>)>;

#[test]
fn the_examples_of_the_proposal_are_read() {
    let alone = |name: &str| (name.to_owned(), (5, vec![]));
    let with = |name: &str, other: &str| (name.to_owned(), (5, vec![other.to_owned()]));
    let (a, b) = ("gang-a", "gang-b");
    for (file, expected) in [
        ("koordinator-basic-gang", Told::from([alone(a)])),
        (
            "koordinator-two-gang-groups",
            Told::from([alone(a), alone(b)]),
        ),
        (
            "koordinator-one-gang-group",
            Told::from([with(a, "namespace-b/gang-b"), with(b, "namespace-a/gang-a")]),
        ),
    ] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/seeds");
        let text = fs::read_to_string(folder.join(file).with_extension("yaml")).unwrap();
        let mut told = Told::new();
        for pod in crate::cli::yaml::documents(&text) {
            let json = pod.unwrap().value["metadata"].to_string();
            let meta: Meta<'_> = serde_json::from_str(&json).unwrap();
            let namespace = meta.namespace.as_deref().unwrap();
            let mut errors = Vec::new();
            let read = read(&meta, namespace, &FieldPath::new("metadata"), &mut errors);
            assert_eq!(errors, [], "{file}");
            let read = read.unwrap();
            let groups = read.groups.iter().flat_map(|groups| &groups.value);
            let groups = groups.map(ToString::to_string).collect();
            told.insert(read.name.value, (read.min_count.value, groups));
        }
        assert_eq!(told, expected, "{file}");
    }
}

#[test]
fn what_muster_writes_in_these_words_is_read_back() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/rendered/expected");
    let file = folder.join("bundle-on-koordinator@koordinator-annotations.snap");
    let text = fs::read_to_string(file).unwrap();
    // Before the objects, what Muster says of them.
    let objects = text.find("\napiVersion: ").unwrap();
    let objects = crate::cli::yaml::documents(&text[objects..]).into_iter();
    let jobs = objects.map(|object| object.unwrap().value);
    let jobs: Vec<Value> = jobs.filter(|object| object["kind"] == "Job").collect();
    assert!(!jobs.is_empty());
    for job in jobs {
        let read = words(&job["spec"]["template"]["metadata"]);
        assert!(read.total.is_some() && read.strictness.is_some() && read.groups.is_some());
    }
}

proptest::proptest! {
    #[test]
    fn no_text_makes_it_panic(
        key in proptest::sample::select(KEYS.to_vec()),
        value in ".{0,60}|[\\[\\]\"a-z/, ]{0,60}",
    ) {
        let _ = refused(&with(key, value));
    }
}
