//! The walk through an object along the types of its fields.
//!
//! Its cost is that of the object: what it finds is cut at a number that nobody reads to the end.

use std::collections::VecDeque;

use serde_json::{Map, Value};

use super::rules::{self, Origin};
use super::{Field, Fields, Misfits, Table, scalar};
use crate::gang::field::{ErrorKind, shorten};
use crate::gang::keys::PREFIX;
use crate::gang::nearest::nearest;
use crate::gang::{FieldError, FieldPath};

/// As many as an apiserver itself tells of one object.
const MOST: usize = 100;

/// How far below a field that is not there one of its name is looked for.
const DEEPEST: usize = 3;

pub(super) fn walk(table: &Table, value: &Value, of: &str, at: &FieldPath) -> Misfits {
    let mut walk = Walk {
        table,
        origin: Origin::Sent,
        found: Misfits::default(),
    };
    walk.value(value, of, at);
    walk.found
}

struct Walk<'t> {
    table: &'t Table,
    origin: Origin,
    found: Misfits,
}

impl Walk<'_> {
    fn value(&mut self, value: &Value, of: &str, at: &FieldPath) {
        // Everywhere the same as a field that is left out.
        if value.is_null() {
            return;
        }
        if let Some(items) = of.strip_prefix("[]") {
            match value {
                Value::Array(list) => {
                    // Go makes an empty object of an item that is null.
                    let empty = Value::Object(Map::new());
                    let is_object = self.table.types.contains_key(items);
                    for (index, item) in list.iter().enumerate() {
                        let item = match item {
                            Value::Null if is_object => &empty,
                            item => item,
                        };
                        self.value(item, items, &at.index(index));
                    }
                }
                _ => self.wrong(value, at, "a list"),
            }
        } else if let Some(values) = of.strip_prefix("{}") {
            match value {
                Value::Object(map) => {
                    for (key, value) in map {
                        self.value(value, values, &at.key(key));
                    }
                }
                _ => self.wrong(value, at, "an object"),
            }
        } else if let Some(fields) = self.table.types.get(of) {
            match value {
                Value::Object(map) => {
                    self.fields(map, fields, at);
                    let said = rules::of_type(of, map, at, self.origin);
                    said.into_iter().for_each(|error| self.push(error));
                }
                _ => self.wrong(value, at, "an object"),
            }
        } else if let Some(why) = scalar::problem(value, of) {
            self.push(FieldError::invalid(at.clone(), value.clone(), why));
        }
    }

    fn fields(&mut self, map: &Map<String, Value>, fields: &Fields, at: &FieldPath) {
        for (name, _) in fields.iter().filter(|(_, field)| field.required) {
            if map.get(*name).is_none_or(is_empty) {
                self.push(FieldError::required(at.child(name), ""));
            }
        }
        for (name, value) in map {
            match fields.get(name.as_str()) {
                Some(field) => self.field(value, field, name, &at.child(name)),
                None if self.found.unknown.len() < MOST => {
                    let error = unknown(self.table, name, value, fields, at);
                    self.found.unknown.push(error);
                }
                None => {}
            }
        }
    }

    fn field(&mut self, value: &Value, field: &Field, name: &str, at: &FieldPath) {
        if field.added && !value.is_null() {
            self.found.added.push(at.clone());
        }
        // It is decoded, and dropped before it is validated.
        let is_status = name == "status" && self.table.types.contains_key(field.of);
        let before = self.found.wrong.len();
        self.value(value, field.of, at);
        if is_status {
            let mut index = 0;
            self.found.wrong.retain(|error| {
                index += 1;
                index <= before || error.kind == ErrorKind::Invalid
            });
        }
        if !field.values.is_empty() {
            self.one_of(value, &field.values, at);
        }
        if let Some(made) = field.made {
            let mut walk = Walk {
                table: self.table,
                origin: Origin::Made,
                found: Misfits::default(),
            };
            walk.value(value, made, at);
            // Its types and fields are those of the workload.
            for error in walk.found.wrong {
                self.push(error);
            }
        }
    }

    /// Holds a text, or each of a list, against the values that there are.
    fn one_of(&mut self, value: &Value, values: &[&str], at: &FieldPath) {
        match value {
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.one_of(item, values, &at.index(index));
                }
            }
            // The empty text is the same as none.
            Value::String(text) if !text.is_empty() && !values.contains(&text.as_str()) => {
                self.push(FieldError::not_supported(at.clone(), text.as_str(), values));
            }
            _ => {}
        }
    }

    fn wrong(&mut self, value: &Value, at: &FieldPath, expected: &str) {
        let why = scalar::unlike(value, expected);
        self.push(FieldError::invalid(at.clone(), value.clone(), why));
    }

    /// Of one field only the first error is told: what is made of it is looked at a second time.
    fn push(&mut self, error: FieldError) {
        let told = |other: &FieldError| other.field == error.field;
        if self.found.wrong.len() < MOST && !self.found.wrong.iter().any(told) {
            self.found.wrong.push(error);
        }
    }
}

/// Whether a field is as good as left out.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// The error for a field that there is not.
fn unknown(
    table: &Table,
    name: &str,
    value: &Value,
    fields: &Fields,
    at: &FieldPath,
) -> FieldError {
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric()) && name.len() <= 64;
    let path = match plain {
        true => at.child(name),
        false => at.key(name),
    };
    let mut detail = format!("unknown field {:?}", shorten(name.to_owned()));
    let ours = |key: &String| key.starts_with(PREFIX);
    let holds_ours = value.as_object().is_some_and(|map| map.keys().any(ours));
    let place = annotations(fields, at);
    if name.starts_with(PREFIX) {
        detail.push_str(&format!(": it is an annotation, put it in {place}"));
    } else if let Some(meant) = meant(table, name, fields) {
        detail.push_str(&format!(": did you mean {meant:?}?"));
    } else if holds_ours {
        detail.push_str(&format!(": it holds annotations, put them in {place}"));
    }
    FieldError::forbidden(path, detail)
}

/// The annotations that are nearest to a place.
fn annotations(fields: &Fields, at: &FieldPath) -> FieldPath {
    if fields.contains_key("annotations") {
        at.child("annotations")
    } else if fields.contains_key("metadata") {
        at.child("metadata").child("annotations")
    } else {
        FieldPath::new("metadata").child("annotations")
    }
}

/// The field that was meant: one with nearly this name, or one of this name further below.
fn meant(table: &Table, name: &str, fields: &Fields) -> Option<String> {
    if let Some(near) = nearest(name, fields.keys().copied()) {
        return Some(near.to_owned());
    }
    let mut below = VecDeque::from([(String::new(), fields, 0)]);
    while let Some((path, fields, depth)) = below.pop_front() {
        if fields.contains_key(name) {
            return Some(format!("{path}{name}"));
        }
        if depth < DEEPEST {
            let inner = fields.iter().filter_map(|(field, is)| {
                let inner = table.types.get(is.of)?;
                Some((format!("{path}{field}."), inner, depth + 1))
            });
            below.extend(inner);
        }
    }
    None
}

#[cfg(test)]
mod tests;
