//! Kubernetes 1.35, `scheduling.k8s.io/v1alpha1`: gangs inside Workload objects, eight to each.
//! There are no PodGroups; replicas of one part are told apart by a key in the pod's reference.

use kube::core::DynamicObject;
use serde_json::{Value, json};

use crate::gang::{Gang, Member, Owner, Plan, Shape};
use crate::scheduler::abilities::{Abilities, LinkSite};
use crate::scheduler::object::{Scope, object};
use crate::scheduler::{Entry, Marks, Scheduler};

use super::{
    ABILITIES, ENTRY, LOST_LINK, MAX_TEMPLATES, WORKLOAD_REF, described, gang_policy,
    plan_identity, workload_name,
};

pub(crate) struct Native;

static V1_35: Abilities = Abilities {
    // JobSet's and LWS's controllers lose the field or refuse it in a template: only the pod
    // keeps it.
    link_site: LinkSite::Pod,
    caution: Some(
        "on Kubernetes 1.35 a gang that waits holds room without a sign of it, and can block \
         another gang for minutes; 1.36 and later do not",
    ),
    made_for: "Kubernetes 1.35.4",
    ..ABILITIES
};

impl Scheduler for Native {
    fn entry(&self) -> &'static Entry {
        &ENTRY
    }

    fn abilities(&self) -> &'static Abilities {
        &V1_35
    }

    fn link(&self, member: &Member, _pod: &dyn Fn() -> Shape) -> Marks {
        let number = member.stamp.ordinal as usize / MAX_TEMPLATES;
        let identity = member.identity();
        let mut link = json!({
            "name": workload_name(identity, number).as_str(),
            "podGroup": identity.part.as_str(),
        });
        if let Some(index) = identity.index {
            link["podGroupReplicaKey"] = json!(match identity.attempt.own {
                0 => index.to_string(),
                // The Workload is shared, so the key tells a replica's own restarts apart.
                own => format!("{index}-{own}"),
            });
        }
        Marks {
            link_field: Some((WORKLOAD_REF.key, link)),
            ..Marks::default()
        }
    }

    fn lost_link(&self) -> &'static str {
        LOST_LINK
    }

    fn suspect(&self) -> &'static str {
        "look whether kube-scheduler runs with the feature gates GenericWorkload and GangScheduling"
    }

    fn objects(&self, owner: &Owner, plan: &Plan, gangs: &[Gang<'_>]) -> Vec<DynamicObject> {
        let Some(identity) = plan_identity(gangs) else {
            return Vec::new();
        };
        let chunks = plan.parts.chunks(MAX_TEMPLATES).enumerate();
        chunks
            .map(|(number, parts)| {
                let group = |part: &crate::gang::Part| {
                    json!({"name": part.name().as_str(), "policy": gang_policy(part.quorum())})
                };
                let groups: Vec<Value> = parts.iter().map(group).collect();
                let spec = described(owner, "podGroups", groups);
                let name = workload_name(identity, number);
                let kind = ("scheduling.k8s.io/v1alpha1", "Workload");
                object(kind, name, owner, Scope::Start(identity), spec)
            })
            .collect()
    }
}
