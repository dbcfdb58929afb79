//! Muster: gang scheduling for any Kubernetes workload on any scheduler.

#![forbid(unsafe_code)]

pub mod admission;
pub mod certs;
pub mod cli;
pub mod gang;
pub mod scheduler;
pub mod server;
pub mod workload;
