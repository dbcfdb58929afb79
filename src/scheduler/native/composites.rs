//! Kubernetes 1.37 with CompositePodGroups (`scheduling.k8s.io/v1alpha3`, alpha): as 1.37, and
//! bundles.
//!
//! A composite counts the gangs below it. Its API is served only with the apiserver's gate; that
//! the scheduler has its own cannot be seen.

use std::collections::BTreeMap;

use kube::core::DynamicObject;
use serde_json::{Value, json};

use crate::gang::{Gang, GangName, Identity, Member, Owner, Part, Plan, SchedulerKind};
use crate::scheduler::abilities::{Abilities, Bundles};
use crate::scheduler::object::{Scope, object};
use crate::scheduler::{LinkSite, Marks, Scheduler, Snapshot};

use super::v1_37::{self, V1_37};
use super::{MAX_TEMPLATES, controller_ref, gang_policy, plan_identity, workload_name};

pub struct Native;

static COMPOSITES: Abilities = Abilities {
    bundle: Bundles::WithinWorkload,
    ..V1_37
};

const API: &str = "scheduling.k8s.io/v1alpha3";

impl Scheduler for Native {
    fn kind(&self) -> SchedulerKind {
        SchedulerKind::Native
    }

    fn abilities(&self) -> &'static Abilities {
        &COMPOSITES
    }

    fn link(&self, member: &Member) -> Marks {
        v1_37::Native.link(member)
    }

    fn link_site(&self, cluster: &Snapshot) -> LinkSite {
        v1_37::Native.link_site(cluster)
    }

    fn lost_link(&self) -> &'static str {
        v1_37::Native.lost_link()
    }

    fn objects(&self, owner: &Owner, plan: &Plan, gangs: &[Gang<'_>]) -> Vec<DynamicObject> {
        let bundles = bundles(gangs);
        let Some(identity) = plan_identity(gangs).filter(|_| !bundles.is_empty()) else {
            return v1_37::Native.objects(owner, plan, gangs);
        };
        let workload = workload_name(identity, 0);
        let composites = bundles.iter().map(|(name, gangs)| {
            let mut spec = json!({
                "schedulingPolicy": {"gang": {"minGroupCount": gangs.len()}},
                "disruptionMode": {"all": {}},
                "workloadRef": {"workloadName": workload.as_str(), "templateName": name},
            });
            if let Some(class) = priority_class(gangs) {
                spec["priorityClassName"] = json!(class);
            }
            let scope = Scope::Start(identity);
            let name = composite(identity, name);
            object((API, "CompositePodGroup"), name, owner, scope, spec)
        });
        let groups = gangs.iter().map(|gang| {
            let mut group = v1_37::pod_group(owner, gang, None);
            if let Some(bundle) = bundle(gang.part) {
                let spec = &mut group.data["spec"];
                spec["parentCompositePodGroupName"] = json!(composite(identity, bundle).as_str());
                // Required below a composite, and not checked for existence.
                spec["workloadRef"] = v1_37::workload_ref(&workload, gang);
            }
            group
        });
        let described = description(owner, plan, &bundles);
        let start = Scope::Start(identity);
        let described = described.map(|spec| {
            object(
                (v1_37::API, "Workload"),
                workload.clone(),
                owner,
                start,
                spec,
            )
        });
        described
            .into_iter()
            .chain(composites)
            .chain(groups)
            .collect()
    }
}

fn bundle(part: &Part) -> Option<&str> {
    part.bundle().map(|bundle| bundle.value.as_str())
}

fn bundles<'g>(gangs: &'g [Gang<'g>]) -> BTreeMap<&'g str, Vec<&'g Gang<'g>>> {
    let mut bundles: BTreeMap<&str, Vec<&Gang<'_>>> = BTreeMap::new();
    for gang in gangs {
        if let Some(name) = bundle(gang.part) {
            bundles.entry(name).or_default().push(gang);
        }
    }
    bundles
}

fn composite(identity: &Identity, bundle: &str) -> GangName {
    identity.shared_name("bundle", bundle)
}

fn priority_class<'g>(gangs: &[&'g Gang<'g>]) -> Option<&'g str> {
    let first = gangs.first()?.part.priority_class()?;
    let equal = gangs.iter().all(|g| g.part.priority_class() == Some(first));
    equal.then_some(first)
}

/// The Workload that describes the bundles. A Workload has composite templates or plain ones, not
/// both, at most eight, each with a name of its own: a plan that does not fit goes without.
fn description(
    owner: &Owner,
    plan: &Plan,
    bundles: &BTreeMap<&str, Vec<&Gang<'_>>>,
) -> Option<Value> {
    let bundled = plan.parts.iter().all(|part| bundle(part).is_some());
    let clash = plan
        .parts
        .iter()
        .any(|p| bundles.contains_key(p.name().as_str()));
    if !bundled || clash || bundles.len() > MAX_TEMPLATES || plan.parts.len() > MAX_TEMPLATES {
        return None;
    }
    let templates: Vec<Value> = bundles
        .iter()
        .map(|(name, gangs)| {
            let parts = plan.parts.iter().filter(|p| bundle(p) == Some(*name));
            let parts: Vec<Value> = parts
                .map(|part| {
                    let policy = gang_policy(part.quorum());
                    json!({"name": part.name().as_str(), "schedulingPolicy": policy})
                })
                .collect();
            json!({
                "name": name,
                "schedulingPolicy": {"gang": {"minGroupCount": gangs.len()}},
                "podGroupTemplates": parts,
            })
        })
        .collect();
    Some(json!({"controllerRef": controller_ref(owner), "compositePodGroupTemplates": templates}))
}
