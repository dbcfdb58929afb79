//! What Muster decides, without a cluster: at admission, in the reconciler, and within which bounds.
//!
//! One program: each target of its own would compile and link most of Muster again.

#[path = "../common/mod.rs"]
mod common;
#[path = "../support/mod.rs"]
mod support;

mod authority;
mod bounds;
mod children;
mod choice;
mod flat_cost;
mod idempotence;
mod lws;
mod questions;
mod reconcile;
mod trust;
mod webhook;
mod wire;
