//! A JobSet's declaration: its plan, and everything that is wrong with it at once.

use std::collections::BTreeSet;

use crate::gang::{FieldError, FieldPath, Level, Located, Part, PartDraft, PartName};
use crate::workload::declaration::{self, Mode};
use crate::workload::template::ExistingLink;
use crate::workload::{Reading, keys};

use super::groups::{self, Group};
use super::modes::{self, Modes};
use super::order::{self, Order};
use super::view::JobSet;
use super::{KIND, annotations_path, barrier, group_path, topology};

/// Reads a JobSet's declaration.
pub(crate) fn read(jobset: &JobSet<'_>) -> Reading {
    let too_many = check_lengths(jobset);
    if !too_many.is_empty() {
        return Reading {
            errors: too_many,
            ..Reading::default()
        };
    }
    let order = Order::new(jobset);
    let mut reading = Reading {
        errors: declaration::check_keys(jobset),
        ..Reading::default()
    };
    let modes = modes::read(jobset, &mut reading);
    reading.asked = modes.first_gang().cloned();
    let metadata = annotations_path();
    let (meta, errors) = (&jobset.metadata, &mut reading.errors);
    let itself = declaration::itself(KIND.name, meta);
    reading.plan.policy = declaration::policy(meta, &metadata, &itself, errors);
    reading.plan.barrier = barrier::read(jobset, &order, &mut reading.errors);
    if reading.asked.is_none() {
        reading.warnings.extend(idle_knobs(jobset));
        return reading;
    }
    check_scheduling(jobset, &modes, &mut reading.errors);
    declaration::check_suspend(KIND.name, jobset.suspended_by(), &mut reading);
    check_names(jobset, &mut reading.errors);
    let groups = groups::read(jobset, &mut reading.errors);
    let drafts = match &modes.whole {
        Some(whole) if whole.value == Mode::Gang => {
            whole_draft(jobset, &order, whole, &groups, &mut reading)
        }
        _ => group_drafts(jobset, &modes, &groups, &mut reading),
    };
    for draft in drafts {
        match draft.build() {
            Ok(Some(part)) => reading.plan.parts.push(part),
            Ok(None) => {}
            Err(error) => reading.errors.push(error),
        }
    }
    for part in &reading.plan.parts {
        reading.errors.extend(topology::check(jobset, &order, part));
        warn_about_part(jobset, &order, part, &mut reading.warnings);
    }
    order::check_bundles(&order, &reading.plan.parts, &mut reading.errors);
    if !reading.plan.parts.is_empty() {
        declaration::check_partners(KIND.name, &reading.plan, &mut reading.errors);
    }
    let linked = groups.iter().any(|group| group.link.is_some());
    if reading.plan.parts.is_empty() && reading.errors.is_empty() && !linked {
        let asked = modes.first_gang().map(FieldPath::as_str).unwrap_or("");
        let warning = format!("{asked} asks for a gang, but no pod belongs to it");
        reading.warnings.push(warning);
    }
    reading
}

/// Lists that no real JobSet has: what is over the limit was not read, and nothing else is judged.
fn check_lengths(jobset: &JobSet<'_>) -> Vec<FieldError> {
    let jobs = &jobset.spec.replicated_jobs;
    let list = FieldPath::new("spec").child("replicatedJobs");
    if let Some(error) = jobs.check(&list) {
        return vec![error.hint("use replicas of a ReplicatedJob, or several JobSets")];
    }
    let long = jobs.iter().enumerate().filter_map(|(i, job)| {
        let at = group_path(i).child("dependsOn");
        let error = job.depends_on.check(&at)?;
        Some(error.hint("depend on the last of them only"))
    });
    long.collect()
}

/// ReplicatedJobs are told apart by their names.
fn check_names(jobset: &JobSet<'_>, errors: &mut Vec<FieldError>) {
    let jobs = &jobset.spec.replicated_jobs;
    let mut seen = BTreeSet::new();
    for (i, job) in jobs.iter().enumerate() {
        let at = group_path(i).child("name");
        if job.name.is_empty() {
            errors.push(FieldError::required(at, "the name of the ReplicatedJob"));
        } else if !seen.insert(&job.name) {
            errors.push(FieldError::duplicate(at, &*job.name));
        }
    }
}

/// JobSet's own gang scheduling (KEP-969) would make a second gang of the same pods.
fn check_scheduling(jobset: &JobSet<'_>, modes: &Modes, errors: &mut Vec<FieldError>) {
    if jobset.spec.scheduling.is_none() {
        return;
    }
    let asked = modes.first_gang().map(FieldPath::as_str).unwrap_or("");
    errors.push(FieldError::forbidden(
        FieldPath::new("spec").child("scheduling"),
        format!("JobSet's own scheduling and the gang of {asked} exclude each other; remove one"),
    ));
}

/// The whole JobSet as one gang.
fn whole_draft(
    jobset: &JobSet<'_>,
    order: &Order<'_>,
    mode: &Located<Mode>,
    groups: &[Group<'_>],
    reading: &mut Reading,
) -> Vec<PartDraft> {
    let annotations = annotations_path();
    let min_count = declaration::min_count(&jobset.metadata, &annotations, &mut reading.errors);
    let bundle = declaration::bundle(&jobset.metadata, &annotations, &mut reading.errors);
    for group in groups {
        group.refuse_own_knobs(&mode.at, &mut reading.errors);
    }
    let members: Vec<&Group<'_>> = groups.iter().filter(|g| g.job.pods() > 0).collect();
    let links: Vec<&ExistingLink> = members.iter().filter_map(|g| g.link.as_ref()).collect();
    for group in &members {
        let scheduler = reading.plan.policy.scheduler.as_ref();
        group.refuse_link(scheduler, &mut reading.errors);
    }
    if let [first, others @ ..] = &links[..] {
        let same = |link: &&ExistingLink| link.link == first.link && link.value == first.value;
        let detail = if links.len() < members.len() {
            "only some ReplicatedJobs have a link of their own; link all of them or none"
        } else if others.iter().all(same) {
            reading.warnings.push(format!(
                "every ReplicatedJob already has a link to a gang ({}): Muster leaves it alone",
                first.link.key
            ));
            return Vec::new();
        } else {
            "the ReplicatedJobs have links to different gangs; link all of them to one, or none"
        };
        reading.errors.extend(links.iter().map(|link| {
            let whole = format!("the whole JobSet is one gang ({}), but {detail}", mode.at);
            FieldError::forbidden(link.at.clone(), whole)
        }));
    }
    let positions: Vec<usize> = members.iter().map(|g| g.position).collect();
    order.check(
        &positions,
        "the whole-JobSet gang waits for itself",
        "make each ReplicatedJob a gang of its own, or start them in any order",
        &mut reading.errors,
    );
    vec![PartDraft {
        name: PartName::whole(),
        level: Level::Whole,
        replicas: 1,
        roles: groups.iter().map(|g| g.role(g.job.jobs())).collect(),
        later: Vec::new(),
        min_count,
        bundle,
        at: mode.at.clone(),
    }]
}

/// One gang per ReplicatedJob, or one per Job replica.
fn group_drafts(
    jobset: &JobSet<'_>,
    modes: &Modes,
    groups: &[Group<'_>],
    reading: &mut Reading,
) -> Vec<PartDraft> {
    let annotations = annotations_path();
    let metadata = &jobset.metadata;
    let shared_bundle = declaration::bundle(metadata, &annotations, &mut reading.errors);
    if let Some(count) = declaration::min_count(metadata, &annotations, &mut reading.errors) {
        reading.errors.push(FieldError::forbidden(
            count.at,
            "no gang spans the whole JobSet; put it in the ReplicatedJob's \
             template.metadata.annotations, beside its gang",
        ));
    }
    let mut drafts = Vec::new();
    for (group, mode) in groups.iter().zip(&modes.groups) {
        let Some(mode) = mode.as_ref().filter(|m| m.value != Mode::Off) else {
            group.warn_about_idle_knobs(&mut reading.warnings);
            continue;
        };
        let (min_count, bundle) = group.knobs(&mut reading.errors);
        if let Some(link) = &group.link {
            let scheduler = reading.plan.policy.scheduler.as_ref();
            group.refuse_link(scheduler, &mut reading.errors);
            reading.warnings.push(format!(
                "{} already links to a gang of {}: Muster leaves this ReplicatedJob alone",
                link.at, link.link.scheduler
            ));
            continue;
        }
        let (level, replicas, jobs) = match mode.value {
            Mode::ReplicatedGang => (Level::Replica, group.job.jobs(), 1),
            Mode::Gang | Mode::Off => (Level::Group, 1, group.job.jobs()),
        };
        drafts.push(PartDraft {
            name: PartName::new(&*group.job.name),
            level,
            replicas,
            roles: vec![group.role(jobs)],
            later: Vec::new(),
            min_count,
            bundle: bundle.or_else(|| shared_bundle.clone()),
            at: mode.at.clone(),
        });
    }
    drafts
}

fn warn_about_part(
    jobset: &JobSet<'_>,
    order: &Order<'_>,
    part: &Part,
    warnings: &mut Vec<String>,
) {
    warnings.extend(declaration::one_pod(part));
    let roles = part.roles().iter();
    for i in roles.filter_map(|role| order.position(&role.name)) {
        let job = &jobset.spec.replicated_jobs[i];
        let spec = &job.template.spec;
        let at = format!("{}.template.spec.completions", group_path(i));
        let parallelism = spec.parallelism.unwrap_or(1);
        let jobs = match part.level() {
            Level::Replica => 1,
            Level::Whole | Level::Group => job.jobs(),
        };
        // Pods of other ReplicatedJobs may have finished by then: none of them is counted on.
        let quorum = part.quorum();
        let last = declaration::last_wave(&at, spec.completions, parallelism, jobs, quorum);
        warnings.extend(last);
        // JobSet's default is Indexed, and such a Job is refused without completions.
        let indexed = spec.completion_mode.as_deref().unwrap_or("Indexed") == "Indexed";
        if indexed && spec.completions.is_none() && spec.parallelism.is_some() {
            warnings.push(format!(
                "{}.template.spec.completions is not set: Kubernetes refuses an Indexed Job \
                 without it, and the gang would wait for its pods",
                group_path(i)
            ));
        }
    }
}

fn idle_knobs(jobset: &JobSet<'_>) -> Option<String> {
    let templates = jobset.spec.replicated_jobs.iter();
    let metas = templates.filter_map(|job| job.template.metadata.as_ref());
    let metas = std::iter::once(&jobset.metadata).chain(metas);
    let others = [
        keys::GANG_MODE,
        keys::START_BARRIER,
        keys::START_BARRIER_TARGETS,
        keys::STAMP,
        keys::ROUND,
    ];
    let instead = format!(
        "set {} or gangConfig to Gang or ReplicatedGang",
        keys::GANG_MODE
    );
    declaration::idle_knobs(metas, &others, &instead)
}
