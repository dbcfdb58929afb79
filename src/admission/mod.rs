//! Admission: an AdmissionReview in, a decision and a JSON patch out.
//!
//! [`answer`] is the whole of it, a function of the request's bytes and of a snapshot of the
//! cluster. The server, `muster check` and the tests call the same line. It makes no API call,
//! and knows neither sockets nor metrics.

mod barriers;
mod children;
mod makers;
mod patch;
mod pods;
mod response;
mod review;
mod stamps;
mod trust;
mod workloads;

pub use json_patch::Patch;
pub use review::{Operation, Review};

use crate::gang::field::shorten;
use crate::gang::{Carrier, FieldError};
use crate::scheduler::Snapshot;
use crate::workload::child::Child;
use crate::workload::{Life, Object, Workload, keys};

/// Which of the two webhook endpoints was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The first call, which may change the object.
    Mutate,
    /// The second call, which sees the object as it will be stored.
    Validate,
}

/// What is decided about an object.
#[derive(Debug)]
pub enum Decision {
    /// The object is stored, with the patch applied.
    Allow {
        /// What Muster writes into the object; may be empty.
        patch: Patch,
        /// Shown to the user by kubectl.
        warnings: Vec<String>,
    },
    /// The object is refused.
    Deny {
        /// Every rule that it breaks, at least one.
        errors: Vec<FieldError>,
        /// Shown to the user besides the errors.
        warnings: Vec<String>,
    },
}

impl Decision {
    /// Allowed as it is, with nothing to say.
    pub(crate) fn untouched() -> Self {
        Self::allow(Patch(Vec::new()), Vec::new())
    }

    fn allow(patch: Patch, warnings: Vec<String>) -> Self {
        Self::Allow { patch, warnings }
    }

    /// The same, after other changes of the object.
    fn after(self, mut first: Patch) -> Self {
        match self {
            Self::Allow { patch, warnings } => {
                first.0.extend(patch.0);
                Self::allow(first, warnings)
            }
            denied @ Self::Deny { .. } => denied,
        }
    }

    fn outcome(&self) -> Outcome {
        match self {
            Self::Allow { patch, .. } if patch.0.is_empty() => Outcome::Allowed,
            Self::Allow { .. } => Outcome::Patched,
            Self::Deny { .. } => Outcome::Denied,
        }
    }
}

/// A decision, and the gang that it is about; empty when the object asks for none.
#[derive(Debug)]
pub struct Decided {
    /// What is decided.
    pub decision: Decision,
    pub(crate) gang: String,
}

impl Decided {
    fn untouched() -> Self {
        Decision::untouched().about(String::new())
    }
}

impl Decision {
    fn about(self, gang: String) -> Decided {
        Decided {
            decision: self,
            gang,
        }
    }
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
    /// As the log and the metrics spell it.
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
    /// The uid of the request, which the response repeats.
    pub uid: String,
    /// What is done to the object: `CREATE`, `UPDATE` and so on.
    pub operation: &'static str,
    /// The object's kind.
    pub kind: &'static str,
    /// The object's namespace.
    pub namespace: String,
    /// The object's name, or the prefix that it will be generated from.
    pub name: String,
    /// How the review ended.
    pub outcome: Outcome,
    /// The gang (or part) that the object belongs to; empty when it asks for none.
    pub gang: String,
}

/// A review answered: the response body, ready to send, and its record.
#[derive(Debug)]
pub struct Answer {
    /// The AdmissionReview with the response, as JSON.
    pub body: Vec<u8>,
    /// For the log and the metrics.
    pub record: Record,
}

/// A review that cannot be answered. Never a denial: the apiserver applies its failure policy.
#[derive(Debug, thiserror::Error)]
pub enum Unanswerable {
    /// It is not JSON, or not an AdmissionReview.
    #[error("the body is not an AdmissionReview: {}", shorten(.0.to_string()))]
    Malformed(#[from] serde_json::Error),
    /// It is a review that Muster does not handle.
    #[error("{0}")]
    Unsupported(String),
    /// A mistake of Muster.
    #[error("internal error: {0}")]
    Internal(String),
    /// What the answer depends on has not been seen yet, and is never guessed.
    #[error("Muster has not seen the namespace {0:?} yet: try again")]
    NamespaceNotSeen(String),
    /// The workload is asked whether its child's stamp is good, because the seal's key is not known.
    #[error(
        "Muster does not know the key that sealed the stamp, and asks the {} {}: try again",
        .0.kind,
        .0.workload
    )]
    StampNotKnown(Carrier),
    /// What other pods say is not known yet.
    #[error("Muster has not seen the pods that declare gangs yet: try again")]
    PodsNotSeen,
    /// Another replica has just made the key.
    #[error("Muster does not know the key that sealed the stamps yet: try again")]
    KeyNotKnown,
}

impl Unanswerable {
    /// The HTTP status: the caller's mistake or ours.
    pub fn status(&self) -> u16 {
        match self {
            Self::Malformed(_) | Self::Unsupported(_) => 400,
            Self::Internal(_)
            | Self::NamespaceNotSeen(_)
            | Self::StampNotKnown(_)
            | Self::PodsNotSeen
            | Self::KeyNotKnown => 500,
        }
    }

    /// Whether the same call is likely to be answered in a moment. client-go, and so the apiserver,
    /// calls again when the response has a `Retry-After`.
    pub fn is_momentary(&self) -> bool {
        matches!(
            self,
            Self::NamespaceNotSeen(_)
                | Self::StampNotKnown(_)
                | Self::PodsNotSeen
                | Self::KeyNotKnown
        )
    }
}

/// Decides a review: pure, a function of the review and of the snapshot alone.
pub fn decide(
    phase: Phase,
    review: &Review<'_>,
    cluster: &Snapshot,
) -> Result<Decided, Unanswerable> {
    // A deletion is never blocked, and a subresource carries no declaration.
    if !matches!(review.operation, Operation::Create | Operation::Update)
        || review.sub_resource.is_some()
    {
        return Ok(Decided::untouched());
    }
    if needs_namespace(review) && !cluster.namespaces.knows(review.namespace()) {
        let namespace = review.namespace().to_owned();
        return Err(Unanswerable::NamespaceNotSeen(namespace));
    }
    let (object, old) = (review.object.as_ref(), review.old_object.as_ref());
    for object in [object, old].into_iter().flatten() {
        if let Object::Unreadable(error) = object {
            return Ok(unreadable(phase, error));
        }
    }
    let Some(object) = object else {
        return Ok(Decided::untouched());
    };
    let child = object.child();
    // A pod is a member, also where it declares its gang itself.
    let pod = child.as_ref().is_some_and(Child::is_pod);
    if let Some(workload) = object.workload().filter(|_| !pod) {
        let old = old.and_then(Object::workload);
        return workloads::decide(phase, review, workload, old, cluster);
    }
    if let Some(maker) = object.maker() {
        let old = old.and_then(Object::maker);
        return makers::decide(phase, review, &maker, old.as_ref(), cluster);
    }
    let Some(child) = child else {
        return Ok(Decided::untouched());
    };
    if barriers::waits(review, &child) {
        return barriers::pods::decide(phase, review, &child, cluster);
    }
    // What a stored pod declares cannot change, and the apiserver sees to that by itself.
    let created = review.operation == Operation::Create && !child.meta.deleting();
    match object.workload().filter(|_| pod && created) {
        Some(pod) => pods::decide(phase, review, &child, pod, cluster),
        None => {
            let old = old.and_then(Object::child);
            children::decide(phase, review, &child, old.as_ref(), cluster)
        }
    }
}

/// An object whose fields have other types than the API says. A custom resource's schema is
/// checked between the two phases, so the first lets it pass and the apiserver says it better.
fn unreadable(phase: Phase, error: &FieldError) -> Decided {
    match phase {
        Phase::Mutate => Decided::untouched(),
        Phase::Validate => Decision::Deny {
            errors: vec![error.clone()],
            warnings: Vec::new(),
        }
        .about(String::new()),
    }
}

/// Whether the label of its namespace may choose the object's scheduler, which is then written on it
/// for good. Children have a stamp, and a workload that is stored keeps its scheduler.
fn needs_namespace(review: &Review<'_>) -> bool {
    let written = matches!(review.operation, Operation::Create | Operation::Update);
    let new = review.object.as_ref().and_then(Object::workload);
    let Some(new) = new.filter(|_| written && review.sub_resource.is_none()) else {
        return false;
    };
    let old = review.old_object.as_ref().and_then(Object::workload);
    let chosen = |workload: &dyn Workload| workload.meta().annotation(keys::SCHEDULER).is_some();
    let ours = new.life() != Life::LeftAlone && !new.meta().deleting();
    ours && !chosen(new) && !old.is_some_and(chosen)
}

/// Answers a request body.
pub fn answer(phase: Phase, body: &[u8], cluster: &Snapshot) -> Result<Answer, Unanswerable> {
    let review = Review::parse(body)?;
    let decided = decide(phase, &review, cluster)?;
    let body = response::encode(&review, &decided.decision)
        .map_err(|error| Unanswerable::Internal(error.to_string()))?;
    Ok(Answer {
        body,
        record: Record {
            uid: review.uid.to_string(),
            operation: review.operation.as_str(),
            kind: review.kind.name,
            namespace: review.namespace().to_owned(),
            name: review.name().to_owned(),
            outcome: decided.decision.outcome(),
            gang: decided.gang,
        },
    })
}
