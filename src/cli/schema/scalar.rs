//! Values without fields: which fit a type, and what is said of those that do not.

use serde_json::Value;

use crate::gang::field::shorten;
use crate::gang::quantity::{Quantity, QuantityError};

/// Whether a type is one of these.
#[cfg(test)]
pub(super) fn is_known(of: &str) -> bool {
    let plain = ["any", "string", "boolean", "int-or-string", "quantity"];
    plain.contains(&of) || Whole::of(of).is_some()
}

/// Why a value does not fit a type.
pub(super) fn problem(value: &Value, of: &str) -> Option<String> {
    if let Some(whole) = Whole::of(of) {
        return match integer(value) {
            Some(number) => whole.problem(number),
            None => Some(unlike(value, "a whole number")),
        };
    }
    let (fits, expected) = match of {
        "string" => (value.is_string(), "a string"),
        "boolean" => (value.is_boolean(), "a boolean"),
        "int-or-string" => (
            value.is_string() || integer(value).is_some(),
            "a whole number or a string",
        ),
        "quantity" => (value.is_string() || value.is_number(), "a quantity"),
        _ => (true, ""),
    };
    match value {
        _ if !fits => Some(unlike(value, expected)),
        Value::String(text) if of == "quantity" => unreadable(text.trim()),
        _ => None,
    }
}

/// What is said of a value that is something else than it should be. Texts and booleans are named as
/// admission names them.
pub(super) fn unlike(value: &Value, expected: &str) -> String {
    let got = match value {
        Value::Null => "nothing".to_owned(),
        Value::Bool(flag) => format!("boolean `{flag}`"),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) => format!("string {text:?}"),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    };
    format!("expected {expected}, got {}", shorten(got))
}

/// Why a text is no quantity. Go reads some that are too large to count with.
fn unreadable(text: &str) -> Option<String> {
    let error = Quantity::parse(text).err();
    let error = error.filter(|error| *error != QuantityError::TooLarge)?;
    Some(match in_bytes(text) {
        Some(meant) => format!("{error}; write {meant}"),
        None => error.to_string(),
    })
}

/// What is meant by a size with a `B` for bytes, which no quantity has: `64GB`.
fn in_bytes(text: &str) -> Option<String> {
    const SCALES: [&str; 6] = ["k", "M", "G", "T", "P", "E"];
    let size = text.strip_suffix(['B', 'b'])?;
    let size = size.strip_suffix('i').unwrap_or(size);
    let scale = SCALES.iter().find_map(|scale| {
        let (upper, lower) = (scale.to_uppercase(), scale.to_lowercase());
        let number = size.strip_suffix(upper.as_str());
        let number = number.or(size.strip_suffix(lower.as_str()))?;
        Some((number.trim_end(), *scale, upper))
    });
    let is_number = |text: &str| {
        let plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        plain && Quantity::parse(text).is_ok()
    };
    match scale {
        Some((number, decimal, binary)) if is_number(number) => Some(format!(
            "{number}{decimal} (decimal) or {number}{binary}i (binary)"
        )),
        None if is_number(size) => Some(size.to_owned()),
        _ => None,
    }
}

/// A whole number, as a text of YAML or JSON gives it.
fn integer(value: &Value) -> Option<i128> {
    let number = value.as_number()?;
    number.as_i128().or_else(|| {
        let float = number.as_f64()?;
        // `as` stops at the ends.
        (float.fract() == 0.0).then_some(float as i128)
    })
}

/// The whole numbers that a field takes.
struct Whole {
    least: i128,
    most: i128,
}

impl Whole {
    fn of(of: &str) -> Option<Self> {
        let (bits, least) = match of.split_once(">=") {
            Some((bits, least)) => (bits, least.parse().ok()),
            None => (of, None),
        };
        let (lowest, most) = match bits {
            "int32" => (i128::from(i32::MIN), i128::from(i32::MAX)),
            "int64" => (i128::from(i64::MIN), i128::from(i64::MAX)),
            _ => return None,
        };
        Some(Self {
            least: least.unwrap_or(lowest),
            most,
        })
    }

    fn problem(&self, number: i128) -> Option<String> {
        // In the words of Kubernetes' own validation.
        if number < self.least {
            Some(format!("must be greater than or equal to {}", self.least))
        } else if number > self.most {
            Some(format!("must be less than or equal to {}", self.most))
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_in_bytes_is_told_without_them() {
        for (text, meant) in [
            ("64GB", "64G (decimal) or 64Gi (binary)"),
            ("1Gib", "1G (decimal) or 1Gi (binary)"),
            ("1.5 TB", "1.5T (decimal) or 1.5Ti (binary)"),
            ("10gb", "10G (decimal) or 10Gi (binary)"),
            ("64kB", "64k (decimal) or 64Ki (binary)"),
            ("64KiB", "64k (decimal) or 64Ki (binary)"),
            ("512B", "512"),
        ] {
            let said = unreadable(text).unwrap();
            assert!(said.ends_with(&format!("; write {meant}")), "{said}");
        }
        for text in ["1 core", "many", "GB", "B", "1..5GB", "64MGB", "64GBB"] {
            let said = unreadable(text).unwrap();
            assert!(!said.contains("write"), "{text}: {said}");
        }
    }
}
