//! Field errors as the Kubernetes API itself words them.
//!
//! Every rule of Muster ends here, so that a refusal reads the same at `kubectl apply`,
//! in `muster check` and in a test. Knows nothing of workloads, schedulers or HTTP.

use std::fmt;

use serde_json::Value;

/// The longest key that Kubernetes takes: a prefix of 253 letters, a slash and a name of 63.
const MAX_KEY: usize = 317;

/// Where in an object something is wrong: `spec.replicatedJobs[1].gangConfig.gangMode`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct FieldPath(String);

impl FieldPath {
    /// A path that starts at the object's root: `FieldPath::new("spec")`.
    pub(crate) fn new(root: &str) -> Self {
        Self(root.to_owned())
    }

    /// A named child: `spec` becomes `spec.template`.
    #[must_use]
    pub(crate) fn child(&self, name: &str) -> Self {
        if self.0.is_empty() {
            Self(name.to_owned())
        } else {
            Self(format!("{}.{name}", self.0))
        }
    }

    /// An element of a list: `spec.replicatedJobs` becomes `spec.replicatedJobs[1]`.
    #[must_use]
    pub(crate) fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    /// An entry of a map: `metadata.annotations` becomes `metadata.annotations[muster.dev/queue]`.
    #[must_use]
    pub(crate) fn key(&self, key: &str) -> Self {
        let shown = &key[..boundary(key, MAX_KEY)];
        let cut = if shown.len() < key.len() { "..." } else { "" };
        Self(format!("{}[{shown}{cut}]", self.0))
    }

    /// The same path below another.
    #[must_use]
    pub(crate) fn under(&self, parent: &Self) -> Self {
        parent.child(&self.0)
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The kinds of field errors of `k8s.io/apimachinery/pkg/util/validation/field`, those that Muster uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ErrorKind {
    Required,
    Invalid,
    NotSupported,
    Forbidden,
    TooLong,
    TooMany,
    Duplicate,
    NotFound,
}

impl ErrorKind {
    /// The short name that `muster check -o json` prints.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Required => "Required",
            Self::Invalid => "Invalid",
            Self::NotSupported => "NotSupported",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "TooLong",
            Self::TooMany => "TooMany",
            Self::Duplicate => "Duplicate",
            Self::NotFound => "NotFound",
        }
    }

    /// The machine-readable reason of a Status cause.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::Duplicate => "FieldValueDuplicate",
            Self::NotFound => "FieldValueNotFound",
        }
    }

    /// The words that an error of this kind begins with.
    pub(crate) fn phrase(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Invalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::Duplicate => "Duplicate value",
            Self::NotFound => "Not found",
        }
    }
}

/// One violation: what kind, where, which value, and what to do instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    pub(crate) kind: ErrorKind,
    pub(crate) field: FieldPath,
    /// The offending value; absent where Kubernetes prints none (Required, Forbidden, TooLong).
    pub(crate) value: Option<Value>,
    pub(crate) detail: String,
}

impl FieldError {
    /// The same error of a part of an object that stands at `parent`.
    #[must_use]
    pub(crate) fn under(mut self, parent: &FieldPath) -> Self {
        self.field = self.field.under(parent);
        self
    }

    pub(crate) fn required(field: FieldPath, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Required, field, None, detail)
    }

    pub(crate) fn invalid(
        field: FieldPath,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> Self {
        Self::new(ErrorKind::Invalid, field, Some(value.into()), detail)
    }

    pub(crate) fn forbidden(field: FieldPath, detail: impl Into<String>) -> Self {
        Self::new(ErrorKind::Forbidden, field, None, detail)
    }

    pub(crate) fn duplicate(field: FieldPath, value: impl Into<Value>) -> Self {
        Self::new(ErrorKind::Duplicate, field, Some(value.into()), "")
    }

    pub(crate) fn not_found(
        field: FieldPath,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> Self {
        Self::new(ErrorKind::NotFound, field, Some(value.into()), detail)
    }

    pub(crate) fn too_long(field: FieldPath, max: usize) -> Self {
        let detail = format!("may not be more than {max} bytes");
        Self::new(ErrorKind::TooLong, field, None, detail)
    }

    /// A list with more items than are read.
    pub(crate) fn too_many(field: FieldPath, items: usize, max: usize) -> Self {
        let detail = format!("must have at most {max} items");
        Self::new(ErrorKind::TooMany, field, Some(items.into()), detail)
    }

    pub(crate) fn not_supported(
        field: FieldPath,
        value: impl Into<Value>,
        supported: &[&str],
    ) -> Self {
        let list: Vec<String> = supported.iter().map(|s| format!("{s:?}")).collect();
        let detail = format!("supported values: {}", list.join(", "));
        Self::new(ErrorKind::NotSupported, field, Some(value.into()), detail)
    }

    /// Adds a sentence to the message: what the user can do about it.
    #[must_use]
    pub(crate) fn hint(mut self, hint: &str) -> Self {
        if !self.detail.is_empty() {
            self.detail.push_str("; ");
        }
        self.detail.push_str(hint);
        self
    }

    /// Replaces the message's explanation.
    #[must_use]
    pub(crate) fn with_detail(mut self, detail: &str) -> Self {
        detail.clone_into(&mut self.detail);
        self
    }

    fn new(
        kind: ErrorKind,
        field: FieldPath,
        value: Option<Value>,
        detail: impl Into<String>,
    ) -> Self {
        Self {
            kind,
            field,
            value,
            detail: detail.into(),
        }
    }

    /// The message without the path, as `details.causes[].message` carries it.
    pub(crate) fn body(&self) -> String {
        let mut body = self.kind.phrase().to_owned();
        if let Some(value) = &self.value {
            body.push_str(": ");
            body.push_str(&shorten(value.to_string()));
        }
        if !self.detail.is_empty() {
            body.push_str(": ");
            body.push_str(&self.detail);
        }
        body
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

/// The most that a message repeats of what a user wrote: a screen's width a few times over.
const MAX_SHOWN: usize = 512;

/// The last place at or before `max` where a text can be cut.
fn boundary(text: &str, max: usize) -> usize {
    let places = (0..=max.min(text.len())).rev();
    let mut places = places.filter(|place| text.is_char_boundary(*place));
    places.next().unwrap_or(0)
}

/// Cuts what a user wrote to a length that can be read.
pub(crate) fn shorten(mut text: String) -> String {
    if text.len() > MAX_SHOWN {
        let sent = text.len();
        text.truncate(boundary(&text, MAX_SHOWN));
        text.push_str(&format!("... ({sent} bytes)"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_reads_as_kubernetes_writes_it() {
        let path = FieldPath::new("spec")
            .child("replicatedJobs")
            .index(1)
            .child("gangConfig")
            .child("gangMode");
        let error = FieldError::not_supported(path, "Gnag", &["Off", "Gang"]);
        assert_eq!(
            error.to_string(),
            "spec.replicatedJobs[1].gangConfig.gangMode: Unsupported value: \"Gnag\": \
             supported values: \"Off\", \"Gang\""
        );
        let path = FieldPath::new("metadata")
            .child("annotations")
            .key("muster.dev/min-count");
        let error = FieldError::invalid(path, 0, "must be at least 1").hint("leave it out for all");
        assert_eq!(
            error.to_string(),
            "metadata.annotations[muster.dev/min-count]: Invalid value: 0: \
             must be at least 1; leave it out for all"
        );
    }
}
