//! What users write of bundles: their names, and the other workloads whose gangs are in them.

use crate::gang::{BundleName, Circle, FieldError, FieldPath, Located, PartnerRef};
use crate::gang::{Named, Plan, WorkloadRef};
use crate::workload::view::Meta;
use crate::workload::{keys, object};

use super::text;

/// Reads `muster.dev/bundle`.
pub(crate) fn bundle(
    meta: &Meta<'_>,
    at: &FieldPath,
    errors: &mut Vec<FieldError>,
) -> Option<Located<BundleName>> {
    let (text, at) = text(meta, at, keys::BUNDLE, errors)?;
    match BundleName::new(text) {
        Some(name) => Some(Located::new(name, at)),
        None => {
            errors.push(FieldError::invalid(
                at,
                text,
                "must be a DNS label: at most 63 lower case letters, digits or '-', \
                 starting and ending with a letter or digit",
            ));
            None
        }
    }
}

/// The most others that start together with a workload: each of them looks at all others whenever
/// one changes.
pub(super) const MAX_PARTNERS: usize = 16;

/// Reads `muster.dev/bundle-with`. Whether the others name this workload back is seen only once
/// they exist.
pub(crate) fn bundle_with(
    meta: &Meta<'_>,
    at: &FieldPath,
    itself: &PartnerRef,
    errors: &mut Vec<FieldError>,
) -> Option<Located<Circle>> {
    let (text, at) = text(meta, at, keys::BUNDLE_WITH, errors)?;
    let words = text.split(',').count();
    if words > MAX_PARTNERS {
        let detail = format!("names {words} workloads; at most {MAX_PARTNERS} can be named");
        errors.push(FieldError::invalid(at.clone(), text, detail));
    }
    let home = itself.workload().namespace();
    let mut named = Vec::new();
    for word in text.split(',').take(MAX_PARTNERS).map(str::trim) {
        let error = match PartnerRef::parse(word, itself.kind(), home, side) {
            None => FieldError::invalid(
                at.clone(),
                word,
                format!(
                    "must be the name of another workload of this kind, or namespace/name, several \
                     separated by commas; one of another kind ({}) with the kind before it, as in {}",
                    sides().collect::<Vec<_>>().join(", "),
                    sides()
                        .find(|kind| *kind != itself.kind())
                        .map_or_else(String::new, |kind| format!("{kind}:name")),
                ),
            ),
            Some(other) if other == *itself => {
                FieldError::invalid(at.clone(), word, "is this workload itself: name the others")
            }
            Some(other) if named.contains(&other) => FieldError::duplicate(at.clone(), word),
            Some(other) => {
                named.push(other);
                continue;
            }
        };
        errors.push(error);
    }
    // A gang that pods declare has a name of its own, however its pods are called.
    let own = meta.name.as_deref().unwrap_or_default() == itself.workload().name();
    let drawn = match own && meta.given_name().is_none() {
        true => Named::Drawn,
        false => Named::ByUser,
    };
    Some(Located::new(Circle::new(itself.clone(), named, drawn), at))
}

/// The same from a text that was read before.
pub(crate) fn circle(text: &str, itself: &PartnerRef) -> Circle {
    let home = itself.workload().namespace();
    let words = text.split(',').take(MAX_PARTNERS).map(str::trim);
    let others = words.filter_map(|word| PartnerRef::parse(word, itself.kind(), home, side));
    Circle::new(itself.clone(), others.collect(), Named::ByUser)
}

/// The kinds of workloads whose gangs may be in a bundle.
fn sides() -> impl Iterator<Item = &'static str> {
    let bundled = object::workloads().filter(|facts| facts.keys.user.contains(&keys::BUNDLE));
    bundled.map(|facts| facts.kind.name)
}

fn side(word: &str) -> Option<&'static str> {
    sides().find(|kind| *kind == word)
}

/// How others name an object of a kind.
pub(crate) fn itself(kind: &'static str, meta: &Meta<'_>) -> PartnerRef {
    let namespace = meta.namespace.as_deref().unwrap_or("default");
    let name = meta.name.as_deref().unwrap_or_default();
    PartnerRef::new(kind, WorkloadRef::new(namespace, name))
}

/// Refuses to name partners for bundles that are not there.
pub(crate) fn check_partners(kind: &str, plan: &Plan, errors: &mut Vec<FieldError>) {
    let bundled = plan.parts.iter().any(|part| part.bundle().is_some());
    if let Some(with) = plan.policy.bundle_with.as_ref().filter(|_| !bundled) {
        let detail = format!(
            "no gang of this {kind} is in a bundle: set muster.dev/bundle to the name \
             that the others' gangs have, or remove it"
        );
        errors.push(FieldError::forbidden(with.at.clone(), detail));
    }
}
