//! Words that objects are made of: keys that Muster reads, and values at the edges of what fields
//! take.

use serde_json::{Value, json};

use crate::choices::Choices;

/// Keys of fields, labels and annotations.
const KEYS: &[&str] = &[
    "",
    "a/b~c",
    "affinity",
    "annotations",
    "completions",
    "containers",
    "dependsOn",
    "deletionTimestamp",
    "exclusive-topology",
    "gangConfig",
    "gangMode",
    "generateName",
    "initContainers",
    "labels",
    "managedBy",
    "metadata",
    "minCount",
    "muster.dev/bundle",
    "muster.dev/bundle-with",
    "muster.dev/gang",
    "muster.dev/gang-mode",
    "muster.dev/index",
    "muster.dev/min-count",
    "muster.dev/queue",
    "muster.dev/reviving",
    "muster.dev/round",
    "muster.dev/scheduler",
    "muster.dev/stamp",
    "muster.dev/start-barrier",
    "muster.dev/strictness",
    "muster.dev/timeout",
    "muster.dev/timeout-action",
    "name",
    "namespace",
    "nodeSelector",
    "overhead",
    "ownerReferences",
    "parallelism",
    "priorityClassName",
    "replicas",
    "resources",
    "schedulerName",
    "schedulingGates",
    "schedulingGroup",
    "size",
    "spec",
    "startupPolicy",
    "subResource",
    "suspend",
    "template",
    "tolerations",
    "topologySpreadConstraints",
    "uid",
    "workloadRef",
    "\u{e9}\u{202e}\u{1f600}",
];

const TEXTS: &[&str] = &[
    "x",
    "",
    " ",
    "Off",
    "Gang",
    "ReplicatedGang",
    "InOrder",
    "LeaderReady",
    "true",
    "null",
    "CREATE",
    "UPDATE",
    "DELETE",
    "0",
    "-1",
    "1",
    "4294967296",
    "99999999999999999999",
    "1e3",
    "500m",
    "1.5Gi",
    "1h30m",
    "-5s",
    "a/b~c~01",
    "a-b.c",
    "A_B",
    "workers",
    "train",
    "native",
    "volcano",
    "coscheduling",
    "koordinator",
    "yunikorn",
    "kai",
    "default-scheduler",
    "2026-01-01T00:00:00Z",
    "\"quoted\" \\ \n\t\u{0}",
    "\u{e9}\u{202e}\u{1f600}\u{feff}",
    "{}",
    "[",
];

pub fn key(choices: &mut Choices<'_>) -> &'static str {
    KEYS[choices.below(KEYS.len())]
}

pub fn text(choices: &mut Choices<'_>) -> &'static str {
    TEXTS[choices.below(TEXTS.len())]
}

/// A number at the edge of what some type holds.
fn number(choices: &mut Choices<'_>) -> Value {
    match choices.below(16) {
        0 => json!(0),
        1 => json!(-1),
        2 => json!(2),
        3 => json!(i32::MAX),
        4 => json!(i64::from(i32::MAX) + 1),
        5 => json!(u32::MAX),
        6 => json!(i64::from(u32::MAX) + 1),
        7 => json!(i64::MAX),
        8 => json!(i64::MIN),
        9 => json!(u64::MAX),
        10 => json!(0.5),
        11 => json!(-0.0),
        12 => json!(1e308),
        13 => json!(1e-9),
        14 => json!(5000),
        _ => json!(choices.below(100)),
    }
}

/// A value of any type.
pub fn value(choices: &mut Choices<'_>) -> Value {
    match choices.below(10) {
        0 => Value::Null,
        1 => json!(choices.once_in(2)),
        2..=4 => number(choices),
        5 | 6 => json!(text(choices)),
        7 => json!({}),
        8 => json!({key(choices): text(choices)}),
        _ => json!([text(choices)]),
    }
}
