//! The PodGroup way: `scheduling.sigs.k8s.io/v1alpha1`, with what the spec has no field for in
//! the object's annotations.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use kube::core::DynamicObject;
use serde_json::json;

use crate::gang::{Allies, FieldError, Gang, GangName, Member, Owner, Plan, Role, Shape};
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
        let mut bundles: HashMap<&str, Vec<&GangName>> = HashMap::new();
        for (gang, name) in gangs.iter().zip(&names) {
            if let Some(bundle) = gang.part.bundle() {
                let together = bundles.entry(bundle.value.as_str()).or_default();
                together.push(name);
            }
        }
        // What all gangs of a bundle with the same partners list.
        let mut listed: HashMap<(&str, *const Allies), String> = HashMap::new();
        gangs
            .iter()
            .zip(&names)
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
                if let Some(bundle) = gang.part.bundle().map(|b| b.value.as_str()) {
                    let text = listed.entry((bundle, Arc::as_ptr(&gang.allies)));
                    let text = text.or_insert_with(|| {
                        let own = bundles.get(bundle).into_iter().flatten();
                        let own = own.map(|name| id(&owner.namespace, name));
                        let others = gang.allies.gangs.iter().map(|ally| &ally.identity);
                        let others = others.map(|o| id(&o.namespace, &self::name(o, true)));
                        let mut ids: Vec<String> = own.chain(others).collect();
                        // The same text on every side.
                        ids.sort();
                        groups(ids)
                    });
                    annotations.insert(GROUPS, text.clone());
                }
                let annotations = annotations.into_iter();
                let annotations = annotations.map(|(key, value)| (key.to_owned(), value));
                object.metadata.annotations = Some(annotations.collect());
                object
            })
            .collect()
    }
}
