//! The objects that reviews are about: the one enum over the kinds, and how they are read from JSON.
//!
//! It knows no kind by name: the table in [`super`] makes the enum, and each kind's folder says what
//! its object is.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use serde_path_to_error::Segment;

use super::child::Child;
use super::facts::{Facts, Kind};
use super::pods::Declaring;
use super::view::{Meta, Text};
use super::{Object, Workload};
use crate::gang::{FieldError, FieldPath};

/// An object that reviews are about: a workload, a child of one, or either.
pub(crate) trait Reviewed {
    /// Its kind.
    const KIND: &'static Kind;
    /// What holds for all workloads of this kind; `None` where its objects are children only.
    const FACTS: Option<&'static Facts> = None;

    fn meta(&self) -> &Meta<'_>;

    fn workload(&self) -> Option<&dyn Workload> {
        None
    }

    fn child(&self) -> Option<Child<'_>> {
        None
    }

    /// What it declares for what it makes, where it is in no gang itself.
    fn maker(&self) -> Option<Maker<'_>> {
        None
    }

    /// Reads what its view leaves unread until it is needed, if that can fail.
    fn check(&self) -> Result<(), FieldError> {
        Ok(())
    }
}

/// What an object declares for what it makes.
#[derive(Default)]
pub(crate) struct Maker<'o> {
    /// What is declared where nobody reads it, or could never be.
    pub(crate) errors: Vec<FieldError>,
    /// What is refused only when it is created, and a warning later.
    pub(crate) at_create: Vec<FieldError>,
    pub(crate) warnings: Vec<String>,
    /// What it makes, as far as its template tells.
    pub(crate) template: Option<Made<'o>>,
    pub(crate) mark: Option<TemplateMark<'o>>,
    pub(crate) fixed: Option<Fixed>,
}

/// What a maker makes.
pub(crate) enum Made<'o> {
    /// Workloads: one, and where its template stands.
    Workload(&'o dyn Workload, FieldPath),
    /// Pods that declare their gang.
    Pods(Declaring<'o>),
}

impl Made<'_> {
    pub(crate) fn workload(&self) -> &dyn Workload {
        match self {
            Self::Workload(workload, _) => *workload,
            Self::Pods(pods) => pods,
        }
    }

    /// Where its template stands.
    pub(crate) fn path(&self) -> Vec<String> {
        match self {
            Self::Workload(_, at) => at.as_str().split('.').map(str::to_owned).collect(),
            Self::Pods(pods) => pods.path().iter().map(|&step| step.to_owned()).collect(),
        }
    }

    /// What messages about it are under; those about pods say it themselves.
    pub(crate) fn at(&self) -> Option<&FieldPath> {
        match self {
            Self::Workload(_, at) => Some(at),
            Self::Pods(_) => None,
        }
    }
}

/// An annotation that Muster writes into a maker's template when it is created, and keeps.
pub(crate) struct TemplateMark<'o> {
    pub(crate) path: &'static [&'static str],
    pub(crate) meta: Option<&'o Meta<'o>>,
    pub(crate) key: &'static str,
    /// `None` where it must not be there.
    pub(crate) value: Option<&'static str>,
}

impl TemplateMark<'_> {
    /// What the template says.
    pub(crate) fn written(&self) -> Option<&str> {
        self.meta.and_then(|meta| meta.annotation(self.key))
    }
}

/// What an update of a maker must not change.
pub(crate) struct Fixed {
    pub(crate) fields: BTreeMap<FieldPath, String>,
    pub(crate) why: &'static str,
}

/// One line of the table.
#[derive(Debug)]
pub(crate) struct Entry {
    pub kind: &'static Kind,
    pub(crate) facts: Option<&'static Facts>,
}

/// Makes the enum over all kinds from the table: an object is parsed straight into the view of its
/// kind while the request is read, which no function over a trait object can do.
macro_rules! kinds {
    ($($name:ident: $view:ty,)+) => {
        /// The kinds that Muster is called for.
        pub(crate) static KINDS: &[object::Entry] = &[$(object::Entry {
            kind: {
                type View<'a> = $view;
                <View<'static> as Reviewed>::KIND
            },
            facts: {
                type View<'a> = $view;
                <View<'static> as Reviewed>::FACTS
            },
        },)+];

        /// An object, as far as Muster reads it.
        #[derive(Debug)]
        pub enum Object<'a> {
            $(
                #[allow(missing_docs, reason = "the kind says it")]
                $name(Box<$view>),
            )+
            /// Some field has another type than the API says.
            Unreadable(FieldError),
        }

        impl<'a> Object<'a> {
            fn reviewed(&self) -> Result<&dyn object::AnyReviewed, &FieldError> {
                match self {
                    $(Self::$name(object) => Ok(&**object),)+
                    Self::Unreadable(error) => Err(error),
                }
            }

            /// Reads an object of a kind of the table.
            pub(crate) fn deserialize<D>(kind: &Kind, from: D) -> Result<Option<Self>, D::Error>
            where
                D: serde::Deserializer<'a>,
            {
                use serde::Deserialize as _;
                use serde::de::Error as _;
                $({
                    type View<'a> = $view;
                    if kind == <View<'static> as Reviewed>::KIND {
                        let object: Option<Box<View<'a>>> = Option::deserialize(from)?;
                        return Ok(object.map(Self::$name));
                    }
                })+
                Err(D::Error::custom("a kind that is not in the table"))
            }
        }
    };
}

pub(crate) use kinds;

/// [`Reviewed`] without its constants, so that it can be a trait object.
pub(crate) trait AnyReviewed {
    fn meta(&self) -> &Meta<'_>;
    fn workload(&self) -> Option<&dyn Workload>;
    fn child(&self) -> Option<Child<'_>>;
    fn maker(&self) -> Option<Maker<'_>>;
    fn check(&self) -> Result<(), FieldError>;
}

impl<T: Reviewed> AnyReviewed for T {
    fn meta(&self) -> &Meta<'_> {
        Reviewed::meta(self)
    }

    fn workload(&self) -> Option<&dyn Workload> {
        Reviewed::workload(self)
    }

    fn child(&self) -> Option<Child<'_>> {
        Reviewed::child(self)
    }

    fn maker(&self) -> Option<Maker<'_>> {
        Reviewed::maker(self)
    }

    fn check(&self) -> Result<(), FieldError> {
        Reviewed::check(self)
    }
}

impl<'a> Object<'a> {
    /// Reads an object from its JSON text; one whose fields do not fit is unreadable.
    pub fn read(kind: &Kind, json: &'a str) -> Self {
        let seed = Seed(kind);
        let deserializer = &mut serde_json::Deserializer::from_str(json);
        let mut track = serde_path_to_error::Track::new();
        let tracked = serde_path_to_error::Deserializer::new(deserializer, &mut track);
        match DeserializeSeed::deserialize(seed, tracked) {
            Ok(Some(object)) => object.checked(),
            Ok(None) => Self::Unreadable(FieldError::required(FieldPath::default(), "an object")),
            Err(error) => Self::Unreadable(misfit(json, &track.path(), &error.to_string())),
        }
    }

    /// The object, unless a part of it that is read later cannot be.
    #[must_use]
    pub(crate) fn checked(self) -> Self {
        match self.reviewed().map(AnyReviewed::check) {
            Ok(Err(error)) => Self::Unreadable(error),
            _ => self,
        }
    }

    pub(crate) fn meta(&self) -> Option<&Meta<'_>> {
        self.reviewed().ok().map(AnyReviewed::meta)
    }

    /// The object as a workload, if its kind is one and it can be read.
    pub fn workload(&self) -> Option<&dyn Workload> {
        self.reviewed().ok().and_then(AnyReviewed::workload)
    }

    pub(crate) fn maker(&self) -> Option<Maker<'_>> {
        self.reviewed().ok().and_then(AnyReviewed::maker)
    }

    pub(crate) fn child(&self) -> Option<Child<'_>> {
        self.reviewed().ok().and_then(AnyReviewed::child)
    }
}

/// Reads an object of its kind where only the deserializer knows that one comes.
pub(crate) struct Seed<'k>(pub &'k Kind);

impl<'de> serde::de::DeserializeSeed<'de> for Seed<'_> {
    type Value = Option<Object<'de>>;

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        Object::deserialize(self.0, from)
    }
}

/// The kind of an API group's objects, when Muster handles it.
pub(crate) fn kind_of(group: &str, name: &str) -> Option<&'static Kind> {
    let mut kinds = super::KINDS.iter().map(|entry| entry.kind);
    kinds.find(|kind| kind.group == group && kind.name == name)
}

/// The kinds of workloads.
pub(crate) fn workloads() -> impl Iterator<Item = &'static Facts> {
    super::KINDS.iter().filter_map(|entry| entry.facts)
}

/// The names of all kinds, for messages.
pub(crate) fn names() -> Vec<&'static str> {
    super::KINDS.iter().map(|entry| entry.kind.name).collect()
}

/// Reads a part of an object from its JSON text; the error names the field that does not fit.
pub(crate) fn read_part<'a, T: Deserialize<'a>>(
    json: &'a str,
    at: &FieldPath,
) -> Result<T, FieldError> {
    let deserializer = &mut serde_json::Deserializer::from_str(json);
    serde_path_to_error::deserialize(deserializer).map_err(|error| {
        let inner = misfit(json, error.path(), &error.inner().to_string());
        let field = match (at.as_str(), inner.field.as_str()) {
            (at, "." | "") => FieldPath::new(at),
            ("", inner) => FieldPath::new(inner),
            (at, inner) if inner.starts_with('[') => FieldPath::new(&format!("{at}{inner}")),
            (at, inner) => FieldPath::new(at).child(inner),
        };
        FieldError { field, ..inner }
    })
}

fn misfit(json: &str, path: &serde_path_to_error::Path, error: &str) -> FieldError {
    // serde_json ends with " at line 1 column 234", which means nothing to a user.
    let detail = error.split(" at line ").next().unwrap_or(error);
    let value = value_at(json, path);
    FieldError::invalid(FieldPath::new(&path.to_string()), value, plain(detail))
}

/// serde's message in a user's words.
fn plain(detail: &str) -> String {
    let Some((found, expected)) = detail.split_once(", expected ") else {
        return detail.to_owned();
    };
    let expected = match expected.split(' ').next() {
        Some("i64" | "u32" | "u64") => "a whole number",
        Some("struct") => "an object",
        _ => expected,
    };
    let found = found.strip_prefix("invalid type: ").unwrap_or(found);
    format!("expected {expected}, got {found}")
}

/// The value that does not fit, for the message: followed to its place without keeping the rest.
fn value_at(json: &str, path: &serde_path_to_error::Path) -> Value {
    let path: Vec<&Segment> = path.iter().collect();
    let deserializer = &mut serde_json::Deserializer::from_str(json);
    Follow(&path).deserialize(deserializer).unwrap_or_default()
}

/// Reads what stands at the end of a path.
struct Follow<'p>(&'p [&'p Segment]);

impl<'de> DeserializeSeed<'de> for Follow<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        /// Longer values are shown as text, which is cut.
        const MAX: usize = 4096;
        if !self.0.is_empty() {
            return from.deserialize_any(self);
        }
        let raw = <&RawValue>::deserialize(from)?.get();
        match raw.get(..MAX) {
            None => Ok(serde_json::from_str(raw).unwrap_or_default()),
            Some(_) => Ok(raw.into()),
        }
    }
}

impl<'de> Visitor<'de> for Follow<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the way to a value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut found = Value::Null;
        while let Some(key) = map.next_key::<Text<'de>>()? {
            match self.0 {
                [Segment::Map { key: wanted }, rest @ ..] if *wanted == *key => {
                    found = map.next_value_seed(Follow(rest))?;
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let [Segment::Seq { index }, rest @ ..] = self.0 else {
            return Ok(Value::Null);
        };
        for _ in 0..*index {
            seq.next_element::<IgnoredAny>()?;
        }
        let found = seq.next_element_seed(Follow(rest))?.unwrap_or_default();
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(found)
    }
}
