//! Which JobSets name which: to look the partners of one up, and to look at those that name one
//! when it changes. Empty, and so cheap, where no bundle reaches over several JobSets.

use std::collections::{BTreeSet, HashMap};

use futures::channel::mpsc;
use kube::core::DynamicObject;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher;

use crate::admission::object::{self, Kind, Object};
use crate::controller::bundles::partners::{self, Partner};
use crate::controller::decide::{Seen, Workload};
use crate::controller::observe::SeenPod;
use crate::controller::write::resource;
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
    /// Takes down whom a JobSet names, and returns those that name it.
    fn changed(&mut self, jobset: &DynamicObject) -> Vec<WorkloadRef> {
        let itself = reference(jobset);
        self.forget(&itself);
        let annotations = jobset.metadata.annotations.as_ref();
        if let Some(text) = annotations.and_then(|a| a.get(keys::BUNDLE_WITH)) {
            let names = text.split(',').map(str::trim);
            let others = names.filter_map(|name| WorkloadRef::parse(name, itself.namespace()));
            self.note(itself.clone(), others.collect());
        }
        self.namers(&itself)
    }

    /// The same for a JobSet that is gone.
    fn gone(&mut self, jobset: &DynamicObject) -> Vec<WorkloadRef> {
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

fn reference(jobset: &DynamicObject) -> WorkloadRef {
    let meta = &jobset.metadata;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    WorkloadRef::new(&text(&meta.namespace), &text(&meta.name))
}

/// When a JobSet changes, those that name it are looked at too.
pub fn tell_namers(
    sender: mpsc::UnboundedSender<ObjectRef<DynamicObject>>,
) -> impl FnMut(&watcher::Result<watcher::Event<DynamicObject>>) {
    let mut namers = PartnerIndex::default();
    move |event| {
        let told = match event {
            Ok(watcher::Event::Apply(jobset) | watcher::Event::InitApply(jobset)) => {
                namers.changed(jobset)
            }
            Ok(watcher::Event::Delete(jobset)) => namers.gone(jobset),
            Ok(watcher::Event::Init | watcher::Event::InitDone) | Err(_) => Vec::new(),
        };
        for jobset in told {
            // Fails only when the reconciler is going.
            let _ = sender.unbounded_send(object_ref(&jobset));
        }
    }
}

/// The JobSets that one names, as the cache shows them; `members` finds the pods of a JobSet.
pub fn look_up(
    meta: &Meta<'_>,
    namespace: &str,
    jobsets: &Store<DynamicObject>,
    members: impl Fn(&DynamicObject) -> Vec<SeenPod>,
    cluster: &Snapshot,
) -> Vec<Partner> {
    let from = partners::itself(meta, namespace);
    let circle = partners::circle(meta, namespace);
    let others = circle.iter().filter(|jobset| **jobset != from);
    let look = |jobset: &WorkloadRef| {
        let namespace = jobset.namespace();
        let found = jobsets.get(&object_ref(jobset));
        let pods = found.as_deref().map_or_else(Vec::new, &members);
        let json = found.and_then(|found| serde_json::to_string(&*found).ok());
        let view = match json.as_deref().map(|json| object::read(Kind::JobSet, json)) {
            Some(Ok(Object::JobSet(view))) => Some(view),
            _ => None,
        };
        let seen = view.as_ref().map(|view| Seen {
            workload: Workload::JobSet(view),
            namespace,
            pods: &pods,
            made: &[],
            partners: &[],
        });
        partners::look(jobset.clone(), &from, &circle, seen.as_ref(), cluster)
    };
    others.map(look).collect()
}

fn object_ref(jobset: &WorkloadRef) -> ObjectRef<DynamicObject> {
    let kind = resource("jobset.x-k8s.io", "v1alpha2", "JobSet");
    ObjectRef::new_with(jobset.name(), kind).within(jobset.namespace())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jobset(namespace: &str, name: &str, with: &str) -> DynamicObject {
        let kind = resource("jobset.x-k8s.io", "v1alpha2", "JobSet");
        let mut jobset = DynamicObject::new(name, &kind).within(namespace);
        let entry = (keys::BUNDLE_WITH.to_owned(), with.to_owned());
        jobset.metadata.annotations = (!with.is_empty()).then(|| [entry].into());
        jobset
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
}
