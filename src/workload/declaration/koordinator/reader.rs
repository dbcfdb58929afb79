//! The values of the words, one by one.

use serde_json::Value;

use crate::gang::name::is_dns_subdomain;
use crate::gang::{FieldError, FieldPath, Located, Strictness, WorkloadRef};
use crate::workload::given::Several;
use crate::workload::keys::not_a_string;
use crate::workload::view::{Meta, Scalar};

use super::{GROUPS, MAX_GANGS, MAX_GROUPS_TEXT, MIN_AVAILABLE, MODE, NAME, WAITING_TIME, differ};

/// The places of one pod, and what is wrong there.
pub(super) struct Reader<'r, 'm> {
    pub(super) meta: &'m Meta<'m>,
    pub(super) at: &'r FieldPath,
    pub(super) errors: &'r mut Vec<FieldError>,
}

impl<'m> Reader<'_, 'm> {
    /// A value that the gang cannot do without, in whichever of its spellings; several must agree.
    pub(super) fn needed<T: PartialEq>(
        &mut self,
        key: &'static str,
        older: &'static str,
        parse: fn(&str) -> Result<T, String>,
    ) -> Option<Located<T>> {
        let before = self.errors.len();
        let texts = [
            self.annotation(key),
            self.label(older),
            self.annotation(older),
        ];
        let mut first: Option<(Located<T>, &str)> = None;
        for (text, at) in texts.into_iter().flatten() {
            let Some(value) = self.parsed(text, &at, parse) else {
                continue;
            };
            match &first {
                Some((first, written)) => {
                    let first = Located::new(&first.value, first.at.clone());
                    let found = Located::new(&value, at);
                    let error = differ(Some(&found), Some(first), text.into(), (*written).into());
                    self.errors.extend(error);
                }
                None => first = Some((Located::new(value, at), text)),
            }
        }
        if first.is_none() && self.errors.len() == before {
            let at = self.at.child("annotations").key(key);
            let detail = format!("a gang is told by {NAME} and {MIN_AVAILABLE} together");
            self.errors.push(FieldError::required(at, detail));
        }
        first.map(|(value, _)| value)
    }

    /// A value that Koordinator has a default for.
    pub(super) fn optional<T>(
        &mut self,
        key: &'static str,
        parse: fn(&str) -> Result<T, String>,
    ) -> Option<Located<T>> {
        let (text, at) = self.annotation(key).filter(|(text, _)| !text.is_empty())?;
        let value = self.parsed(text, &at, parse)?;
        Some(Located::new(value, at))
    }

    fn parsed<T>(
        &mut self,
        text: &str,
        at: &FieldPath,
        parse: fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        let refuse = |detail| FieldError::invalid(at.clone(), text, detail);
        let parsed = parse(text).map_err(refuse);
        parsed.map_err(|error| self.errors.push(error)).ok()
    }

    pub(super) fn mode(&mut self) -> Option<Located<Strictness>> {
        let (text, at) = self.annotation(MODE).filter(|(text, _)| !text.is_empty())?;
        if let Ok(mode) = text.parse() {
            return Some(Located::new(mode, at));
        }
        let meant = Strictness::NAMES.into_iter().find(|name| {
            let letters = text.chars().filter(char::is_ascii_alphabetic);
            letters
                .map(|c| c.to_ascii_lowercase())
                .eq(name.to_ascii_lowercase().chars())
        });
        let error = FieldError::not_supported(at, text, &Strictness::NAMES);
        self.errors.push(match meant {
            Some(name) => error.hint(&format!("did you mean {name:?}?")),
            None => error,
        });
        None
    }

    /// The other gangs of the group. Koordinator wants the list to be the same on all of them, so
    /// this one must be in it too.
    pub(super) fn groups(
        &mut self,
        namespace: &str,
        name: Option<&Located<String>>,
    ) -> Option<Located<Vec<WorkloadRef>>> {
        let (text, at) = self
            .annotation(GROUPS)
            .filter(|(text, _)| !text.is_empty())?;
        if text.len() > MAX_GROUPS_TEXT {
            self.errors.push(FieldError::too_long(at, MAX_GROUPS_TEXT));
            return None;
        }
        // Go writes an empty list as null.
        let list: Option<Several<Scalar<'_>, MAX_GANGS>> = match serde_json::from_str(text) {
            Ok(list) => list,
            Err(_) => {
                let detail = format!("must be a list in JSON, such as {GROUPS_EXAMPLE}");
                self.errors.push(FieldError::invalid(at, text, detail));
                return None;
            }
        };
        let list = list.filter(|list| !list.is_empty())?;
        let before = self.errors.len();
        self.errors.extend(list.check(&at));
        let mut named = Vec::new();
        for word in list.iter() {
            let gang = word.as_text().and_then(|text| text.split_once('/'));
            match gang.and_then(|(namespace, name)| WorkloadRef::checked(namespace, name)) {
                None => self.errors.push(FieldError::invalid(
                    at.clone(),
                    word.to_value(),
                    "must be a gang's namespace and name, such as \"namespace/name\"",
                )),
                Some(gang) if named.contains(&gang) => {
                    self.errors
                        .push(FieldError::duplicate(at.clone(), word.to_value()));
                }
                Some(gang) => named.push(gang),
            }
        }
        if self.errors.len() > before {
            return None;
        }
        let itself = WorkloadRef::new(namespace, &name?.value);
        let all = named.len();
        named.retain(|gang| *gang != itself);
        if named.len() == all {
            let detail = format!("must name this gang too, as \"{itself}\"");
            self.errors.push(FieldError::invalid(at, text, detail));
            return None;
        }
        (!named.is_empty()).then(|| Located::new(named, at))
    }

    pub(super) fn check_total(&mut self, min: Option<&Located<i64>>, total: Option<&Located<i64>>) {
        let (Some(min), Some(total)) = (min, total) else {
            return;
        };
        if total.value < min.value {
            let detail = format!("must be at least {}, which {} asks for", min.value, min.at);
            let value = total.value.to_string();
            let error = FieldError::invalid(total.at.clone(), value, detail);
            self.errors.push(error);
        }
    }

    fn annotation(&mut self, key: &'static str) -> Option<(&'m str, FieldPath)> {
        let value = self.meta.annotations.as_ref()?.get(key)?;
        let at = self.at.child("annotations").key(key);
        self.text(key, value, at)
    }

    fn label(&mut self, key: &'static str) -> Option<(&'m str, FieldPath)> {
        let value = self.meta.labels.as_ref()?.get(key)?;
        let at = self.at.child("labels").key(key);
        self.text(key, value, at)
    }

    /// The text of a value; one of another type is an error that says how to write it.
    fn text(
        &mut self,
        key: &'static str,
        value: &'m Scalar<'_>,
        at: FieldPath,
    ) -> Option<(&'m str, FieldPath)> {
        let wrong = match value {
            Scalar::Text(text) => return Some((text, at)),
            Scalar::Other(wrong) => wrong,
        };
        let how = match (key, wrong) {
            (WAITING_TIME, Value::Number(seconds)) => Some(format!(
                "must be a duration in quotes, such as \"{seconds}s\""
            )),
            // What stood in the list is not known any more.
            (GROUPS, Value::Array(_)) => Some(format!(
                "must be a string: write the list in quotes, such as '{GROUPS_EXAMPLE}'"
            )),
            _ => None,
        };
        self.errors.push(match how {
            Some(how) if wrong.is_array() => FieldError::invalid(at, "[...]", how),
            Some(how) => FieldError::invalid(at, wrong.clone(), how),
            None => not_a_string(at, value, &[]),
        });
        None
    }
}

const GROUPS_EXAMPLE: &str = r#"["namespace-a/gang-a", "namespace-b/gang-b"]"#;

pub(super) fn name(text: &str) -> Result<String, String> {
    if is_dns_subdomain(text) {
        return Ok(text.to_owned());
    }
    Err(
        "must be a DNS subdomain (RFC 1123): at most 253 lower case letters, digits, '-' or '.', \
         and at each dot and end a letter or digit"
            .to_owned(),
    )
}

/// A positive int32, which is what Koordinator parses, without a sign.
pub(super) fn count(text: &str) -> Result<i64, String> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let count = digits.then(|| text.parse::<i32>().ok()).flatten();
    match count.filter(|count| *count > 0) {
        Some(count) => Ok(count.into()),
        None => Err(format!(
            "must be a whole number of pods from 1 to {}",
            i32::MAX
        )),
    }
}
