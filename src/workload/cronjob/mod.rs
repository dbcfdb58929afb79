//! CronJobs: each Job of one is a gang of its own, declared in the metadata of its `jobTemplate`.
//!
//! Nothing is stamped here: the Job is, when it is made. A CronJob whose Jobs would be refused is
//! refused itself, at its own apply.

use serde::{Deserialize, Deserializer};

use super::facts::Kind;
use super::given::{Given, or_default};
use super::job::{self, Job};
use super::keys::{self, Labelled, Place};
use super::object::{Made, Maker, Reviewed};
use super::view::Meta;
use crate::gang::{FieldError, FieldPath};

/// `batch/v1` CronJob.
pub static KIND: Kind = Kind {
    group: "batch",
    version: "v1",
    name: "CronJob",
    plural: "cronjobs",
    short: &["cj"],
};

/// A CronJob, as far as its Jobs are gangs.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct CronJob<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    metadata: Meta<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    spec: Spec<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec<'a> {
    #[serde(borrow, deserialize_with = "template")]
    job_template: Given<Job<'a>>,
}

/// Reads the template of the Jobs.
fn template<'de: 'a, 'a, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Given<Job<'a>>, D::Error> {
    let mut template: Given<Job<'a>> = Given::deserialize(deserializer)?;
    template.pods_place = Some(&PODS);
    Ok(template)
}

/// The CronJob's own metadata, which its Jobs do not get.
static OWN: Place = Place {
    user: &[],
    own: &[],
    labelled: Labelled::No,
    elsewhere: |key| {
        let job = job::KNOBS.contains(&key);
        job.then_some("each Job is a gang of its own: put it in spec.jobTemplate.metadata")
    },
    nearest: job::KNOBS,
};

/// The metadata of the pods' template.
static PODS: Place = Place {
    elsewhere: |key| {
        let job = job::KNOBS.contains(&key);
        job.then_some("put it in spec.jobTemplate.metadata")
    },
    ..job::POD_TEMPLATE
};

impl Reviewed for CronJob<'_> {
    const KIND: &'static Kind = &KIND;

    fn meta(&self) -> &Meta<'_> {
        &self.metadata
    }

    fn maker(&self) -> Option<Maker<'_>> {
        let own = FieldPath::new("metadata");
        let at = FieldPath::new("spec").child("jobTemplate");
        Some(Maker {
            errors: keys::check(&OWN, &own, Some(&self.metadata)).collect(),
            template: Some(Made::Workload(&*self.spec.job_template, at)),
            ..Maker::default()
        })
    }

    fn check(&self) -> Result<(), FieldError> {
        Reviewed::check(&*self.spec.job_template)
    }
}
