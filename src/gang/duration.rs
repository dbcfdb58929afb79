//! Durations as Go writes them (`90s`, `1h30m`, `1.5h`): the form that Kubernetes users know.

use std::time::Duration;

/// Why a text is not a usable duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DurationError {
    #[error("must be a duration such as \"300s\", \"10m\" or \"1h30m\"")]
    Malformed,
    #[error("must be greater than zero")]
    NotPositive,
    #[error("is longer than Go's longest duration (about 292 years)")]
    TooLong,
}

/// Parses what Go's `time.ParseDuration` parses, and refuses what is not above zero.
pub(crate) fn parse(text: &str) -> Result<Duration, DurationError> {
    let negative = text.starts_with('-');
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if unsigned == "0" {
        return Err(DurationError::NotPositive);
    }
    if unsigned.is_empty() {
        return Err(DurationError::Malformed);
    }
    let mut nanos: u128 = 0;
    let mut rest = unsigned;
    while !rest.is_empty() {
        let (term, after) = parse_term(rest)?;
        nanos += term;
        if nanos > i64::MAX as u128 {
            return Err(DurationError::TooLong);
        }
        rest = after;
    }
    if negative || nanos == 0 {
        return Err(DurationError::NotPositive);
    }
    u64::try_from(nanos)
        .map(Duration::from_nanos)
        .map_err(|_| DurationError::TooLong)
}

/// One `<number><unit>` in nanoseconds, and what follows it.
fn parse_term(text: &str) -> Result<(u128, &str), DurationError> {
    let number_end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .ok_or(DurationError::Malformed)?;
    let (number, rest) = text.split_at(number_end);
    let unit_end = rest
        .find(|c: char| c.is_ascii_digit() || c == '.')
        .unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(unit_end);
    let unit: u128 = match unit {
        "ns" => 1,
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60 * 1_000_000_000,
        "h" => 3_600 * 1_000_000_000,
        _ => return Err(DurationError::Malformed),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return Err(DurationError::Malformed);
    }
    let whole = whole.trim_start_matches('0');
    if whole.len() > 19 {
        return Err(DurationError::TooLong);
    }
    let whole: u128 = if whole.is_empty() {
        0
    } else {
        whole.parse().map_err(|_| DurationError::Malformed)?
    };
    // Go cuts a fraction that is finer than a nanosecond; 18 digits are more than enough.
    let mut scale = unit;
    let mut part: u128 = 0;
    for digit in fraction.chars().take(18) {
        let digit = digit.to_digit(10).ok_or(DurationError::Malformed)?;
        part = part * 10 + u128::from(digit);
        scale *= 10;
    }
    let part = part * unit / (scale / unit);
    Ok((whole * unit + part, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_durations_are_read_as_go_reads_them() {
        for (text, millis) in [
            ("300s", 300_000),
            ("10m", 600_000),
            ("1h30m", 5_400_000),
            ("1.5h", 5_400_000),
            ("1h15m30.918s", 4_530_918),
            (".5s", 500),
            ("1.s", 1_000),
            ("+5s", 5_000),
            ("1500000us", 1_500),
            ("000000000000000000000001s", 1_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in [
            "", "5", "5 m", "m", "1x", "..s", "1..s", "1h-5m", "five", "3d",
        ] {
            assert_eq!(parse(text), Err(DurationError::Malformed), "{text}");
        }
        for text in ["0", "0s", "-5m", "-0"] {
            assert_eq!(parse(text), Err(DurationError::NotPositive), "{text}");
        }
        for text in ["9999999h", "99999999999999999999s"] {
            assert_eq!(parse(text), Err(DurationError::TooLong), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in ".{0,40}") {
            let _ = parse(&text);
        }
    }
}
