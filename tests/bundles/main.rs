//! Bundles over several workloads, without a cluster: what each side makes, and whom it waits for.

#[path = "../common/mod.rs"]
mod common;
mod listed;
mod shared;
mod side;
