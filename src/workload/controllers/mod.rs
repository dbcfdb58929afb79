//! Kubernetes' own controllers of pods, of which this version makes no gangs: a declaration on one is
//! refused at its apply, and not ignored.

use serde::Deserialize;

use super::facts::Kind;
use super::keys;
use super::object::{Maker, Reviewed, workloads};
use super::template::PodTemplate;
use super::view::{Given, Meta, or_default};
use crate::gang::{FieldError, FieldPath};

/// What is read of each.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Controller<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    metadata: Meta<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    spec: Spec<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Spec<'a> {
    #[serde(borrow)]
    template: Given<PodTemplate<'a>>,
}

impl Controller<'_> {
    /// Every key of Muster's that somebody wrote here, and why it is of no use.
    fn refuse(&self, why: &str) -> Vec<FieldError> {
        let template = self.spec.template.metadata.as_ref();
        let stamped = template.is_some_and(|meta| meta.label(keys::GANG).is_some());
        let of = self.metadata.controller_kind();
        if stamped || workloads().any(|facts| Some(facts.kind.name) == of) {
            // Its workload asks for the gang.
            return Vec::new();
        }
        let own = (FieldPath::new("metadata"), Some(&self.metadata));
        let pods = FieldPath::new("spec").child("template").child("metadata");
        let found = [own, (pods, template)].into_iter().flat_map(|(at, meta)| {
            let annotations = meta.into_iter().flat_map(Meta::annotations);
            let labels = meta.into_iter().flat_map(Meta::labels);
            let annotations = annotations.map(|(key, _)| ("annotations", key));
            let all = annotations.chain(labels.map(|(key, _)| ("labels", key)));
            let ours = all.filter(|(_, key)| key.starts_with(keys::PREFIX));
            let ours = ours.map(move |(map, key)| at.child(map).key(key));
            ours.collect::<Vec<_>>()
        });
        found.map(|at| FieldError::forbidden(at, why)).collect()
    }
}

macro_rules! controllers {
    ($($name:ident: $group:literal, $version:literal, $plural:literal, $kind:ident, $why:literal;)+) => {$(
        #[doc = concat!("A ", stringify!($name), ".")]
        #[derive(Debug, Default, Deserialize)]
        #[serde(transparent)]
        pub struct $name<'a>(#[serde(borrow)] Controller<'a>);

        #[doc = concat!("`", $plural, "`.")]
        pub static $kind: Kind = Kind {
            group: $group,
            version: $version,
            name: stringify!($name),
            plural: $plural,
        };

        impl Reviewed for $name<'_> {
            const KIND: &'static Kind = &$kind;

            fn meta(&self) -> &Meta<'_> {
                &self.0.metadata
            }

            fn maker(&self) -> Option<Maker<'_>> {
                Some(Maker {
                    errors: self.0.refuse($why),
                    template: None,
                })
            }
        }
    )+};
}

controllers! {
    Deployment: "apps", "v1", "deployments", DEPLOYMENT,
        "this version of Muster makes no gangs of Deployments; use a Job, a JobSet or a \
         LeaderWorkerSet";
    StatefulSet: "apps", "v1", "statefulsets", STATEFUL_SET,
        "this version of Muster makes no gangs of StatefulSets; use a LeaderWorkerSet or a JobSet";
    ReplicaSet: "apps", "v1", "replicasets", REPLICA_SET,
        "this version of Muster makes no gangs of ReplicaSets; use a Job, a JobSet or a \
         LeaderWorkerSet";
    DaemonSet: "apps", "v1", "daemonsets", DAEMON_SET,
        "each pod of a DaemonSet is for one node, whenever that node joins: they cannot start \
         together";
    ReplicationController: "", "v1", "replicationcontrollers", REPLICATION_CONTROLLER,
        "this version of Muster makes no gangs of ReplicationControllers; use a Job, a JobSet or a \
         LeaderWorkerSet";
}
