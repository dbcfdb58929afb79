//! What `muster check` says of one object, as data; its JSON is the command's contract.
//!
//! Each file beside this one writes it for somebody else. Must not know what is checked.

pub(super) mod github;
pub(super) mod sarif;
mod text;

use serde::Serialize;
use serde_json::Value;

use crate::gang::barrier::CONTAINER;
use crate::gang::resources::ResourceList;
use crate::gang::{Barrier, FieldError, Gang, Level, WaitContainer};
use crate::workload::Facts;

/// One object's result. The field names are the command's JSON contract.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub(crate) file: String,
    pub(crate) document: usize,
    pub(crate) kind: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// Whether Muster reads this kind. If not, a warning says so, and nothing else is known.
    pub(crate) checked: bool,
    pub(crate) allowed: bool,
    pub(crate) errors: Vec<ErrorReport>,
    pub(crate) warnings: Vec<WarningReport>,
    /// The first of its gangs.
    pub(crate) gangs: Vec<GangReport>,
    /// How many gangs it has in all.
    pub(crate) gang_count: u64,
    /// Its start barrier.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) barrier: Option<BarrierReport>,
    /// Whether it asks for a gang that Muster makes, even if none is there while it has no pods.
    #[serde(skip)]
    pub(crate) ganged: bool,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct WarningReport {
    #[serde(rename = "message")]
    pub(crate) text: String,
    #[serde(flatten)]
    pub(crate) position: Position,
}

/// A place in a file; line and column count from 1.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Position {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

impl From<(usize, usize)> for Position {
    fn from((line, column): (usize, usize)) -> Self {
        Self { line, column }
    }
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BarrierReport {
    /// The roles that wait for each other.
    pub(crate) targets: Vec<String>,
    pub(crate) pods: u64,
    pub(crate) timeout_seconds: f64,
    /// The init container in which they wait, and its image.
    pub(crate) container: &'static str,
    pub(crate) image: String,
}

impl BarrierReport {
    pub(crate) fn new(barrier: &Barrier, container: &WaitContainer) -> Self {
        let targets = barrier.targets.iter();
        Self {
            targets: targets.map(|target| target.role.clone()).collect(),
            pods: barrier.members(),
            timeout_seconds: barrier.timeout.as_secs_f64(),
            container: CONTAINER,
            image: container.image.clone(),
        }
    }
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct ErrorReport {
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    pub(crate) field: String,
    pub(crate) value: Option<Value>,
    pub(crate) message: String,
    /// The error as Kubernetes would print it.
    #[serde(skip)]
    pub(crate) text: String,
    /// What this kind of errors is called.
    #[serde(skip)]
    pub(crate) phrase: &'static str,
    #[serde(flatten)]
    pub(crate) position: Option<Position>,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GangReport {
    pub(crate) name: String,
    pub(crate) level: &'static str,
    pub(crate) part: String,
    pub(crate) index: Option<u32>,
    pub(crate) quorum: u32,
    pub(crate) pods: u32,
    pub(crate) min_resources: ResourceList,
}

impl GangReport {
    pub(crate) fn new(facts: &Facts, gang: &Gang<'_>) -> Self {
        let part = gang.part;
        let level = (facts.level)(part.level());
        let name = match part.level() {
            Level::Whole => "",
            Level::Group | Level::Replica => part.name().as_str(),
        };
        Self {
            name: gang.name().into_string(),
            level,
            part: name.to_owned(),
            index: gang.identity.index,
            quorum: part.quorum(),
            pods: part.size(),
            min_resources: part.min_resources().clone(),
        }
    }
}

impl ErrorReport {
    pub(crate) fn new(error: &FieldError, position: Option<Position>) -> Self {
        let message = match error.detail.as_str() {
            "" => error.body(),
            detail => detail.to_owned(),
        };
        Self {
            kind: error.kind.name(),
            field: error.field.to_string(),
            value: error.value.clone(),
            message,
            text: error.to_string(),
            phrase: error.kind.phrase(),
            position,
        }
    }
}

impl Report {
    /// What it is about: `Job ml/train`, or a document that cannot be read.
    fn subject(&self) -> String {
        match (self.kind.as_str(), self.name.as_str()) {
            ("", _) => format!("document {}", self.document + 1),
            (kind, name) => format!("{kind} {}/{name}", self.namespace),
        }
    }
}
