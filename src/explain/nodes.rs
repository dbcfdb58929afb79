//! Which nodes are out of the question for a pod: by selector, affinity, taint or cordon. As
//! kube-scheduler decides it; knows neither what nodes have left nor other pods.

use std::collections::BTreeMap;

use crate::gang::ask::{Ask, NodeTerm, Toleration};
use crate::gang::resources::ResourceList;
use crate::gang::selector::Expression;

/// A node, as far as placing needs it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeRoom {
    pub(crate) allocatable: ResourceList,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) taints: Vec<Taint>,
    pub(crate) cordoned: bool,
}

/// A taint of a node that keeps pods away.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct Taint {
    pub(crate) key: String,
    pub(crate) value: String,
    pub(crate) effect: String,
}

/// Why a node is out of the question for a pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exclusion {
    /// Its node selector or affinity.
    Selector,
    /// A taint that it does not tolerate.
    Taint(String),
    /// The node takes no pods.
    Cordoned,
}

/// What excludes a node, if anything does.
pub(super) fn exclusion(ask: &Ask, name: &str, node: &NodeRoom) -> Option<Exclusion> {
    let selected = ask
        .node_selector
        .iter()
        .all(|(key, value)| node.labels.get(key) == Some(value));
    let terms = &ask.terms;
    let affine = terms.is_empty() || terms.iter().any(|term| holds(term, name, node));
    if !selected || !affine {
        return Some(Exclusion::Selector);
    }
    let keeps_away = |taint: &&Taint| taint.effect != "PreferNoSchedule";
    let mut taints = node.taints.iter().filter(keeps_away);
    // Cordoning a node taints it too, a moment later.
    let cordon = "node.kubernetes.io/unschedulable";
    let tolerated = |taint: &Taint| ask.tolerations.iter().any(|t| tolerates(t, taint));
    let cordoning = Taint {
        key: cordon.to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    };
    if node.cordoned && !tolerated(&cordoning) {
        return Some(Exclusion::Cordoned);
    }
    let taint = taints.find(|taint| !tolerated(taint))?;
    Some(Exclusion::Taint(match taint.value.as_str() {
        "" => taint.key.clone(),
        value => format!("{}={value}", taint.key),
    }))
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let effect = toleration.effect.is_empty() || toleration.effect == taint.effect;
    let key = toleration.key.is_empty() || toleration.key == taint.key;
    let value = match toleration.operator.as_str() {
        "Exists" => true,
        _ => toleration.value == taint.value && !toleration.key.is_empty(),
    };
    effect && key && value
}

fn holds(term: &NodeTerm, name: &str, node: &NodeRoom) -> bool {
    let label = |e: &Expression| node.labels.get(&e.key).map(String::as_str);
    let empty = term.match_expressions.is_empty() && term.match_fields.is_empty();
    let labels = term.match_expressions.iter().all(|e| matches(e, label(e)));
    let fields = term.match_fields.iter().all(|e| matches(e, Some(name)));
    !empty && labels && fields
}

/// One that is not known yet excludes nothing here: the scheduler says what it does.
fn matches(expression: &Expression, value: Option<&str>) -> bool {
    expression.holds(value).unwrap_or(true)
}
