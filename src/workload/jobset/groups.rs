//! A ReplicatedJob as the plan needs it: its knobs, its link if it has one, its role.

use crate::gang::{
    BundleName, ControllerLabels, FieldError, FieldPath, KeptApart, Located, Role, SchedulerKind,
    Shape,
};
use crate::workload::declaration;
use crate::workload::keys;

use super::facts::{CONTROLLER_LABELS, JOB_KEY, JOBSET_NAME, REPLICATED_JOB_NAME};
use super::topology;
use super::view::{JobSet, ReplicatedJob};
use super::{group_path, pods_path};
use crate::workload::template::ExistingLink;

/// One ReplicatedJob.
pub(crate) struct Group<'j> {
    pub(crate) position: usize,
    pub(crate) job: &'j ReplicatedJob<'j>,
    /// A link that the user already wrote into the pod template.
    pub(crate) link: Option<ExistingLink>,
    shape: Shape,
    at: FieldPath,
}

/// Reads every ReplicatedJob's template.
pub(crate) fn read<'j>(jobset: &'j JobSet<'j>, errors: &mut Vec<FieldError>) -> Vec<Group<'j>> {
    let jobs = jobset.spec.replicated_jobs.iter().enumerate();
    jobs.map(|(position, job)| {
        let at = group_path(position);
        let template = &job.template.spec.template;
        let spec_at = pods_path(position).child("spec");
        let mut shape = template.shape(&spec_at, errors);
        shape.controller_labels = match &jobset.spec.replicated_jobs[..] {
            // Nothing differs between the Jobs of a JobSet that has one.
            [only] if only.jobs() == 1 => ControllerLabels {
                job: &[],
                ..CONTROLLER_LABELS
            },
            _ => CONTROLLER_LABELS,
        };
        let exclusive = topology::holds_followers(&jobset.metadata, job);
        shape.kept_apart = exclusive.then(|| KeptApart {
            key: JOB_KEY,
            at: spec_at.clone(),
            instead: "use the node-selector strategy, or make each Job a gang of its own",
        });
        // Selectors of a gang often ask for what JobSet's controller writes.
        let jobset = jobset.metadata.given_name().map(|name| (JOBSET_NAME, name));
        let known = [(REPLICATED_JOB_NAME, &*job.name)]
            .into_iter()
            .chain(jobset);
        let known = known.map(|(key, value)| (key.to_owned(), value.to_owned()));
        shape.labels.extend(known);
        Group {
            position,
            job,
            link: job.existing_link(&at),
            shape,
            at,
        }
    })
    .collect()
}

impl Group<'_> {
    /// The role that this group's pods play in a gang of `jobs` of its Jobs.
    pub(crate) fn role(&self, jobs: u64) -> Role {
        Role {
            name: self.job.name.to_string(),
            pods: jobs.saturating_mul(self.job.pods_per_job()),
            completions: jobs.saturating_mul(self.job.completions_per_job()),
            shape: self.shape.clone(),
            at: pods_path(self.position).child("spec"),
        }
    }

    fn annotations_path(&self) -> FieldPath {
        let metadata = self.at.child("template").child("metadata");
        metadata.child("annotations")
    }

    /// The knobs beside this group's own gang.
    pub(crate) fn knobs(
        &self,
        errors: &mut Vec<FieldError>,
    ) -> (Option<Located<i64>>, Option<Located<BundleName>>) {
        let Some(meta) = &self.job.template.metadata else {
            return (None, None);
        };
        let at = self.annotations_path();
        let min_count = declaration::min_count(meta, &at, errors);
        (min_count, declaration::bundle(meta, &at, errors))
    }

    fn own_knobs(&self) -> impl Iterator<Item = &'static str> {
        let meta = self.job.template.metadata.as_ref();
        [keys::MIN_COUNT, keys::BUNDLE]
            .into_iter()
            .filter(move |key| meta.is_some_and(|m| m.annotation(key).is_some()))
    }

    /// Under a whole-JobSet gang a group has no gang whose quorum or bundle it could set.
    pub(crate) fn refuse_own_knobs(&self, whole: &FieldPath, errors: &mut Vec<FieldError>) {
        errors.extend(self.own_knobs().map(|key| {
            FieldError::forbidden(
                self.annotations_path().key(key),
                format!("{whole} makes the whole JobSet one gang; put it on the JobSet"),
            )
        }));
    }

    /// The user's own link beside a gang: left alone, or refused when the two cannot both hold.
    pub(crate) fn refuse_link(
        &self,
        scheduler: Option<&Located<SchedulerKind>>,
        errors: &mut Vec<FieldError>,
    ) {
        let link = self.link.as_ref();
        errors.extend(link.and_then(|link| declaration::refuse_link(link, scheduler)));
    }

    /// A knob on a group without a gang does nothing.
    pub(crate) fn warn_about_idle_knobs(&self, warnings: &mut Vec<String>) {
        warnings.extend(self.own_knobs().map(|key| {
            let at = self.annotations_path().key(key);
            format!("{at} has no effect: this ReplicatedJob does not run as a gang")
        }));
    }
}
