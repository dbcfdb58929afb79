//! Pods and pod templates, as far as Muster reads them: a link that is there already, and the pods'
//! shape.
//!
//! A pod's requests are read only where a plan or a link needs them: most pods are linked without.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::gang::link::{LinkKey, LinkPlace};
use crate::gang::resources::{Containers, PodResources, Requirements, ResourceList};
use crate::gang::resources::{OverflowError, pod_requests};
use crate::gang::{FieldError, FieldPath, Shape, Words};
use crate::scheduler;

use super::given::{Given, Present, Several, optional};
use super::object::read_part;
use super::view::{Meta, Text};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodTemplate<'a> {
    #[serde(borrow, deserialize_with = "optional")]
    pub(crate) metadata: Option<Meta<'a>>,
    #[serde(borrow)]
    pub(crate) spec: Given<PodSpec<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodSpec<'a> {
    #[serde(borrow)]
    pub(crate) scheduler_name: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) node_name: Option<Text<'a>>,
    #[serde(borrow)]
    priority_class_name: Option<Text<'a>>,
    #[serde(borrow)]
    scheduling_group: Option<&'a RawValue>,
    #[serde(borrow)]
    workload_ref: Option<&'a RawValue>,
    #[serde(borrow)]
    tolerations: Option<&'a RawValue>,
    #[serde(borrow)]
    affinity: Option<&'a RawValue>,
    #[serde(borrow)]
    os: Unread<'a, Os<'a>>,
    #[serde(borrow)]
    topology_spread_constraints: Option<&'a RawValue>,
    #[serde(borrow)]
    scheduling_gates: Unread<'a, Several<Present, 1>>,
    #[serde(borrow)]
    node_selector: Unread<'a, BTreeMap<String, String>>,
    #[serde(borrow)]
    pub(crate) containers: Unread<'a, Containers<'a>>,
    #[serde(borrow)]
    pub(crate) init_containers: Unread<'a, Containers<'a>>,
    #[serde(borrow)]
    overhead: Unread<'a, ResourceList>,
    #[serde(borrow)]
    resources: Unread<'a, Option<Requirements>>,
    #[serde(borrow)]
    pub(crate) volumes: Unread<'a, Several<Volume<'a>, MAX_VOLUMES>>,
}

/// Reads a template that Kubernetes has filled in before anybody sees it: its scheduler's name is
/// then no word of the user's.
pub(crate) fn filled_in<'de: 'a, 'a, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Given<PodTemplate<'a>>, D::Error> {
    let mut template: Given<PodTemplate<'a>> = Given::deserialize(deserializer)?;
    forget_filled_in(&mut template.spec);
    Ok(template)
}

/// The same of a pod.
pub(crate) fn filled_in_pod<'de: 'a, 'a, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Given<PodSpec<'a>>, D::Error> {
    let mut spec: Given<PodSpec<'a>> = Given::deserialize(deserializer)?;
    forget_filled_in(&mut spec);
    Ok(spec)
}

fn forget_filled_in(spec: &mut PodSpec<'_>) {
    if spec.scheduler_name.as_deref() == Some(scheduler::FILLED_IN) {
        spec.scheduler_name = None;
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Os<'a> {
    #[serde(borrow)]
    name: Text<'a>,
}

/// A node attaches far fewer, and a kubelet refuses the rest.
const MAX_VOLUMES: usize = 1000;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Volume<'a> {
    #[serde(borrow)]
    pub(crate) name: Text<'a>,
}

/// A part of a pod's spec that is read when it is needed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unread<'a, T> {
    raw: Option<&'a RawValue>,
    kind: PhantomData<fn() -> T>,
}

impl<T> Default for Unread<'_, T> {
    fn default() -> Self {
        Self {
            raw: None,
            kind: PhantomData,
        }
    }
}

impl<'de: 'a, 'a, T> Deserialize<'de> for Unread<'a, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self {
            raw: Option::deserialize(deserializer)?,
            kind: PhantomData,
        })
    }
}

impl<T> Unread<'_, T> {
    /// The items of a list as they were sent; none where there is no list.
    pub(crate) fn items(&self) -> Option<Vec<Value>> {
        serde_json::from_str(self.raw?.get()).ok().flatten()
    }
}

impl<'a, T: Deserialize<'a> + Default> Unread<'a, T> {
    /// What it says. The apiserver checks a pod by itself: what cannot be read counts as nothing.
    pub(crate) fn read(&self) -> T {
        let parsed = self.raw.map(|raw| serde_json::from_str(raw.get()));
        parsed.and_then(Result::ok).unwrap_or_default()
    }

    /// Whether it can be read; it stands at `at`.
    fn check(&self, at: &FieldPath, field: &str) -> Result<(), FieldError> {
        match self.raw {
            Some(raw) => read_part::<T>(raw.get(), &at.child(field)).map(|_| ()),
            None => Ok(()),
        }
    }
}

/// A link that the user wrote into a pod or a pod template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExistingLink {
    pub(crate) link: LinkKey,
    pub(crate) value: String,
    pub(crate) at: FieldPath,
}

/// A link to a gang that is already there, its value, and where. `at` is the pod's or template's
/// path.
pub(crate) fn existing_link(
    meta: Option<&Meta<'_>>,
    spec: &PodSpec<'_>,
    at: &FieldPath,
) -> Option<ExistingLink> {
    scheduler::links().find_map(|link| {
        let (value, at) = match link.place {
            LinkPlace::Label => {
                let value = meta?.label(link.key)?.to_owned();
                (value, at.child("metadata").child("labels").key(link.key))
            }
            LinkPlace::Annotation => {
                let value = meta?.annotation(link.key)?.to_owned();
                let at = at.child("metadata").child("annotations");
                (value, at.key(link.key))
            }
            LinkPlace::Field => {
                let value = spec.field(link.key)?.get().to_owned();
                (value, at.child("spec").child(link.key))
            }
        };
        Some(ExistingLink { link, value, at })
    })
}

impl PodTemplate<'_> {
    /// The same of a template.
    pub(crate) fn existing_link(&self, at: &FieldPath) -> Option<ExistingLink> {
        existing_link(self.metadata.as_ref(), &self.spec, at)
    }

    /// The shape of its pods, whose spec stands at `at`.
    pub(crate) fn shape(&self, at: &FieldPath, errors: &mut Vec<FieldError>) -> Shape {
        let (shape, counted) = self.spec.shape(self.metadata.as_ref());
        if counted.is_err() {
            errors.push(FieldError::forbidden(
                at.clone(),
                "the pod's resource requests add up to more than a quantity can hold",
            ));
        }
        shape
    }
}

impl PodSpec<'_> {
    /// A field that may hold a link to a gang.
    fn field(&self, name: &str) -> Option<&RawValue> {
        match name {
            "schedulingGroup" => self.scheduling_group,
            "workloadRef" => self.workload_ref,
            _ => None,
        }
    }

    /// Whether a field that holds a link says exactly this.
    pub(crate) fn has_field(&self, name: &str, value: &Value) -> bool {
        let current: Option<Value> = parse(self.field(name));
        current.is_some_and(|mut current| {
            // Go clients may write what is not set as null.
            if let Value::Object(fields) = &mut current {
                fields.retain(|_, value| !value.is_null());
            }
            current == *value
        })
    }

    /// What its pods ask of a node; without their requests where these cannot be counted.
    pub(crate) fn shape(&self, meta: Option<&Meta<'_>>) -> (Shape, Result<(), OverflowError>) {
        let non_empty = |text: &Option<Text<'_>>| match text.as_deref() {
            None | Some("") => None,
            Some(text) => Some(text.to_owned()),
        };
        let (requests, counted) = match pod_requests(&self.resources()) {
            Ok(requests) => (requests, Ok(())),
            Err(overflow) => (ResourceList::default(), Err(overflow)),
        };
        let shape = Shape {
            requests,
            node_selector: self.node_selector.read(),
            tolerations: self.tolerations.map(Words::unread),
            affinity: self.affinity.map(Words::unread),
            spread: self.topology_spread_constraints.map(Words::unread),
            labels: meta.map(Meta::owned_labels).unwrap_or_default(),
            priority_class: non_empty(&self.priority_class_name),
            scheduler_name: non_empty(&self.scheduler_name),
            gated: !self.scheduling_gates.read().is_empty(),
            ..Shape::default()
        };
        (shape, counted)
    }

    /// Whether its pods are for Windows.
    pub(crate) fn is_windows(&self) -> bool {
        &*self.os.read().name == "windows"
    }

    /// The parts that count for the pod's requests.
    fn resources(&self) -> PodResources<'_> {
        PodResources {
            containers: Cow::Owned(self.containers.read().0),
            init_containers: Cow::Owned(self.init_containers.read().0),
            overhead: Cow::Owned(self.overhead.read()),
            resources: self.resources.read().map(Cow::Owned),
        }
    }

    /// Whether everything that is read later can be; the spec stands at `at`.
    pub(crate) fn check(&self, at: &FieldPath) -> Result<(), FieldError> {
        self.scheduling_gates.check(at, "schedulingGates")?;
        self.node_selector.check(at, "nodeSelector")?;
        self.containers.check(at, "containers")?;
        self.init_containers.check(at, "initContainers")?;
        self.overhead.check(at, "overhead")?;
        self.resources.check(at, "resources")?;
        self.volumes.check(at, "volumes")
    }
}

fn parse<T: DeserializeOwned>(raw: Option<&RawValue>) -> Option<T> {
    serde_json::from_str(raw?.get()).ok()
}
