//! What the stamp of a pod says that declares its gang itself: what was decided when it was created,
//! and what all pods of the gang must say alike.
//!
//! It has no seal: whoever may create the pod may declare all that it says.

use serde::{Deserialize, Serialize};

use super::facts::KIND;
use crate::gang::standing::Terms;
use crate::gang::{FieldPath, Part, Plan, SchedulerKind, Stamp, Words, keys};

/// The words of the stamp.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct PodStamp {
    pub(crate) terms: Terms,
}

impl PodStamp {
    /// What a plan says that all pods of its gang must say alike. `alike` is what else of a pod's fields
    /// they must share on their scheduler.
    pub(crate) fn new(
        plan: &Plan,
        scheduler: SchedulerKind,
        alike: Vec<(&'static str, String)>,
    ) -> Self {
        let scheduler = (keys::SCHEDULER, scheduler.to_string());
        let said = said(plan).chain([scheduler]);
        let said = said.map(|(key, value)| (key.to_owned(), value));
        let alike = alike
            .into_iter()
            .map(|(field, value)| (field.to_owned(), value));
        Self {
            terms: said.chain(alike).collect(),
        }
    }

    pub(crate) fn words(&self) -> Option<Words> {
        Words::of(self)
    }

    pub(crate) fn of(stamp: &Stamp) -> Self {
        let words = stamp.workload.as_ref();
        words.and_then(|words| words.read()).unwrap_or_default()
    }
}

/// What a plan says, but for its scheduler and its timeout, in Muster's own keys.
pub(super) fn said(plan: &Plan) -> impl Iterator<Item = (&'static str, String)> {
    let (policy, part) = (&plan.policy, plan.parts.first());
    let bundle = part.and_then(Part::bundle);
    let with = policy.bundle_with.as_ref().map(|with| {
        let others = with.value.others().iter();
        let names = others.map(|other| other.named_by(KIND.name));
        let mut names: Vec<String> = names.collect();
        names.sort();
        names.join(", ")
    });
    let strictness = policy.strictness.as_ref();
    let said = [
        (keys::MIN_COUNT, part.map(|part| part.quorum().to_string())),
        (keys::QUEUE, policy.queue.as_ref().map(|q| q.value.clone())),
        (
            keys::STRICTNESS,
            strictness.map(|s| format!("{:?}", s.value)),
        ),
        (
            keys::BUNDLE,
            bundle.map(|bundle| bundle.value.as_str().to_owned()),
        ),
        (keys::BUNDLE_WITH, with),
    ];
    said.into_iter()
        .filter_map(|(key, value)| Some((key, value?)))
}

/// Where a term stands on a pod.
pub(crate) fn place(term: &str) -> FieldPath {
    match term.starts_with(keys::PREFIX) {
        true => FieldPath::new("metadata").child("annotations").key(term),
        false => FieldPath::new(term),
    }
}

/// The first of the terms that two pods do not share: its key, what the first says and what the other
/// says; nothing said is `None`.
pub(crate) fn difference<'t>(
    one: &'t Terms,
    other: &'t Terms,
) -> Option<(&'t str, Option<&'t str>, Option<&'t str>)> {
    let fields = one.keys().chain(other.keys());
    let mut differing = fields.filter(|field| one.get(*field) != other.get(*field));
    let field = differing.next()?;
    let said = |terms: &'t Terms| terms.get(field).map(String::as_str);
    Some((field, said(one), said(other)))
}
