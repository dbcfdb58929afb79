//! A table of three types, and what is said of objects of it.

use super::*;
use serde_json::json;

const TABLE: &str = "\
kind v1 Thing Thing
type Thing
  labels {}string
  size int32>=0
  surge int-or-string
  cpu quantity
  ready boolean
  extra any
  spec Spec
type Spec
  names []string
  template Template
type Template
  image string
";

fn said(value: &Value) -> Vec<String> {
    let found = walk(&Table::parse(TABLE), value, "Thing", &FieldPath::default());
    let errors = found.unknown.iter().chain(&found.wrong);
    errors.map(ToString::to_string).collect()
}

#[test]
fn what_an_apiserver_takes_is_taken() {
    for value in [
        json!({}),
        json!({"labels": {"any.key/at-all": "x"}, "size": 0, "surge": "10%", "cpu": "1500m"}),
        json!({"surge": 3, "cpu": 0.5, "ready": true, "extra": {"a": [1, {"b": null}]}}),
        json!({"labels": null, "size": null, "spec": {"names": null, "template": null}}),
        json!({"spec": {"names": ["a", "b"], "template": {"image": "x"}}, "size": 3.0}),
    ] {
        assert_eq!(said(&value), [""; 0], "{value}");
    }
}

#[test]
fn each_misfit_is_told_at_its_place() {
    for (value, wanted) in [
        (
            json!({"sise": 1}),
            "sise: Forbidden: unknown field \"sise\": did you mean \"size\"?",
        ),
        (
            json!({"image": "x"}),
            "image: Forbidden: unknown field \"image\": did you mean \"spec.template.image\"?",
        ),
        (
            json!({"spec": {"colour": 1}}),
            "spec.colour: Forbidden: unknown field \"colour\"",
        ),
        (
            json!({"size": "3"}),
            "size: Invalid value: \"3\": expected a whole number, got string \"3\"",
        ),
        (
            json!({"size": -1}),
            "size: Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            json!({"size": 5_000_000_000_u64}),
            "size: Invalid value: 5000000000: must be less than or equal to 2147483647",
        ),
        (
            json!({"size": 1.5}),
            "size: Invalid value: 1.5: expected a whole number, got floating point `1.5`",
        ),
        (
            json!({"labels": {"a": 1}}),
            "labels[a]: Invalid value: 1: expected a string, got integer `1`",
        ),
        (
            json!({"spec": {"names": {}}}),
            "spec.names: Invalid value: {}: expected a list, got map",
        ),
        (
            json!({"spec": []}),
            "spec: Invalid value: []: expected an object, got sequence",
        ),
        (
            json!({"surge": 0.5}),
            "surge: Invalid value: 0.5: expected a whole number or a string, got floating \
             point `0.5`",
        ),
        (
            json!({"spec": {"muster.dev/queue": "x"}}),
            "spec[muster.dev/queue]: Forbidden: unknown field \"muster.dev/queue\": it is an \
             annotation, put it in metadata.annotations",
        ),
        (
            json!({"spec": {"annotations": {"muster.dev/queue": "x"}}}),
            "spec.annotations: Forbidden: unknown field \"annotations\": it holds annotations, put \
             them in metadata.annotations",
        ),
    ] {
        assert_eq!(said(&value), [wanted], "{value}");
    }
}

#[test]
fn only_so_many_are_told() {
    let many: Map<String, Value> = (0..1000).map(|n| (format!("x{n}"), json!(1))).collect();
    assert_eq!(said(&Value::Object(many)).len(), MOST);
    let list = json!({"spec": {"names": vec![1; 1000]}});
    assert_eq!(said(&list).len(), MOST);
}
