//! Which pods keep away from their own kind: required anti-affinity whose selector matches the pod that
//! has it. Pods of one template then share no node, or no zone. Knows no node.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::selector::Selector;

/// `podAntiAffinity`, as far as it must hold.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct AntiAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: Vec<Term>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Term {
    topology_key: String,
    label_selector: Option<Selector>,
    namespaces: Vec<String>,
    namespace_selector: Option<Selector>,
    match_label_keys: Vec<String>,
    mismatch_label_keys: Vec<String>,
}

/// Who a pod is to others that keep away from it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Labelled<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) labels: Option<&'a BTreeMap<String, String>>,
}

/// No two pods that the selector matches and that have this may be on nodes with the same value of a
/// label. The selector is kept so that only pods of which that is known count as one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Apart {
    /// The label of nodes.
    pub(crate) key: String,
    selector: Selector,
}

impl Apart {
    /// All that is kept of it.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &String> {
        self.selector.texts().chain([&self.key])
    }
}

impl AntiAffinity {
    /// From what such pods keep away that is of their own kind.
    pub(crate) fn of(&self, pod: Labelled<'_>) -> Vec<Apart> {
        let own = self.required.iter().filter_map(|term| {
            let selector = term.label_selector.as_ref().filter(|_| term.selects(pod))?;
            Some(Apart {
                key: term.topology_key.clone(),
                selector: selector.clone(),
            })
        });
        own.collect()
    }
}

impl Term {
    fn selects(&self, pod: Labelled<'_>) -> bool {
        // With such keys each pod has a selector of its own.
        if !self.match_label_keys.is_empty() || !self.mismatch_label_keys.is_empty() {
            return false;
        }
        // Without either it is the pod's own namespace. What a selector of namespaces selects is not
        // known here, but for the empty one, which selects all.
        let here = match &self.namespace_selector {
            None => self.namespaces.is_empty(),
            Some(selector) => selector.is_empty(),
        };
        let here = here || self.namespaces.iter().any(|name| name == pod.namespace);
        // None selects no pod.
        let selector = self.label_selector.as_ref();
        here && selector.is_some_and(|selector| selector.matches(pod.labels))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn keys(term: Value) -> Vec<String> {
        let mut term = term;
        term["topologyKey"] = json!("zone");
        let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
        let affinity: AntiAffinity = serde_json::from_value(required).unwrap();
        let labels = BTreeMap::from([("app".to_owned(), "train".to_owned())]);
        let own = affinity.of(Labelled {
            namespace: "ml",
            labels: Some(&labels),
        });
        own.into_iter().map(|apart| apart.key).collect()
    }

    #[test]
    fn a_pod_keeps_away_from_its_own_kind_where_its_selector_matches_itself() {
        let app = |value: &str| json!({"labelSelector": {"matchLabels": {"app": value}}});
        assert_eq!(keys(app("train")), ["zone"]);
        assert!(keys(app("other")).is_empty());
        assert!(keys(json!({})).is_empty(), "no selector selects no pod");
        assert_eq!(
            keys(json!({"labelSelector": {}})),
            ["zone"],
            "the empty one all"
        );
        let mut each = app("train");
        each["matchLabelKeys"] = json!(["index"]);
        assert!(keys(each).is_empty(), "pods of other indexes are no kin");
        let by = |operator: &str, key: &str| {
            json!({"labelSelector": {"matchExpressions": [
                {"key": key, "operator": operator, "values": ["train"]}]}})
        };
        assert_eq!(keys(by("In", "app")), ["zone"]);
        assert!(keys(by("NotIn", "app")).is_empty());
        assert_eq!(keys(by("NotIn", "role")), ["zone"]);
        assert_eq!(keys(by("Exists", "app")), ["zone"]);
        assert!(keys(by("DoesNotExist", "app")).is_empty());
        assert!(
            keys(by("Likes", "app")).is_empty(),
            "what is not known is not counted"
        );
    }

    #[test]
    fn pods_of_other_namespaces_are_no_kin() {
        let of = |namespaces: Value| {
            let mut term = namespaces;
            term["labelSelector"] = json!({});
            keys(term)
        };
        assert_eq!(of(json!({"namespaces": ["ml"]})), ["zone"]);
        assert!(of(json!({"namespaces": ["web"]})).is_empty());
        assert_eq!(of(json!({"namespaceSelector": {}})), ["zone"]);
        let some = json!({"namespaceSelector": {"matchLabels": {"team": "ml"}}});
        assert!(
            of(some.clone()).is_empty(),
            "whether it selects ml is not known"
        );
        let mut both = some;
        both["namespaces"] = json!(["ml"]);
        assert_eq!(of(both), ["zone"]);
    }
}
