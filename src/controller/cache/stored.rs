//! A workload as its watch keeps it: the few fields of its metadata that are asked for often, and all
//! of it as JSON text, from which a look reads the view that admission reads too.

use std::borrow::Cow;

use kube::Resource;
use kube::core::{ApiResource, DynamicResourceScope, ObjectMeta};
use serde::de::{Deserialize, Deserializer, Error as _};
use serde_json::{Value, json};

use crate::workload::keys;

/// The annotations that are kept apart from the text.
const OURS: &str = "muster.dev/";

#[derive(Debug, Clone)]
pub(crate) struct Stored {
    /// Name, namespace, uid, resourceVersion, times, and Muster's own annotations.
    pub metadata: ObjectMeta,
    text: Box<str>,
}

impl Stored {
    /// What stands for a workload that is no object. It needs a name, and nothing else can be wrong.
    pub(crate) fn new(object: &Value) -> Self {
        let metadata = ObjectMeta::deserialize(&object["metadata"]).unwrap_or_default();
        Self {
            metadata,
            text: object.to_string().into_boxed_str(),
        }
    }

    /// The whole object, without what no look reads; of one that cannot ask for a gang only its
    /// metadata.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    pub(crate) fn namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or_default()
    }

    pub(crate) fn uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }

    pub(crate) fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata
            .annotations
            .as_ref()?
            .get(key)
            .map(String::as_str)
    }

    /// Why it has failed, where it has: the kinds that end say it in a condition of this type.
    pub(crate) fn failure(&self) -> Option<String> {
        let failed = self.condition("Failed");
        let failed = failed.filter(|failed| failed["status"] == "True")?;
        let said = |field: &str| failed[field].as_str().filter(|text| !text.is_empty());
        let said: Vec<&str> = ["reason", "message"].into_iter().filter_map(said).collect();
        Some(said.join(": "))
    }

    /// A condition of its status.
    pub(crate) fn condition(&self, kind: &str) -> Option<Value> {
        #[derive(serde::Deserialize)]
        struct View {
            status: Option<Status>,
        }
        #[derive(serde::Deserialize)]
        struct Status {
            conditions: Option<Vec<Value>>,
        }
        let view: View = serde_json::from_str(&self.text).ok()?;
        let mut conditions = view.status?.conditions?.into_iter();
        conditions.find(|condition| condition["type"] == kind)
    }
}

impl<'de> Deserialize<'de> for Stored {
    /// Not as raw text: kube reads the items of a list through a buffer.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut object = Value::deserialize(deserializer)?;
        strip(&mut object);
        let read = ObjectMeta::deserialize(&object["metadata"]).map_err(D::Error::custom)?;
        let mut annotations = read.annotations.unwrap_or_default();
        annotations.retain(|key, _| key.starts_with(OURS));
        let metadata = ObjectMeta {
            name: read.name,
            namespace: read.namespace,
            uid: read.uid,
            resource_version: read.resource_version,
            creation_timestamp: read.creation_timestamp,
            deletion_timestamp: read.deletion_timestamp,
            annotations: (!annotations.is_empty()).then_some(annotations),
            ..ObjectMeta::default()
        };
        let text = object.to_string();
        let text = match keys::may_ask(&text) {
            true => text,
            // Of the others there may be many, and none is looked at twice.
            false => json!({"metadata": metadata}).to_string(),
        };
        let text = text.into_boxed_str();
        Ok(Self { metadata, text })
    }
}

/// Drops what is large and never read.
fn strip(object: &mut Value) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    metadata.remove("managedFields");
    let annotations = metadata.get_mut("annotations");
    if let Some(annotations) = annotations.and_then(Value::as_object_mut) {
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    }
}

impl Resource for Stored {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(kind: &ApiResource) -> Cow<'_, str> {
        kind.kind.as_str().into()
    }

    fn group(kind: &ApiResource) -> Cow<'_, str> {
        kind.group.as_str().into()
    }

    fn version(kind: &ApiResource) -> Cow<'_, str> {
        kind.version.as_str().into()
    }

    fn plural(kind: &ApiResource) -> Cow<'_, str> {
        kind.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use kube::core::{ObjectList, WatchEvent};

    use super::*;

    fn workload() -> Value {
        json!({
            "metadata": {"name": "train", "namespace": "ml", "uid": "4d1c", "resourceVersion": "7",
                "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"team": "a"},
                "managedFields": [{"manager": "kubectl", "operation": "Apply"}],
                "annotations": {"muster.dev/gang-mode": "Gang", "note": "x",
                    "kubectl.kubernetes.io/last-applied-configuration": "{}"}},
            "spec": {"replicatedJobs": [{"name": "a", "replicas": 2}]},
            "status": {"restarts": 1, "conditions": [{"type": "Ready", "status": "True"}]},
        })
    }

    #[test]
    fn a_workload_that_has_failed_says_why() {
        let why = |status: &str, message: &str| {
            let own = json!({
                "type": "Failed",
                "status": status,
                "reason": "BackoffLimitExceeded",
                "message": message,
            });
            let other = json!({"type": "Complete", "status": "True"});
            Stored::new(&json!({
                "metadata": {"name": "train"},
                "status": {"conditions": [other, own]},
            }))
            .failure()
        };
        let both = why("True", "too often");
        assert_eq!(both.as_deref(), Some("BackoffLimitExceeded: too often"));
        assert_eq!(why("True", "").as_deref(), Some("BackoffLimitExceeded"));
        assert_eq!(why("False", ""), None);
    }

    #[test]
    fn a_workload_arrives_from_a_list_and_from_a_watch_without_what_is_never_read() {
        let list =
            json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": [workload()]});
        let list: ObjectList<Stored> = serde_json::from_str(&list.to_string()).unwrap();
        let event = json!({"type": "ADDED", "object": workload()});
        let event: WatchEvent<Stored> = serde_json::from_str(&event.to_string()).unwrap();
        let WatchEvent::Added(watched) = event else {
            panic!("{event:?}");
        };
        for stored in [&list.items[0], &watched] {
            assert_eq!(
                (stored.namespace(), stored.name(), stored.uid()),
                ("ml", "train", "4d1c")
            );
            assert_eq!(stored.metadata.resource_version.as_deref(), Some("7"));
            assert!(stored.metadata.creation_timestamp.is_some());
            assert_eq!(stored.annotation("muster.dev/gang-mode"), Some("Gang"));
            assert_eq!(stored.metadata.labels, None);
            let mut expected = workload();
            strip(&mut expected);
            let text: Value = serde_json::from_str(stored.text()).unwrap();
            assert_eq!(text, expected);
            assert!(text["metadata"].get("managedFields").is_none());
            assert_eq!(
                text["metadata"]["annotations"],
                json!({"muster.dev/gang-mode": "Gang", "note": "x"})
            );
        }
    }

    #[test]
    fn of_a_workload_without_a_gang_nothing_large_is_kept() {
        let mut plain = workload();
        plain["metadata"]["annotations"] = json!({"note": "x"});
        plain["spec"]["args"] = json!("x".repeat(1 << 20));
        let stored: Stored = serde_json::from_value(plain.clone()).unwrap();
        assert_eq!((stored.name(), stored.uid()), ("train", "4d1c"));
        assert!(stored.text().len() < 1000, "{}", stored.text().len());
        plain["spec"]["gangConfig"] = json!({"gangMode": "Gang"});
        let stored: Stored = serde_json::from_value(plain).unwrap();
        assert!(stored.text().len() > 1 << 20);
    }

    #[test]
    fn a_condition_is_found_by_its_type() {
        let stored: Stored = serde_json::from_value(workload()).unwrap();
        assert_eq!(stored.condition("Ready").unwrap()["status"], "True");
        assert_eq!(stored.condition("Failed"), None);
        let bare: Stored = serde_json::from_value(json!({"metadata": {"name": "a"}})).unwrap();
        assert_eq!(bare.condition("Ready"), None);
    }
}
