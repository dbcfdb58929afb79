//! Kubernetes' own controllers of pods: in no gang themselves, their pods may declare one.
//!
//! The pods' own admission links them. What would keep them from ever starting together shows in the
//! controller alone, and is refused at its apply.

mod rollout;
mod rules;

use serde::Deserialize;

use super::child::{Holder, Pods};
use super::facts::Kind;
use super::given::{Given, or_default};
use super::keys::{self, Labelled, Place};
use super::object::{Made, Maker, Reviewed, TemplateMark, workloads};
use super::pods;
use super::template::{PodTemplate, filled_in};
use super::view::{Meta, Text};
use crate::gang::{FieldError, FieldPath};
use rollout::Strategy;
use rules::{Life, Rules};

const TEMPLATE: [&str; 2] = ["spec", "template"];

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
#[serde(rename_all = "camelCase", default)]
struct Spec<'a> {
    replicas: Option<i64>,
    #[serde(borrow)]
    pod_management_policy: Option<Text<'a>>,
    #[serde(borrow, deserialize_with = "or_default")]
    strategy: Strategy<'a>,
    #[serde(borrow, deserialize_with = "filled_in")]
    template: Given<PodTemplate<'a>>,
}

/// The metadata of the controller itself.
static OWN: Place = Place {
    user: &[],
    own: &[],
    labelled: Labelled::No,
    elsewhere: |key| match key {
        keys::GANG_MODE => Some(
            "it has no modes: its pods declare a gang with muster.dev/gang-name and \
             muster.dev/min-count in spec.template.metadata.annotations",
        ),
        key if pods::KNOBS.contains(&key) => {
            Some("its pods declare the gang: put it in spec.template.metadata.annotations")
        }
        _ => None,
    },
    nearest: pods::KNOBS,
};

impl<'o> Controller<'o> {
    /// Whether another object asks for the gang of its pods, and was checked itself.
    fn is_made(&self) -> bool {
        let template = self.spec.template.metadata.as_ref();
        let stamped = template.is_some_and(|meta| meta.label(keys::GANG).is_some());
        let of = self.metadata.controller_kind();
        stamped
            || of.is_some_and(|of| workloads().any(|facts| facts.kind.name == of) || is_known(of))
    }

    /// Every key of Muster's that somebody wrote here, and why it is of no use.
    fn refuse(&self, why: &str) -> Vec<FieldError> {
        if self.is_made() {
            return Vec::new();
        }
        let template = self.spec.template.metadata.as_ref();
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

    fn pods(&self) -> Pods<'_> {
        Pods {
            holder: Holder::Template {
                path: &TEMPLATE,
                suspended: false,
            },
            meta: self.spec.template.metadata.as_ref(),
            spec: &self.spec.template.spec,
        }
    }

    /// What it declares for its pods.
    fn maker(&self, life: Life) -> Maker<'_> {
        if self.is_made() {
            return Maker::default();
        }
        let own = FieldPath::new("metadata");
        let off = |error: &FieldError| {
            // Nothing is asked for.
            let off = self.metadata.annotation(keys::GANG_MODE) == Some("Off");
            off && error.field == own.child("annotations").key(keys::GANG_MODE)
        };
        let mut errors: Vec<FieldError> = keys::check(&OWN, &own, Some(&self.metadata)).collect();
        errors.retain(|error| !off(error));
        let template = self.spec.template.metadata.as_ref();
        let Some(declaring) = pods::Declaring::new(self.pods()) else {
            let at = FieldPath::new("spec").child("template").child("metadata");
            errors.extend(pods::undeclared(&at, template));
            return Maker {
                errors,
                ..Maker::default()
            };
        };
        let rules = Rules::new(self, life, declaring.quorum());
        Maker {
            errors: errors.into_iter().chain(rules.errors()).collect(),
            at_create: rules.at_create(),
            warnings: rules.warnings(),
            template: Some(Made::Pods(declaring)),
            mark: rules.mark().map(|value| TemplateMark {
                path: &TEMPLATE,
                meta: template,
                key: keys::REVISION_LABEL,
                value,
            }),
            fixed: rules.fixed(),
        }
    }
}

/// Whether it is one of the controllers here.
fn is_known(kind: &str) -> bool {
    KINDS.iter().any(|known| known.name == kind)
}

macro_rules! controllers {
    ($($name:ident: $group:literal, $version:literal, $plural:literal $short:literal, $kind:ident, $maker:expr;)+) => {
        $(
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
            short: &[$short],
        };

        impl Reviewed for $name<'_> {
            const KIND: &'static Kind = &$kind;

            fn meta(&self) -> &Meta<'_> {
                &self.0.metadata
            }

            fn maker(&self) -> Option<Maker<'_>> {
                let maker: for<'o> fn(&'o Controller<'o>) -> Maker<'o> = $maker;
                Some(maker(&self.0))
            }

            fn check(&self) -> Result<(), FieldError> {
                let at = FieldPath::new("spec").child("template").child("spec");
                self.0.spec.template.spec.check(&at)
            }
        }
        )+

        static KINDS: &[&Kind] = &[$(&$kind,)+];
    };
}

controllers! {
    Deployment: "apps", "v1", "deployments" "deploy", DEPLOYMENT, |made| made.maker(Life::Revisions);
    StatefulSet: "apps", "v1", "statefulsets" "sts", STATEFUL_SET, |made| made.maker(Life::Ordered);
    ReplicaSet: "apps", "v1", "replicasets" "rs", REPLICA_SET, |made| made.maker(Life::Plain);
    DaemonSet: "apps", "v1", "daemonsets" "ds", DAEMON_SET, |made| Maker {
        errors: made.refuse(
            "each pod of a DaemonSet is for one node, whenever that node joins: they cannot start \
             together",
        ),
        ..Maker::default()
    };
    ReplicationController: "", "v1", "replicationcontrollers" "rc", REPLICATION_CONTROLLER,
        |made| made.maker(Life::Plain);
}
