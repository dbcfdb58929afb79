//! AdmissionReview in, decision and JSON patch out.

/// Which of the two webhook endpoints was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Mutate,
    Validate,
}

/// How a review ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Allowed as it is.
    Allowed,
    /// Allowed with a patch.
    Patched,
    /// Refused: the object breaks a rule.
    Denied,
}

impl Outcome {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Patched => "patched",
            Self::Denied => "denied",
        }
    }
}

/// What the log line and the metrics say about a review.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub uid: String,
    pub operation: &'static str,
    pub kind: &'static str,
    pub namespace: String,
    pub name: String,
    pub outcome: Outcome,
    /// The gang (or part) that the object belongs to; empty when it asks for none.
    pub gang: String,
}

/// A review answered: the response body, ready to send, and its record.
#[derive(Debug)]
pub struct Answer {
    pub body: Vec<u8>,
    pub record: Record,
}

/// A review that cannot be answered. Never a denial: the apiserver applies its failure policy.
#[derive(Debug, thiserror::Error)]
pub enum Unanswerable {
    #[error("the body is not an AdmissionReview: {0}")]
    Malformed(#[from] serde_json::Error),
    #[error("{0}")]
    Unsupported(String),
    #[error("internal error: {0}")]
    Internal(String),
}

impl Unanswerable {
    /// The HTTP status: the caller's mistake or ours.
    pub fn status(&self) -> u16 {
        match self {
            Self::Malformed(_) | Self::Unsupported(_) => 400,
            Self::Internal(_) => 500,
        }
    }
}
