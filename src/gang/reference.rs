//! How one workload names another: `name`, or `namespace/name`; one of another kind with that before
//! it, `Kind:name`.

use std::collections::BTreeSet;
use std::fmt;

use super::name::{GangName, is_dns_label, is_dns_subdomain};

/// A workload of a kind that is known.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkloadRef {
    namespace: String,
    name: String,
}

impl WorkloadRef {
    /// The workload of this name in this namespace.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    /// Reads a reference that stands on a workload of the namespace `home`.
    pub(crate) fn parse(text: &str, home: &str) -> Option<Self> {
        let (namespace, name) = text.split_once('/').unwrap_or((home, text));
        Self::checked(namespace, name)
    }

    /// The workload of this name in this namespace, where both are names.
    pub(crate) fn checked(namespace: &str, name: &str) -> Option<Self> {
        (is_dns_label(namespace) && is_dns_subdomain(name)).then(|| Self::new(namespace, name))
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for WorkloadRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A workload of whatever kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartnerRef {
    kind: &'static str,
    workload: WorkloadRef,
}

impl PartnerRef {
    /// The workload of this kind.
    pub fn new(kind: &'static str, workload: WorkloadRef) -> Self {
        Self { kind, workload }
    }

    /// Reads a reference that stands on a workload of a kind in the namespace `home`; `known` finds the
    /// kinds that may be named.
    pub(crate) fn parse(
        text: &str,
        kind: &'static str,
        home: &str,
        known: impl Fn(&str) -> Option<&'static str>,
    ) -> Option<Self> {
        let (kind, text) = match text.split_once(':') {
            Some((word, rest)) => (known(word)?, rest),
            None => (kind, text),
        };
        Some(Self::new(kind, WorkloadRef::parse(text, home)?))
    }

    pub(crate) fn kind(&self) -> &'static str {
        self.kind
    }

    pub(crate) fn workload(&self) -> &WorkloadRef {
        &self.workload
    }

    /// How a workload of a kind names it.
    pub(crate) fn named_by(&self, kind: &str) -> String {
        match self.kind == kind {
            true => self.workload.to_string(),
            false => format!("{}:{}", self.kind, self.workload),
        }
    }
}

/// For people; [`PartnerRef::named_by`] says what to write.
impl fmt::Display for PartnerRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.workload)
    }
}

/// The workloads that start together, as one of them names them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Circle {
    itself: PartnerRef,
    others: Vec<PartnerRef>,
    named: Named,
}

/// Who gave a workload its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Named {
    ByUser,
    /// The apiserver draws it: it is not known when the workload is stamped.
    Drawn,
}

impl Circle {
    pub(crate) fn new(itself: PartnerRef, others: Vec<PartnerRef>, named: Named) -> Self {
        Self {
            itself,
            others,
            named,
        }
    }

    pub(crate) fn named(&self) -> Named {
        self.named
    }

    /// The one that names the others.
    pub fn itself(&self) -> &PartnerRef {
        &self.itself
    }

    /// Those that it names.
    pub fn others(&self) -> &[PartnerRef] {
        &self.others
    }

    /// All of them: the same, whoever of them says it.
    pub(crate) fn sides(&self) -> BTreeSet<&PartnerRef> {
        self.others.iter().chain([&self.itself]).collect()
    }

    /// Those of another namespace.
    pub(crate) fn abroad(&self) -> impl Iterator<Item = &PartnerRef> {
        let home = self.itself.workload().namespace();
        let others = self.others.iter();
        others.filter(move |other| other.workload().namespace() != home)
    }

    /// The name of an object that all of them share for a bundle.
    pub(crate) fn name(&self, bundle: &str) -> GangName {
        let sides = self.sides();
        let sides = sides.iter().flat_map(|side| {
            let workload = side.workload();
            [side.kind(), workload.namespace(), workload.name()]
        });
        GangName::shared(bundle, std::iter::once(bundle).chain(sides))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_sides_of_a_circle_give_it_one_name_and_no_other_circle_has_it() {
        let side = |kind, namespace, name| PartnerRef::new(kind, WorkloadRef::new(namespace, name));
        let (a, b) = (side("Job", "ml", "a"), side("Pod", "ml", "b"));
        let c = side("Job", "ml", "c");
        let circle = |itself: &PartnerRef, others: &[&PartnerRef]| {
            let others = others.iter().map(|other| (*other).clone());
            Circle::new(itself.clone(), others.collect(), Named::ByUser)
        };
        let name = circle(&a, &[&b, &c]).name("ring");
        assert_eq!(circle(&c, &[&a, &b]).name("ring"), name);
        assert!(name.as_str().starts_with("ring-"), "{name}");
        let others = [
            circle(&a, &[&b, &c]).name("chain"),
            circle(&a, &[&b]).name("ring"),
            circle(&side("JobSet", "ml", "a"), &[&b, &c]).name("ring"),
            circle(&side("Job", "web", "a"), &[&b, &c]).name("ring"),
        ];
        assert!(others.iter().all(|other| *other != name));
        let long = circle(&a, &[&b]).name(&"x".repeat(63));
        assert!(is_dns_label(long.as_str()), "{long}");
    }

    #[test]
    fn a_name_alone_is_of_the_same_namespace() {
        let parsed = |text| WorkloadRef::parse(text, "ml").map(|r| r.to_string());
        assert_eq!(parsed("train").as_deref(), Some("ml/train"));
        assert_eq!(parsed("web/train.v2").as_deref(), Some("web/train.v2"));
        for wrong in [
            "",
            "/",
            "web/",
            "/train",
            "a/b/c",
            "Train",
            "a b",
            "w.eb/train",
        ] {
            assert_eq!(parsed(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_workload_of_another_kind_is_named_with_its_kind() {
        let known = |word: &str| ["Job", "Pod"].into_iter().find(|kind| *kind == word);
        let parsed = |text| {
            let parsed = PartnerRef::parse(text, "Job", "ml", known)?;
            Some((parsed.to_string(), parsed.named_by("Job")))
        };
        let both = |full: &str, short: &str| Some((full.to_owned(), short.to_owned()));
        assert_eq!(parsed("a"), both("Job ml/a", "ml/a"));
        assert_eq!(parsed("Pod:web/a"), both("Pod web/a", "Pod:web/a"));
        for wrong in ["Other:a", "Pod:", ":a", "Pod:Job:a", "ml/Pod:a"] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }
}
