//! The PodGroup way: `scheduling.sigs.k8s.io/v1alpha1`, with what the spec has no field for in
//! the object's annotations.

use std::collections::BTreeMap;

use kube::core::DynamicObject;
use serde_json::json;

use crate::gang::{FieldError, Gang, GangName, Member, Owner, Plan, Role, Shape};
use crate::scheduler::abilities::Bundles;
use crate::scheduler::object::{Scope, object};
use crate::scheduler::{Abilities, Entry, Marks, Scheduler};

use super::{ABILITIES, API, ENTRY, GROUPS, MAX_BUNDLE, POD_GROUP, TOTAL_NUMBER};
use super::{groups, id, is_bundled, manner, name, patience};

pub(crate) struct ByPodGroup;

/// Koordinator (1.8) reads a PodGroup's `groups` again when it changes.
static BY_POD_GROUP: Abilities = Abilities {
    bundle: Bundles::AcrossWorkloads { most: MAX_BUNDLE },
    ..ABILITIES
};

impl Scheduler for ByPodGroup {
    fn entry(&self) -> &'static Entry {
        &ENTRY
    }

    fn abilities(&self) -> &'static Abilities {
        &BY_POD_GROUP
    }

    fn template_marks(&self, plan: &Plan, role: &Role) -> Marks {
        super::template_marks(plan, role)
    }

    fn check(&self, plan: &Plan) -> Vec<FieldError> {
        super::check(plan)
    }

    fn link(&self, member: &Member, _pod: &dyn Fn() -> Shape) -> Marks {
        let name = name(member.identity(), member.stamp.bundle.is_some());
        Marks {
            labels: BTreeMap::from([(POD_GROUP.key, name.into_string())]),
            ..Marks::default()
        }
    }

    fn objects(&self, owner: &Owner, plan: &Plan, gangs: &[Gang<'_>]) -> Vec<DynamicObject> {
        let names: Vec<GangName> = gangs
            .iter()
            .map(|gang| name(&gang.identity, is_bundled(gang)))
            .collect();
        let named = || gangs.iter().zip(&names);
        let bundle = |gang: &Gang<'_>| gang.part.bundle().map(|b| b.value.clone());
        named()
            .map(|(gang, name)| {
                let mut spec = json!({"minMember": gang.quorum()});
                // Zero would mean Koordinator's default.
                if let Some(seconds) = patience(plan).map(|p| p.as_secs().max(1)) {
                    spec["scheduleTimeoutSeconds"] = json!(seconds.min(i32::MAX as u64));
                }
                let scope = Scope::Gang(&gang.identity);
                let kind = (API, "PodGroup");
                let mut object = object(kind, name.clone(), owner, scope, spec);
                let mut annotations = manner(plan);
                annotations.insert(TOTAL_NUMBER, gang.part.size().to_string());
                if is_bundled(gang) {
                    let same = named().filter(|(other, _)| bundle(other) == bundle(gang));
                    let own = same.map(|(_, name)| id(&owner.namespace, name));
                    let others = gang.partners.iter();
                    let others = others.map(|other| id(&other.namespace, &self::name(other, true)));
                    let mut ids: Vec<String> = own.chain(others).collect();
                    // The same text on every side.
                    ids.sort();
                    annotations.insert(GROUPS, groups(ids));
                }
                let annotations = annotations.into_iter();
                let annotations = annotations.map(|(key, value)| (key.to_owned(), value));
                object.metadata.annotations = Some(annotations.collect());
                object
            })
            .collect()
    }
}
