//! Which workloads name which others in their bundles, to find the partners of a workload, and to look at
//! a workload again when one changes that it names. Empty where no bundle reaches over several workloads.

use std::collections::{BTreeSet, HashMap};

use crate::controller::cache::stored::Stored;
use crate::gang::{PartnerRef, WorkloadRef};
use crate::workload::{Kind, Life, Object, Unasked, keys};

type Several = BTreeSet<PartnerRef>;

#[derive(Debug, Default)]
pub(super) struct PartnerIndex {
    by_namer: HashMap<PartnerRef, Several>,
    by_named: HashMap<PartnerRef, Several>,
}

impl PartnerIndex {
    /// Notes whom a workload of a kind names, and returns those that name it.
    pub(super) fn changed(&mut self, kind: &'static Kind, workload: &Stored) -> Vec<PartnerRef> {
        let itself = reference(kind, workload);
        self.forget(&itself);
        let others = Self::named_by(kind, workload);
        if !others.is_empty() {
            self.note(itself.clone(), others);
        }
        self.namers(&itself)
    }

    /// Whom a workload names: nobody, where admission leaves it alone or would refuse what it says.
    fn named_by(kind: &'static Kind, workload: &Stored) -> Several {
        if workload.annotation(keys::BUNDLE_WITH).is_none() {
            return Several::new();
        }
        let object = Object::read(kind, workload.text());
        let bundles = object.workload().filter(|w| w.life() != Life::LeftAlone);
        let reading = bundles.map(|workload| workload.read(Unasked::NoGang));
        let plan = reading
            .filter(|reading| reading.errors.is_empty())
            .map(|r| r.plan);
        let with = plan.and_then(|plan| plan.policy.bundle_with);
        let others = with.iter().flat_map(|with| with.value.others());
        others.cloned().collect()
    }

    /// The same for a workload that is gone.
    pub(super) fn gone(&mut self, kind: &'static Kind, workload: &Stored) -> Vec<PartnerRef> {
        let itself = reference(kind, workload);
        self.forget(&itself);
        self.namers(&itself)
    }

    /// Forgets whom the workloads of a kind name.
    pub(super) fn forget_kind(&mut self, kind: &Kind) {
        let all = self.by_namer.keys();
        let of_kind = all.filter(|namer| namer.kind() == kind.name);
        for namer in of_kind.cloned().collect::<Vec<_>>() {
            self.forget(&namer);
        }
    }

    fn note(&mut self, namer: PartnerRef, others: Several) {
        for other in &others {
            let namers = self.by_named.entry(other.clone()).or_default();
            namers.insert(namer.clone());
        }
        self.by_namer.insert(namer, others);
    }

    fn forget(&mut self, namer: &PartnerRef) {
        for other in self.by_namer.remove(namer).unwrap_or_default() {
            if let Some(namers) = self.by_named.get_mut(&other) {
                namers.remove(namer);
                if namers.is_empty() {
                    self.by_named.remove(&other);
                }
            }
        }
    }

    fn namers(&self, named: &PartnerRef) -> Vec<PartnerRef> {
        let namers = self.by_named.get(named);
        namers.into_iter().flatten().cloned().collect()
    }
}

fn reference(kind: &'static Kind, workload: &Stored) -> PartnerRef {
    let workload = WorkloadRef::new(workload.namespace(), workload.name());
    PartnerRef::new(kind.name, workload)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
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

    const KIND: &Kind = &crate::workload::jobset::KIND;

    #[test]
    fn what_admission_leaves_alone_or_refuses_is_not_indexed() {
        let names = |count: usize| {
            let names: Vec<String> = (0..count).map(|i| format!("other-{i}")).collect();
            names.join(",")
        };
        let indexed = |workload: serde_json::Value| {
            let mut index = PartnerIndex::default();
            index.changed(KIND, &serde_json::from_value(workload).unwrap());
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

    fn names(namers: &[PartnerRef]) -> Vec<String> {
        namers.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_change_is_looked_at_by_all_that_name_the_workload_and_by_no_other() {
        let mut namers = PartnerIndex::default();
        namers.changed(KIND, &workload("ml", "a", "b, web/c"));
        namers.changed(KIND, &workload("web", "d", "ml/b"));
        let b = workload("ml", "b", "");
        assert_eq!(
            names(&namers.changed(KIND, &b)),
            ["JobSet ml/a", "JobSet web/d"]
        );
        assert_eq!(
            names(&namers.gone(KIND, &b)),
            ["JobSet ml/a", "JobSet web/d"]
        );
        assert!(namers.changed(KIND, &workload("ml", "c", "")).is_empty());
        // Recreated with another partner.
        namers.changed(KIND, &workload("ml", "a", "web/c"));
        namers.gone(KIND, &workload("web", "d", "ml/b"));
        assert!(namers.changed(KIND, &b).is_empty());
        namers.gone(KIND, &workload("ml", "a", "web/c"));
        assert!(namers.by_named.is_empty() && namers.by_namer.is_empty());
    }

    #[test]
    fn a_list_of_one_kind_drops_who_is_gone_of_that_kind_alone() {
        let job = &crate::workload::job::KIND;
        let mut namers = PartnerIndex::default();
        namers.changed(KIND, &workload("ml", "a", "b"));
        let naming = json!({
            "metadata": {"namespace": "ml", "name": "a", "annotations": {
                keys::GANG_MODE: "Gang", keys::BUNDLE: "ring", keys::BUNDLE_WITH: "JobSet:b",
            }},
            "spec": {"template": {"spec": {}}},
        });
        namers.changed(job, &serde_json::from_value(naming).unwrap());
        let b = workload("ml", "b", "");
        assert_eq!(
            names(&namers.changed(KIND, &b)),
            ["Job ml/a", "JobSet ml/a"]
        );
        namers.forget_kind(KIND);
        assert_eq!(names(&namers.changed(KIND, &b)), ["Job ml/a"]);
    }
}
