//! How one workload names another: `name`, or `namespace/name`.

use std::fmt;

use super::name::{is_dns_label, is_dns_subdomain};

/// Another workload of the same kind.
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
}
