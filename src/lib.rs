//! Muster: gang scheduling for any Kubernetes workload on any scheduler.

#![forbid(unsafe_code)]

pub mod admission;
pub mod cli;
pub mod gang;
pub mod scheduler;
pub mod workload;
