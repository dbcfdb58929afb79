//! What an object says that it is: a kind of the table, one that nobody knows but that is near to one
//! of the table, or another kind altogether.
//!
//! An apiserver has no kind by a misspelt name, and refuses it. Must not know any kind by name.

use serde_json::Value;

use super::schema;
use crate::gang::nearest::nearest;
use crate::gang::{FieldError, FieldPath};
use crate::workload::{KINDS, Kind};

/// What an object says that it is.
pub(super) enum Named {
    /// A kind that Muster handles.
    Handled(&'static Kind),
    /// A kind that there is not; probably one of Muster's is meant.
    Wrong(Vec<FieldError>),
    /// Something else, of which Muster knows nothing.
    Other,
}

/// Reads `apiVersion` and `kind`.
pub(super) fn named(object: &Value) -> Named {
    let text = |key: &str| object[key].as_str();
    match (text("apiVersion"), text("kind")) {
        (Some(version), Some(kind)) => of(version, kind),
        (version, kind) if object["metadata"].is_object() => incomplete(object, version, kind),
        // The values of a chart, or a text of another program.
        _ => Named::Other,
    }
}

fn of(version: &str, name: &str) -> Named {
    let group = version.split_once('/').map_or("", |(group, _)| group);
    let same_group = || kinds().filter(|kind| kind.group == group);
    if let Some(kind) = same_group().find(|kind| kind.name == name) {
        return match kind.api_version() == version {
            true => Named::Handled(kind),
            false => Named::Wrong(slips(version, name, kind)),
        };
    }
    if schema::has(version, name) || name.ends_with("List") {
        return Named::Other;
    }
    let known_group = same_group().next().is_some();
    let same_word = |kind: &&Kind| kind.name.eq_ignore_ascii_case(name);
    let here = same_group().find(same_word);
    let elsewhere = kinds().find(same_word);
    let elsewhere = elsewhere.filter(|kind| known_group || is_near(group, kind));
    let meant = here.or(elsewhere).or_else(|| {
        let near = nearest(name, same_group().map(|kind| kind.name))?;
        same_group().find(|kind| kind.name == near)
    });
    if let Some(kind) = meant {
        return Named::Wrong(slips(version, name, kind));
    }
    let names: Vec<&str> = same_group().map(|kind| kind.name).collect();
    // The core group is shared by files that no apiserver sees, such as a kubeconfig.
    if !known_group || group.is_empty() {
        return Named::Other;
    }
    let error = FieldError::not_supported(FieldPath::new("kind"), name, &names);
    Named::Wrong(vec![error])
}

/// What is wrong with an object of which this kind is meant.
fn slips(version: &str, name: &str, kind: &Kind) -> Vec<FieldError> {
    let misspelt = (kind.name != name).then(|| wrong_kind(version, name, kind.name));
    let other = (kind.api_version() != version).then(|| wrong_version(version, kind));
    misspelt.into_iter().chain(other).collect()
}

fn kinds() -> impl Iterator<Item = &'static Kind> {
    KINDS.iter().map(|entry| entry.kind)
}

/// Whether a group that nobody has is probably that of this kind: a slip of the pen, another domain
/// behind the same first word, or a name without a dot, which only groups of Kubernetes' own have
/// (`extensions` was one).
fn is_near(group: &str, kind: &Kind) -> bool {
    let same_word = match (group.split_once('.'), kind.group.split_once('.')) {
        (Some((word, _)), Some((own, _))) => word == own,
        _ => false,
    };
    !group.contains('.') || same_word || nearest(group, [kind.group]).is_some()
}

fn wrong_version(version: &str, kind: &Kind) -> FieldError {
    let right = kind.api_version();
    let detail = format!(
        "no {} is known in this version, did you mean {right:?}?",
        kind.name
    );
    FieldError::not_supported(FieldPath::new("apiVersion"), version, &[&right]).with_detail(&detail)
}

fn wrong_kind(version: &str, name: &str, near: &str) -> FieldError {
    let detail = format!("unknown kind in {version}, did you mean {near:?}?");
    FieldError::not_supported(FieldPath::new("kind"), name, &[near]).with_detail(&detail)
}

/// An object that does not say all of what it is.
fn incomplete(object: &Value, version: Option<&str>, name: Option<&str>) -> Named {
    let absent = |key: &str| object[key].is_null();
    let error = match (version, name) {
        (None, Some(name)) if absent("apiVersion") => {
            let kind = kinds().find(|kind| kind.name.eq_ignore_ascii_case(name));
            kind.map(|kind| {
                let detail = format!("a {} has {:?}", kind.name, kind.api_version());
                FieldError::required(FieldPath::new("apiVersion"), detail)
            })
        }
        (Some(version), None) if absent("kind") => {
            let same = kinds().filter(|kind| kind.api_version() == version);
            let names: Vec<&str> = same.map(|kind| kind.name).collect();
            let detail = format!("{version} has {}", super::one_of(&names));
            let known = !names.is_empty();
            known.then(|| FieldError::required(FieldPath::new("kind"), detail))
        }
        _ => None,
    };
    error.map_or(Named::Other, |error| Named::Wrong(vec![error]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn said(version: &str, kind: &str) -> String {
        match of(version, kind) {
            Named::Handled(kind) => kind.name.to_owned(),
            Named::Other => "other".to_owned(),
            Named::Wrong(errors) => {
                let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
                errors.join("; ")
            }
        }
    }

    #[test]
    fn kinds_of_others_are_none_of_musters_business() {
        for (version, kind) in [
            ("v1", "Service"),
            ("v1", "Node"),
            ("v1", "PodTemplate"),
            ("v1", "Config"),
            ("v1", "List"),
            ("v1", "PodList"),
            ("apps/v1", "ControllerRevision"),
            ("batch.example.com/v1alpha1", "Job"),
            ("kubeflow.org/v2beta1", "MPIJob"),
            ("ray.io/v1", "RayCluster"),
            ("workload.codeflare.dev/v1beta2", "AppWrapper"),
            ("config.jobset.x-k8s.io/v1alpha1", "Configuration"),
            ("disaggregatedset.x-k8s.io/v1", "DisaggregatedSet"),
            ("networking.k8s.io/v1", "Ingress"),
        ] {
            assert_eq!(said(version, kind), "other", "{version} {kind}");
        }
    }

    #[test]
    fn every_kind_of_the_table_is_handled_and_a_slip_of_the_pen_is_not() {
        for kind in kinds() {
            let version = kind.api_version();
            assert_eq!(said(&version, kind.name), kind.name);
            for slip in [
                kind.name.to_lowercase(),
                kind.name.to_uppercase(),
                format!("{}s", kind.name),
            ] {
                let said = said(&version, &slip);
                let wanted = format!("did you mean {:?}?", kind.name);
                assert!(said.contains(&wanted), "{slip}: {said}");
            }
            let said = said(&format!("{version}x"), kind.name);
            assert!(
                said.contains(&format!("did you mean {version:?}?")),
                "{said}"
            );
        }
    }

    #[test]
    fn a_kind_in_a_wrong_group_is_told_its_own() {
        for (version, kind, meant) in [
            ("v1", "Job", "batch/v1"),
            ("apps/v1", "Pod", "v1"),
            ("extensions/v1beta1", "Deployment", "apps/v1"),
            ("batch/v1", "JobSet", "jobset.x-k8s.io/v1alpha2"),
            (
                "jobset.x-k8.io/v1alpha2",
                "JobSet",
                "jobset.x-k8s.io/v1alpha2",
            ),
            (
                "jobset.sigs.k8s.io/v1alpha2",
                "Jobset",
                "jobset.x-k8s.io/v1alpha2",
            ),
        ] {
            let said = said(version, kind);
            let wanted = format!("did you mean {meant:?}?");
            assert!(said.contains(&wanted), "{version} {kind}: {said}");
        }
        assert_eq!(
            said("batch/v1", "Workflow"),
            "kind: Unsupported value: \"Workflow\": supported values: \"Job\", \"CronJob\""
        );
        assert_eq!(
            said("jobset.x-k8s.io/v1", "Jobset"),
            "kind: Unsupported value: \"Jobset\": unknown kind in jobset.x-k8s.io/v1, did you mean \
             \"JobSet\"?; apiVersion: Unsupported value: \"jobset.x-k8s.io/v1\": no JobSet is known in \
             this version, did you mean \"jobset.x-k8s.io/v1alpha2\"?"
        );
    }

    #[test]
    fn an_object_that_says_half_of_what_it_is_is_told_the_rest() {
        let said = |object: Value| match named(&object) {
            Named::Wrong(errors) => errors[0].to_string(),
            Named::Handled(_) => "handled".to_owned(),
            Named::Other => "other".to_owned(),
        };
        assert_eq!(
            said(json!({"kind": "Job", "metadata": {}})),
            "apiVersion: Required value: a Job has \"batch/v1\""
        );
        assert_eq!(
            said(json!({"apiVersion": "batch/v1", "metadata": {}})),
            "kind: Required value: batch/v1 has Job or CronJob"
        );
        // A chart's values.
        assert_eq!(said(json!({"kind": "Deployment", "replicas": 2})), "other");
        assert_eq!(
            said(json!({"apiVersion": "example.com/v1", "metadata": {}})),
            "other"
        );
        assert_eq!(said(json!([1])), "other");
    }
}
