//! Kubernetes 1.37, `scheduling.k8s.io/v1beta1`: as 1.36 with other words, and a gang is preempted
//! as a whole.

use kube::core::DynamicObject;
use serde_json::{Value, json};

use crate::gang::{Gang, GangName, Member, Owner, Plan, Shape};
use crate::scheduler::abilities::{Abilities, QuorumChange};
use crate::scheduler::{Entry, LinkSite, Marks, Scheduler, Snapshot};

use super::{
    ABILITIES, ENTRY, LOST_LINK, SCHEDULING_GROUP, gang_policy, link_site, pod_groups, reason,
};

pub(crate) struct Native;

pub(crate) static V1_37: Abilities = Abilities {
    // minCount is the one field of a PodGroup that may change.
    quorum_change: QuorumChange::Live,
    made_for: "Kubernetes 1.37.1",
    ..ABILITIES
};

pub(crate) const API: &str = "scheduling.k8s.io/v1beta1";

/// The link of 1.36 and later.
pub(crate) fn scheduling_group(member: &Member) -> Marks {
    Marks {
        link_field: Some((
            SCHEDULING_GROUP.key,
            json!({"podGroupName": member.name().as_str()}),
        )),
        ..Marks::default()
    }
}

impl Scheduler for Native {
    fn entry(&self) -> &'static Entry {
        &ENTRY
    }

    fn abilities(&self) -> &'static Abilities {
        &V1_37
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
        "look whether kube-scheduler runs with the feature gate GenericWorkload"
    }

    fn reason(&self, object: &DynamicObject) -> Option<String> {
        reason(object)
    }

    fn objects(&self, owner: &Owner, plan: &Plan, gangs: &[Gang<'_>]) -> Vec<DynamicObject> {
        pod_groups(API, owner, plan, gangs, |gang, workload| {
            pod_group(owner, gang, workload)
        })
    }
}

/// A gang's PodGroup. Its priority class must resolve to the pods' own priority, or nothing is
/// ever scheduled.
pub(crate) fn pod_group(
    owner: &Owner,
    gang: &Gang<'_>,
    workload: Option<&GangName>,
) -> DynamicObject {
    let mut spec = json!({
        "schedulingPolicy": gang_policy(gang.quorum()),
        // The default is to preempt single pods: half a gang would keep its GPUs and do nothing.
        "disruptionMode": {"all": {}},
    });
    if let Some(workload) = workload {
        spec["workloadRef"] = workload_ref(workload, gang);
    }
    super::pod_group(API, owner, gang, spec)
}

pub(crate) fn workload_ref(workload: &GangName, gang: &Gang<'_>) -> Value {
    json!({"workloadName": workload.as_str(), "templateName": gang.part.name().as_str()})
}
