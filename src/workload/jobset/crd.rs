//! The fields that Muster adds to JobSet's CRD: `gangConfig` and `groupSchedulingConfig`.
//!
//! Pure: from the installed CRD to the JSON patch that adds or removes them. Everything else of
//! the CRD is left byte for byte as it is, because a patch names only what it changes.

use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, Patch, PatchOperation, RemoveOperation};
use serde_json::{Value, json};

pub(crate) const CRD: &str = "jobsets.jobset.x-k8s.io";
const VERSION: &str = "v1alpha2";

/// Why a CRD cannot be extended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CrdError {
    #[error("the CRD {CRD} has no version {VERSION}; is this JobSet's?")]
    NoVersion,
    #[error("the CRD {CRD} has no schema for {0}")]
    NoSchema(&'static str),
    #[error("{0} is in the CRD already, with another schema: JobSet may have its own now")]
    Taken(&'static str),
}

/// Whether a JobSet uses one of the fields.
pub(crate) fn uses(jobset: &Value) -> bool {
    let spec = &jobset["spec"];
    let groups = spec["replicatedJobs"].as_array().into_iter().flatten();
    let mut groups = groups.map(|group| &group["gangConfig"]);
    ["gangConfig", "groupSchedulingConfig"]
        .iter()
        .any(|field| !spec[field].is_null())
        || groups.any(|config| !config.is_null())
}

/// One field: where its parent's properties are, its name, its schema.
struct Field {
    path: &'static [&'static str],
    shown: &'static str,
    name: &'static str,
    schema: Value,
}

fn modes(modes: &[&str]) -> Value {
    json!({
        "type": "object",
        "description": "Which pods start together or not at all (added by Muster).",
        "required": ["gangMode"],
        "properties": {"gangMode": {"type": "string", "enum": modes}},
    })
}

fn fields() -> [Field; 3] {
    const SPEC: &[&str] = &["spec", "properties"];
    const GROUP: &[&str] = &[
        "spec",
        "properties",
        "replicatedJobs",
        "items",
        "properties",
    ];
    [
        Field {
            path: SPEC,
            shown: "spec.gangConfig",
            name: "gangConfig",
            schema: modes(&["Off", "Gang"]),
        },
        Field {
            path: SPEC,
            shown: "spec.groupSchedulingConfig",
            name: "groupSchedulingConfig",
            schema: json!({
                "type": "object",
                "description": "Main containers wait until all pods have started (added by Muster).",
                "required": ["timeoutAfterSeconds"],
                "properties": {
                    "timeoutAfterSeconds": {"type": "integer", "format": "int32", "minimum": 1},
                    "targetReplicatedJobs": {
                        "type": "array",
                        "items": {"type": "string"},
                        "x-kubernetes-list-type": "atomic",
                    },
                },
            }),
        },
        Field {
            path: GROUP,
            shown: "spec.replicatedJobs[].gangConfig",
            name: "gangConfig",
            schema: modes(&["Off", "Gang", "ReplicatedGang"]),
        },
    ]
}

/// The path of a field's parent in the CRD, and the parent.
fn parent<'c>(crd: &'c Value, field: &Field) -> Result<(Vec<String>, &'c Value), CrdError> {
    let versions = crd["spec"]["versions"].as_array();
    let index = versions.and_then(|v| v.iter().position(|v| v["name"] == VERSION));
    let index = index.ok_or(CrdError::NoVersion)?.to_string();
    let mut tokens: Vec<String> = ["spec", "versions", &index, "schema", "openAPIV3Schema"]
        .into_iter()
        .chain(["properties"])
        .chain(field.path.iter().copied())
        .map(str::to_owned)
        .collect();
    let pointer = PointerBuf::from_tokens(tokens.iter().map(String::as_str));
    let parent = pointer.resolve(crd).ok().filter(|p| p.is_object());
    tokens.push(field.name.to_owned());
    Ok((tokens, parent.ok_or(CrdError::NoSchema(field.shown))?))
}

fn pointer(tokens: &[String]) -> PointerBuf {
    PointerBuf::from_tokens(tokens.iter().map(String::as_str))
}

/// Adds what is missing; an empty patch when nothing is.
pub(crate) fn extend(crd: &Value) -> Result<Patch, CrdError> {
    let mut operations = Vec::new();
    for field in fields() {
        let (tokens, parent) = parent(crd, &field)?;
        match &parent[field.name] {
            Value::Null => operations.push(PatchOperation::Add(AddOperation {
                path: pointer(&tokens),
                value: field.schema,
            })),
            there if is_ours(there) => {}
            _ => return Err(CrdError::Taken(field.shown)),
        }
    }
    Ok(Patch(operations))
}

/// Removes what [`extend`] added, and nothing else.
pub(crate) fn revert(crd: &Value) -> Result<Patch, CrdError> {
    let mut operations = Vec::new();
    for field in fields() {
        let (tokens, parent) = parent(crd, &field)?;
        if is_ours(&parent[field.name]) {
            let path = pointer(&tokens);
            operations.push(PatchOperation::Remove(RemoveOperation { path }));
        }
    }
    Ok(Patch(operations))
}

fn is_ours(schema: &Value) -> bool {
    let description = schema["description"].as_str().unwrap_or_default();
    description.ends_with("(added by Muster).")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crd() -> Value {
        let group = json!({"type": "object", "properties": {"name": {"type": "string"}}});
        let jobs = json!({"type": "array", "items": group});
        let spec = json!({"type": "object", "properties": {"replicatedJobs": jobs}});
        let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
        json!({"spec": {"versions": [
            {"name": "v1alpha1"},
            {"name": "v1alpha2", "served": true, "schema": schema},
        ]}})
    }

    fn patched(crd: &Value, patch: &Patch) -> Value {
        let mut after = crd.clone();
        json_patch::patch(&mut after, patch).unwrap();
        after
    }

    #[test]
    fn extending_twice_adds_once_and_reverting_leaves_the_crd_as_it_was() {
        let before = crd();
        let extended = patched(&before, &extend(&before).unwrap());
        assert_eq!(extend(&before).unwrap().0.len(), 3);
        assert!(extend(&extended).unwrap().0.is_empty());
        assert_eq!(patched(&extended, &revert(&extended).unwrap()), before);
        assert!(revert(&before).unwrap().0.is_empty());
    }

    #[test]
    fn a_field_of_jobsets_own_is_never_replaced() {
        let mut own = crd();
        let spec = "/spec/versions/1/schema/openAPIV3Schema/properties/spec/properties";
        own.pointer_mut(spec).unwrap()["gangConfig"] = json!({"type": "string"});
        assert_eq!(extend(&own), Err(CrdError::Taken("spec.gangConfig")));
        assert!(revert(&own).unwrap().0.is_empty());
    }

    #[test]
    fn what_is_no_jobset_crd_is_refused() {
        assert_eq!(extend(&json!({})), Err(CrdError::NoVersion));
        let empty = json!({"spec": {"versions": [{"name": "v1alpha2"}]}});
        assert_eq!(extend(&empty), Err(CrdError::NoSchema("spec.gangConfig")));
    }
}
