//! What one pod asks of the node that it waits for. Read from the pod itself: webhooks, Kueue and
//! defaults may have added to what its template says. Knows no workload, no scheduler and no node.

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::apart::{AntiAffinity, Apart, Labelled};
use super::resources::{Container, PodResources, Requirements, ResourceList, pod_requests};
use super::selector::Expression;

/// More than this of anything is not read: whoever writes a pod could fill the memory with it.
const MOST: usize = 64;
/// The longest name or value that is kept.
const LONGEST: usize = 317;
/// Of what is said of a pod.
const LONGEST_WORDS: usize = 2_048;

/// What a pod asks of a node. Pods of one template share it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ask {
    pub(crate) requests: ResourceList,
    pub(crate) node_selector: BTreeMap<String, String>,
    /// Required node affinity: one of these must hold; none means any node.
    pub(crate) terms: Vec<NodeTerm>,
    pub(crate) tolerations: Vec<Toleration>,
    /// Where no two such pods may be together.
    pub(crate) apart: Vec<Apart>,
    /// The claims of volumes that it mounts.
    pub(crate) claims: Vec<String>,
    pub(crate) scheduler: String,
    pub(crate) priority: i32,
    pub(crate) preemption: PreemptionPolicy,
}

/// Whether a pod may take the room of pods of lower priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PreemptionPolicy {
    /// As Kubernetes does by default.
    #[default]
    Lower,
    /// Its `preemptionPolicy` says so.
    Never,
}

/// What a scheduler says of a pod that it has not placed: the `PodScheduled` condition.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Unscheduled {
    /// The reason of the condition.
    pub reason: String,
    /// Its message.
    pub message: String,
}

impl Unscheduled {
    /// As much of it as is kept: a pod's status is written by whoever may.
    pub(crate) fn new(reason: Option<String>, message: Option<String>) -> Self {
        let cut = |text: Option<String>| {
            let mut text = text.unwrap_or_default();
            let mut end = text.len().min(LONGEST_WORDS);
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.truncate(end);
            text
        };
        Self {
            reason: cut(reason),
            message: cut(message),
        }
    }
}

/// One term of required node affinity: all of it must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct NodeTerm {
    pub(crate) match_expressions: Vec<Expression>,
    pub(crate) match_fields: Vec<Expression>,
}

/// A toleration, as it stands in the pod.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Toleration {
    pub(crate) key: String,
    pub(crate) operator: String,
    pub(crate) value: String,
    pub(crate) effect: String,
}

/// A pod's spec, as far as an [`Ask`] is read from it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AskingSpec {
    /// The node that it is on.
    pub node_name: Option<String>,
    pub(crate) scheduler_name: Option<String>,
    pub(crate) priority: Option<i32>,
    preemption_policy: Option<String>,
    #[serde(skip_serializing)]
    scheduling_group: Option<IgnoredAny>,
    #[serde(skip_serializing)]
    workload_ref: Option<IgnoredAny>,
    #[serde(skip_serializing)]
    containers: Vec<AskingContainer>,
    #[serde(skip_serializing)]
    init_containers: Vec<AskingContainer>,
    #[serde(skip_serializing)]
    overhead: ResourceList,
    #[serde(skip_serializing)]
    resources: Option<Requirements>,
    node_selector: Option<BTreeMap<String, String>>,
    affinity: Option<Affinity>,
    tolerations: Option<Vec<Toleration>>,
    #[serde(skip_serializing)]
    volumes: Option<Vec<Volume>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct AskingContainer {
    restart_policy: Option<String>,
    resources: Option<Requirements>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Affinity {
    node_affinity: Option<NodeAffinity>,
    pod_anti_affinity: Option<AntiAffinity>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct NodeAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: Option<NodeTerms>,
}

/// `nodeSelectorTerms`, of a pod or of a volume.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct NodeTerms {
    pub(crate) node_selector_terms: Vec<NodeTerm>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Volume {
    persistent_volume_claim: Option<Claim>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Claim {
    claim_name: String,
}

impl AskingSpec {
    /// Whether it has a field that may hold a link to a gang.
    pub(crate) fn has_field(&self, name: &str) -> bool {
        match name {
            "schedulingGroup" => self.scheduling_group.is_some(),
            "workloadRef" => self.workload_ref.is_some(),
            _ => false,
        }
    }

    /// What the pod takes of a node, if that can be counted.
    pub(crate) fn requests(&self) -> Option<ResourceList> {
        let containers = |list: &[AskingContainer]| -> Vec<Container<'static>> {
            let one = |container: &AskingContainer| Container {
                name: "".into(),
                restart_policy: container.restart_policy.clone().map(Into::into),
                resources: container.resources.clone(),
            };
            list.iter().map(one).collect()
        };
        let pod = PodResources {
            containers: containers(&self.containers).into(),
            init_containers: containers(&self.init_containers).into(),
            overhead: std::borrow::Cow::Borrowed(&self.overhead),
            resources: self.resources.as_ref().map(std::borrow::Cow::Borrowed),
        };
        pod_requests(&pod).ok()
    }

    /// What it asks; nothing where that is more than anybody needs to write.
    pub(crate) fn ask(&self, pod: Labelled<'_>) -> Option<Ask> {
        let affinity = self.affinity.as_ref();
        let required = affinity.and_then(|affinity| {
            let affinity = affinity.node_affinity.as_ref()?;
            affinity.required.as_ref()
        });
        let apart = affinity.and_then(|affinity| affinity.pod_anti_affinity.as_ref());
        let volumes = self.volumes.iter().flatten();
        let claims = volumes.filter_map(|volume| volume.persistent_volume_claim.as_ref());
        let ask = Ask {
            requests: self.requests()?,
            node_selector: self.node_selector.clone().unwrap_or_default(),
            terms: required
                .map(|required| required.node_selector_terms.clone())
                .unwrap_or_default(),
            tolerations: self.tolerations.clone().unwrap_or_default(),
            apart: apart.map(|apart| apart.of(pod)).unwrap_or_default(),
            claims: claims.map(|claim| claim.claim_name.clone()).collect(),
            scheduler: self.scheduler_name.clone().unwrap_or_default(),
            priority: self.priority.unwrap_or_default(),
            preemption: match self.preemption_policy.as_deref() {
                Some("Never") => PreemptionPolicy::Never,
                _ => PreemptionPolicy::Lower,
            },
        };
        ask.is_bounded().then_some(ask)
    }
}

impl Ask {
    fn is_bounded(&self) -> bool {
        let expressions = || {
            let terms = self.terms.iter();
            terms.flat_map(|term| term.match_expressions.iter().chain(&term.match_fields))
        };
        let values = || expressions().flat_map(|expression| &expression.values);
        let apart = || self.apart.iter().flat_map(Apart::texts);
        let tolerations = self.tolerations.iter();
        let mut texts = self
            .node_selector
            .iter()
            .flat_map(|(key, value)| [key, value])
            .chain(expressions().map(|expression| &expression.key))
            .chain(values())
            .chain(tolerations.flat_map(|t| [&t.key, &t.operator, &t.value, &t.effect]))
            .chain(apart())
            .chain(&self.claims)
            .chain([&self.scheduler])
            .map(String::as_str)
            .chain(self.requests.iter().map(|(resource, _)| resource));
        let counts = [
            self.requests.iter().count(),
            self.node_selector.len(),
            self.terms.len(),
            expressions().count(),
            values().count(),
            self.tolerations.len(),
            apart().count(),
            self.claims.len(),
        ];
        counts.into_iter().all(|count| count <= MOST) && texts.all(|text| text.len() <= LONGEST)
    }
}

/// The last few asks, so that the pods of one template share theirs.
#[derive(Debug, Default)]
pub(crate) struct Asks(Mutex<VecDeque<Arc<Ask>>>);

impl Asks {
    const KEPT: usize = 16;

    pub(crate) fn share(&self, ask: Ask) -> Arc<Ask> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(same) = last.iter().find(|other| ***other == ask) {
            return Arc::clone(same);
        }
        let ask = Arc::new(ask);
        last.push_front(Arc::clone(&ask));
        last.truncate(Self::KEPT);
        ask
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ask(spec: serde_json::Value) -> Option<Ask> {
        let spec: AskingSpec = serde_json::from_value(spec).unwrap();
        spec.ask(Labelled {
            namespace: "ml",
            labels: None,
        })
    }

    #[test]
    fn a_pod_is_read_as_far_as_a_node_matters() {
        let ask = ask(json!({
            "schedulerName": "batch",
            "containers": [{"name": "main", "resources": {"limits": {"cpu": "2"}}}],
            "nodeSelector": {"pool": "a100"},
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [
                    {"key": "zone", "operator": "In", "values": ["a", "b"]}]}]}}},
            "tolerations": [{"key": "gpu", "operator": "Exists"}],
            "volumes": [{"name": "x", "emptyDir": {}},
                {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        }))
        .unwrap();
        assert_eq!(ask.requests.get("cpu").unwrap().to_string(), "2");
        assert_eq!(ask.terms[0].match_expressions[0].values, ["a", "b"]);
        assert_eq!(
            (&ask.claims[..], &*ask.scheduler),
            (&["data".to_owned()][..], "batch")
        );
        let asks = Asks::default();
        let first = asks.share(ask.clone());
        assert!(Arc::ptr_eq(&first, &asks.share(ask)));
    }

    #[test]
    fn what_would_fill_the_memory_is_not_kept() {
        let many: BTreeMap<String, String> = (0..100)
            .map(|number| (number.to_string(), "x".to_owned()))
            .collect();
        assert_eq!(ask(json!({"containers": [], "nodeSelector": many})), None);
        let long = "x".repeat(1000);
        assert_eq!(ask(json!({"nodeSelector": {"a": long}})), None);
    }
}
