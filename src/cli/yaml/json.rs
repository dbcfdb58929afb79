//! JSON as strictly as YAML is read: a key twice in one object is an error, and not the last that wins.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::Problem;
use super::build::{Failure, MAX_DEPTH};

/// A value in which no object has a key twice.
struct Strict(Value);

/// How an error of ours begins, which serde_json carries as a text.
const DOUBLED: &str = "doubled key ";
/// What serde_json says of a value that is too deep.
const TOO_DEEP: &str = "recursion limit exceeded";

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Builder).map(Strict)
    }
}

struct Builder;

impl<'de> Visitor<'de> for Builder {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(Strict(item)) = access.next_element()? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            if map.contains_key(&key) {
                return Err(A::Error::custom(format_args!("{DOUBLED}{key}")));
            }
            let Strict(value) = access.next_value()?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

/// One value.
pub(super) fn read(text: &str) -> Result<Value, Failure> {
    let read: Result<Strict, _> = serde_json::from_str(text);
    read.map(|Strict(value)| value).map_err(failure)
}

/// Values one after the other, each with where it begins; ends at the first that cannot be read.
pub(super) fn stream(text: &str) -> Vec<Result<(Value, usize), Failure>> {
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<Strict>();
    let mut found = Vec::new();
    loop {
        let rest = text.get(stream.byte_offset()..).unwrap_or_default();
        let start = text.len() - rest.trim_start().len();
        match stream.next() {
            Some(Ok(Strict(value))) => found.push(Ok((value, start))),
            Some(Err(error)) => {
                found.push(Err(failure(error)));
                return found;
            }
            None => return found,
        }
    }
}

fn failure(error: serde_json::Error) -> Failure {
    let (line, column) = (error.line(), error.column());
    // It says the place a second time.
    let said = error.to_string();
    let place = format!(" at line {line} column {column}");
    let said = said.strip_suffix(&place).unwrap_or(&said);
    let problem = match said.strip_prefix(DOUBLED) {
        Some(key) => Problem::DuplicateKey(key.to_owned()),
        None if said == TOO_DEEP => Problem::TooDeep(MAX_DEPTH),
        None => Problem::Syntax(said.to_owned()),
    };
    Failure {
        line: line.max(1),
        column: column.max(1),
        problem,
    }
}
