//! YAML as `kubectl apply` reads it, and as `kubectl get -o yaml` writes it.
//!
//! The rules are those of `sigs.k8s.io/yaml`, which is YAML 1.1: an unquoted `Off` is `false`.
//! Must not know Kubernetes kinds or what any field means.

mod build;
mod json;
mod place;
mod read;
mod scalar;
mod write;

pub(super) use place::Cursor;
pub use read::documents;
pub(super) use read::read_json;
pub use write::to_string;

use place::Spot;
use serde_json::Value;

/// One document of a file that is not empty.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// Which one it is in the file, from 0; empty documents do not count, broken ones do.
    pub(crate) index: usize,
    /// The line in the file where its value starts, from 1.
    pub(crate) line: usize,
    /// What it says, as JSON.
    pub value: Value,
    root: Spot,
}

impl Document {
    /// Line and column, from 1, of the key or list item at a path such as
    /// `spec.replicatedJobs[1].gangConfig.gangMode` or `metadata.annotations[muster.dev/queue]`.
    ///
    /// Answers for the nearest parent where the path itself is not in the file, for example
    /// when it comes from an alias or is missing; as a last resort, for the start of the document.
    pub(crate) fn position(&self, path: &str) -> (usize, usize) {
        let mut spot = &self.root;
        let mut rest = path;
        while let Some((child, after)) = spot.step(rest) {
            spot = child;
            rest = after;
        }
        (spot.line, spot.column)
    }
}

/// A document that cannot be read, and where it breaks.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("line {line}, column {column}: {problem}")]
pub struct YamlError {
    /// Which document of the file it is, as [`Document::index`].
    pub(crate) index: usize,
    /// From 1.
    pub(crate) line: usize,
    /// From 1, in characters.
    pub(crate) column: usize,
    pub(crate) problem: Problem,
}

/// What is wrong in a document that cannot be read.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum Problem {
    #[error("{0}")]
    Syntax(String),
    #[error("key {0:?} already set in map")]
    DuplicateKey(String),
    #[error("a map key must be a string, a number or a boolean, not {0}")]
    BadKey(&'static str),
    #[error("`{0}` has no form in JSON")]
    NotJson(String),
    #[error("cannot decode `{text}` as a {tag}")]
    WrongTag { text: String, tag: String },
    #[error("map merge requires map or sequence of maps as the value")]
    BadMerge,
    #[error("the value of an anchor contains itself")]
    SelfAlias,
    #[error("document contains excessive aliasing")]
    TooManyAliases,
    #[error("nested deeper than {0} levels")]
    TooDeep(usize),
}

#[cfg(test)]
mod round_trip_tests;
#[cfg(test)]
mod tests;
