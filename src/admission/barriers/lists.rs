//! The containers and volumes of a pod spec, by name: looked for, put in and taken out by a patch.

use serde_json::Value;

use crate::admission::patch::PatchBuilder;
use crate::workload::Site;

/// A list of a pod spec whose items have names.
pub(super) struct List {
    field: &'static str,
    /// As they will be once the patch is applied; none where there is no list.
    items: Option<Vec<Value>>,
}

impl List {
    pub(super) fn new(field: &'static str, items: Option<Vec<Value>>) -> Self {
        Self { field, items }
    }

    pub(super) fn containers(site: &Site<'_>) -> Self {
        let items = site.pods.and_then(|pods| pods.spec.init_containers.items());
        Self::new("initContainers", items)
    }

    pub(super) fn volumes(site: &Site<'_>) -> Self {
        let items = site.pods.and_then(|pods| pods.spec.volumes.items());
        Self::new("volumes", items)
    }

    pub(super) fn position(&self, name: &str) -> Option<usize> {
        let mut items = self.items.iter().flatten();
        items.position(|item| item["name"] == name)
    }

    pub(super) fn named(&self, name: &str) -> Option<&Value> {
        self.items.as_ref()?.get(self.position(name)?)
    }

    /// Puts an item at the end, or in the place of the one of its name that says something else.
    pub(super) fn put(&mut self, patch: &mut PatchBuilder, site: &Site<'_>, item: Value) {
        let mut path = [&site.tokens()[..], &["spec", self.field]].concat();
        let name = item["name"].as_str().unwrap_or_default();
        match (self.position(name), &mut self.items) {
            (Some(at), Some(items)) if covers(&items[at], &item) => {}
            (Some(at), Some(items)) => {
                let token = at.to_string();
                path.push(&token);
                // What is set at a position of a list is put before what stands there.
                patch.remove(&path);
                patch.set(path, item.clone());
                items[at] = item;
            }
            (None, Some(items)) => {
                path.push("-");
                patch.set(path, item.clone());
                items.push(item);
            }
            (_, None) => {
                patch.set(path, Value::Array(vec![item.clone()]));
                self.items = Some(vec![item]);
            }
        }
    }

    /// Puts an item at the end, and takes away the one of its name that stands elsewhere or says something
    /// else.
    pub(super) fn put_last(&mut self, patch: &mut PatchBuilder, site: &Site<'_>, item: Value) {
        let name = item["name"].as_str().unwrap_or_default();
        let last = self.items.as_ref().map_or(0, Vec::len).saturating_sub(1);
        if let (Some(at), Some(items)) = (self.position(name), &mut self.items)
            && at != last
        {
            let token = at.to_string();
            patch.remove(&[&site.tokens()[..], &["spec", self.field, &token]].concat());
            items.remove(at);
        }
        self.put(patch, site, item);
    }

    /// Takes items out; from the last to the first, so that positions hold.
    pub(super) fn drop(&self, patch: &mut PatchBuilder, site: &Site<'_>, names: &[&str]) {
        let base = site.tokens();
        let items = self.items.iter().flatten().enumerate();
        let named = items.filter(|(_, item)| names.iter().any(|name| item["name"] == *name));
        let positions: Vec<String> = named.map(|(at, _)| at.to_string()).collect();
        for at in positions.iter().rev() {
            patch.remove(&[&base[..], &["spec", self.field, at]].concat());
        }
    }
}

/// Whether a value says all that is wanted. Kubernetes fills in more than was written.
pub(super) fn covers(is: &Value, wanted: &Value) -> bool {
    match (is, wanted) {
        (Value::Object(is), Value::Object(wanted)) => {
            let mut wanted = wanted.iter();
            wanted.all(|(key, value)| is.get(key).is_some_and(|is| covers(is, value)))
        }
        (Value::Array(is), Value::Array(wanted)) => {
            is.len() == wanted.len() && is.iter().zip(wanted).all(|(is, item)| covers(is, item))
        }
        _ => is == wanted,
    }
}
