//! The fields that an apiserver knows of the kinds that Muster reads, and what an object has beside
//! them.
//!
//! An apiserver decodes strictly (`kubectl apply` asks for it): a field that it does not know, or one of
//! another type, is refused before any webhook is called. So this is the command line's alone, and
//! admission never comes here. `fields.txt` says which fields there are; it is made by
//! `cargo run --features e2e --example fields` from what Kubernetes and the operators publish, and
//! `tests/cluster/fields.rs` says how. Must not know what a field means.

mod walk;

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use serde_json::Value;

use crate::gang::{FieldError, FieldPath};
use crate::workload::Kind;

static TABLE: LazyLock<Table> = LazyLock::new(|| Table::parse(include_str!("fields.txt")));

/// A type's fields, each with its own type.
///
/// A type is `string`, `boolean`, `int32`, `int64`, either of these with the least value that it takes
/// (`int32>=0`), `int-or-string`, `quantity`, `any`, a list (`[]string`), a map with free keys
/// (`{}string`) or the name of a type with fields.
type Fields = BTreeMap<&'static str, &'static str>;

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
                (true, [field, of]) => {
                    if let Some(name) = current {
                        table.types.entry(name).or_default().insert(field, of);
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

/// What an apiserver would not decode.
#[derive(Debug, Default)]
pub(super) struct Misfits {
    /// Fields that there are not.
    pub(super) unknown: Vec<FieldError>,
    /// Values that cannot stand where they do.
    pub(super) wrong: Vec<FieldError>,
}

/// Looks through an object of a kind.
pub(super) fn misfits(kind: &Kind, object: &Value) -> Misfits {
    let version = kind.api_version();
    let mut kinds = TABLE.kinds.iter();
    let found = kinds.find(|(known, _)| **known == (version.as_str(), kind.name));
    match found {
        Some((_, Some(root))) => walk::walk(&TABLE, object, root, &FieldPath::default()),
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
                let mut of = *of;
                while let Some(inner) = of.strip_prefix("[]").or(of.strip_prefix("{}")) {
                    of = inner;
                }
                let known = TABLE.types.contains_key(of) || walk::is_scalar(of);
                assert!(known, "{name}.{field}: {of}");
            }
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
            assert_eq!(fields["metadata"], "ObjectMeta", "{at:?}");
            assert!(fields.contains_key("spec"), "{at:?}");
        }
    }
}
