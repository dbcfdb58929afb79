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
  status Status
type Spec
  names []string
  mounts []Made
  modes []string in:Fast,Slow
  template Template makes:Made
  wider Template added
type Template
  image string
type Made
  image string required
  policy string in:Always,Never
type Status
  phase string required in:Up,Down
  ready boolean
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
        json!({"cpu": 3}),
        json!({"cpu": " 1Gi ", "spec": {"modes": ["Fast", "", "Slow"]}}),
        // Larger than Muster counts, and Kubernetes takes it.
        json!({"cpu": "1e40"}),
        // Dropped by the apiserver.
        json!({"status": {}}),
        json!({"status": {"phase": "Sideways"}}),
        json!({"labels": {"any.key/at-all": "x"}, "size": 0, "surge": "10%", "cpu": "1500m"}),
        json!({"surge": 3, "cpu": 0.5, "ready": true, "extra": {"a": [1, {"b": null}]}}),
        json!({"labels": null, "size": null, "spec": {"names": null, "template": null}}),
        json!({"spec": {"names": [null], "mounts": null}}),
        json!({"spec": {"names": ["a", "b"], "template": {"image": "x"}}, "size": 3.0}),
        json!({"spec": {"wider": {"image": ""}}}),
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
            json!({"cpu": "64GB"}),
            "cpu: Invalid value: \"64GB\": quantities must match the regular expression \
             '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'; write 64G (decimal) or 64Gi (binary)",
        ),
        (
            json!({"cpu": "many"}),
            "cpu: Invalid value: \"many\": quantities must match the regular expression \
             '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (
            json!({"spec": {"modes": ["Fast", "fast"]}}),
            "spec.modes[1]: Unsupported value: \"fast\": supported values: \"Fast\", \"Slow\"",
        ),
        // What is made of a template is asked for more than the template.
        (
            json!({"spec": {"template": {}}}),
            "spec.template.image: Required value",
        ),
        (
            json!({"spec": {"template": {"image": ""}}}),
            "spec.template.image: Required value",
        ),
        // Go makes an empty object of it.
        (
            json!({"spec": {"mounts": [null]}}),
            "spec.mounts[0].image: Required value",
        ),
        (
            json!({"status": {"ready": 3}}),
            "status.ready: Invalid value: 3: expected a boolean, got the number 3",
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
            "size: Invalid value: 1.5: expected a whole number, got the number 1.5",
        ),
        (
            json!({"labels": {"a": 1}}),
            "labels[a]: Invalid value: 1: expected a string, got the number 1",
        ),
        (
            json!({"spec": {"names": {}}}),
            "spec.names: Invalid value: {}: expected a list, got an object",
        ),
        (
            json!({"spec": []}),
            "spec: Invalid value: []: expected an object, got a list",
        ),
        (
            json!({"surge": 0.5}),
            "surge: Invalid value: 0.5: expected a whole number or a string, got the number 0.5",
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

#[test]
fn a_field_that_only_an_extended_crd_has_is_noted() {
    let added = |value: Value| {
        let found = walk(&Table::parse(TABLE), &value, "Thing", &FieldPath::default());
        let added = found.added.iter();
        added.map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(added(json!({"spec": {"wider": {}}})), ["spec.wider"]);
    assert_eq!(added(json!({"spec": {"wider": null}})), [""; 0]);
}
