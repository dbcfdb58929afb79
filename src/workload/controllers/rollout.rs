//! How a Deployment replaces its pods: whether a gang may have a revision in its identity.

use serde::Deserialize;
use serde_json::Value;

use crate::workload::given::or_default;
use crate::workload::view::Text;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Strategy<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Text<'a>>,
    #[serde(deserialize_with = "or_default")]
    rolling_update: RollingUpdate,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RollingUpdate {
    max_surge: Option<Value>,
}

/// What a new revision is to the old one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Revisions {
    /// Its pods come one after another beside the old ones: together they make the quorum. A gang of
    /// its own would wait for pods that are not made before one of it runs (volcano#4739).
    OneGang,
    /// Enough of its pods come at once: it is a gang of its own.
    Each,
}

impl Strategy<'_> {
    /// By how many pods it surges at least. A part of the replicas is taken of the quorum: a Deployment
    /// with fewer pods has no gang, and an autoscaler may make it as small as that.
    pub(super) fn revisions(&self, quorum: u64) -> Revisions {
        if self.kind.as_deref() == Some("Recreate") {
            return Revisions::Each;
        }
        let surge = match &self.rolling_update.max_surge {
            // Kubernetes' default.
            None => part(25, quorum),
            Some(Value::String(text)) => match text.strip_suffix('%').map(str::parse) {
                Some(Ok(percent)) => part(percent, quorum),
                _ => 0,
            },
            Some(number) => number.as_u64().unwrap_or(0),
        };
        match surge >= quorum {
            true => Revisions::Each,
            false => Revisions::OneGang,
        }
    }
}

/// Rounded up, as Kubernetes does for a surge.
fn part(percent: u64, of: u64) -> u64 {
    percent.saturating_mul(of).div_ceil(100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_is_a_gang_of_its_own_where_enough_of_its_pods_come_at_once() {
        let of = |json: &str, quorum| {
            let strategy: Strategy<'_> = serde_json::from_str(json).unwrap();
            strategy.revisions(quorum)
        };
        for (strategy, quorum, expected) in [
            ("{}", 4, Revisions::OneGang),
            ("{}", 1, Revisions::Each),
            (r#"{"type":"Recreate"}"#, 4, Revisions::Each),
            (r#"{"rollingUpdate":{"maxSurge":3}}"#, 4, Revisions::OneGang),
            (r#"{"rollingUpdate":{"maxSurge":4}}"#, 4, Revisions::Each),
            (
                r#"{"rollingUpdate":{"maxSurge":"99%"}}"#,
                4,
                Revisions::Each,
            ),
            (
                r#"{"rollingUpdate":{"maxSurge":"75%"}}"#,
                4,
                Revisions::OneGang,
            ),
            (
                r#"{"rollingUpdate":{"maxSurge":"100%"}}"#,
                400,
                Revisions::Each,
            ),
            (r#"{"rollingUpdate":null}"#, 4, Revisions::OneGang),
            (
                r#"{"rollingUpdate":{"maxSurge":"x"}}"#,
                4,
                Revisions::OneGang,
            ),
        ] {
            assert_eq!(of(strategy, quorum), expected, "{strategy} of {quorum}");
        }
    }
}
