//! What a controller's own fields mean for the gang of its pods.

use super::Controller;
use super::rollout::Revisions;
use crate::gang::{FieldError, FieldPath};
use crate::workload::keys;
use crate::workload::object::Fixed;
use crate::workload::pods;
use crate::workload::view::Meta;

/// The label that a Deployment's ReplicaSets write on their pods, one value for each revision.
const REVISION: &str = "pod-template-hash";

/// How a controller's pods come and go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    /// All at once, and a change of the template reaches only pods that are made later.
    Plain,
    /// By revisions, as its strategy says.
    Revisions,
    /// One after another, unless it is told otherwise.
    Ordered,
}

pub(super) struct Rules<'o> {
    of: &'o Controller<'o>,
    life: Life,
    /// `None` where it could not be read.
    quorum: Option<u64>,
}

impl<'o> Rules<'o> {
    pub(super) fn new(of: &'o Controller<'_>, life: Life, quorum: Option<u64>) -> Self {
        Self { of, life, quorum }
    }

    /// Whether each revision is a gang of its own, as it was decided when the object was created: the
    /// template says so since.
    fn stored(&self) -> Option<Revisions> {
        self.revisions()?;
        let written = self.template().and_then(pods::revision_key);
        Some(match written {
            Some(_) => Revisions::Each,
            None => Revisions::OneGang,
        })
    }

    /// Whether each revision can be a gang of its own, where there are revisions.
    fn revisions(&self) -> Option<Revisions> {
        // Words of another scheduler have none for revisions.
        let own_words = self
            .template()
            .is_some_and(|meta| !pods::speaks_dialect(meta));
        let by_revision = self.life == Life::Revisions && own_words;
        let quorum = self.quorum.filter(|_| by_revision)?;
        Some(self.of.spec.strategy.revisions(quorum))
    }

    pub(super) fn errors(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let spec = FieldPath::new("spec");
        let policy = self.of.spec.pod_management_policy.as_deref();
        let ordered = self.life == Life::Ordered && policy != Some("Parallel");
        if ordered && self.quorum.is_some_and(|quorum| quorum > 1) {
            let detail = "each pod is made when the one before it is ready, and none is ready before \
                          the gang has started: it would wait for itself; use Parallel";
            let at = spec.child("podManagementPolicy");
            errors.push(FieldError::invalid(
                at,
                policy.unwrap_or("OrderedReady"),
                detail,
            ));
        }
        let revision = self.template().and_then(pods::revision_key);
        if let Some(key) = revision.filter(|key| self.life != Life::Revisions || *key != REVISION) {
            let at = annotations().key(keys::REVISION_LABEL);
            let detail = format!(
                "{key:?} does not tell revisions of these pods apart: remove it, Muster writes it \
                 where it helps"
            );
            errors.push(FieldError::forbidden(at, detail));
        }
        errors
    }

    /// Refused when it is created. Later an autoscaler may be at work.
    pub(super) fn at_create(&self) -> Vec<FieldError> {
        let replicas = self.of.spec.replicas.unwrap_or(1);
        let Some(quorum) = self.quorum else {
            return Vec::new();
        };
        // None at all is a controller that is switched off.
        let too_few = replicas > 0 && u64::try_from(replicas).is_ok_and(|some| some < quorum);
        let error = too_few.then(|| {
            let detail =
                format!("must not exceed spec.replicas ({replicas}), or the gang never starts");
            FieldError::invalid(annotations().key(keys::MIN_COUNT), quorum, detail)
        });
        error.into_iter().collect()
    }

    pub(super) fn warnings(&self) -> Vec<String> {
        let at = annotations().key(keys::GANG_NAME);
        let said = match self.stored() {
            Some(Revisions::OneGang) if self.revisions() == Some(Revisions::Each) => format!(
                "{at}: all revisions are one gang, as it was when the object was created: for a gang of \
                 each revision, recreate it"
            ),
            Some(Revisions::OneGang) => format!(
                "{at}: all revisions are one gang, because the rollout surges by fewer pods than \
                 the quorum: old and new pods make it together, and a rollout goes pod by pod"
            ),
            Some(Revisions::Each) => format!(
                "{at}: each revision is a gang of its own, because all pods of one come at once: a \
                 rollout waits until there is room for a whole quorum"
            ),
            None => return Vec::new(),
        };
        vec![said]
    }

    /// What the template must say of its revisions; `Some(None)` where it must say nothing.
    pub(super) fn mark(&self) -> Option<Option<&'static str>> {
        Some(match self.revisions()? {
            Revisions::OneGang => None,
            Revisions::Each => Some(REVISION),
        })
    }

    /// What an update must not change, because old and new pods are of one gang and must agree.
    pub(super) fn fixed(&self) -> Option<Fixed> {
        let why = match (self.life, self.stored()) {
            (Life::Revisions, Some(Revisions::Each) | None) => return None,
            (Life::Revisions, Some(Revisions::OneGang)) => {
                "the pods of all revisions are one gang and must agree while a rollout goes on: \
                 recreate it"
            }
            (Life::Plain | Life::Ordered, _) => {
                "pods that are made later are of the same gang and must agree with those that run: \
                 recreate it"
            }
        };
        let knobs = pods::KNOBS.iter().filter(|key| !keys::is_mutable(key));
        let said = knobs.filter_map(|key| {
            let value = self.template()?.annotation(key)?;
            Some((annotations().key(key), value.to_owned()))
        });
        Some(Fixed {
            fields: said.collect(),
            why,
        })
    }

    fn template(&self) -> Option<&Meta<'_>> {
        self.of.spec.template.metadata.as_ref()
    }
}

fn annotations() -> FieldPath {
    let template = FieldPath::new("spec").child("template");
    template.child("metadata").child("annotations")
}
