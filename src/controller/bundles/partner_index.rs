//! Which JobSets name which others in their bundles, to find the partners of a JobSet, and to look at
//! a JobSet again when one changes that it names. Empty where no bundle reaches over several JobSets.

use std::collections::{BTreeSet, HashMap};

use futures::channel::mpsc;
use kube::core::ApiResource;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher::{self, Event};

use crate::admission::object::{self, Kind, Object};
use crate::controller::bundles::partners::{self, Partner};
use crate::controller::cache::stored::Stored;
use crate::controller::decide::{Seen, Workload};
use crate::controller::kinds::Workloads;
use crate::controller::observe::SeenPod;
use crate::gang::WorkloadRef;
use crate::scheduler::Snapshot;
use crate::workload::keys;
use crate::workload::view::Meta;

type Several = BTreeSet<WorkloadRef>;

#[derive(Debug, Default)]
struct PartnerIndex {
    by_namer: HashMap<WorkloadRef, Several>,
    by_named: HashMap<WorkloadRef, Several>,
}

impl PartnerIndex {
    /// Notes whom a JobSet names, and returns those that name it.
    fn changed(&mut self, jobset: &Stored) -> Vec<WorkloadRef> {
        let itself = reference(jobset);
        self.forget(&itself);
        if let Some(text) = jobset.annotation(keys::BUNDLE_WITH) {
            let names = text.split(',').map(str::trim);
            let others = names.filter_map(|name| WorkloadRef::parse(name, itself.namespace()));
            self.note(itself.clone(), others.collect());
        }
        self.namers(&itself)
    }

    /// The same for a JobSet that is gone.
    fn gone(&mut self, jobset: &Stored) -> Vec<WorkloadRef> {
        let itself = reference(jobset);
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

fn reference(jobset: &Stored) -> WorkloadRef {
    WorkloadRef::new(jobset.namespace(), jobset.name())
}

/// When a JobSet changes, those that name it are looked at too.
pub fn tell_partners(
    sender: mpsc::UnboundedSender<ObjectRef<Stored>>,
    kind: ApiResource,
) -> impl FnMut(&watcher::Result<Event<Stored>>) {
    let mut index = PartnerIndex::default();
    move |event| {
        let told = match event {
            Ok(Event::Apply(jobset) | Event::InitApply(jobset)) => index.changed(jobset),
            Ok(Event::Delete(jobset)) => index.gone(jobset),
            // A list shows all that exist, and each is looked at. What it does not show is gone.
            Ok(Event::Init) => {
                index = PartnerIndex::default();
                Vec::new()
            }
            Ok(Event::InitDone) | Err(_) => Vec::new(),
        };
        for jobset in told {
            // Fails only while the reconciler stops.
            let _ = sender.unbounded_send(object_ref(&jobset, &kind));
        }
    }
}

/// The JobSets that one names, as the cache shows them; `members` finds the pods of a JobSet.
pub fn look_up(
    meta: &Meta<'_>,
    namespace: &str,
    jobsets: &Store<Stored>,
    members: impl Fn(&Stored) -> Vec<SeenPod>,
    cluster: &Snapshot,
) -> Vec<Partner> {
    let from = partners::itself(meta, namespace);
    let circle = partners::circle(meta, namespace);
    let others = circle.iter().filter(|jobset| **jobset != from);
    let kind = Workloads::JobSets.resource();
    let look = |jobset: &WorkloadRef| {
        let found = jobsets.get(&object_ref(jobset, &kind));
        let pods = found.as_deref().map_or_else(Vec::new, &members);
        let text = found.as_deref().map(Stored::text);
        let view = match text.map(|text| object::read(Kind::JobSet, text)) {
            Some(Ok(Object::JobSet(view))) => Some(view),
            _ => None,
        };
        let seen = view.as_ref().map(|view| Seen {
            workload: Workload::JobSet(view),
            namespace: jobset.namespace(),
            pods: &pods,
            made: &[],
            partners: &[],
        });
        partners::look(jobset.clone(), &from, &circle, seen.as_ref(), cluster)
    };
    others.map(look).collect()
}

fn object_ref(jobset: &WorkloadRef, kind: &ApiResource) -> ObjectRef<Stored> {
    ObjectRef::new_with(jobset.name(), kind.clone()).within(jobset.namespace())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn jobset(namespace: &str, name: &str, with: &str) -> Stored {
        let mut jobset = json!({"metadata": {"namespace": namespace, "name": name}});
        if !with.is_empty() {
            jobset["metadata"]["annotations"] = json!({keys::BUNDLE_WITH: with});
        }
        serde_json::from_value(jobset).unwrap()
    }

    fn names(namers: &[WorkloadRef]) -> Vec<String> {
        namers.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_change_is_looked_at_by_all_that_name_the_jobset_and_by_no_other() {
        let mut namers = PartnerIndex::default();
        namers.changed(&jobset("ml", "a", "b, web/c"));
        namers.changed(&jobset("web", "d", "ml/b"));
        let b = jobset("ml", "b", "");
        assert_eq!(names(&namers.changed(&b)), ["ml/a", "web/d"]);
        assert_eq!(names(&namers.gone(&b)), ["ml/a", "web/d"]);
        assert!(namers.changed(&jobset("ml", "c", "")).is_empty());
        // Recreated with another partner.
        namers.changed(&jobset("ml", "a", "web/c"));
        namers.gone(&jobset("web", "d", "ml/b"));
        assert!(namers.changed(&b).is_empty());
        namers.gone(&jobset("ml", "a", "web/c"));
        assert!(namers.by_named.is_empty() && namers.by_namer.is_empty());
    }

    #[test]
    fn a_list_drops_who_is_gone() {
        let (sender, mut told) = mpsc::unbounded();
        let mut watch = tell_partners(sender, Workloads::JobSets.resource());
        watch(&Ok(Event::Init));
        watch(&Ok(Event::InitApply(jobset("ml", "a", "b"))));
        watch(&Ok(Event::InitDone));
        watch(&Ok(Event::Apply(jobset("ml", "b", ""))));
        assert_eq!(told.try_recv().unwrap().name, "a");
        watch(&Ok(Event::Init));
        watch(&Ok(Event::InitApply(jobset("ml", "b", ""))));
        watch(&Ok(Event::InitDone));
        assert!(told.try_recv().is_err());
    }
}
