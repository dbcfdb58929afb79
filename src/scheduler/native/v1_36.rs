//! Kubernetes 1.36, `scheduling.k8s.io/v1alpha2`: a Workload and one PodGroup per gang.

use kube::core::DynamicObject;
use serde_json::json;

use crate::gang::{Gang, Member, Owner, Plan, SchedulerKind};
use crate::scheduler::abilities::Abilities;
use crate::scheduler::object::{Scope, object};
use crate::scheduler::{Marks, Scheduler};

use super::v1_37::scheduling_group;
use super::{ABILITIES, gang_policy, plan_identity, workload_name, workload_spec};

pub struct Native;

static V1_36: Abilities = ABILITIES;

const API: &str = "scheduling.k8s.io/v1alpha2";

impl Scheduler for Native {
    fn kind(&self) -> SchedulerKind {
        SchedulerKind::Native
    }

    fn abilities(&self) -> &'static Abilities {
        &V1_36
    }

    fn link(&self, member: &Member) -> Marks {
        scheduling_group(member)
    }

    fn objects(&self, owner: &Owner, plan: &Plan, gangs: &[Gang<'_>]) -> Vec<DynamicObject> {
        let Some(identity) = plan_identity(gangs) else {
            return Vec::new();
        };
        let start = Scope::Start(identity);
        let workload = workload_name(identity, 0);
        let spec = workload_spec(owner, plan);
        let described = spec.is_some();
        // The Workload comes first: 1.36 refuses a PodGroup whose Workload does not exist.
        let mut objects: Vec<DynamicObject> = spec
            .map(|spec| object((API, "Workload"), workload.clone(), owner, start, spec))
            .into_iter()
            .collect();
        objects.extend(gangs.iter().map(|gang| {
            let mut spec = json!({"schedulingPolicy": gang_policy(gang.quorum())});
            if described {
                spec["podGroupTemplateRef"] = json!({"workload": {
                    "workloadName": workload.as_str(),
                    "podGroupTemplateName": gang.part.name().as_str(),
                }});
            }
            // Kept only with the gate WorkloadAwarePreemption; dropped silently without.
            if let Some(class) = gang.part.priority_class() {
                spec["priorityClassName"] = json!(class);
            }
            object(
                (API, "PodGroup"),
                gang.name(),
                owner,
                Scope::Gang(&gang.identity),
                spec,
            )
        }));
        objects
    }
}
