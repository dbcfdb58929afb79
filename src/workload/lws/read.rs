//! A LeaderWorkerSet's declaration: the plan of one replica, and everything that is wrong with it at
//! once.

use crate::gang::{FieldError, FieldPath, KeptApart, Located, Part, Role, TimeoutAction};
use crate::workload::declaration::{self, Mode};
use crate::workload::keys::{self, KUEUE_QUEUE};
use crate::workload::template::{ExistingLink, PodTemplate};
use crate::workload::{Reading, Unasked, Workload as _};

use super::replica::{self, LEADER, WORKERS};
use super::stamp::{self, Order};
use super::view::{
    self, EXCLUSIVE_TOPOLOGY, LEADER_CREATED, LEADER_READY, LeaderWorkerSet,
    SUBGROUP_EXCLUSIVE_TOPOLOGY, template_path,
};

/// The modes of a LeaderWorkerSet.
const MODES: declaration::Modes = declaration::Modes {
    allowed: &[Mode::Off, Mode::ReplicatedGang],
    why_not: Some(
        "each replica of a LeaderWorkerSet is a gang of its own; they do not start together",
    ),
};

/// Reads a LeaderWorkerSet's declaration.
pub(crate) fn read(lws: &LeaderWorkerSet<'_>, unasked: Unasked) -> Reading {
    let mut reading = Reading {
        errors: declaration::check_keys(lws),
        ..Reading::default()
    };
    let annotations = annotations();
    let (meta, errors) = (&lws.metadata, &mut reading.errors);
    let itself = declaration::itself(super::facts::KIND.name, meta);
    reading.plan.policy = declaration::policy(meta, &annotations, &itself, errors);
    let meta = &lws.metadata;
    let errors = reading.errors.len();
    let asked = declaration::mode_annotation(meta, &annotations, MODES, &mut reading.errors);
    let by_default = || {
        let at = annotations.key(keys::GANG_MODE);
        let wanted = unasked == Unasked::Gang && reading.errors.len() == errors;
        wanted.then(|| Located::new(Mode::ReplicatedGang, at))
    };
    let explicit = asked.is_some();
    let Some(mode) = asked.or_else(by_default).filter(|m| m.value != Mode::Off) else {
        reading.warnings.extend(idle_knobs(lws));
        return reading;
    };
    reading.asked = Some(mode.at.clone());
    reading.mode = Some(Mode::ReplicatedGang.as_str());
    check_timeout(&mut reading);
    check_schema(lws, &mut reading.errors);
    // The key is refused already, so the scheduler need not refuse it again.
    reading.plan.policy.bundle_with = None;
    if lws.spec.scheduling.is_some() {
        let at = FieldPath::new("spec").child("scheduling");
        if explicit {
            reading.errors.push(FieldError::forbidden(
                at.clone(),
                format!(
                    "LeaderWorkerSet's own scheduling and the gang of {} exclude each other; \
                     remove one",
                    mode.at
                ),
            ));
        } else {
            reading.warnings.push(format!(
                "{at}: LeaderWorkerSet makes the gangs itself, and Muster leaves it alone"
            ));
        }
        return reading;
    }
    if stands_aside(lws, &mode, &mut reading) {
        return reading;
    }
    if !lws.spec.leader_worker_template.worker_template.present {
        let at = template_path(view::WORKER_TEMPLATE);
        let detail = "the template of the workers";
        reading.errors.push(FieldError::required(at, detail));
        return reading;
    }
    check_group_key(lws, &mut reading.errors);
    let min_count = min_count(lws, &annotations, &mut reading.errors);
    let roles = roles(lws, &mut reading.errors);
    for draft in stamp::drafts(lws.order(), roles, min_count, &mode.at) {
        match draft.build() {
            Ok(part) => reading.plan.parts.extend(part),
            Err(error) => reading.errors.push(error),
        }
    }
    check_topology(lws, &mut reading);
    if lws.size() == 1 {
        reading.warnings.push(format!(
            "{}: replicas of one pod: each starts when that pod fits, as it would without a gang",
            mode.at
        ));
    }
    reading
}

fn annotations() -> FieldPath {
    FieldPath::new("metadata").child("annotations")
}

fn check_timeout(reading: &mut Reading) {
    let policy = &reading.plan.policy;
    let Some(action) = &policy.timeout_action else {
        return;
    };
    if action.value == TimeoutAction::Suspend {
        reading.errors.push(FieldError::forbidden(
            action.at.clone(),
            "a LeaderWorkerSet cannot be suspended; use Wait",
        ));
    }
    reading
        .warnings
        .extend(declaration::idle_timeout_action(policy));
}

/// What the schema refuses too, later in a cluster and never in `muster check`: gangs are counted
/// by it.
fn check_schema(lws: &LeaderWorkerSet<'_>, errors: &mut Vec<FieldError>) {
    if let Some(size) = lws
        .spec
        .leader_worker_template
        .size
        .filter(|size| *size < 1)
    {
        let at = FieldPath::new("spec").child("leaderWorkerTemplate");
        errors.push(FieldError::invalid(
            at.child("size"),
            size,
            "must be at least 1: the leader counts",
        ));
    }
    let policies = [LEADER_CREATED, LEADER_READY];
    if let Some(policy) = lws.spec.startup_policy.as_deref()
        && !policies.contains(&policy)
    {
        let at = FieldPath::new("spec").child("startupPolicy");
        errors.push(FieldError::not_supported(at, policy, &policies));
    }
}

/// A link that the user wrote into the templates. Muster leaves it alone, and all of it.
fn stands_aside(lws: &LeaderWorkerSet<'_>, mode: &Located<Mode>, reading: &mut Reading) -> bool {
    let templates: Vec<(&str, &PodTemplate<'_>)> = lws.templates().collect();
    let links: Vec<ExistingLink> = templates
        .iter()
        .filter_map(|(field, template)| template.existing_link(&template_path(field)))
        .collect();
    let [first, others @ ..] = &links[..] else {
        return false;
    };
    let same = |link: &ExistingLink| link.link == first.link && link.value == first.value;
    if links.len() == templates.len() && others.iter().all(same) {
        reading.warnings.push(format!(
            "{} already links to a gang of {}: Muster leaves this LeaderWorkerSet alone",
            first.at, first.link.scheduler
        ));
    } else {
        reading.errors.push(FieldError::forbidden(
            first.at.clone(),
            format!(
                "{} makes leader and workers one gang, but they do not have the same link; link \
                 both templates to one gang, or none",
                mode.at
            ),
        ));
    }
    true
}

fn min_count(
    lws: &LeaderWorkerSet<'_>,
    at: &FieldPath,
    errors: &mut Vec<FieldError>,
) -> Option<Located<i64>> {
    let count = declaration::min_count(&lws.metadata, at, errors)?;
    if lws.order() == Order::LeaderFirst {
        errors.push(FieldError::forbidden(
            count.at,
            "under startupPolicy LeaderReady the leader starts by itself and its workers together; \
             remove it, or use LeaderCreated",
        ));
        return None;
    }
    Some(count)
}

/// The roles of a replica. Pods of one template are one role, unless they come in an order.
fn roles(lws: &LeaderWorkerSet<'_>, errors: &mut Vec<FieldError>) -> Vec<Role> {
    let size = lws.size();
    let template = &lws.spec.leader_worker_template;
    let sites = lws.sites();
    let named_by_muster = |field: &str| {
        let at = template_path(field);
        let mut sites = sites.iter().filter(|site| site.at == at);
        sites.any(|site| site.is_named_by_muster())
    };
    let mut role = |name: &str, pods: u64, field: &str, template: &PodTemplate<'_>| {
        let at = template_path(field).child("spec");
        let mut shape = template.shape(&at, errors);
        if named_by_muster(field) {
            shape.scheduler_name = None;
        }
        shape.controller_labels = replica::CONTROLLER_LABELS;
        let exclusive = lws.metadata.annotation(SUBGROUP_EXCLUSIVE_TOPOLOGY);
        shape.kept_apart = exclusive.map(|_| KeptApart {
            key: replica::SUBGROUP_KEY,
            at: annotations().key(SUBGROUP_EXCLUSIVE_TOPOLOGY),
            instead: "remove it",
        });
        let set = lws.metadata.given_name();
        let set = set.map(|name| (replica::NAME.to_owned(), name.to_owned()));
        shape.labels.extend(set);
        // Kueue holds the pods of a LeaderWorkerSet back one by one, with scheduling gates.
        shape.gated |= lws.metadata.label(KUEUE_QUEUE).is_some();
        Role {
            name: name.to_owned(),
            pods,
            completions: pods,
            shape,
            at,
        }
    };
    let workers = &*template.worker_template;
    let (leader_field, leader) = match &template.leader_template {
        Some(leader) => (view::LEADER_TEMPLATE, leader),
        None if lws.order() == Order::Together => {
            return vec![role(WORKERS, size, view::WORKER_TEMPLATE, workers)];
        }
        None => (view::WORKER_TEMPLATE, workers),
    };
    let others = size.saturating_sub(1);
    vec![
        role(LEADER, size.min(1), leader_field, leader),
        role(WORKERS, others, view::WORKER_TEMPLATE, workers),
    ]
}

/// A group key in a template would be that of every replica: their gangs would be one.
fn check_group_key(lws: &LeaderWorkerSet<'_>, errors: &mut Vec<FieldError>) {
    for (field, template) in lws.templates() {
        let meta = template.metadata.as_ref();
        if meta.is_some_and(|meta| meta.label(replica::GROUP_KEY).is_some()) {
            let at = template_path(field).child("metadata").child("labels");
            let detail = "each replica gets a key of its own; remove it";
            errors.push(FieldError::forbidden(at.key(replica::GROUP_KEY), detail));
        }
    }
}

/// Under exclusive topology the workers are made once the leader is on a node (v0.9).
fn check_topology(lws: &LeaderWorkerSet<'_>, reading: &mut Reading) {
    if lws.metadata.annotation(EXCLUSIVE_TOPOLOGY).is_none() {
        return;
    }
    let at = annotations().key(EXCLUSIVE_TOPOLOGY);
    let waits = |part: &Part| part.name().as_str() == replica::REPLICA && part.waits_for_itself(1);
    if reading.plan.parts.iter().any(waits) {
        reading.errors.push(FieldError::forbidden(
            at,
            "the gang waits for itself: the workers are made only once the leader is on a node, \
             and the leader waits for them; use startupPolicy LeaderReady, or remove one",
        ));
    } else if lws.order() == Order::LeaderFirst {
        reading.warnings.push(format!(
            "{at}: the workers go where their leader is, and no scheduler is told so: a leader may \
             start in a domain that has no room for them"
        ));
    }
}

fn idle_knobs(lws: &LeaderWorkerSet<'_>) -> Option<String> {
    // Muster itself writes the scheduler, and it stays when the gangs go.
    let others = [keys::GANG_MODE, keys::SCHEDULER];
    let instead = format!("set {} to ReplicatedGang", keys::GANG_MODE);
    declaration::idle_knobs(std::iter::once(&lws.metadata), &others, &instead)
}
