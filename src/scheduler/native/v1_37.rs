//! Kubernetes 1.37, `scheduling.k8s.io/v1beta1`: as 1.36 with other words, and a gang is preempted
//! as a whole.

use kube::core::DynamicObject;
use serde_json::json;

use crate::gang::{Gang, Member, Owner, Plan, SchedulerKind};
use crate::scheduler::abilities::{Abilities, QuorumChange};
use crate::scheduler::object::{Scope, object};
use crate::scheduler::{Marks, NativeLink, Scheduler};

use super::{ABILITIES, gang_policy, plan_identity, workload_name, workload_spec};

pub struct Native;

static V1_37: Abilities = Abilities {
    // minCount is the one field of a PodGroup that may change.
    quorum_change: QuorumChange::Live,
    ..ABILITIES
};

const API: &str = "scheduling.k8s.io/v1beta1";

/// The link of 1.36 and later.
pub fn scheduling_group(member: &Member) -> Marks {
    Marks {
        native: Some(NativeLink::SchedulingGroup {
            pod_group_name: member.name().to_string(),
        }),
        ..Marks::default()
    }
}

impl Scheduler for Native {
    fn kind(&self) -> SchedulerKind {
        SchedulerKind::Native
    }

    fn abilities(&self) -> &'static Abilities {
        &V1_37
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
        let mut objects: Vec<DynamicObject> = spec
            .map(|spec| object((API, "Workload"), workload.clone(), owner, start, spec))
            .into_iter()
            .collect();
        objects.extend(gangs.iter().map(|gang| {
            let mut spec = json!({
                "schedulingPolicy": gang_policy(gang.quorum()),
                // The default is to preempt single pods: half a gang would go on burning money.
                "disruptionMode": {"all": {}},
            });
            if described {
                spec["workloadRef"] = json!({
                    "workloadName": workload.as_str(),
                    "templateName": gang.part.name().as_str(),
                });
            }
            // Must resolve to the pods' own priority, or nothing is ever scheduled.
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
