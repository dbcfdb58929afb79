//! Kubernetes' `resource.Quantity`, exactly: read, compare, add, multiply and print.
//!
//! Follows `k8s.io/apimachinery/pkg/api/resource` v0.37.0 and is checked against its output
//! (`fixtures/quantity`). Knows nothing of pods, workloads or of what a quantity counts.
//!
//! It differs from Go in three places, all far from any real cluster:
//! - A value beyond about 1.7e29 is an error here; Go keeps it in arbitrary precision.
//! - Go prints 1000E as `1` and 1024Ei as `1`, because it has no larger suffix and drops it.
//!   Here the largest suffix is E or Ei and the value is kept.
//! - Go's `String()` gives back the text it parsed while nothing was computed (`1E+3`, `+1`, `1.`).
//!   Here the canonical form (`1e3`, `1`, `1`) is printed always, as Go does after any sum.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// How a quantity was written, and so how it is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Format {
    /// 12Mi
    BinarySI,
    /// 12M
    #[default]
    DecimalSI,
    /// 12e6
    DecimalExponent,
}

/// Why a text is not a quantity, or why a computation has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    // The first three are Go's texts, so that they can be searched for.
    #[error(
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )]
    Format,
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    #[error("unable to parse quantity's suffix")]
    Suffix,
    #[error("quantity is too large")]
    TooLarge,
}

const NANOS: i128 = 1_000_000_000;
const NANOS_PER_MILLI: i128 = 1_000_000;

/// The largest magnitude, in nano-units: a whole number of milli-units, so that rounding up never overflows.
const LARGEST: i128 = i128::MAX / NANOS_PER_MILLI * NANOS_PER_MILLI;

/// What Go caps at when it parses a binary suffix.
const INT64_MAX_NANOS: i128 = i64::MAX as i128 * NANOS;

const DECIMAL_SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
const BINARY_SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// A number with the form it is printed in. Equality and order are those of the number alone, as Go's `Cmp`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

impl Quantity {
    pub(crate) const ZERO: Self = Self {
        nanos: 0,
        format: Format::DecimalSI,
    };

    /// Reads a quantity as Go's `ParseQuantity` does.
    pub(crate) fn parse(text: &str) -> Result<Self, QuantityError> {
        let parts = Parts::split(text)?;
        let (shift, factor, format) = parts.unit()?;
        if !parts.has_digits() {
            // Go's fast path takes a missing number as zero ("m", "Ki"), its slow path refuses it ("Pi", "e-10").
            return match format {
                Format::BinarySI if factor >= 1 << 50 => Err(QuantityError::Numeric),
                _ if shift < -9 => Err(QuantityError::Numeric),
                _ => Ok(Self { nanos: 0, format }),
            };
        }
        let magnitude = parts
            .scaled(shift + 9, factor)
            .and_then(|nanos| i128::try_from(nanos).ok())
            .filter(|nanos| *nanos <= LARGEST);
        // Go caps binary quantities only; decimal ones it keeps, however large.
        let (magnitude, format) = match format {
            Format::BinarySI => match magnitude.unwrap_or(LARGEST).min(INT64_MAX_NANOS) {
                small @ 1..NANOS => (small, Format::DecimalSI),
                other => (other, format),
            },
            _ => (magnitude.ok_or(QuantityError::TooLarge)?, format),
        };
        let nanos = if parts.negative {
            -magnitude
        } else {
            magnitude
        };
        Ok(Self { nanos, format })
    }

    /// A whole number in decimal form.
    pub(crate) fn from_units(units: i64) -> Self {
        Self {
            nanos: i128::from(units) * NANOS,
            format: Format::DecimalSI,
        }
    }

    pub(crate) fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// The sum. The format is the left side's, or the right's where the left is zero, as in Go.
    #[must_use = "the sum is a new quantity"]
    pub(crate) fn checked_add(self, other: Self) -> Option<Self> {
        let format = if self.is_zero() {
            other.format
        } else {
            self.format
        };
        Self::bounded(self.nanos.checked_add(other.nanos)?, format)
    }

    /// What is left, and nothing where more is taken than there is.
    pub(crate) fn less(self, other: Self) -> Self {
        Self {
            nanos: self.nanos.saturating_sub(other.nanos).max(0),
            format: self.format,
        }
    }

    /// How often another, which is not zero, is in this one.
    pub(crate) fn holds(self, other: Self) -> u64 {
        let times = self.nanos.max(0).checked_div(other.nanos.max(0));
        times.map_or(u64::MAX, |times| u64::try_from(times).unwrap_or(u64::MAX))
    }

    /// The product with a count, in the same format.
    #[must_use = "the product is a new quantity"]
    pub(crate) fn checked_mul(self, count: u64) -> Option<Self> {
        Self::bounded(self.nanos.checked_mul(i128::from(count))?, self.format)
    }

    /// Rounded away from zero to a whole number of milli-units. The API server does so with every
    /// resource list it stores (`SetDefaults_ResourceList`, Kubernetes 1.37).
    #[must_use = "the rounded value is a new quantity"]
    pub(crate) fn round_up_to_milli(self) -> Self {
        let rest = self.nanos % NANOS_PER_MILLI;
        let up = if rest == 0 {
            0
        } else {
            rest.signum() * NANOS_PER_MILLI - rest
        };
        Self {
            nanos: self.nanos + up,
            format: self.format,
        }
    }

    fn bounded(nanos: i128, format: Format) -> Option<Self> {
        (-LARGEST..=LARGEST)
            .contains(&nanos)
            .then_some(Self { nanos, format })
    }
}

/// A text cut as Go's `parseQuantityString` cuts it: sign, digits, point, digits, suffix.
struct Parts<'a> {
    negative: bool,
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
    /// Go accepts a lone sign as zero, before it looks for digits.
    bare: bool,
}

impl<'a> Parts<'a> {
    fn split(text: &'a str) -> Result<Self, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::Format);
        }
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let (whole, rest) = take(unsigned, |c| c.is_ascii_digit());
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => take(rest, |c| c.is_ascii_digit()),
            None => ("", rest),
        };
        let (_, rest) = take(suffix, |c| "eEinumkKMGTP".contains(c));
        let exponent = rest.strip_prefix(['+', '-']).unwrap_or(rest);
        if !exponent.bytes().all(|b| b.is_ascii_digit()) {
            return Err(QuantityError::Format);
        }
        Ok(Self {
            negative: text.starts_with('-'),
            whole,
            fraction,
            suffix,
            bare: unsigned.is_empty(),
        })
    }

    fn has_digits(&self) -> bool {
        self.bare || !self.whole.is_empty() || !self.fraction.is_empty()
    }

    /// The suffix as a power of ten, a factor and the format: `Ki` is 10^0 times 1024.
    fn unit(&self) -> Result<(i64, u128, Format), QuantityError> {
        // Before the exponents, since "1E" is exa and "1E3" is a thousand.
        for (suffix, shift) in DECIMAL_SUFFIXES.into_iter().zip((-9..).step_by(3)) {
            if suffix == self.suffix {
                return Ok((shift, 1, Format::DecimalSI));
            }
        }
        for (suffix, bits) in BINARY_SUFFIXES.into_iter().zip((0..).step_by(10)) {
            if suffix == self.suffix {
                return Ok((0, 1 << bits, Format::BinarySI));
            }
        }
        let exponent = self
            .suffix
            .strip_prefix(['e', 'E'])
            .and_then(|digits| digits.parse::<i64>().ok())
            .ok_or(QuantityError::Suffix)?;
        // Go cuts the exponent to 32 bits without a check; so 1e4294967296 is 1 to the API server.
        Ok((i64::from(exponent as i32), 1, Format::DecimalExponent))
    }

    /// The number times `factor` times 10^`shift`, rounded up. None where it does not fit.
    ///
    /// Works digit by digit, since the text may have any length; what falls behind the point only
    /// decides whether to round.
    fn scaled(&self, shift: i64, factor: u128) -> Option<u128> {
        let digits = [self.whole, self.fraction].concat();
        let digits = digits.trim_start_matches('0');
        if digits.is_empty() {
            return Some(0);
        }
        // How many of the last digits fall behind the point; zeros are missing where negative.
        let behind = i64::try_from(self.fraction.len()).ok()? - shift;
        let cut = usize::try_from(behind).unwrap_or(0);
        let (front, back) = digits.split_at(digits.len().saturating_sub(cut));
        let (mut carry, mut inexact) = (0u128, false);
        for digit in back.bytes().rev() {
            // Below 10 * 2^60, as the factor is at most 2^60 and the carry below the factor.
            let product = u128::from(digit - b'0') * factor + carry;
            inexact |= !product.is_multiple_of(10);
            carry = product / 10;
        }
        for _ in digits.len()..cut {
            if carry == 0 {
                break;
            }
            inexact |= !carry.is_multiple_of(10);
            carry /= 10;
        }
        let mut number = 0u128;
        for digit in front.bytes() {
            number = number
                .checked_mul(10)?
                .checked_add(u128::from(digit - b'0'))?;
        }
        let zeros = u32::try_from(behind.min(0).unsigned_abs()).ok()?;
        number
            .checked_mul(10u128.checked_pow(zeros)?)?
            .checked_mul(factor)?
            .checked_add(carry + u128::from(inexact))
    }
}

/// The longest start of `text` whose characters all fit, and the rest.
fn take(text: &str, fits: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !fits(c)).unwrap_or(text.len()))
}

/// Divides by `base` while nothing is lost, at most `limit` times.
fn reduce(mut number: u128, base: u128, limit: usize) -> (u128, usize) {
    let mut times = 0;
    while times < limit && number != 0 && number.is_multiple_of(base) {
        number /= base;
        times += 1;
    }
    (number, times)
}

impl fmt::Display for Quantity {
    /// The canonical form, as Go's `CanonicalizeBytes`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_zero() {
            return f.write_str("0");
        }
        let sign = if self.nanos < 0 { "-" } else { "" };
        let nanos = self.nanos.unsigned_abs();
        let unit = NANOS.unsigned_abs();
        match self.format {
            // Small and broken numbers are printed in decimal form, so that nothing is lost.
            Format::BinarySI if nanos >= 1024 * unit && nanos.is_multiple_of(unit) => {
                let (number, times) = reduce(nanos / unit, 1024, BINARY_SUFFIXES.len() - 1);
                write!(f, "{sign}{number}{}", BINARY_SUFFIXES[times])
            }
            Format::BinarySI | Format::DecimalSI => {
                let (number, times) = reduce(nanos, 1000, DECIMAL_SUFFIXES.len() - 1);
                write!(f, "{sign}{number}{}", DECIMAL_SUFFIXES[times])
            }
            Format::DecimalExponent => match reduce(nanos, 1000, usize::MAX) {
                (number, 3) => write!(f, "{sign}{number}"),
                (number, times) if times < 3 => write!(f, "{sign}{number}e-{}", 9 - 3 * times),
                (number, times) => write!(f, "{sign}{number}e{}", 3 * times - 9),
            },
        }
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }

    /// The greater one; on a tie the left, with its format, as Kubernetes' `maxResourceList` keeps it.
    fn max(self, other: Self) -> Self {
        if other > self { other } else { self }
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    /// Takes strings and numbers, and `null` as zero, all as Go's `UnmarshalJSON` does.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(QuantityVisitor)
    }
}

struct QuantityVisitor;

impl Visitor<'_> for QuantityVisitor {
    type Value = Quantity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity (a string such as \"500m\" or \"2Gi\", or a number)")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
        Quantity::parse(text.trim())
            .map_err(|error| E::custom(format_args!("quantity {text:?}: {error}")))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Quantity, E> {
        Ok(Quantity::from_units(number))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Quantity, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_i128<E: de::Error>(self, number: i128) -> Result<Quantity, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_u128<E: de::Error>(self, number: u128) -> Result<Quantity, E> {
        self.visit_str(&number.to_string())
    }

    /// Serde does not show the number's text. So the shortest one is taken that means the same
    /// float: what the API server writes once it has held the object as floats.
    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Quantity, E> {
        // The bounds of Go's encoding/json between plain digits and an exponent.
        if number != 0.0 && !(1e-6..1e21).contains(&number.abs()) {
            self.visit_str(&format!("{number:e}"))
        } else {
            self.visit_str(&number.to_string())
        }
    }

    fn visit_unit<E: de::Error>(self) -> Result<Quantity, E> {
        Ok(Quantity::ZERO)
    }

    fn visit_none<E: de::Error>(self) -> Result<Quantity, E> {
        Ok(Quantity::ZERO)
    }
}

#[cfg(test)]
mod tests;
