//! From a value to text in block style, as kubectl prints it.
//!
//! A string is quoted whenever YAML 1.1 would read it as something else. Must not know
//! what the value is; the order of keys is that of the value.

use serde_json::{Map, Value};

use super::scalar::{self, Scalar};

/// A key longer than this is written with `?`, since YAML bounds the length of others.
const LONG_KEY: usize = 128;

/// The value as one YAML document, with a line break at the end.
pub fn to_string(value: &Value) -> String {
    let mut out = String::new();
    block(&mut out, value, 0);
    out
}

/// Writes a value whose first line begins where `out` ends, at column `indent`.
fn block(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Object(map) if !map.is_empty() => entries(out, map, indent),
        Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                pad(out, if index == 0 { 0 } else { indent });
                out.push_str("- ");
                block(out, item, indent + 2);
            }
        }
        scalar => {
            write_scalar(out, scalar, indent);
            out.push('\n');
        }
    }
}

fn entries(out: &mut String, map: &Map<String, Value>, indent: usize) {
    for (index, (key, value)) in map.iter().enumerate() {
        pad(out, if index == 0 { 0 } else { indent });
        let key = inline(key);
        if key.len() > LONG_KEY {
            out.push_str(&format!("? {key}\n"));
            pad(out, indent);
            out.push_str(": ");
            block(out, value, indent + 2);
            continue;
        }
        out.push_str(&key);
        let below = match value {
            Value::Object(map) if !map.is_empty() => Some(indent + 2),
            Value::Array(items) if !items.is_empty() => Some(indent),
            _ => None,
        };
        match below {
            Some(below) => {
                out.push_str(":\n");
                pad(out, below);
                block(out, value, below);
            }
            None => {
                out.push_str(": ");
                block(out, value, indent + 2);
            }
        }
    }
}

fn pad(out: &mut String, indent: usize) {
    out.extend(std::iter::repeat_n(' ', indent));
}

fn write_scalar(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::String(text) if indent > 0 && fits_literal(text) => literal(out, text, indent),
        Value::String(text) => out.push_str(&inline(text)),
        // JSON's own form of null, booleans, numbers, `{}` and `[]` is YAML too.
        other => out.push_str(&other.to_string()),
    }
}

/// Several lines that a `|` block keeps as they are.
fn fits_literal(text: &str) -> bool {
    text.contains('\n')
        && !text.starts_with([' ', '\t', '\n'])
        && text.chars().all(|c| c == '\n' || is_printable(c))
        && text
            .split('\n')
            .all(|line| line.is_empty() || !line.trim().is_empty())
}

fn literal(out: &mut String, text: &str, indent: usize) {
    out.push_str(match text.strip_suffix('\n') {
        None => "|-",
        Some(rest) if rest.ends_with('\n') => "|+",
        Some(_) => "|",
    });
    for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
        out.push('\n');
        pad(out, if line.is_empty() { 0 } else { indent });
        out.push_str(line);
    }
}

/// A string on one line: plain where that is safe, else quoted.
fn inline(text: &str) -> String {
    if !text.chars().all(is_printable) {
        return double_quoted(text);
    }
    if !matches!(scalar::plain(text), Scalar::Str(_)) || is_old_scalar(text) {
        return double_quoted(text);
    }
    if is_plain(text) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "''"))
    }
}

/// Strings to us that other readers of YAML 1.1 take for dates, base 60 numbers or special keys.
fn is_old_scalar(text: &str) -> bool {
    let of = |chars: &str| {
        text.chars()
            .all(|c| c.is_ascii_digit() || chars.contains(c))
    };
    let date = |b: &[u8]| b.len() > 4 && b[4] == b'-' && b[..4].iter().all(u8::is_ascii_digit);
    text == "<<" || text == "=" || (text.contains(':') && of("+-:._")) || date(text.as_bytes())
}

fn is_plain(text: &str) -> bool {
    let bad_start = match text.as_bytes() {
        [b'-'] | [b'-', b' ' | b'-' | b',' | b'[' | b']' | b'{' | b'}', ..] => !is_flag(text),
        [first, ..] => b"?:,[]{}#&*!|>'\"%@` ".contains(first) || text.starts_with("..."),
        [] => true,
    };
    !(bad_start || text.ends_with([' ', ':']) || text.contains(": ") || text.contains(" #"))
}

/// `--name`, common in the arguments of a container, is not a document marker.
fn is_flag(text: &str) -> bool {
    text.strip_prefix("--")
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_alphanumeric()))
}

/// No control character, line break, tab or byte order mark.
fn is_printable(c: char) -> bool {
    !(c.is_control()
        || matches!(
            c,
            '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}'
        ))
}

fn double_quoted(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if is_printable(c) => out.push(c),
            c => out.push_str(&format!("\\u{:04x}", u32::from(c))),
        }
    }
    out.push('"');
    out
}
