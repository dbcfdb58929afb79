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
use crate::workload::{Kind, Life, Object, SeenPod, Unasked, Workload, keys, object};

type Several = BTreeSet<WorkloadRef>;

#[derive(Debug)]
struct PartnerIndex {
    /// The kind of all its workloads.
    kind: Option<&'static Kind>,
    by_namer: HashMap<WorkloadRef, Several>,
    by_named: HashMap<WorkloadRef, Several>,
}

impl PartnerIndex {
    fn new(kind: Option<&'static Kind>) -> Self {
        Self {
            kind,
            by_namer: HashMap::new(),
            by_named: HashMap::new(),
        }
    }

    /// Notes whom a workload names, and returns those that name it.
    fn changed(&mut self, workload: &Stored) -> Vec<WorkloadRef> {
        let itself = reference(workload);
        self.forget(&itself);
        let others = self.named_by(workload);
        if !others.is_empty() {
            self.note(itself.clone(), others);
        }
        self.namers(&itself)
    }

    /// Whom a workload names: nobody, where admission leaves it alone or would refuse what it says.
    fn named_by(&self, workload: &Stored) -> Several {
        let kind = self
            .kind
            .filter(|_| workload.annotation(keys::BUNDLE_WITH).is_some());
        let Some(object) = kind.map(|kind| Object::read(kind, workload.text())) else {
            return Several::new();
        };
        let bundles = object.workload().filter(|w| w.life() != Life::LeftAlone);
        let reading = bundles.map(|workload| workload.read(Unasked::NoGang));
        let plan = reading
            .filter(|reading| reading.errors.is_empty())
            .map(|r| r.plan);
        let with = plan.and_then(|plan| plan.policy.bundle_with);
        with.into_iter().flat_map(|with| with.value).collect()
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
    let read = object::kind_of(&kind.group, &kind.kind);
    let mut index = PartnerIndex::new(read);
    move |event| {
        let told = match event {
            Ok(Event::Apply(workload) | Event::InitApply(workload)) => index.changed(workload),
            Ok(Event::Delete(workload)) => index.gone(workload),
            // A list shows all that exist, and each is looked at. What it does not show is gone.
            Ok(Event::Init) => {
                index = PartnerIndex::new(read);
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
    members: impl Fn(&Stored, &dyn Workload) -> Vec<SeenPod>,
    cluster: &Snapshot,
) -> Vec<Partner> {
    let facts = workload.facts();
    let from = partners::itself(workload.meta(), namespace);
    let circle = partners::circle(workload.meta(), namespace);
    let others = circle.iter().filter(|other| **other != from);
    let look = |other: &WorkloadRef| {
        let found = known.get(&object_ref(other, &api_resource(facts)));
        let object = found
            .as_deref()
            .map(|found| Object::read(facts.kind, found.text()));
        let workload = object.as_ref().and_then(Object::workload);
        let both = found.as_deref().zip(workload);
        let pods = both.map_or_else(Vec::new, |(found, workload)| members(found, workload));
        let seen = workload.map(|workload| Seen {
            workload,
            namespace: other.namespace(),
            pods: &pods,
            strangers: &[],
            made: &[],
            partners: &[],
            owner: None,
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
        serde_json::from_value(jobset(namespace, name, with)).unwrap()
    }

    fn jobset(namespace: &str, name: &str, with: &str) -> serde_json::Value {
        let mut workload = json!({
            "metadata": {"namespace": namespace, "name": name},
            "spec": {"replicatedJobs": [{"name": "workers"}]},
        });
        if !with.is_empty() {
            workload["metadata"]["annotations"] = json!({
                keys::GANG_MODE: "Gang",
                keys::BUNDLE: "ring",
                keys::BUNDLE_WITH: with,
            });
        }
        workload
    }

    fn index() -> PartnerIndex {
        PartnerIndex::new(Some(&crate::workload::jobset::KIND))
    }

    #[test]
    fn what_admission_leaves_alone_or_refuses_is_not_indexed() {
        let names = |count: usize| {
            let names: Vec<String> = (0..count).map(|i| format!("other-{i}")).collect();
            names.join(",")
        };
        let indexed = |workload: serde_json::Value| {
            let mut index = index();
            index.changed(&serde_json::from_value(workload).unwrap());
            index.by_named.len()
        };
        assert_eq!(indexed(jobset("ml", "a", &names(16))), 16);
        assert_eq!(indexed(jobset("ml", "a", &names(17))), 0);
        assert_eq!(indexed(jobset("ml", "a", "b,No Name")), 0);
        let mut foreign = jobset("ml", "a", &names(16));
        foreign["spec"]["managedBy"] = json!("kueue.x-k8s.io/multikueue");
        assert_eq!(indexed(foreign), 0);
        let mut without_gang = jobset("ml", "a", &names(16));
        without_gang["metadata"]["annotations"][keys::GANG_MODE] = json!("Gnag");
        assert_eq!(indexed(without_gang), 0);
    }

    fn names(namers: &[WorkloadRef]) -> Vec<String> {
        namers.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_change_is_looked_at_by_all_that_name_the_workload_and_by_no_other() {
        let mut namers = index();
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
        let mut watch = tell_partners(sender, resource("jobset.x-k8s.io", "v1alpha2", "JobSet"));
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
