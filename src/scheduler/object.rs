//! The frame of every object that Muster creates: name, namespace, owner, labels.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::{DynamicObject, ObjectMeta, TypeMeta};
use serde_json::{Value, json};

use crate::gang::{GangName, Owner};

/// Says whose object it is, for people and for the reconciler's watches.
const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "muster");

/// An object with a spec, owned by the workload so that it goes when the workload goes.
pub fn object(
    api_version: &str,
    kind: &str,
    name: GangName,
    owner: &Owner,
    spec: Value,
) -> DynamicObject {
    let controller = OwnerReference {
        api_version: owner.api_version.to_owned(),
        kind: owner.kind.to_owned(),
        name: owner.name.clone(),
        uid: owner.uid.clone(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    };
    DynamicObject {
        types: Some(TypeMeta {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
        }),
        metadata: ObjectMeta {
            name: Some(name.into_string()),
            namespace: Some(owner.namespace.clone()),
            labels: Some(BTreeMap::from([(
                MANAGED_BY.0.to_owned(),
                MANAGED_BY.1.to_owned(),
            )])),
            owner_references: Some(vec![controller]),
            ..ObjectMeta::default()
        },
        data: json!({"spec": spec}),
    }
}
