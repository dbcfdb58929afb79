//! The annotation way: everything on the pods, no object. The first pod that Koordinator sees
//! defines the gang, so all carry the same.

use std::collections::BTreeMap;

use kube::core::DynamicObject;

use crate::gang::{FieldError, Gang, GangName, Level, Member, Owner, Part, Shape};
use crate::gang::{Plan, Role, Sibling, Stamp};
use crate::scheduler::{Abilities, Entry, Marks, Scheduler};

use super::{ABILITIES, ANNOTATIONS, ENTRY, GANG_NAME, GROUPS, TOTAL_NUMBER};
use super::{groups, id, manner, name, patience};

const MIN_AVAILABLE: &str = "gang.scheduling.koordinator.sh/min-available";
const WAITING_TIME: &str = "gang.scheduling.koordinator.sh/waiting-time";

/// The most gangs that a stamp may name: what earlier versions of Muster wrote.
const MAX_STAMPED: u64 = 1000;

pub(crate) struct ByAnnotations;

static BY_ANNOTATIONS: Abilities = ABILITIES;

impl Scheduler for ByAnnotations {
    fn entry(&self) -> &'static Entry {
        &ENTRY
    }

    /// There are no objects.
    fn needs_api(&self) -> bool {
        false
    }

    fn abilities(&self) -> &'static Abilities {
        &BY_ANNOTATIONS
    }

    fn template_marks(&self, plan: &Plan, role: &Role) -> Marks {
        let mut marks = super::template_marks(plan, role);
        marks.annotations = manner(plan);
        if let Some(patience) = patience(plan) {
            let text = format!("{}s", patience.as_secs().max(1));
            marks.annotations.insert(WAITING_TIME, text);
        }
        marks
    }

    fn extend_stamp(&self, plan: &Plan, part: &Part, stamp: &mut Stamp) {
        stamp.variant = Some(ANNOTATIONS.to_owned());
        if part.bundle().is_none() {
            return;
        }
        stamp.siblings = plan
            .bundle_of(part)
            .map(|part| Sibling {
                part: part.name().as_str().to_owned(),
                replicas: (part.level() == Level::Replica).then(|| part.replicas()),
            })
            .collect();
    }

    fn check(&self, plan: &Plan) -> Vec<FieldError> {
        super::check(plan)
    }

    fn oversize(&self, member: &Member, _pod: &dyn Fn() -> Shape) -> Option<String> {
        let siblings = member.stamp.siblings.iter().map(Sibling::count);
        let gangs = siblings.fold(0, u64::saturating_add);
        (gangs > MAX_STAMPED).then(|| {
            format!(
                "it names {gangs} gangs of one bundle, and koordinator's annotation holds \
                 {MAX_STAMPED}"
            )
        })
    }

    fn link(&self, member: &Member, _pod: &dyn Fn() -> Shape) -> Marks {
        let stamp = &member.stamp;
        let name = name(member.identity(), stamp.bundle.is_some());
        let mut annotations = BTreeMap::from([
            (GANG_NAME.key, name.into_string()),
            (MIN_AVAILABLE, stamp.quorum.to_string()),
            (TOTAL_NUMBER, stamp.size.to_string()),
        ]);
        if !stamp.siblings.is_empty() {
            let namespace = &member.identity().namespace;
            let names = sibling_names(member);
            let ids = names.iter().map(|name| id(namespace, name)).collect();
            annotations.insert(GROUPS, groups(ids));
        }
        Marks {
            annotations,
            ..Marks::default()
        }
    }

    fn objects(&self, _owner: &Owner, _plan: &Plan, _gangs: &[Gang<'_>]) -> Vec<DynamicObject> {
        Vec::new()
    }
}

/// The names of all gangs of the member's bundle.
fn sibling_names(member: &Member) -> Vec<GangName> {
    let gangs = member.stamp.siblings.iter().flat_map(Sibling::gangs);
    gangs
        .map(|(part, index)| name(&member.identity().of(part, index), true))
        .collect()
}
