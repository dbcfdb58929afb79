//! Children of a stamped workload: objects that carry a stamp and need a link.
//!
//! A child's admission is a function of the child alone: the labels that its workload's controller
//! writes tell who it is, its stamp says the rest. Which labels these are each kind knows.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::gang::WorkloadRef;
use crate::gang::name::is_dns_subdomain;
use crate::gang::seal::{Bearer, Called, StampHash, Verdict};
use crate::gang::{
    BarrierStart, Carrier, FieldError, FieldPath, Member, Round, Seals, Shape, Stamp,
};

use super::facts::{Facts, Watched};
use super::keys;
use super::object::workloads;
use super::template::{ExistingLink, PodSpec, existing_link};
use super::view::Meta;

/// Labels and annotations, as a request or a watch has them.
pub(crate) trait Marked {
    fn label(&self, key: &str) -> Option<&str>;
    fn annotation(&self, key: &str) -> Option<&str>;
}

impl Marked for Meta<'_> {
    fn label(&self, key: &str) -> Option<&str> {
        Meta::label(self, key)
    }

    fn annotation(&self, key: &str) -> Option<&str> {
        Meta::annotation(self, key)
    }
}

impl Marked for ObjectMeta {
    fn label(&self, key: &str) -> Option<&str> {
        self.labels.as_ref()?.get(key).map(String::as_str)
    }

    fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.as_ref()?.get(key).map(String::as_str)
    }
}

/// Something with labels that are still to be written.
pub(crate) struct Relabelled<'a> {
    pub(crate) base: &'a dyn Marked,
    pub(crate) labels: &'a BTreeMap<&'static str, String>,
}

impl Marked for Relabelled<'_> {
    fn label(&self, key: &str) -> Option<&str> {
        let new = self.labels.get(key).map(String::as_str);
        new.or_else(|| self.base.label(key))
    }

    fn annotation(&self, key: &str) -> Option<&str> {
        self.base.annotation(key)
    }
}

/// A child: a pod, or an object with a pod template.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Child<'o> {
    /// Its own metadata, which tells who it is.
    pub(crate) meta: &'o Meta<'o>,
    pub(crate) pods: Pods<'o>,
    /// Why this version refuses such an object when it asks for a gang by itself.
    pub(crate) unserved: &'static str,
}

/// The pods of a child: itself, or those of its template.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pods<'o> {
    pub(crate) holder: Holder,
    pub(crate) meta: Option<&'o Meta<'o>>,
    pub(crate) spec: &'o PodSpec<'o>,
}

/// What holds the pods' metadata and spec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holder {
    Pod,
    Template {
        /// Where the template stands.
        path: &'static [&'static str],
        suspended: bool,
    },
}

impl Pods<'_> {
    /// Where their metadata and spec stand, as a patch says it.
    pub(crate) fn path(&self) -> &'static [&'static str] {
        match self.holder {
            Holder::Pod => &[],
            Holder::Template { path, .. } => path,
        }
    }

    /// The same for messages.
    pub(crate) fn at(&self) -> FieldPath {
        let root = FieldPath::default();
        self.path().iter().fold(root, |at, step| at.child(step))
    }

    pub(crate) fn existing_link(&self) -> Option<ExistingLink> {
        existing_link(self.meta, self.spec, &self.at())
    }
}

impl Child<'_> {
    /// Whether it is a pod itself.
    pub(crate) fn is_pod(&self) -> bool {
        self.pods.holder == Holder::Pod
    }

    /// Whether it carries Muster's label at all.
    pub(crate) fn is_stamped(&self) -> bool {
        self.meta.label(keys::GANG).is_some()
    }

    /// What its pods ask of a node.
    pub(crate) fn shape(&self) -> Shape {
        let (shape, _) = self.pods.spec.shape(Some(self.meta));
        Shape {
            controller_labels: parent(self.meta)
                .map(|facts| facts.members.controller_labels)
                .unwrap_or_default(),
            ..shape
        }
    }
}

/// The kind of the workload that a child belongs to.
pub(crate) fn parent(child: &dyn Marked) -> Option<&'static Facts> {
    workloads().find(|facts| child.label(facts.members.name).is_some())
}

/// Whose a pod is, for people: `namespace/name` of its workload, else of what made it, else its own.
pub(crate) fn holder(meta: &ObjectMeta) -> String {
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    let labels = meta.labels.as_ref();
    let label = |key: &str| {
        labels
            .and_then(|labels| labels.get(key))
            .map(String::as_str)
    };
    let workload = parent(meta).and_then(|facts| label(facts.members.name));
    let made_by = || {
        let mut owners = meta.owner_references.iter().flatten();
        let owner = owners.find(|owner| owner.controller == Some(true))?;
        // A ReplicaSet is one revision of what a user knows.
        let hash = label("pod-template-hash").map(|hash| format!("-{hash}"));
        let stem = hash.and_then(|hash| owner.name.strip_suffix(&hash));
        Some(stem.unwrap_or(&owner.name))
    };
    // Whoever creates a pod may write any text as the name of what made it, and others read it.
    let is_name = |name: &&str| is_dns_subdomain(name);
    let name = workload.or_else(made_by).filter(is_name);
    let name = name.or(meta.name.as_deref());
    format!("{namespace}/{}", name.unwrap_or_default())
}

/// Who a stamped child is, in the given round of its gang: for admission and for the reconciler.
pub(crate) fn identify(
    child: &dyn Marked,
    namespace: &str,
    stamp: Stamp,
    round: Round,
) -> Result<Member, Vec<FieldError>> {
    let Some(parent) = parent(child) else {
        let detail = "it has no label of a workload that Muster knows: no controller made it";
        return Err(vec![FieldError::forbidden(stamp_path(), detail)]);
    };
    (parent.members.identify)(child, namespace, stamp, round)
}

/// Whether a child's stamp is Muster's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Proof {
    /// Its seal says so.
    Sealed,
    /// Its workload must say so: which one, and what it must carry.
    Unsealed(Carrier, StampHash),
    /// Nothing says so, and nobody can be asked: no workload has such a name.
    None,
}

/// By what a child's stamp is known to be Muster's own; `None` where it has no stamp, or no workload.
pub(crate) fn proof(child: &dyn Marked, namespace: &str, seals: &Seals) -> Option<Proof> {
    let (gang, text) = (child.label(keys::GANG)?, child.annotation(keys::STAMP)?);
    proof_of(child, namespace, seals, (gang, text))
}

/// The same for the stamp of a start barrier.
pub(crate) fn barrier_proof(child: &dyn Marked, namespace: &str, seals: &Seals) -> Option<Proof> {
    let text = child.annotation(keys::BARRIER_STAMP)?;
    proof_of(child, namespace, seals, (keys::BARRIER, text))
}

fn proof_of(
    child: &dyn Marked,
    namespace: &str,
    seals: &Seals,
    (gang, text): (&str, &str),
) -> Option<Proof> {
    let parent = parent(child)?;
    let workload = child.label(parent.members.name)?;
    let bearer = Bearer {
        namespace,
        kind: parent.kind.name,
        workload: Called::Name(workload),
        gang,
    };
    Some(match seals.check(&bearer, text) {
        Verdict::Good => Proof::Sealed,
        // A pod vouches for nobody: its own gang has no stamp of this kind.
        _ if parent.watched == Watched::ByMembers => Proof::None,
        Verdict::Unsealed | Verdict::Unknown | Verdict::Broken => {
            // The apiserver checks labels after the first phase: this may be any text.
            match WorkloadRef::checked(namespace, workload) {
                Some(workload) => {
                    let kind = parent.kind.name;
                    let carrier = Carrier { kind, workload };
                    Proof::Unsealed(carrier, StampHash::of(gang, text))
                }
                None => Proof::None,
            }
        }
    })
}

/// By which a child's stamp is found again in its workload.
pub(crate) fn stamp_hash(child: &dyn Marked) -> StampHash {
    let gang = child.label(keys::GANG).unwrap_or_default();
    StampHash::of(gang, child.annotation(keys::STAMP).unwrap_or_default())
}

/// Which start of its workload a pod waits for; `None` where its labels do not tell.
pub(crate) fn barrier_start(pod: &dyn Marked, namespace: &str) -> Option<BarrierStart> {
    let members = &parent(pod)?.members;
    Some(BarrierStart {
        namespace: namespace.to_owned(),
        workload: pod.label(members.name)?.to_owned(),
        uid: pod.label(members.uid?)?.to_owned(),
        attempt: (members.attempt?)(pod)?,
        round: round(pod),
    })
}

/// The round written on an object; none is round zero.
pub(crate) fn round(meta: &dyn Marked) -> Round {
    let text = meta.annotation(keys::ROUND);
    Round(text.and_then(|text| text.parse().ok()).unwrap_or(0))
}

/// Reads the labels that tell a child's gang, and notes those that it lacks.
pub(crate) struct Labels<'c> {
    child: &'c dyn Marked,
    pub(crate) errors: Vec<FieldError>,
}

impl<'c> Labels<'c> {
    pub(crate) fn of(child: &'c dyn Marked) -> Self {
        let errors = Vec::new();
        Self { child, errors }
    }

    /// A label's value; empty where it is missing. `from` is who writes it.
    pub(crate) fn get(&mut self, key: &str, from: &str) -> &'c str {
        let text = self.child.label(key);
        if text.is_none() {
            let detail = format!("the gang's identity needs it; {from} writes it");
            self.errors
                .push(FieldError::required(label_path(key), detail));
        }
        text.unwrap_or_default()
    }
}

/// The path of a label.
pub(crate) fn label_path(key: &str) -> FieldPath {
    FieldPath::new("metadata").child("labels").key(key)
}

/// Where the stamp stands.
pub(crate) fn stamp_path() -> FieldPath {
    let annotations = FieldPath::new("metadata").child("annotations");
    annotations.key(keys::STAMP)
}

/// Reads the stamp that a child carries.
pub(crate) fn stamp(meta: &dyn Marked) -> Result<Stamp, FieldError> {
    let Some(text) = meta.annotation(keys::STAMP) else {
        return Err(FieldError::required(
            stamp_path(),
            "an object with the label muster.dev/gang must carry the stamp that Muster writes \
             into its workload's templates; remove the label, or ask for a gang on the workload",
        ));
    };
    Stamp::parse(text).map_err(|error| FieldError::invalid(stamp_path(), text, error.to_string()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn who_holds_room_is_called_by_a_name_and_by_no_text_of_his_own() {
        let holder = |owner: &str, hash: &str| {
            let pod = json!({
                "namespace": "ml",
                "name": "train-7d9f-x2k4p",
                "labels": {"pod-template-hash": hash},
                "ownerReferences": [
                    {"apiVersion": "a/v1", "kind": "A", "name": owner, "uid": "1", "controller": true},
                ],
            });
            holder(&serde_json::from_value(pod).unwrap())
        };
        assert_eq!(holder("train-7d9f", "7d9f"), "ml/train");
        assert_eq!(holder("train.v1", "7d9f"), "ml/train.v1");
        let own = "ml/train-7d9f-x2k4p";
        let long = "x".repeat(60_000);
        for owner in ["x)\n  next: delete it all (", "x\u{1b}[31m", "", &long] {
            assert_eq!(holder(owner, "7d9f"), own);
        }
    }
}
