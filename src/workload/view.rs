//! Borrowed views of Kubernetes objects: only what Muster reads, straight from the request's bytes.
//!
//! `null` is taken for absent everywhere, as Go's decoder does. Values that a user can get wrong
//! in YAML (annotations, modes) keep their JSON type, so that the error can say what arrived.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;

use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::given::Several;

/// A string, borrowed where the JSON has no escapes. (serde's `borrow` does not reach into
/// `Option<Cow<str>>`, which is always copied; this type is not.)
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct Text<'a>(pub Cow<'a, str>);

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;

        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }

        deserializer.deserialize_str(TextVisitor)
    }
}

/// A value that should be a string. YAML 1.1 turns an unquoted `Off` into the boolean false, and
/// the schema of a custom resource is checked only after mutation, so other types do arrive.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Scalar<'a> {
    Text(Text<'a>),
    Other(Value),
}

impl Scalar<'_> {
    pub(crate) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Other(_) => None,
        }
    }

    /// The value as an error message shows it.
    pub(crate) fn to_value(&self) -> Value {
        match self {
            Self::Text(text) => Value::from(&**text),
            Self::Other(value) => value.clone(),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Scalar<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ScalarVisitor;

        impl<'de> Visitor<'de> for ScalarVisitor {
            type Value = Scalar<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Scalar<'de>, E> {
                Ok(Scalar::Text(Text(Cow::Borrowed(text))))
            }

            fn visit_str<E>(self, text: &str) -> Result<Scalar<'de>, E> {
                Ok(Scalar::Text(Text(Cow::Owned(text.to_owned()))))
            }

            fn visit_bool<E>(self, value: bool) -> Result<Scalar<'de>, E> {
                Ok(Scalar::Other(value.into()))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Scalar<'de>, E> {
                Ok(Scalar::Other(value.into()))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Scalar<'de>, E> {
                Ok(Scalar::Other(value.into()))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Scalar<'de>, E> {
                Ok(Scalar::Other(value.into()))
            }

            fn visit_unit<E>(self) -> Result<Scalar<'de>, E> {
                Ok(Scalar::Other(Value::Null))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Scalar<'de>, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Scalar::Other(Value::Object(serde_json::Map::new())))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Scalar<'de>, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Scalar::Other(Value::Array(Vec::new())))
            }
        }

        deserializer.deserialize_any(ScalarVisitor)
    }
}

/// With the shortest keys and values, more than the annotations of an object may hold together.
const MAX_ENTRIES: usize = 16 * 1024;

/// Labels or annotations.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Entries<'a>(Vec<(Text<'a>, Scalar<'a>)>);

impl<'a> Entries<'a> {
    pub(crate) fn get(&self, key: &str) -> Option<&Scalar<'a>> {
        // The last of two equal keys wins, as in Go.
        self.0.iter().rev().find(|(k, _)| &**k == key).map(|e| &e.1)
    }

    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_text()
    }

    /// Takes a key away.
    pub(crate) fn remove(&mut self, key: &str) {
        self.0.retain(|(k, _)| &**k != key);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Scalar<'a>)> {
        self.0.iter().map(|(key, value)| (&**key, value))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Entries<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EntriesVisitor;

        impl<'de> Visitor<'de> for EntriesVisitor {
            type Value = Entries<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of strings")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<'de>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    if entries.len() == MAX_ENTRIES {
                        let why = format!("more than {MAX_ENTRIES} keys, which no object has");
                        return Err(A::Error::custom(why));
                    }
                    entries.push(entry);
                }
                entries.shrink_to_fit();
                Ok(Entries(entries))
            }
        }

        deserializer.deserialize_map(EntriesVisitor)
    }
}

/// The metadata of an object or a template.
#[derive(Debug, Clone, PartialEq, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Meta<'a> {
    /// Whether the object has it at all.
    #[serde(skip, default = "present")]
    pub(crate) present: bool,
    #[serde(borrow)]
    pub(crate) name: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) generate_name: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) namespace: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) uid: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) labels: Option<Entries<'a>>,
    #[serde(borrow)]
    pub(crate) annotations: Option<Entries<'a>>,
    #[serde(borrow)]
    pub(crate) deletion_timestamp: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) owner_references: Option<Several<OwnerReference<'a>, MAX_OWNERS>>,
}

/// What is read is there.
fn present() -> bool {
    true
}

/// An object has one owner, or a few.
const MAX_OWNERS: usize = 64;

/// An owner, as far as Muster asks who made an object.
#[derive(Debug, Clone, PartialEq, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct OwnerReference<'a> {
    #[serde(borrow)]
    pub(crate) kind: Option<Text<'a>>,
    pub(crate) controller: Option<bool>,
}

impl<'a> Meta<'a> {
    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        self.labels.as_ref()?.text(key)
    }

    pub(crate) fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.as_ref()?.text(key)
    }

    pub(crate) fn annotations(&self) -> impl Iterator<Item = (&str, &Scalar<'a>)> {
        self.annotations.iter().flat_map(Entries::iter)
    }

    /// What its annotations have of the room that an object's may take.
    pub(crate) fn annotations_size(&self) -> usize {
        let entries = self.annotations();
        entries
            .map(|(key, value)| key.len() + value.as_text().map_or(0, str::len))
            .sum()
    }

    pub(crate) fn labels(&self) -> impl Iterator<Item = (&str, &Scalar<'a>)> {
        self.labels.iter().flat_map(Entries::iter)
    }

    pub(crate) fn owned_labels(&self) -> BTreeMap<String, String> {
        let labels = self.labels();
        labels
            .filter_map(|(key, value)| Some((key.to_owned(), value.as_text()?.to_owned())))
            .collect()
    }

    /// The name that its user gave it. One that the apiserver draws is known to the second phase of
    /// admission only.
    pub(crate) fn given_name(&self) -> Option<&str> {
        match &self.generate_name {
            Some(_) => None,
            None => self.name.as_deref(),
        }
    }

    /// Whether the object is being deleted; such an object must never be held up.
    pub(crate) fn deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// The name, or what it will be made from.
    pub(crate) fn display_name(&self) -> &str {
        match (&self.name, &self.generate_name) {
            (Some(name), _) if !name.is_empty() => name,
            (_, Some(prefix)) => prefix,
            _ => "",
        }
    }

    pub(crate) fn controller_kind(&self) -> Option<&str> {
        let owners = self.owner_references.as_ref()?;
        let owner = owners.iter().find(|o| o.controller == Some(true))?;
        owner.kind.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_without_escapes_are_borrowed() {
        let meta: Meta = serde_json::from_str(
            r#"{"name":"a","labels":{"k":"v","e":"\"x\""},"annotations":null,"creationTimestamp":null}"#,
        )
        .unwrap();
        assert!(matches!(meta.name, Some(Text(Cow::Borrowed("a")))));
        assert_eq!(meta.label("k"), Some("v"));
        assert_eq!(meta.label("e"), Some("\"x\""));
        assert_eq!(meta.annotations().count(), 0);
    }

    #[test]
    fn a_value_of_another_type_is_kept_for_the_message() {
        let entries: Entries =
            serde_json::from_str(r#"{"a":false,"b":3,"c":null,"d":{"x":[1]},"e":[{}],"f":1.5}"#)
                .unwrap();
        let shown: Vec<String> = entries
            .iter()
            .map(|(_, value)| value.to_value().to_string())
            .collect();
        assert_eq!(shown, ["false", "3", "null", "{}", "[]", "1.5"]);
    }
}
