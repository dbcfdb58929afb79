//! Kubernetes 1.36, `scheduling.k8s.io/v1alpha2`: a Workload and one PodGroup per gang.

use kube::core::DynamicObject;
use serde_json::json;

use crate::gang::{Gang, Member, Owner, Plan, Shape};
use crate::scheduler::abilities::Abilities;
use crate::scheduler::{Entry, LinkSite, Marks, Scheduler, Snapshot};

use super::v1_37::scheduling_group;
use super::{ABILITIES, ENTRY, LOST_LINK, gang_policy, link_site, pod_group, pod_groups, reason};

pub(crate) struct Native;

static V1_36: Abilities = Abilities {
    made_for: "Kubernetes 1.36.3",
    ..ABILITIES
};

const API: &str = "scheduling.k8s.io/v1alpha2";

impl Scheduler for Native {
    fn entry(&self) -> &'static Entry {
        &ENTRY
    }

    fn abilities(&self) -> &'static Abilities {
        &V1_36
    }

    fn link(&self, member: &Member, _pod: &dyn Fn() -> Shape) -> Marks {
        scheduling_group(member)
    }

    fn link_site(&self, cluster: &Snapshot) -> LinkSite {
        link_site(cluster)
    }

    fn lost_link(&self) -> &'static str {
        LOST_LINK
    }

    fn suspect(&self) -> &'static str {
        "look whether kube-scheduler runs with the feature gates GenericWorkload and GangScheduling"
    }

    fn reason(&self, object: &DynamicObject) -> Option<String> {
        reason(object)
    }

    fn objects(&self, owner: &Owner, plan: &Plan, gangs: &[Gang<'_>]) -> Vec<DynamicObject> {
        pod_groups(API, owner, plan, gangs, |gang, workload| {
            // The priority class is kept only with the gate WorkloadAwarePreemption.
            let mut spec = json!({"schedulingPolicy": gang_policy(gang.quorum())});
            if let Some(workload) = workload {
                spec["podGroupTemplateRef"] = json!({"workload": {
                    "workloadName": workload.as_str(),
                    "podGroupTemplateName": gang.part.name().as_str(),
                }});
            }
            pod_group(API, owner, gang, spec)
        })
    }
}
