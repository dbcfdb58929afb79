use serde_json::json;

use super::*;

/// A role whose pods have these labels and must be near, or apart from, what a term says.
fn group(labels: Value, kind: &str, term: Value) -> Group {
    let value = json!({"labels": labels, "affinity": {kind: {REQUIRED: [term]}}});
    match value {
        Value::Object(group) => group,
        _ => Group::new(),
    }
}

fn rewritten(labels: Value, kind: &str, term: Value) -> Group {
    let mut groups = vec![("workers".to_owned(), group(labels, kind, term))];
    as_placeholders(&mut groups, "app-0", "ml");
    groups.remove(0).1
}

fn selectors(group: &Group, kind: &str) -> Vec<Value> {
    let terms = group["affinity"][kind][REQUIRED].as_array().unwrap();
    terms.iter().map(|t| t["labelSelector"].clone()).collect()
}

#[test]
fn what_only_pods_of_others_fulfil_is_asked_of_them() {
    for term in [
        json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "dataset"}}}),
        json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "train"}},
            "namespaces": ["data"]}),
    ] {
        let wanted = term["labelSelector"]["matchLabels"]["app"].clone();
        let group = rewritten(json!({"app": "train"}), "podAffinity", term);
        let expected = json!({"matchExpressions": [
            {"key": "app", "operator": "In", "values": [wanted]},
        ]});
        assert_eq!(selectors(&group, "podAffinity"), [expected]);
    }
}

#[test]
fn a_selector_that_means_all_pods_does_not_mean_the_gang_itself() {
    let all = json!({"topologyKey": "host", "labelSelector": {}});
    let group = rewritten(json!({"app": "train"}), "podAntiAffinity", all);
    let others = json!([{"key": "yunikorn.apache.org/app-id", "operator": "NotIn",
        "values": ["app-0"]}]);
    let placeholders = json!([{"key": MARK, "operator": "Exists"}]);
    let expected = [
        json!({"matchExpressions": others}),
        json!({"matchExpressions": placeholders}),
    ];
    assert_eq!(selectors(&group, "podAntiAffinity"), expected);
    assert_eq!(group["labels"], json!({MARK: "workers"}));
}

#[test]
fn selectors_match_as_kubernetes_matches_them() {
    let labels = Labels::from([("app".to_owned(), "train".to_owned())]);
    let matches = |operator: &str, key: &str, values: Value| {
        let selector = json!({"matchExpressions": [
            {"key": key, "operator": operator, "values": values},
        ]});
        let term = json!({"labelSelector": selector});
        Selector::read(&term, &labels).unwrap().matches(&labels)
    };
    assert!(matches("In", "app", json!(["train", "serve"])));
    assert!(!matches("In", "app", json!(["serve"])));
    assert!(!matches("In", "team", json!(["vision"])));
    assert!(!matches("NotIn", "app", json!(["train"])));
    assert!(matches("NotIn", "team", json!(["vision"])));
    assert!(matches("Exists", "app", json!(null)));
    assert!(matches("DoesNotExist", "team", json!(null)));
}

#[test]
fn a_gang_without_such_wishes_is_described_without_labels() {
    let mut plain = Group::new();
    plain.insert(LABELS.to_owned(), json!({"app": "train"}));
    let mut groups = vec![("workers".to_owned(), plain)];
    as_placeholders(&mut groups, "app-0", "ml");
    assert_eq!(groups[0].1, Group::new());
}

#[test]
fn a_key_that_is_too_long_for_a_name_is_still_one() {
    let long = format!("{}/{}", "a".repeat(60), "b".repeat(60));
    let mirror = mirrored(&long);
    assert_ne!(mirror, mirrored(&format!("{long}b")));
    assert!(mirror.len() <= PREFIX.len() + 63, "{mirror}");
    assert_eq!(mirrored("a.io/b"), "placeholder.muster.dev/a.io_b");
}

#[test]
fn what_cannot_be_read_is_left_as_it_is() {
    for term in [
        json!(7),
        json!({"labelSelector": null}),
        json!({"labelSelector": {"matchLabels": {"a": 1}}}),
    ] {
        let group = rewritten(json!({}), "podAntiAffinity", term.clone());
        assert_eq!(
            group["affinity"]["podAntiAffinity"][REQUIRED],
            json!([term])
        );
    }
}
