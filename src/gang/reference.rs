//! How one workload names another: `name`, or `namespace/name`; one of another kind with that before
//! it, `Kind:name`.

use std::fmt;

use super::name::{is_dns_label, is_dns_subdomain};

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

#[cfg(test)]
mod tests {
    use super::*;

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
