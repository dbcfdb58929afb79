//! Pod templates, as far as a plan reads them: a link that is there already, and the pods' shape.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::gang::link::{LinkKey, LinkPlace};
use crate::gang::resources::{Container, PodResources, Requirements, ResourceList};
use crate::gang::resources::{containers, pod_requests};
use crate::gang::{FieldError, FieldPath, Shape};
use crate::scheduler;

use super::view::{Given, Meta, Text, or_default};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodTemplate<'a> {
    #[serde(borrow)]
    pub metadata: Option<Meta<'a>>,
    #[serde(borrow)]
    pub spec: Given<PodSpec<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec<'a> {
    #[serde(borrow)]
    pub scheduler_name: Option<Text<'a>>,
    #[serde(borrow)]
    pub priority_class_name: Option<Text<'a>>,
    #[serde(borrow)]
    pub scheduling_group: Option<&'a RawValue>,
    #[serde(borrow)]
    pub workload_ref: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "or_default")]
    pub scheduling_gates: Vec<&'a RawValue>,
    #[serde(deserialize_with = "or_default")]
    pub node_selector: BTreeMap<String, String>,
    #[serde(borrow)]
    pub tolerations: Option<&'a RawValue>,
    #[serde(borrow)]
    pub affinity: Option<&'a RawValue>,
    #[serde(borrow)]
    pub topology_spread_constraints: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "containers")]
    pub containers: Vec<Container<'a>>,
    #[serde(borrow, deserialize_with = "containers")]
    pub init_containers: Vec<Container<'a>>,
    #[serde(deserialize_with = "or_default")]
    pub overhead: ResourceList,
    pub resources: Option<Requirements>,
    #[serde(borrow, deserialize_with = "or_default")]
    pub volumes: Vec<Volume<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Volume<'a> {
    #[serde(borrow)]
    pub name: Text<'a>,
}

/// A link that the user wrote into a pod template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExistingLink {
    pub link: LinkKey,
    pub value: String,
    pub at: FieldPath,
}

impl PodTemplate<'_> {
    /// A link to a gang that is already in the template at `at`, its value, and where.
    pub fn existing_link(&self, at: &FieldPath) -> Option<ExistingLink> {
        let meta = self.metadata.as_ref();
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
                    let field = match link.key {
                        "schedulingGroup" => self.spec.scheduling_group?,
                        _ => self.spec.workload_ref?,
                    };
                    (field.get().to_owned(), at.child("spec").child(link.key))
                }
            };
            Some(ExistingLink { link, value, at })
        })
    }

    /// The shape of its pods, whose spec stands at `at`.
    pub fn shape(&self, at: &FieldPath, errors: &mut Vec<FieldError>) -> Shape {
        let requests = pod_requests(&self.spec.resources()).unwrap_or_else(|_| {
            errors.push(FieldError::forbidden(
                at.clone(),
                "the pod's resource requests add up to more than a quantity can hold",
            ));
            Default::default()
        });
        let labels = self.metadata.as_ref().map(Meta::owned_labels);
        Shape {
            labels: labels.unwrap_or_default(),
            ..self.spec.shape(requests)
        }
    }
}

pub fn parse<T: DeserializeOwned>(raw: Option<&RawValue>) -> Option<T> {
    serde_json::from_str(raw?.get()).ok()
}

impl PodSpec<'_> {
    /// What its pods have in common; `requests` are what [`Self::resources`] add up to.
    pub fn shape(&self, requests: ResourceList) -> Shape {
        let non_empty = |text: &Option<Text<'_>>| match text.as_deref() {
            None | Some("") => None,
            Some(text) => Some(text.to_owned()),
        };
        Shape {
            requests,
            node_selector: self.node_selector.clone(),
            tolerations: parse(self.tolerations),
            affinity: parse(self.affinity),
            spread: parse(self.topology_spread_constraints),
            priority_class: non_empty(&self.priority_class_name),
            scheduler_name: non_empty(&self.scheduler_name),
            gated: !self.scheduling_gates.is_empty(),
            ..Shape::default()
        }
    }

    /// The parts that count for the pod's requests.
    pub fn resources(&self) -> PodResources<'_> {
        PodResources {
            containers: Cow::Borrowed(&self.containers),
            init_containers: Cow::Borrowed(&self.init_containers),
            overhead: Cow::Borrowed(&self.overhead),
            resources: self.resources.as_ref().map(Cow::Borrowed),
        }
    }
}
