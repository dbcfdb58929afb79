//! Kubernetes 1.37 with CompositePodGroups (`scheduling.k8s.io/v1alpha3`, alpha): as 1.37, and
//! bundles.
//!
//! A composite counts the gangs below it. Its API is served only with the apiserver's gate; that
//! the scheduler has its own cannot be seen.

use std::collections::{BTreeSet, HashMap};

use kube::core::DynamicObject;
use serde_json::{Value, json};

use crate::gang::Shape;
use crate::gang::{FieldError, Gang, GangName, Identity, Member, Owner, Part, Plan};
use crate::scheduler::abilities::{Abilities, Bundles};
use crate::scheduler::object::{Scope, object};
use crate::scheduler::pod_group::{self, Group};
use crate::scheduler::{Entry, LinkSite, Marks, Scheduler, Snapshot};

use super::v1_37::{self, V1_37};
use super::{ENTRY, MAX_TEMPLATES, described, gang_policy, plan_identity, workload_name};

pub(crate) struct Native;

static COMPOSITES: Abilities = Abilities {
    bundle: Bundles::WithinWorkloadIf(
        "kube-scheduler runs with the feature gate CompositePodGroup too, which Muster cannot see",
    ),
    ..V1_37
};

pub(crate) const API: &str = "scheduling.k8s.io/v1alpha3";

impl Scheduler for Native {
    fn entry(&self) -> &'static Entry {
        &ENTRY
    }

    fn abilities(&self) -> &'static Abilities {
        &COMPOSITES
    }

    fn check(&self, plan: &Plan) -> Vec<FieldError> {
        let mut classes: HashMap<&str, BTreeSet<Option<&str>>> = HashMap::new();
        for part in &plan.parts {
            if let Some(bundle) = part.bundle() {
                let classes = classes.entry(bundle.value.as_str()).or_default();
                classes.insert(part.priority_class());
            }
        }
        let differs = |part: &&Part| {
            let bundle = part.bundle().map(|bundle| bundle.value.as_str());
            bundle.is_some_and(|bundle| classes.get(bundle).is_some_and(|all| all.len() > 1))
        };
        let bundles = plan.parts.iter().filter(differs);
        bundles
            .filter_map(|part| part.bundle())
            .map(|bundle| {
                let detail = "all pods of a native bundle must have one priority class: the \
                              bundle is scheduled as one";
                FieldError::invalid(bundle.at.clone(), bundle.value.as_str(), detail)
            })
            .collect()
    }

    fn link(&self, member: &Member, pod: &dyn Fn() -> Shape) -> Marks {
        v1_37::Native.link(member, pod)
    }

    fn link_site(&self, cluster: &Snapshot) -> LinkSite {
        v1_37::Native.link_site(cluster)
    }

    fn lost_link(&self) -> &'static str {
        v1_37::Native.lost_link()
    }

    fn suspect(&self) -> &'static str {
        "look whether kube-scheduler runs with the feature gates GenericWorkload, TopologyAwareWorkloadScheduling \
         and CompositePodGroup"
    }

    fn reason(&self, object: &DynamicObject) -> Option<String> {
        v1_37::Native.reason(object)
    }

    fn objects(&self, owner: &Owner, plan: &Plan, gangs: &[Gang<'_>]) -> Vec<DynamicObject> {
        let groups = pod_group::groups(gangs);
        let bundled = groups.iter().any(Group::is_bundle);
        let Some(identity) = plan_identity(gangs).filter(|_| bundled) else {
            return v1_37::Native.objects(owner, plan, gangs);
        };
        let workload = workload_name(identity, 0);
        let mut objects = Vec::new();
        if let Some(spec) = description(owner, plan, &groups) {
            let kind = (v1_37::API, "Workload");
            let start = Scope::Start(identity);
            objects.push(object(kind, workload.clone(), owner, start, spec));
        }
        for group in &groups {
            if let Some(bundle) = group.bundle() {
                objects.push(composite(owner, identity, group, &workload, bundle));
            }
            for gang in &group.gangs {
                let mut object = v1_37::pod_group(owner, gang, None);
                if group.is_bundle() {
                    let spec = &mut object.data["spec"];
                    spec["parentCompositePodGroupName"] = json!(group.name.as_str());
                    // Required below a composite, and not checked for existence.
                    spec["workloadRef"] = v1_37::workload_ref(&workload, gang);
                }
                objects.push(object);
            }
        }
        objects
    }
}

fn composite(
    owner: &Owner,
    identity: &Identity,
    group: &Group<'_, '_>,
    workload: &GangName,
    bundle: &str,
) -> DynamicObject {
    let mut spec = json!({
        "schedulingPolicy": policy(group),
        "disruptionMode": {"all": {}},
        "workloadRef": {"workloadName": workload.as_str(), "templateName": bundle},
    });
    if let Some(class) = group.priority_class() {
        spec["priorityClassName"] = json!(class);
    }
    let kind = (API, "CompositePodGroup");
    object(
        kind,
        group.name.clone(),
        owner,
        Scope::Start(identity),
        spec,
    )
}

fn policy(group: &Group<'_, '_>) -> Value {
    json!({"gang": {"minGroupCount": group.gangs.len()}})
}

/// The Workload that describes the bundles. A Workload has composite templates or plain ones, not
/// both, at most eight, each with a name of its own: a plan that does not fit goes without.
fn description(owner: &Owner, plan: &Plan, groups: &[Group<'_, '_>]) -> Option<Value> {
    let mut names: Vec<&str> = plan.parts.iter().map(|part| part.name().as_str()).collect();
    let mut templates = Vec::new();
    for group in groups {
        let bundle = group.bundle()?;
        names.push(bundle);
        let parts = plan.parts.iter();
        let parts = parts.filter(|p| p.bundle().is_some_and(|b| b.value.as_str() == bundle));
        let parts: Vec<Value> = parts
            .map(|part| {
                let policy = gang_policy(part.quorum());
                json!({"name": part.name().as_str(), "schedulingPolicy": policy})
            })
            .collect();
        templates.push(json!({
            "name": bundle,
            "schedulingPolicy": policy(group),
            "podGroupTemplates": parts,
        }));
    }
    let unique: BTreeSet<&str> = names.iter().copied().collect();
    let fits = plan.parts.len() <= MAX_TEMPLATES && unique.len() == names.len();
    fits.then(|| described(owner, "compositePodGroupTemplates", templates))
}
