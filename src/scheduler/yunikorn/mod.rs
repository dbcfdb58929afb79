//! YuniKorn: no objects. One application per gang or bundle, with a task group for each role;
//! every pod carries the application's id and the description of all its task groups.
//!
//! YuniKorn holds the room with placeholder pods, one per member. So each member's resources,
//! node selector, tolerations and affinity are part of the gang: those of a pod's own role are
//! taken from the pod as it arrives (Kueue changes node selectors after the Job was created),
//! those of the others from the stamp.

mod headroom;
mod placeholder;
mod selector;
mod task_groups;
mod wishes;

use std::collections::{BTreeMap, HashSet};

use kube::core::DynamicObject;

use crate::gang::link::LinkKey;
use crate::gang::{FieldError, Gang, Member, Owner, Part, Plan, Role, SchedulerKind, Shape};
use crate::gang::{RoleStamp, Stamp};

use super::abilities::{Abilities, Bundles, Later, LinkSite, NewRoom, Priorities, QuorumChange};
use super::abilities::{Resume, Support, Timeouts};
use super::entry::Tells;
use super::{Entry, Listens, Marks, Scheduler, pod_group, scheduler_name};
use task_groups::{applications, groups, wishes};

pub(crate) struct Yunikorn;

impl SchedulerKind {
    /// Apache YuniKorn.
    pub const YUNIKORN: Self = Self::new("yunikorn");
}

/// The application that a pod belongs to (YuniKorn 1.6 and later; it comes before older keys).
const APPLICATION: LinkKey = LinkKey::label(SchedulerKind::YUNIKORN, "yunikorn.apache.org/app-id");
const TASK_GROUP: LinkKey = LinkKey::annotation(
    SchedulerKind::YUNIKORN,
    "yunikorn.apache.org/task-group-name",
);

pub(crate) static ENTRY: Entry = Entry {
    kind: SchedulerKind::YUNIKORN,
    listens: Listens::To("yunikorn"),
    // Its admission controller (1.8) gives YuniKorn every pod outside of kube-system, whatever
    // scheduler the pod names.
    stray_name_hint: "; if YuniKorn's admission controller has written it, annotate the namespace \
                      with yunikorn.apache.org/namespace.enableYuniKorn: \"false\"",
    links: &[APPLICATION, TASK_GROUP],
    apis: &[],
    backend: |_, _| Ok(&Yunikorn),
    rows: &[("yunikorn", &Yunikorn)],
    queues: None,
    tells: Some(Tells {
        reason: headroom::REASON,
        queue: headroom::read,
    }),
};

static ABILITIES: Abilities = Abilities {
    bundle: Bundles::WithinWorkload(
        "a bundle is one application, which its first pod describes; remove it, or use koordinator",
    ),
    queue: Support::Yes,
    non_strict: Support::No("a gang that does not fit keeps its placeholders; use Strict"),
    priorities: Priorities::OnPodsOnly,
    preemption_policy: Support::Yes,
    link_site: LinkSite::Pod,
    resume: Resume::NewGang,
    // Once the room was held, members come and go without a gang (1.8).
    quorum_change: QuorumChange::NotNeeded,
    new_room: NewRoom::Noticed,
    caution: Some(
        "yunikorn holds room for a gang piece by piece: two gangs in different queues can each \
         hold a part of it and wait forever; let gangs that compete share a queue",
    ),
    timeout: Timeouts::Muster,
    min_resources: true,
    later: Later::Held,
    made_for: "YuniKorn 1.8.0",
};

/// Every pod of an application carries the description of all its task groups, and every template a
/// stamp of about that length: a quarter of what annotations may hold. About 250 templates fit.
const MAX_DESCRIPTION: usize = 64 * 1024;

const TASK_GROUPS: &str = "yunikorn.apache.org/task-groups";
const PARAMETERS: &str = "yunikorn.apache.org/schedulingPolicyParameters";
const QUEUE: &str = "yunikorn.apache.org/queue";

/// Hard: by default YuniKorn starts a part of the gang when the time is over. The time is a year,
/// so that nothing but Muster's own timeout ever acts.
const HARD: &str = "placeholderTimeoutInSeconds=31536000 gangSchedulingStyle=Hard";

impl Scheduler for Yunikorn {
    fn entry(&self) -> &'static Entry {
        &ENTRY
    }

    fn abilities(&self) -> &'static Abilities {
        &ABILITIES
    }

    fn template_marks(&self, plan: &Plan, role: &Role) -> Marks {
        let queue = plan.policy.queue.as_ref();
        Marks {
            labels: queue
                .map(|queue| (QUEUE, queue.value.clone()))
                .into_iter()
                .collect(),
            scheduler_name: scheduler_name(&ENTRY, role),
            ..Marks::default()
        }
    }

    fn extend_stamp(&self, plan: &Plan, part: &Part, stamp: &mut Stamp) {
        let (counts, mut groups) = groups(plan, part);
        placeholder::keep_asked_labels(&mut groups);
        let labels = part
            .roles()
            .first()
            .map(|role| role.shape.controller_labels);
        let labels = labels.unwrap_or_default();
        let alike: Vec<&str> = labels.shared().chain([QUEUE]).collect();
        for (_, group) in &mut groups {
            placeholder::drop_soft(group);
            // The pod that is linked has them too, and a name may be drawn later.
            placeholder::retain_labels(group, |key| !alike.contains(&key));
        }
        let roles = groups.into_iter().zip(counts);
        stamp.describe(roles.map(|((name, group), members)| (name, members, group.into())));
    }

    fn check(&self, plan: &Plan) -> Vec<FieldError> {
        let mut errors = pod_group::check_sizes(self.kind(), plan);
        errors.extend(check_queue(plan));
        // What the workload asks for holds for all roles, and is said once.
        let mut said = HashSet::new();
        for (part, kin) in applications(plan) {
            errors.extend(check_quorum(part));
            let refused = match kin {
                Ok(kin) => {
                    let wishes = wishes(part).into_iter();
                    wishes.flat_map(|wishes| wishes.check(&kin)).collect()
                }
                Err(error) => vec![error],
            };
            errors.extend(
                refused
                    .into_iter()
                    .filter(|error| said.insert(error.to_string())),
            );
            let empty = part.roles().iter().filter(|role| asks_nothing(role));
            errors.extend(empty.map(|role| {
                FieldError::required(
                    role.at.child("containers"),
                    "yunikorn holds room for a gang by its pods' resource requests, and these \
                     have none; give a container a request",
                )
            }));
        }
        errors
    }

    fn warnings(&self, plan: &Plan) -> Vec<String> {
        let mut warnings = Vec::new();
        for (part, kin) in applications(plan) {
            if let Ok(kin) = kin {
                warnings.extend(wishes(part).iter().flat_map(|w| w.warnings(&kin)));
            }
        }
        warnings.dedup();
        warnings
    }

    fn oversize(&self, member: &Member, pod: &dyn Fn() -> Shape) -> Option<String> {
        let bytes = task_groups::described(member, &own_role(member), &pod());
        (bytes > MAX_DESCRIPTION).then(|| task_groups::too_large(bytes))
    }

    fn link(&self, member: &Member, pod: &dyn Fn() -> Shape) -> Marks {
        let own = own_role(member);
        let application = application(member);
        let pod = pod();
        let (groups, fields) = task_groups::describe(member, &own, &application, &pod);
        Marks {
            labels: BTreeMap::from([(APPLICATION.key, application)]),
            annotations: BTreeMap::from([
                (TASK_GROUP.key, own),
                (TASK_GROUPS, groups.to_string()),
                (PARAMETERS, HARD.to_owned()),
            ]),
            fields,
            ..Marks::default()
        }
    }

    fn objects(&self, _owner: &Owner, _plan: &Plan, _gangs: &[Gang<'_>]) -> Vec<DynamicObject> {
        Vec::new()
    }

    /// Named after the application and the task group (1.8).
    fn placeholders(&self, gang: &str) -> Option<String> {
        Some(format!("tg-{gang}-"))
    }

    /// Placeholders belong to the first pod that YuniKorn saw, and are deleted with it; for YuniKorn the
    /// application has then ended, whatever pods are left or are created (1.8).
    fn orphans(&self) -> Option<&'static str> {
        Some("yunikorn forgets a gang whose first pod goes")
    }
}

/// The role of a member. Leader and workers may come from one template, which is then the role of
/// both.
fn own_role(member: &Member) -> String {
    let roles = &member.stamp.roles;
    let named = |role: &&RoleStamp| Some(role.name.as_str()) == member.role;
    let own = roles.iter().find(named);
    let own = own.or_else(|| roles.iter().find(|role| role.shape.is_none()));
    own.map(|role| role.name.clone()).unwrap_or_default()
}

/// The application that a member belongs to: of its gang or bundle, and of a whole replica also
/// where its pods come in an order.
fn application(member: &Member) -> String {
    let name = match &member.replica {
        Some(replica) => replica.name(),
        None => pod_group::of_member(member),
    };
    name.into_string()
}

fn asks_nothing(role: &Role) -> bool {
    role.shape
        .requests
        .iter()
        .all(|(_, amount)| amount.is_zero())
}

/// Placeholders carry the queue as a label too.
fn check_queue(plan: &Plan) -> Option<FieldError> {
    let queue = plan.policy.queue.as_ref()?;
    let alphanumeric = |c: char| c.is_ascii_alphanumeric();
    let fits = queue.value.len() <= 63
        && queue.value.starts_with(alphanumeric)
        && queue.value.ends_with(alphanumeric)
        && queue
            .value
            .chars()
            .all(|c| alphanumeric(c) || "-_.".contains(c));
    let detail = "a yunikorn queue is written as the value of a label: at most 63 letters, \
                  digits, '-', '_' and '.', starting and ending with a letter or digit";
    (!fits).then(|| FieldError::invalid(queue.at.clone(), queue.value.as_str(), detail))
}

/// A task group counts members of one role, and a bundle has one for all gangs of a part.
fn check_quorum(part: &Part) -> Option<FieldError> {
    let all = part.quorum() == part.size();
    let gangs = part.bundle().map_or(1, |_| part.replicas());
    (!all && (part.roles().len() > 1 || gangs > 1)).then(|| {
        let detail = "yunikorn counts the members of each pod template by itself, so a quorum \
                      below all must be of one template and one gang; remove muster.dev/min-count";
        FieldError::forbidden(part.at().clone(), detail)
    })
}
