//! Which workloads name which others in their bundles, to find the partners of a workload, and to look at
//! a workload again when one changes that it names. Empty where no bundle reaches over several workloads.

use std::collections::{BTreeSet, HashMap};

use futures::channel::mpsc;
use kube::core::ApiResource;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher::{self, Event};

use crate::controller::bundles::partners::{self, Partner};
use crate::controller::cache::stored::Stored;
use crate::controller::decide::Seen;
use crate::controller::watched_kind::api_resource;
use crate::gang::WorkloadRef;
use crate::scheduler::Snapshot;
use crate::workload::{Object, SeenPod, Workload, keys};

type Several = BTreeSet<WorkloadRef>;

#[derive(Debug, Default)]
struct PartnerIndex {
    by_namer: HashMap<WorkloadRef, Several>,
    by_named: HashMap<WorkloadRef, Several>,
}

impl PartnerIndex {
    /// Notes whom a workload names, and returns those that name it.
    fn changed(&mut self, workload: &Stored) -> Vec<WorkloadRef> {
        let itself = reference(workload);
        self.forget(&itself);
        if let Some(text) = workload.annotation(keys::BUNDLE_WITH) {
            let names = text.split(',').map(str::trim);
            let others = names.filter_map(|name| WorkloadRef::parse(name, itself.namespace()));
            self.note(itself.clone(), others.collect());
        }
        self.namers(&itself)
    }

    /// The same for a workload that is gone.
    fn gone(&mut self, workload: &Stored) -> Vec<WorkloadRef> {
        let itself = reference(workload);
        self.forget(&itself);
        self.namers(&itself)
    }

    fn note(&mut self, namer: WorkloadRef, others: Several) {
        for other in &others {
            let namers = self.by_named.entry(other.clone()).or_default();
            namers.insert(namer.clone());
        }
        self.by_namer.insert(namer, others);
    }

    fn forget(&mut self, namer: &WorkloadRef) {
        for other in self.by_namer.remove(namer).unwrap_or_default() {
            if let Some(namers) = self.by_named.get_mut(&other) {
                namers.remove(namer);
                if namers.is_empty() {
                    self.by_named.remove(&other);
                }
            }
        }
    }

    fn namers(&self, named: &WorkloadRef) -> Vec<WorkloadRef> {
        let namers = self.by_named.get(named);
        namers.into_iter().flatten().cloned().collect()
    }
}

fn reference(workload: &Stored) -> WorkloadRef {
    WorkloadRef::new(workload.namespace(), workload.name())
}

/// When a workload changes, those that name it are looked at too.
pub fn tell_partners(
    sender: mpsc::UnboundedSender<ObjectRef<Stored>>,
    kind: ApiResource,
) -> impl FnMut(&watcher::Result<Event<Stored>>) {
    let mut index = PartnerIndex::default();
    move |event| {
        let told = match event {
            Ok(Event::Apply(workload) | Event::InitApply(workload)) => index.changed(workload),
            Ok(Event::Delete(workload)) => index.gone(workload),
            // A list shows all that exist, and each is looked at. What it does not show is gone.
            Ok(Event::Init) => {
                index = PartnerIndex::default();
                Vec::new()
            }
            Ok(Event::InitDone) | Err(_) => Vec::new(),
        };
        for workload in told {
            // Fails only while the reconciler stops.
            let _ = sender.unbounded_send(object_ref(&workload, &kind));
        }
    }
}

/// The workloads that one names, as the cache shows them; `members` finds the pods of one.
pub fn look_up(
    workload: &dyn Workload,
    namespace: &str,
    known: &Store<Stored>,
    members: impl Fn(&Stored) -> Vec<SeenPod>,
    cluster: &Snapshot,
) -> Vec<Partner> {
    let facts = workload.facts();
    let from = partners::itself(workload.meta(), namespace);
    let circle = partners::circle(workload.meta(), namespace);
    let others = circle.iter().filter(|other| **other != from);
    let look = |other: &WorkloadRef| {
        let found = known.get(&object_ref(other, &api_resource(facts)));
        let pods = found.as_deref().map_or_else(Vec::new, &members);
        let object = found
            .as_deref()
            .map(|found| Object::read(facts.kind, found.text()));
        let seen = object
            .as_ref()
            .and_then(Object::workload)
            .map(|workload| Seen {
                workload,
                namespace: other.namespace(),
                pods: &pods,
                made: &[],
                partners: &[],
            });
        let kind = facts.kind.name;
        partners::look(kind, other.clone(), &from, &circle, seen.as_ref(), cluster)
    };
    others.map(look).collect()
}

fn object_ref(workload: &WorkloadRef, kind: &ApiResource) -> ObjectRef<Stored> {
    ObjectRef::new_with(workload.name(), kind.clone()).within(workload.namespace())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::controller::write::resource;

    fn workload(namespace: &str, name: &str, with: &str) -> Stored {
        let mut workload = json!({"metadata": {"namespace": namespace, "name": name}});
        if !with.is_empty() {
            workload["metadata"]["annotations"] = json!({keys::BUNDLE_WITH: with});
        }
        serde_json::from_value(workload).unwrap()
    }

    fn names(namers: &[WorkloadRef]) -> Vec<String> {
        namers.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_change_is_looked_at_by_all_that_name_the_workload_and_by_no_other() {
        let mut namers = PartnerIndex::default();
        namers.changed(&workload("ml", "a", "b, web/c"));
        namers.changed(&workload("web", "d", "ml/b"));
        let b = workload("ml", "b", "");
        assert_eq!(names(&namers.changed(&b)), ["ml/a", "web/d"]);
        assert_eq!(names(&namers.gone(&b)), ["ml/a", "web/d"]);
        assert!(namers.changed(&workload("ml", "c", "")).is_empty());
        // Recreated with another partner.
        namers.changed(&workload("ml", "a", "web/c"));
        namers.gone(&workload("web", "d", "ml/b"));
        assert!(namers.changed(&b).is_empty());
        namers.gone(&workload("ml", "a", "web/c"));
        assert!(namers.by_named.is_empty() && namers.by_namer.is_empty());
    }

    #[test]
    fn a_list_drops_who_is_gone() {
        let (sender, mut told) = mpsc::unbounded();
        let mut watch = tell_partners(sender, resource("", "v1", "Workload"));
        watch(&Ok(Event::Init));
        watch(&Ok(Event::InitApply(workload("ml", "a", "b"))));
        watch(&Ok(Event::InitDone));
        watch(&Ok(Event::Apply(workload("ml", "b", ""))));
        assert_eq!(told.try_recv().unwrap().name, "a");
        watch(&Ok(Event::Init));
        watch(&Ok(Event::InitApply(workload("ml", "b", ""))));
        watch(&Ok(Event::InitDone));
        assert!(told.try_recv().is_err());
    }
}
