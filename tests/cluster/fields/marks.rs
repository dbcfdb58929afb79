//! What an apiserver asks of a field beyond its type: that it is there, and one of a few values.
//!
//! `required` of Kubernetes' OpenAPI means that Go always writes the field, not that an apiserver refuses
//! an object without it: most of these are refused, and the others are listed here. Which values a field
//! takes is in the Go code that the OpenAPI is made of, not in the file that is published.

use std::collections::{BTreeMap, BTreeSet};

/// The Go code of the definitions.
pub const CODE: &str = "pkg/generated/openapi/zz_generated.openapi.go";

/// What is said to be required, and is accepted when it is left out: the zero of its type is a value
/// that validation takes, or a webhook fills it in.
const NOT_NEEDED: [(&str, &str); 9] = [
    ("HTTPHeader", "value"),
    ("ISCSIVolumeSource", "lun"),
    ("PodFailurePolicy", "rules"),
    ("PreferredSchedulingTerm", "preference"),
    ("ScaleIOVolumeSource", "secretRef"),
    ("SleepAction", "seconds"),
    ("Sysctl", "value"),
    // JobSet's webhook names it, or writes an empty name.
    ("JobSet.spec.failurePolicy.rules", "name"),
    ("JobSet.spec.replicatedJobs", "name"),
];

/// What is not said to be required, and refused when it is left out.
const NEEDED: [(&str, &str); 8] = [
    ("Container", "image"),
    ("Job", "spec"),
    ("JobTemplateSpec", "spec"),
    ("Pod", "spec"),
    ("PodTemplateSpec", "spec"),
    ("ReplicaSetSpec", "template"),
    ("ReplicationController", "spec"),
    ("ReplicationControllerSpec", "template"),
];

/// Values that the OpenAPI does not list.
const VALUES: [(&str, &str, &[&str]); 2] = [
    (
        "LabelSelectorRequirement",
        "operator",
        &["DoesNotExist", "Exists", "In", "NotIn"],
    ),
    ("PodOS", "name", &["linux", "windows"]),
];

/// Whether an apiserver refuses an object whose type lacks a field.
pub fn is_needed(name: &str, field: &str, said: bool) -> bool {
    let at = (name, field);
    (said || NEEDED.contains(&at)) && !NOT_NEEDED.contains(&at)
}

/// The values that a field takes, by type and field, of the groups that are read.
pub fn values(code: &str) -> BTreeMap<(String, String), BTreeSet<String>> {
    let mut found = BTreeMap::new();
    for (name, field, values) in VALUES {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        found.insert((name.to_owned(), field.to_owned()), values);
    }
    let (mut name, mut field) = (None, "");
    for line in code.lines() {
        if let Some(function) = line.strip_prefix("func schema_") {
            let function = function.split('(').next().unwrap_or_default();
            let groups = [
                "k8sio_api_core_v1_",
                "k8sio_api_apps_v1_",
                "k8sio_api_batch_v1_",
            ];
            name = groups.iter().find_map(|group| function.strip_prefix(group));
        } else if let Some(key) = line.strip_prefix("\t\t\t\t\t\"") {
            field = key.split('"').next().unwrap_or_default();
        } else if let (Some(list), Some(name)) = (enumerated(line), name) {
            // The empty text is everywhere the same as none.
            let values = list.split(", ").map(|value| value.trim_matches('"'));
            let values = values.filter(|value| !value.is_empty());
            let at = (name.to_owned(), field.to_owned());
            found.insert(at, values.map(str::to_owned).collect());
        }
    }
    found
}

fn enumerated(line: &str) -> Option<&str> {
    let list = line.trim_start().strip_prefix("Enum:")?.trim_start();
    list.strip_prefix("[]interface{}{")?.strip_suffix("},")
}
