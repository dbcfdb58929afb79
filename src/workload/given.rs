//! Parts of an object that may be missing, `null`, too many, or a list where an object belongs, and how
//! each is read. Knows no kind of object.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::mapped::Mapped;
use crate::gang::{FieldError, FieldPath};

/// A list of which at most `MAX` items are kept: the others are counted and cost nothing else.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Several<T, const MAX: usize> {
    items: Vec<T>,
    /// How many were sent.
    pub sent: usize,
}

impl<T, const MAX: usize> Several<T, MAX> {
    /// Refuses a list, which stands at `at`, that was not kept as a whole.
    pub(crate) fn check(&self, at: &FieldPath) -> Option<FieldError> {
        (self.sent > MAX).then(|| FieldError::too_many(at.clone(), self.sent, MAX))
    }
}

impl<T, const MAX: usize> Default for Several<T, MAX> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            sent: 0,
        }
    }
}

impl<T, const MAX: usize> Deref for Several<T, MAX> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.items
    }
}

impl<'de, T: Deserialize<'de>, const MAX: usize> Deserialize<'de> for Several<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SeveralVisitor<T, const MAX: usize>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for SeveralVisitor<T, MAX> {
            type Value = Several<T, MAX>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a sequence")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut several = Several::default();
                while several.sent < MAX {
                    let Some(Mapped(item)) = seq.next_element()? else {
                        return Ok(several);
                    };
                    several.items.push(item);
                    several.sent += 1;
                }
                while seq.next_element::<IgnoredAny>()?.is_some() {
                    several.sent += 1;
                }
                Ok(several)
            }
        }

        deserializer.deserialize_seq(SeveralVisitor(PhantomData))
    }
}

/// A part of an object that may be missing: reads as its default, but remembers that it was not
/// there, because a patch must create it first.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Given<T> {
    pub(crate) present: bool,
    value: T,
}

impl<T> Deref for Given<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Given<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<'de, T: Deserialize<'de> + Default> Deserialize<'de> for Given<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = optional(deserializer)?;
        Ok(Self {
            present: value.is_some(),
            value: value.unwrap_or_default(),
        })
    }
}

/// A part of an object that is read, and kept as it was sent, to be compared as a whole.
#[derive(Debug, Clone, Default)]
pub(crate) struct Kept<'a, T> {
    pub(crate) raw: Option<&'a RawValue>,
    value: T,
}

impl<T> Deref for Kept<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<'de: 'a, 'a, T: Deserialize<'a> + Default> Deserialize<'de> for Kept<'a, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw: Option<&'a RawValue> = Option::deserialize(deserializer)?;
        let value = raw.map(|raw| {
            let deserializer = &mut serde_json::Deserializer::from_str(raw.get());
            let read: Result<Mapped<T>, _> = serde_path_to_error::deserialize(deserializer);
            read.map(|Mapped(value)| value)
        });
        let value = value.transpose().map_err(D::Error::custom)?;
        Ok(Self {
            raw,
            value: value.unwrap_or_default(),
        })
    }
}

/// Something that is there or not; its inside is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Present;

impl<'de> Deserialize<'de> for Present {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

/// Reads `null` as the default: Go clients send it for empty lists and maps.
pub(crate) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    optional(deserializer).map(Option::unwrap_or_default)
}

/// A part that may be missing, and is no list where it is an object.
pub(crate) fn optional<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let found: Option<Mapped<T>> = Option::deserialize(deserializer)?;
    Ok(found.map(|Mapped(found)| found))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::view::Text;

    /// Serde would take the items of a list as the fields of an object, and a patch that was made for the
    /// object does not apply to the list.
    #[test]
    fn a_list_is_no_object() {
        #[derive(Debug, Default, serde::Deserialize)]
        #[serde(default)]
        struct Inner<'a> {
            #[serde(borrow)]
            name: Text<'a>,
        }
        #[derive(Debug, Default, serde::Deserialize)]
        #[serde(default)]
        struct Outer<'a> {
            #[serde(borrow)]
            given: Given<Inner<'a>>,
            #[serde(borrow)]
            several: Several<Inner<'a>, 4>,
            #[serde(borrow, deserialize_with = "optional")]
            maybe: Option<Inner<'a>>,
        }
        let object = r#"{"given":{"name":"a"},"several":[{"name":"b"}],"maybe":null}"#;
        let read: Outer = serde_json::from_str(object).unwrap();
        assert_eq!((&*read.given.name, &*read.several[0].name), ("a", "b"));
        assert!(read.maybe.is_none());
        for list in [
            r#"{"given":["a"]}"#,
            r#"{"several":[["b"]]}"#,
            r#"{"maybe":["c"]}"#,
        ] {
            let error = serde_json::from_str::<Outer>(list).unwrap_err();
            assert!(
                error.to_string().contains("invalid type: sequence"),
                "{error}"
            );
        }
    }
}
