//! The fields that an apiserver knows of the kinds that Muster reads, and what an object has beside
//! them.
//!
//! An apiserver decodes strictly (`kubectl apply` asks for it): a field that it does not know, or one of
//! another type, is refused before any webhook is called. So this is the command line's alone, and
//! admission never comes here. `fields.txt` says which fields there are; it is made by
//! `cargo run --features e2e --example fields` from what Kubernetes and the operators publish, and
//! `tests/cluster/fields.rs` says how. What a field means only `rules.rs` and
//! `resources.rs` know: what no schema says.

mod resources;
mod rules;
mod scalar;
mod walk;

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use serde_json::Value;

use crate::gang::{FieldError, FieldPath};
use crate::workload::Kind;

static TABLE: LazyLock<Table> = LazyLock::new(|| Table::parse(include_str!("fields.txt")));

type Fields = BTreeMap<&'static str, Field>;

/// A field of a type, and what is asked of it.
struct Field {
    /// Its own type: `string`, `boolean`, `int32`, `int64`, either of these with the least value that it
    /// takes (`int32>=0`), `int-or-string`, `quantity`, `any`, a list (`[]string`), a map with free keys
    /// (`{}string`) or the name of a type with fields.
    of: &'static str,
    /// Whether an object without it is refused.
    required: bool,
    /// The values that it takes, where these are few.
    values: Vec<&'static str>,
    /// The type of Kubernetes' own that a controller makes of it.
    made: Option<&'static str>,
    /// Whether only a CRD has it that `muster crd extend` has extended.
    added: bool,
}

impl Field {
    fn parse(of: &'static str, marks: &[&'static str]) -> Self {
        let after = |key: &str| marks.iter().find_map(|mark| mark.strip_prefix(key));
        let values = after("in:").map(|values| values.split(',').collect());
        Self {
            of,
            required: marks.contains(&"required"),
            values: values.unwrap_or_default(),
            made: after("makes:"),
            added: marks.contains(&"added"),
        }
    }
}

/// What `fields.txt` says.
#[derive(Default)]
struct Table {
    /// By `apiVersion` and `kind`: the type, where the table has its fields.
    kinds: HashMap<(&'static str, &'static str), Option<&'static str>>,
    types: HashMap<&'static str, Fields>,
}

impl Table {
    fn parse(text: &'static str) -> Self {
        let mut table = Self::default();
        let mut current = None;
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match (line.starts_with(' '), &words[..]) {
                (false, ["kind", version, kind, fields @ ..]) => {
                    let fields = fields.first().copied();
                    table.kinds.insert((version, kind), fields);
                }
                (false, ["type", name]) => current = Some(*name),
                (true, [field, of, marks @ ..]) => {
                    if let Some(name) = current {
                        let fields = table.types.entry(name).or_default();
                        fields.insert(field, Field::parse(of, marks));
                    }
                }
                // A comment.
                _ => {}
            }
        }
        table
    }
}

/// Whether Kubernetes itself or an operator has this kind, whatever Muster does with it.
pub(super) fn has(api_version: &str, kind: &str) -> bool {
    let mut kinds = TABLE.kinds.keys();
    kinds.any(|known| *known == (api_version, kind))
}

/// What an apiserver would not take, or refuse to the controller of a workload.
#[derive(Debug, Default)]
pub(super) struct Misfits {
    /// Fields that there are not.
    pub(super) unknown: Vec<FieldError>,
    /// Values that cannot stand where they do, and fields that are missing.
    pub(super) wrong: Vec<FieldError>,
    /// Fields that a CRD has only once it is extended.
    pub(super) added: Vec<FieldPath>,
}

/// Looks through an object of a kind.
pub(super) fn misfits(kind: &Kind, object: &Value) -> Misfits {
    let version = kind.api_version();
    let mut kinds = TABLE.kinds.iter();
    let found = kinds.find(|(known, _)| **known == (version.as_str(), kind.name));
    match found {
        Some((_, Some(root))) => {
            let mut found = walk::walk(&TABLE, object, root, &FieldPath::default());
            found.wrong.extend(rules::of_object(kind.name, object));
            found
        }
        _ => Misfits::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::KINDS;

    #[test]
    fn every_line_of_the_table_is_understood() {
        let text = include_str!("fields.txt");
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let types = TABLE.types.values().map(|fields| fields.len() + 1);
        let read = TABLE.kinds.len() + types.sum::<usize>();
        assert_eq!(lines.count(), read);
        for (name, fields) in &TABLE.types {
            for (field, of) in fields {
                let mut of = of.of;
                while let Some(inner) = of.strip_prefix("[]").or(of.strip_prefix("{}")) {
                    of = inner;
                }
                let known = TABLE.types.contains_key(of) || scalar::is_known(of);
                assert!(known, "{name}.{field}: {of}");
            }
        }
    }

    #[test]
    fn every_rule_is_of_a_type_in_the_table() {
        for name in rules::TYPES {
            assert!(TABLE.types.contains_key(name), "{name}");
        }
    }

    #[test]
    fn what_is_made_of_a_template_is_in_the_table() {
        let fields = TABLE.types.values().flat_map(BTreeMap::values);
        let made: Vec<&str> = fields.filter_map(|field| field.made).collect();
        assert!(made.len() >= 3, "{made:?}");
        for name in made.iter().map(|made| made.trim_start_matches("[]")) {
            assert!(TABLE.types.contains_key(name), "{name}");
        }
    }

    #[test]
    fn every_kind_that_muster_reads_is_in_the_table() {
        for entry in KINDS {
            let at = (&*entry.kind.api_version(), entry.kind.name);
            let mut kinds = TABLE.kinds.iter();
            let found = kinds.find(|(known, _)| **known == at);
            let root = found.and_then(|(_, fields)| *fields).unwrap();
            let fields = &TABLE.types[root];
            assert_eq!(fields["metadata"].of, "ObjectMeta", "{at:?}");
            assert!(fields.contains_key("spec"), "{at:?}");
        }
    }
}
