//! The frame of every object that Muster creates: name, namespace, owner, labels.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::{DynamicObject, ObjectMeta, TypeMeta};
use serde_json::{Value, json};

use crate::gang::{GangName, Identity, Owner, Reference, Round, keys};

/// Says whose object it is, for people and for the reconciler's watches.
pub(crate) const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "muster");
/// What an object is for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Scope<'a> {
    /// One gang.
    Gang(&'a Identity),
    /// Several gangs of one start of the workload.
    Start(&'a Identity),
}

impl Scope<'_> {
    fn labels(self) -> BTreeMap<String, String> {
        let (identity, part, index) = match self {
            Self::Gang(id) => (id, Some(id.part.as_str().to_owned()), id.index),
            Self::Start(id) => (id, None, None),
        };
        let revision = identity.revision.clone();
        let round = Some(identity.round).filter(|round| *round != Round::default());
        let attempt = revision.is_none().then(|| identity.attempt.to_string());
        let labels = [
            (MANAGED_BY.0, Some(MANAGED_BY.1.to_owned())),
            (keys::GANG, part),
            (keys::INDEX, index.map(|index| index.to_string())),
            (keys::ATTEMPT, attempt),
            (keys::ROUND, round.map(|round| round.0.to_string())),
            (keys::LIFE, revision.as_ref().map(|_| identity.uid.clone())),
            (keys::REVISION, revision),
        ];
        labels
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), value?)))
            .collect()
    }
}

/// An object with a spec, owned by the workload so that it goes when the workload goes.
pub(crate) fn object(
    (api_version, kind): (&str, &str),
    name: GangName,
    owner: &Owner,
    scope: Scope<'_>,
    spec: Value,
) -> DynamicObject {
    DynamicObject {
        types: Some(TypeMeta {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
        }),
        metadata: ObjectMeta {
            name: Some(name.into_string()),
            ..metadata(owner, scope)
        },
        data: json!({"spec": spec}),
    }
}

/// The metadata of an object that has no name yet.
pub(crate) fn metadata(owner: &Owner, scope: Scope<'_>) -> ObjectMeta {
    let mut labels = scope.labels();
    labels.insert(keys::WORKLOAD.to_owned(), owner.kind.to_owned());
    if let Some(name) = &owner.gang_name {
        labels.insert(keys::GANG_NAME.to_owned(), name.clone());
    }
    ObjectMeta {
        namespace: Some(owner.namespace.clone()),
        labels: Some(labels),
        owner_references: references(owner),
        ..ObjectMeta::default()
    }
}

/// One owner is the controller, and is gone last where its deletion waits for what it owns. Of several
/// none is.
fn references(owner: &Owner) -> Option<Vec<OwnerReference>> {
    let alone = (owner.references.len() == 1 && owner.gang_name.is_none()).then_some(true);
    let reference = |reference: &Reference| OwnerReference {
        api_version: reference.api_version.clone(),
        kind: reference.kind.clone(),
        name: reference.name.clone(),
        uid: reference.uid.clone(),
        controller: alone,
        block_owner_deletion: alone,
    };
    let references = owner.references.iter().map(reference);
    Some(references.collect()).filter(|all: &Vec<_>| !all.is_empty())
}
