//! What a scalar means: the resolution rules of go-yaml v2, quirks and all.
//!
//! Sees one scalar's text and tag. Must not know of documents, maps or positions.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Number, Value};

use super::Problem;

const CORE: &str = "tag:yaml.org,2002:";

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(f64),
    Str(String),
}

/// A scalar by its full tag, or for `None` by its looks, as a plain one.
pub(super) fn resolve(text: &str, tag: Option<&str>) -> Result<Scalar, Problem> {
    let Some(tag) = tag else {
        return Ok(plain(text));
    };
    let scalar = match tag.strip_prefix(CORE) {
        Some("bool" | "int" | "float" | "null") => plain(text),
        Some("binary") => return binary(text),
        _ => return Ok(Scalar::Str(text.to_owned())),
    };
    match (tag.strip_prefix(CORE), scalar) {
        (Some("float"), Scalar::Int(int)) => Ok(Scalar::Float(int as f64)),
        (Some("bool"), scalar @ Scalar::Bool(_))
        | (Some("int"), scalar @ (Scalar::Int(_) | Scalar::Uint(_)))
        | (Some("float"), scalar @ Scalar::Float(_))
        | (Some("null"), scalar @ Scalar::Null) => Ok(scalar),
        _ => Err(wrong_tag(text, tag)),
    }
}

fn wrong_tag(text: &str, tag: &str) -> Problem {
    let tag = tag.replacen(CORE, "!!", 1);
    Problem::WrongTag {
        text: text.to_owned(),
        tag,
    }
}

fn binary(text: &str) -> Result<Scalar, Problem> {
    let joined: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    let bytes = STANDARD
        .decode(joined)
        .map_err(|_| wrong_tag(text, "!!binary"))?;
    Ok(Scalar::Str(String::from_utf8_lossy(&bytes).into_owned()))
}

/// A plain scalar without a tag. Timestamps stay strings, as sigs.k8s.io/yaml keeps them.
pub(super) fn plain(text: &str) -> Scalar {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Scalar::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return Scalar::Bool(true);
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Scalar::Bool(false);
        }
        ".nan" | ".NaN" | ".NAN" => return Scalar::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => {
            return Scalar::Float(f64::INFINITY);
        }
        "-.inf" | "-.Inf" | "-.INF" => return Scalar::Float(f64::NEG_INFINITY),
        _ => {}
    }
    let number = match text.as_bytes()[0] {
        b'.' => without_underscores(text).and_then(|digits| float(&digits)),
        b'0'..=b'9' | b'+' | b'-' => {
            let digits = text.replace('_', "");
            int(&digits)
                .or_else(|| float(&digits))
                .or_else(|| signed_binary(&digits))
        }
        _ => None,
    };
    number.unwrap_or_else(|| Scalar::Str(text.to_owned()))
}

/// Go's `strconv.ParseInt(text, 0, 64)`, and after it `ParseUint`, which takes no sign.
fn int(text: &str) -> Option<Scalar> {
    let (sign, body) = match text.as_bytes().first()? {
        b'-' => ("-", &text[1..]),
        b'+' => ("+", &text[1..]),
        _ => ("", text),
    };
    let (digits, radix) = match body.get(..2) {
        Some("0x" | "0X") => (&body[2..], 16),
        Some("0o" | "0O") => (&body[2..], 8),
        Some("0b" | "0B") => (&body[2..], 2),
        Some(two) if two.starts_with('0') => (&body[1..], 8),
        _ => (body, 10),
    };
    if !digits.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return None;
    }
    let signed = i64::from_str_radix(&format!("{sign}{digits}"), radix).map(Scalar::Int);
    match signed {
        Err(_) if sign.is_empty() => u64::from_str_radix(digits, radix).map(Scalar::Uint).ok(),
        signed => signed.ok(),
    }
}

/// The text without `_`, each of which must stand between two digits.
fn without_underscores(text: &str) -> Option<String> {
    let digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_digit);
    let bytes = text.as_bytes();
    let parts = |i: usize| i > 0 && digit(bytes.get(i - 1)) && digit(bytes.get(i + 1));
    let fits = text.match_indices('_').all(|(i, _)| parts(i));
    fits.then(|| text.replace('_', ""))
}

/// A decimal float; one too large for 64 bits stays a string.
fn float(text: &str) -> Option<Scalar> {
    let decimal = text
        .bytes()
        .all(|b| matches!(b, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'));
    let value: f64 = decimal.then(|| text.parse().ok())??;
    value.is_finite().then_some(Scalar::Float(value))
}

/// go-yaml's second try at `0b`, which lets a sign follow the prefix.
fn signed_binary(text: &str) -> Option<Scalar> {
    i64::from_str_radix(text.strip_prefix("0b")?, 2)
        .map(Scalar::Int)
        .ok()
}

impl Scalar {
    /// The value as it arrives after a pass through Go's JSON, where `1.0` is written `1`.
    pub(super) fn into_value(self) -> Result<Value, Problem> {
        Ok(match self {
            Scalar::Null => Value::Null,
            Scalar::Bool(bool) => Value::Bool(bool),
            Scalar::Int(int) => int.into(),
            Scalar::Uint(uint) => uint.into(),
            Scalar::Str(text) => text.into(),
            Scalar::Float(float) => {
                let number =
                    Number::from_f64(float).ok_or_else(|| Problem::NotJson(go_float(float)))?;
                Value::Number(whole(float).unwrap_or(number))
            }
        })
    }

    /// The map key that sigs.k8s.io/yaml makes of the scalar.
    pub(super) fn into_key(self) -> Result<String, Problem> {
        match self {
            Scalar::Str(text) => Ok(text),
            Scalar::Bool(bool) => Ok(bool.to_string()),
            Scalar::Int(int) => Ok(int.to_string()),
            Scalar::Float(float) => Ok(go_float(float)),
            Scalar::Uint(_) => Err(Problem::BadKey("an integer beyond 64 bits with sign")),
            Scalar::Null => Err(Problem::BadKey("null")),
        }
    }

    /// The scalar that a value was read from; `None` for lists and maps.
    pub(super) fn of(value: &Value) -> Option<Scalar> {
        Some(match value {
            Value::Null => Scalar::Null,
            Value::Bool(bool) => Scalar::Bool(*bool),
            Value::String(text) => Scalar::Str(text.clone()),
            Value::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(int), _) => Scalar::Int(int),
                (None, Some(uint)) => Scalar::Uint(uint),
                (None, None) => Scalar::Float(number.as_f64()?),
            },
            Value::Array(_) | Value::Object(_) => return None,
        })
    }
}

/// A float that Go's JSON writes without a point, where it fits an integer.
fn whole(float: f64) -> Option<Number> {
    if float.fract() != 0.0 || (float == 0.0 && float.is_sign_negative()) {
        return None;
    }
    let text = format!("{float}");
    text.parse::<i64>()
        .map(Number::from)
        .or_else(|_| text.parse::<u64>().map(Number::from))
        .ok()
}

/// Go's `strconv.FormatFloat(float, 'g', -1, 32)`, with YAML's names for the special values.
fn go_float(float: f64) -> String {
    let short = float as f32;
    if short.is_nan() {
        return ".nan".to_owned();
    }
    if short.is_infinite() {
        return if short > 0.0 { ".inf" } else { "-.inf" }.to_owned();
    }
    let scientific = format!("{short:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        return format!("{short}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}
