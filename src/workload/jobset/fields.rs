//! The fields of a JobSet that declare gangs: `gangConfig`, at both levels, and the start barrier.

use serde_json::Value;
use serde_json::value::RawValue;

use crate::gang::FieldPath;
use crate::workload::GangField;

use super::group_path;
use super::view::{GangConfig, JobSet};

/// All of them, those that are not set too: a field that comes is a change as well.
pub(crate) fn gang_fields(jobset: &JobSet<'_>) -> Vec<GangField> {
    let spec = FieldPath::new("spec");
    let barrier = jobset.spec.group_scheduling_config;
    let mut fields = vec![
        GangField {
            has_parent: jobset.spec.present,
            ..gang_config("", &["spec"], &spec, jobset.spec.gang_config)
        },
        GangField {
            group: String::new(),
            at: spec.child("groupSchedulingConfig"),
            tokens: tokens(&["spec", "groupSchedulingConfig"]),
            has_parent: jobset.spec.present,
            value: barrier.and_then(|raw| serde_json::from_str(raw.get()).ok()),
            inner: None,
        },
    ];
    for (i, job) in jobset.spec.replicated_jobs.iter().enumerate() {
        let index = i.to_string();
        let path = ["spec", "replicatedJobs", &index];
        fields.push(gang_config(
            &job.name,
            &path,
            &group_path(i),
            job.gang_config,
        ));
    }
    fields
}

fn gang_config(group: &str, path: &[&str], at: &FieldPath, config: Option<&RawValue>) -> GangField {
    GangField {
        group: group.to_owned(),
        at: at.child("gangConfig"),
        tokens: tokens(&[path, &["gangConfig"]].concat()),
        has_parent: true,
        value: config.map(|raw| serde_json::from_str(raw.get()).unwrap_or(Value::Null)),
        inner: config.map(|raw| ("gangMode", mode(raw))),
    }
}

/// The mode inside a `gangConfig`, with YAML's unquoted `Off` understood; `null` when there is none.
fn mode(raw: &RawValue) -> Value {
    let config: GangConfig<'_> = serde_json::from_str(raw.get()).unwrap_or_default();
    match config.gang_mode.map(|mode| mode.to_value()) {
        Some(Value::Bool(false)) => "Off".into(),
        Some(mode) => mode,
        None => Value::Null,
    }
}

fn tokens(path: &[&str]) -> Vec<String> {
    path.iter().map(|&token| token.to_owned()).collect()
}
