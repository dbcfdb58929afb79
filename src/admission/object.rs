//! The objects that reviews are about: their kinds, and how they are read from JSON.

use serde::Deserialize;
use serde_json::Value;

use crate::gang::{FieldError, FieldPath};
use crate::workload::child::{Job, Pod};
use crate::workload::jobset::view::JobSet;
use crate::workload::lws::view::LeaderWorkerSet;
use crate::workload::view::Meta;

/// The kinds that Muster is called for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    JobSet,
    LeaderWorkerSet,
    Job,
    Pod,
}

impl Kind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::JobSet => "JobSet",
            Self::LeaderWorkerSet => "LeaderWorkerSet",
            Self::Job => "Job",
            Self::Pod => "Pod",
        }
    }

    pub fn group(self) -> &'static str {
        match self {
            Self::JobSet => "jobset.x-k8s.io",
            Self::LeaderWorkerSet => "leaderworkerset.x-k8s.io",
            Self::Job => "batch",
            Self::Pod => "",
        }
    }

    pub fn of(group: &str, kind: &str) -> Option<Self> {
        [Self::JobSet, Self::LeaderWorkerSet, Self::Job, Self::Pod]
            .into_iter()
            .find(|k| k.group() == group && k.as_str() == kind)
    }
}

/// An object, as far as Muster reads it.
#[derive(Debug)]
pub enum Object<'a> {
    JobSet(Box<JobSet<'a>>),
    LeaderWorkerSet(Box<LeaderWorkerSet<'a>>),
    Job(Job<'a>),
    Pod(Pod<'a>),
    /// Some field has another type than the API says.
    Unreadable(FieldError),
}

impl Object<'_> {
    pub fn metadata(&self) -> Option<&Meta<'_>> {
        match self {
            Self::JobSet(jobset) => Some(&jobset.metadata),
            Self::LeaderWorkerSet(lws) => Some(&lws.metadata),
            Self::Job(job) => Some(&job.metadata),
            Self::Pod(pod) => Some(&pod.metadata),
            Self::Unreadable(_) => None,
        }
    }
}

/// Reads an object from its JSON text; the error names the field that does not fit.
pub fn read(kind: Kind, json: &str) -> Result<Object<'_>, FieldError> {
    fn view<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, FieldError> {
        let deserializer = &mut serde_json::Deserializer::from_str(json);
        serde_path_to_error::deserialize(deserializer).map_err(|error| {
            let path = error.path().to_string();
            let value = value_at(json, error.path());
            let inner = error.into_inner().to_string();
            // serde_json ends with " at line 1 column 234", which means nothing to a user.
            let detail = inner.split(" at line ").next().unwrap_or(&inner);
            FieldError::invalid(FieldPath::new(&path), value, plain(detail))
        })
    }
    Ok(match kind {
        Kind::JobSet => Object::JobSet(Box::new(view(json)?)),
        Kind::LeaderWorkerSet => Object::LeaderWorkerSet(Box::new(view(json)?)),
        Kind::Job => Object::Job(view(json)?),
        Kind::Pod => Object::Pod(view(json)?),
    })
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

/// The value that does not fit, for the message.
fn value_at(json: &str, path: &serde_path_to_error::Path) -> Value {
    use serde_path_to_error::Segment;
    let root: Value = serde_json::from_str(json).unwrap_or_default();
    let step = |value: Value, segment: &Segment| match segment {
        Segment::Seq { index } => value.get(index).cloned(),
        Segment::Map { key } => value.get(key).cloned(),
        Segment::Enum { .. } | Segment::Unknown => None,
    };
    path.iter().try_fold(root, step).unwrap_or_default()
}
