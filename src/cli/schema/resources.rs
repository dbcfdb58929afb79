//! What containers may ask for: `ValidateContainerResourceRequirements` of Kubernetes 1.37, the part of it
//! that is about names, signs, whole numbers and limits. Malformed domains, the sizes of huge pages and claims
//! are left to the cluster.

use serde::Deserialize;
use serde_json::Value;

use crate::gang::name::is_qualified_name;
use crate::gang::quantity::Quantity;
use crate::gang::{FieldError, FieldPath};

/// What every container has, beside huge pages.
const STANDARD: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// What is wrong with the `resources` of a container.
pub(super) fn of_container(resources: &Value, at: &FieldPath, errors: &mut Vec<FieldError>) {
    for list in ["limits", "requests"] {
        let entries = resources[list].as_object();
        // Whether a null is zero or nothing depends on how it is sent.
        for (name, value) in entries.into_iter().flatten().filter(|(_, v)| !v.is_null()) {
            let path = at.child(list).key(name);
            if let Some(why) = misnamed(name) {
                errors.push(FieldError::invalid(path, name.as_str(), why));
                continue;
            }
            let wrong = quantity(value).and_then(|of| Some((of, amiss(name, of)?)));
            if let Some((of, why)) = wrong {
                errors.push(FieldError::invalid(path, of.to_string(), why));
            }
            if list == "requests" {
                errors.extend(unlimited(name, value, &resources["limits"], at));
            }
        }
    }
}

/// The error for a request that does not fit its limit.
fn unlimited(name: &str, request: &Value, limits: &Value, at: &FieldPath) -> Option<FieldError> {
    let limit = match limits {
        Value::Null => None,
        Value::Object(limits) => limits.get(name),
        _ => return None,
    };
    let Some(limit) = limit else {
        let why = "Limit must be set for non overcommitable resources";
        let path = at.child("limits").key(name);
        return (!may_overcommit(name)).then(|| FieldError::required(path, why));
    };
    let (request, limit) = quantity(request).zip(quantity(limit))?;
    let relation = if request != limit && !may_overcommit(name) {
        "equal to"
    } else if request > limit {
        "less than or equal to"
    } else {
        return None;
    };
    let why = format!("must be {relation} {name} limit of {limit}");
    let path = at.child("requests").key(name);
    Some(FieldError::invalid(path, request.to_string(), why))
}

/// Why no container has a resource of this name.
fn misnamed(name: &str) -> Option<&'static str> {
    if name.contains('/') || STANDARD.contains(&name) || name.starts_with("hugepages-") {
        return None;
    }
    // Those of claims, namespaces and quotas are standard too.
    let quota = name.starts_with("requests.") || name.starts_with("limits.");
    match quota || matches!(name, "storage" | "pods") || !is_qualified_name(name) {
        true => Some("must be a standard resource for containers"),
        false => Some("must be a standard resource type or fully qualified"),
    }
}

/// Why a resource cannot have this quantity.
fn amiss(name: &str, of: Quantity) -> Option<&'static str> {
    if of < Quantity::ZERO {
        Some("must be greater than or equal to 0")
    } else if is_extended(name) && !is_whole(of) {
        Some("must be an integer")
    } else {
        None
    }
}

/// Whether a quantity that is not negative is a whole number. Those that are too large to tell are.
fn is_whole(of: Quantity) -> bool {
    let units = i64::try_from(of.holds(Quantity::from_units(1)));
    units.map_or(true, |units| Quantity::from_units(units) == of)
}

/// Whether Kubernetes itself names the resource: without a domain, or with one that ends in its own.
fn is_kubernetes(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn is_extended(name: &str) -> bool {
    let in_quota = || is_qualified_name(&format!("requests.{name}"));
    !is_kubernetes(name) && !name.starts_with("requests.") && in_quota()
}

fn may_overcommit(name: &str) -> bool {
    is_kubernetes(name) && !name.starts_with("hugepages-")
}

/// A quantity as an apiserver holds it.
fn quantity(value: &Value) -> Option<Quantity> {
    let known = Some(value).filter(|value| !value.is_null())?;
    let read = Quantity::deserialize(known).ok()?;
    Some(read.round_up_to_milli())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn said(resources: &Value) -> Vec<String> {
        let mut errors = Vec::new();
        of_container(resources, &FieldPath::default(), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_an_apiserver_takes_is_taken() {
        for resources in [
            json!(null),
            json!({"limits": null, "requests": {"cpu": 1}}),
            json!({"limits": {"nvidia.com/gpu": 1}}),
            json!({"limits": {"nvidia.com/gpu": "0"}, "requests": {"nvidia.com/gpu": 0}}),
            json!({"limits": {"nvidia.com/gpu": "1k"}, "requests": {"nvidia.com/gpu": 1000.0}}),
            json!({"limits": {"cpu": 0.5}, "requests": {"cpu": "250m"}}),
            json!({"limits": {"hugepages-2Mi": "4Mi"}, "requests": {"hugepages-2Mi": "4096Ki"}}),
            // Rounded up to thousandths before they are looked at.
            json!({"limits": {"cpu": "1100u"}, "requests": {"cpu": "1900u"}}),
            json!({"limits": {"nvidia.com/gpu": "999999u"}}),
            // Not extended, whatever the domain.
            json!({"requests": {"kubernetes.io/batch-cpu": 0.5, "mykubernetes.io/gpu": "1500m"}}),
            json!({"requests": {"deviceclass.resource.kubernetes.io/gpu": 1}}),
            // Too large to count with, no quantities, null: all are told elsewhere or nowhere.
            json!({"limits": {"nvidia.com/gpu": "1e40"}, "requests": {"nvidia.com/gpu": 1}}),
            json!({"limits": {"nvidia.com/gpu": "many"}, "requests": {"nvidia.com/gpu": 1}}),
            json!({"limits": {"nvidia.com/gpu": null}, "requests": {"nvidia.com/gpu": 1}}),
            json!({"limits": [], "requests": {"nvidia.com/gpu": 1}}),
            json!({"limits": {"nvidia.com/gpu": 9_223_372_036_854_775_808_u64}}),
        ] {
            assert_eq!(said(&resources), [""; 0], "{resources}");
        }
    }

    #[test]
    fn each_mistake_is_told_at_its_place() {
        let gpu = "nvidia.com/gpu";
        for (limits, requests, wanted) in [
            (
                json!({gpu: 0.5}),
                json!({}),
                "limits[nvidia.com/gpu] 500m must be an integer",
            ),
            (
                json!({gpu: "-1u"}),
                json!({}),
                "limits[nvidia.com/gpu] -1m must be greater than or equal to 0",
            ),
            (
                json!({}),
                json!({"cpu": -1}),
                "requests[cpu] -1 must be greater than or equal to 0",
            ),
            (
                json!({"gpu": 1}),
                json!({}),
                "limits[gpu] gpu must be a standard resource type or fully qualified",
            ),
            (
                json!({"pods": 1}),
                json!({}),
                "limits[pods] pods must be a standard resource for containers",
            ),
            (
                json!({gpu: 2}),
                json!({gpu: 1}),
                "requests[nvidia.com/gpu] 1 must be equal to nvidia.com/gpu limit of 2",
            ),
            (
                json!({"cpu": 1}),
                json!({"cpu": 2}),
                "requests[cpu] 2 must be less than or equal to cpu limit of 1",
            ),
        ] {
            let (at, rest) = wanted.split_once(' ').unwrap();
            let (value, why) = rest.split_once(' ').unwrap();
            let resources = json!({"limits": limits, "requests": requests});
            let wanted = format!("{at}: Invalid value: {value:?}: {why}");
            assert_eq!(said(&resources), [wanted], "{resources}");
        }
        for (limits, name) in [
            (json!(null), gpu),
            (json!({"cpu": 1}), gpu),
            (json!({}), "hugepages-2Mi"),
        ] {
            let resources = json!({"limits": limits, "requests": {name: 2}});
            let why = "Required value: Limit must be set for non overcommitable resources";
            assert_eq!(
                said(&resources),
                [format!("limits[{name}]: {why}")],
                "{resources}"
            );
        }
    }
}
