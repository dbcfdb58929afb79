//! The labels that a workload's controller writes on its pods: who has the same value.
//!
//! A placement that asks for a label means some pods of a gang or all of them, depending on that. It
//! knows no workload.

/// Label keys, by the pods that have the same value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Written {
    /// All pods of the workload, and no others.
    pub workload: &'static [&'static str],
    /// All pods of a gang.
    pub gang: &'static [&'static str],
    /// All pods of a Job.
    pub job: &'static [&'static str],
    /// One pod, or a few.
    pub pod: &'static [&'static str],
}

impl Written {
    /// What all pods of a gang have alike.
    pub fn shared(&self) -> impl Iterator<Item = &'static str> {
        self.workload.iter().chain(self.gang).copied()
    }
}
